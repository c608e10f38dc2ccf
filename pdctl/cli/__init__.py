"""Commands: each loads nouns, calls a stage and shows the result."""

import gc

# A command makes many objects that live to its end; collecting them while modules load takes a tenth of
# the time of `pdctl validate`.
gc.set_threshold(100_000, 20, 20)

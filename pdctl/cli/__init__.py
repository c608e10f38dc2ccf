"""Commands: read the spec, let a package do the work, print what it returns."""

import gc

# A command makes many objects that live to its end; collecting them while modules load takes a tenth of
# the time of `pdctl validate`.
gc.set_threshold(100_000, 20, 20)

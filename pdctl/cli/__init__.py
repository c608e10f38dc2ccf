"""Commands: each loads nouns, calls a stage and shows the result."""

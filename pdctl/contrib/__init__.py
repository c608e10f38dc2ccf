"""Parts that fill a gap of someone else's software, each self-contained and used for one case only."""

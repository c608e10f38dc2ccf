"""Measurements of pdctl's speed against others on the same hosts; see README.md."""

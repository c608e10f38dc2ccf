"""Nouns -> text on a terminal; no effects but printing."""

"""The commands: load, call, view."""

"""What the user may write: cluster.yaml as types, and every mistake in it with its place."""

import os

# Before pydantic's first model: looking for its plugins reads the metadata of every installed package.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

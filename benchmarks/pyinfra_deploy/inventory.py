"""The hosts for pyinfra, each with its rows of the wanted state; see `benchmarks/peers.py` for the file."""

import json
import os
from pathlib import Path

with Path(os.environ["PEER_ROWS"]).open(encoding="utf-8") as _file:
    hosts = [(each["name"], each["data"]) for each in json.load(_file)]

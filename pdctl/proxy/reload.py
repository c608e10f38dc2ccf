"""The configuration file, read again -> in force, or one clear reason why not, with the old one untouched."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import fields

from .config import RELOADABLE, Config, Loaded, load
from .typed import ConfigError

log = logging.getLogger("pdctl.proxy")


class ReloadError(Exception):
    """Why the file is not taken up. `keys` are those that only a restart brings into force."""

    def __init__(self, reason: str, keys: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.keys = keys


def read_again(now: Loaded) -> Loaded:
    if now.path is None:
        raise ReloadError("this proxy was started without a file")
    try:
        new = load(now.path)
    except ConfigError as error:
        raise ReloadError(str(error)) from error
    keys = tuple(static_changes(now.config, new.config))
    if keys:
        raise ReloadError(f"{now.path}: a change of {', '.join(keys)} needs a restart of the proxy", keys)
    return new


def static_changes(now: Config, new: Config) -> Iterator[str]:
    for item in fields(Config):
        if item.name not in RELOADABLE and getattr(now, item.name) != getattr(new, item.name):
            yield item.name

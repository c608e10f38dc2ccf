"""Which prefiller keeps a peer from before a decoder's restart.

LMCache 0.3.10 and 0.5.6 (nixl_channel.py) never drop a peer: the next write to that decoder fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

Pair = tuple[str, str]  # prefiller, decoder


class Peers:
    def __init__(self) -> None:
        self.stale: set[Pair] = set()
        # Of prefillers whose start was seen: the decoders they have been sent to since. All others may have
        # met any decoder before this proxy was there.
        self._met: dict[str, set[str]] = {}

    def meet(self, prefiller: str, decoder: str) -> None:
        if prefiller in self._met:
            self._met[prefiller].add(decoder)

    def works(self, prefiller: str, decoder: str) -> None:
        self.stale.discard((prefiller, decoder))

    def prefiller_restarted(self, name: str) -> None:
        self.stale = {pair for pair in self.stale if pair[0] != name}
        self._met[name] = set()

    def decoder_restarted(self, name: str, prefillers: Iterable[str]) -> None:
        self.stale |= {(each, name) for each in prefillers if name in self._met.get(each, {name})}

    def forget(self, names: Collection[str]) -> None:
        """They left, or are other instances of the same name now."""
        self.stale = {pair for pair in self.stale if not set(pair) & set(names)}
        self._met = {name: met - set(names) for name, met in self._met.items() if name not in names}

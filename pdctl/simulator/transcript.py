"""Pieces of generated text -> the text a client may see: stop strings cut off, half of one held back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Transcript:
    """The output of one request."""

    stops: tuple[str, ...] = ()
    keep_stop: bool = False
    text: str = ""
    _shown: int = 0

    def add(self, piece: str, *, may_stop: bool = True) -> str | None:
        """Take `piece` in; the stop string that it completes, if any."""
        longest = max(map(len, self.stops), default=0)
        start = max(0, len(self.text) - longest)
        self.text += piece
        if not may_stop:
            return None
        found = [(self.text.find(stop, start), stop) for stop in self.stops]
        if not (hits := [hit for hit in found if hit[0] >= 0]):
            return None
        at, stop = min(hits)
        self.text = self.text[: at + len(stop) * self.keep_stop]
        return stop

    def take(self, *, final: bool) -> str:
        """What is new and safe to show: the tail that might begin a stop string stays until the end."""
        held = 0 if final else max(map(len, self.stops), default=1) - 1
        end = max(self._shown, len(self.text) - held)
        new = self.text[self._shown : end]
        self._shown = end
        return new

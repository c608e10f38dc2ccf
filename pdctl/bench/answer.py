"""Events of one streamed answer, with their arrival times -> RequestSample (pure)."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from pdctl.bench.sse import Event, EventSplitter
from pdctl.bench.stats import RequestSample

# Status 200 is no success criterion: engines end a failed KV transfer with 200 and one of these
# (vLLM 0.11.0 and 0.33.0, FinishReason: stop, length, abort, and later error and repetition).
FAILED_FINISH = frozenset({"error", "abort"})

DONE = "[DONE]"

_ERROR_LENGTH = 300


class Answer:
    """Holds what has arrived of one answer; all times are seconds on the caller's clock."""

    def __init__(self, sent_at: float) -> None:
        self._sent_at = sent_at
        self._splitter = EventSplitter()
        self._arrivals: list[float] = []
        self._texts: list[str] = []
        self._usage: dict[str, Any] = {}
        self._finish: str | None = None
        self._ended_bare = False  # the last chunk only told the finish reason
        self._done = False
        self._events = 0
        self._error = ""

    @property
    def ended(self) -> bool:
        """Nothing that follows can change the outcome."""
        return self._done or bool(self._error)

    @property
    def failed(self) -> bool:
        return bool(self._error)

    def feed(self, data: bytes, at: float) -> None:
        try:
            for event in self._splitter.feed(data):
                self._take(event, at)
        except ValueError as error:
            self.fail(str(error))

    def fail(self, error: str) -> None:
        """The first error is the cause; what follows from it is not kept."""
        self._error = self._error or one_line(error)

    def sample(self, start_s: float, input_tokens: int | None, keep_text: bool = False) -> RequestSample:
        """`input_tokens` None: only the server knows how many the prompt has."""
        arrivals, tokens = self._counted()
        error = self._error or one_line(self._flaw(tokens))
        reported = _count(self._usage, "prompt_tokens")
        return RequestSample(
            start_s=start_s,
            ttft_s=arrivals[0] - self._sent_at if arrivals else None,
            itls_s=tuple(later - sooner for sooner, later in pairwise(arrivals)),
            input_tokens=(reported or 0) if input_tokens is None else input_tokens,
            output_tokens=tokens,
            text="".join(self._texts) if keep_text else None,
            error=error,
            reported_input_tokens=reported,
            counted_by_chunks=not error and _count(self._usage, "completion_tokens") is None,
        )

    def _take(self, event: Event, at: float) -> None:
        if self.ended:
            return
        self._events += 1
        if event.data.strip() == DONE:
            self._done = True
            return
        body = _parsed(event.data)
        if problem := _problem(body, event):
            self.fail(problem)
            return
        self._usage = body.get("usage") or self._usage
        if body.get("choices"):
            self._chunk(body["choices"][0], at)

    def _chunk(self, choice: dict[str, Any], at: float) -> None:
        # vLLM sends a completion chunk only with a token, but its text may be empty (an unfinished
        # character), so every chunk counts, as in vLLM's own bench; `_counted` takes back a last one that
        # had no token
        text = choice.get("text") or ""
        self._arrivals.append(at)
        self._texts.append(text)
        if finish := choice.get("finish_reason"):
            self._finish = finish
            self._ended_bare = not text
            if finish in FAILED_FINISH:
                self.fail(f"finish_reason is {finish!r}")

    def _counted(self) -> tuple[list[float], int]:
        """Arrivals of token chunks, and the number of output tokens."""
        tokens = _count(self._usage, "completion_tokens")
        spare = self._ended_bare and (tokens is None or len(self._arrivals) > tokens)
        arrivals = self._arrivals[:-1] if spare else self._arrivals
        return arrivals, len(arrivals) if tokens is None else tokens

    def _flaw(self, tokens: int) -> str:
        if not self._events:
            return _not_a_stream(self._splitter.rest())
        if not self._done:
            return f"the stream ended without {DONE}"
        if self._finish is None:
            return "the stream ended without a finish_reason"
        if not tokens or not self._counted()[0]:
            return "the answer has no tokens"
        return ""


def error_text(body: str) -> str:
    """The message inside an error body, else the body itself."""
    parsed = _parsed(body)
    error = parsed.get("error") or parsed.get("message")
    message = error.get("message") if isinstance(error, dict) else error
    return one_line(str(message or body))


def one_line(text: str) -> str:
    """Printable, on one line, of bounded length: it goes to terminals and result files."""
    printable = "".join(char if char.isprintable() else " " for char in text[: 4 * _ERROR_LENGTH])
    line = " ".join(printable.split())
    return line if len(line) <= _ERROR_LENGTH else line[: _ERROR_LENGTH - 3] + "..."


def _parsed(text: str) -> dict[str, Any]:
    """Empty when the text is no JSON object."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _problem(body: dict[str, Any], event: Event) -> str:
    """Why this event ends the request as failed; what passes has the shape that the rest relies on."""
    if body.get("error") or event.name == "error" or body.get("object") == "error":
        return f"error event: {error_text(event.data)}"
    choices, usage = body.get("choices") or [], body.get("usage") or {}
    sound = (
        body != {}
        and isinstance(usage, dict)
        and isinstance(choices, list)
        and all(isinstance(choice, dict) and _texts(choice) for choice in choices)
    )
    return "" if sound else f"an event is no completion chunk: {event.data}"


def _texts(choice: dict[str, Any]) -> bool:
    return all(isinstance(choice.get(key) or "", str) for key in ("text", "finish_reason"))


def _not_a_stream(rest: str) -> str:
    return f"no event stream but: {error_text(rest)}" if rest.strip() else "the answer is empty"


def _count(usage: dict[str, Any], key: str) -> int | None:
    value = usage.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

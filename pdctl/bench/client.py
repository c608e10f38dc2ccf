"""Target + workload -> samples: a closed loop of streamed completions, each chunk stamped as it arrives."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from pdctl.bench.answer import Answer, error_text, one_line
from pdctl.bench.prompts import Prompt, Vocabulary, prompt
from pdctl.bench.route import NO_HEADERS, route
from pdctl.bench.stats import RequestSample
from pdctl.bench.stopping import race
from pdctl.errors import BenchError

_ERROR_BODY_BYTES = 4096
_END_GRACE_S = 0.5  # between the last event and the end of the answer, which a server sends together


@dataclass(frozen=True)
class Target:
    """An OpenAI-compatible front door; `connect_to` is where its port is reached, e.g. an SSH forward."""

    base_url: str  # without /v1
    model: str
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS, repr=False)
    connect_to: tuple[str, int] | None = None


@dataclass(frozen=True)
class Workload:
    num_prompts: int
    concurrency: int
    input_len: int
    output_len: int
    vocabulary: Vocabulary
    seed: int
    warmups: int = 0
    ignore_eos: bool = True
    keep_text: bool = False
    request_timeout_s: float = 120.0
    time_limit_s: float = 600.0  # for the whole load, warm-up apart

    def __post_init__(self) -> None:
        if min(self.num_prompts, self.concurrency, self.input_len, self.output_len) < 1 or self.warmups < 0:
            raise ValueError("a workload needs at least one prompt, one slot, one token in and one out")


@dataclass(frozen=True)
class Progress:
    completed: int
    failed: int
    total: int


@dataclass(frozen=True)
class LoadResult:
    """One sample for each request asked for, sent or not; `interrupted` says why the load ended early."""

    samples: tuple[RequestSample, ...]
    duration_s: float
    interrupted: str = ""


def open_session(concurrency: int) -> aiohttp.ClientSession:
    """A connection for each slot, kept alive; no total timeout, no proxy from the environment."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=concurrency),
        timeout=aiohttp.ClientTimeout(total=None),
        trust_env=False,
    )


async def check_model(session: aiohttp.ClientSession, target: Target, timeout_s: float = 10.0) -> None:
    """Refuse a model name that the target does not serve; a target without /v1/models passes."""
    try:
        async with asyncio.timeout(timeout_s), session.get(**_to(target, "/v1/models")) as answer:
            status, body = answer.status, await answer.read()
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise BenchError(f"no answer: {_cause(error)}", where=target.base_url) from error
    if status == 404:  # LMCache 0.3.10's sample proxy has no such route
        return
    if status != 200:
        raise BenchError(f"/v1/models answers HTTP {status}", where=target.base_url)
    served = _model_names(body, target)
    if target.model not in served:
        raise BenchError(
            f"model {target.model!r} is not served; served: {one_line(', '.join(served)) or 'none'}",
            where=target.base_url,
            hint="name the model as /v1/models does",
        )


async def warm_up(session: aiohttp.ClientSession, target: Target, workload: Workload) -> None:
    """Fill every slot once with prompts of its own; a target that fails here gets no load."""

    async def one(index: int) -> RequestSample:
        words = prompt(workload.vocabulary, workload.input_len, workload.seed, index, purpose="warm-up")
        return await complete(session, target, workload, words, time.perf_counter())

    for first in range(0, workload.warmups, workload.concurrency):
        batch = range(first, min(first + workload.concurrency, workload.warmups))
        for sample in await asyncio.gather(*map(one, batch)):
            if sample.error:
                raise BenchError(f"a warm-up request failed: {sample.error}", where=target.base_url)


async def run_load(
    session: aiohttp.ClientSession,
    target: Target,
    workload: Workload,
    progress: Callable[[Progress], None] = lambda _: None,
    stop: asyncio.Event | None = None,
) -> LoadResult:
    """Keep `concurrency` requests in flight until all are answered, `stop` is set or the time is up."""
    load, stop = _Load(session, target, workload, progress), stop or asyncio.Event()
    _, interrupted = await race(load.run(), stop, workload.time_limit_s)
    return LoadResult(load.samples(interrupted), time.perf_counter() - load.began, interrupted)


async def complete(
    session: aiohttp.ClientSession, target: Target, workload: Workload, words: Prompt, began: float
) -> RequestSample:
    """One streamed completion; whatever goes wrong with it is in the sample."""
    sent_at = time.perf_counter()
    answer = Answer(sent_at)
    try:
        async with asyncio.timeout(workload.request_timeout_s) as limit:
            await _stream(session, target, _body(target, workload, words), answer, limit)
    except TimeoutError:
        if not answer.ended:
            answer.fail(f"no complete answer within {workload.request_timeout_s:g} s")
    except (aiohttp.ClientError, OSError) as error:
        answer.fail(_cause(error))
    known = None if isinstance(words, str) else len(words)
    return answer.sample(sent_at - began, known, workload.keep_text)


class _Load:
    """Holds a load while it runs: workers draw indices from one iterator, so no request is sent twice."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        target: Target,
        workload: Workload,
        progress: Callable[[Progress], None],
    ) -> None:
        self._session, self._target, self._workload, self._progress = session, target, workload, progress
        # drawn before the clock starts: making prompts is no part of the load
        self._prompts = [
            prompt(workload.vocabulary, workload.input_len, workload.seed, index)
            for index in range(workload.num_prompts)
        ]
        self._todo = iter(range(workload.num_prompts))
        self._starts: dict[int, float] = {}
        self._answered: dict[int, RequestSample] = {}
        self.began = time.perf_counter()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workload.concurrency):
                group.create_task(self._work())

    async def _work(self) -> None:
        for index in self._todo:
            self._starts[index] = time.perf_counter() - self.began
            words = self._prompts[index]
            self._answered[index] = await complete(
                self._session, self._target, self._workload, words, self.began
            )
            completed = sum(sample.completed for sample in self._answered.values())
            self._progress(Progress(completed, len(self._answered) - completed, self._workload.num_prompts))

    def samples(self, interrupted: str) -> tuple[RequestSample, ...]:
        return tuple(
            self._answered.get(index) or self._cut(index, interrupted) for index in range(len(self._prompts))
        )

    def _cut(self, index: int, interrupted: str) -> RequestSample:
        start = self._starts.get(index)
        words = self._prompts[index]
        error = f"{'not sent' if start is None else 'cut off'}: {interrupted}"
        return RequestSample(start, None, (), 0 if isinstance(words, str) else len(words), 0, error=error)


async def _stream(
    session: aiohttp.ClientSession,
    target: Target,
    body: dict[str, Any],
    answer: Answer,
    limit: asyncio.Timeout,
) -> None:
    async with session.post(**_to(target, "/v1/completions"), json=body) as response:
        if response.status != 200:
            text = (await response.content.read(_ERROR_BODY_BYTES)).decode(errors="replace")
            answer.fail(f"HTTP {response.status}: {error_text(text)}")
            return
        async for data in response.content.iter_any():
            answer.feed(data, time.perf_counter())
            if answer.failed:
                return
            if answer.ended:
                # read to the end, so that the connection can be used again; but do not wait for it
                limit.reschedule(asyncio.get_running_loop().time() + _END_GRACE_S)


def _body(target: Target, workload: Workload, words: Prompt) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": target.model,
        "prompt": words if isinstance(words, str) else list(words),
        "max_tokens": workload.output_len,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    # vLLM's own field: left out when not wanted, so that strict servers accept the request
    return body | {"ignore_eos": True} if workload.ignore_eos else body


def _to(target: Target, path: str) -> dict[str, Any]:
    return route(target.base_url, path, target.connect_to, target.headers)


def _model_names(body: bytes, target: Target) -> list[str]:
    try:
        return [str(entry["id"]) for entry in json.loads(body)["data"]]
    except (ValueError, KeyError, TypeError) as error:
        raise BenchError("/v1/models is no list of models", where=target.base_url) from error


def _cause(error: Exception) -> str:
    return one_line(str(error) or type(error).__name__)

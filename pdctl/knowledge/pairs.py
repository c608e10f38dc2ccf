"""Two versions of the chain -> how well they are known to go together, from knowledge.compatibility."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeVar

from pdctl.knowledge.compatibility import (
    BAD_RELEASES,
    CUDA_DRIVER,
    DOUBTED_RELEASES,
    LMCACHE,
    METADATA,
    NIXL,
    NIXL_UCX,
    PAIRS,
    PYTHON,
    UCX_LACKS,
    VLLM,
    Cache,
    Engine,
    Pair,
    Span,
    Status,
    Transfer,
)
from pdctl.knowledge.reboots import upstream
from pdctl.knowledge.releases import RELEASE, minor, numbers, torch_cuda


class Verdict(NamedTuple):
    """`nearest` is a pin that would fit, as (name, version). A `strict` one follows from what the packages
    say of themselves: no resolver can get around it."""

    status: Status
    reason: str = ""
    source: str = ""
    nearest: tuple[str, str] | None = None
    strict: bool = False


class Row(Protocol):
    @property
    def span(self) -> Span: ...


RowT = TypeVar("RowT", bound=Row)


def pair_status(one: str, one_version: str, two: str, two_version: str) -> Verdict:
    """What is known of two versions; `vllm` and `0.32.0` beside `lmcache` and `0.5.6`, in either order.

    Components: vllm, lmcache, nixl, torch, python, cuda, driver, fabricmanager, ucx, glibc.
    """
    if (one, two) not in _JUDGES:
        one, one_version, two, two_version = two, two_version, one, one_version
    judge = _JUDGES.get((one, two))
    if judge is None:
        return Verdict(Status.UNKNOWN, f"nothing is known of {one} beside {two}")
    verdict, row = judge(one_version, two_version), _row(one, one_version, two, two_version)
    if row is None or (row.status is Status.PROVEN and verdict.status is not Status.RESOLVES):
        return verdict
    nearest = _partner(one, one_version, two) if row.status is Status.KNOWN_BAD else None
    return Verdict(row.status, row.reason, row.source, nearest)


def known_pairs(pins: Mapping[str, str]) -> Iterator[tuple[str, str, Verdict]]:
    """What is known of every two of these pins."""
    for one, two in judged_pairs():
        if one in pins and two in pins:
            yield one, two, pair_status(one, pins[one], two, pins[two])


def release_status(name: str, version: str) -> Verdict:
    """What is known of one version by itself."""
    if bad := BAD_RELEASES.get((name, version)):
        return Verdict(Status.KNOWN_BAD, bad[0], bad[1], (name, bad[2]), strict=True)
    if doubted := DOUBTED_RELEASES.get((name, version)):
        return Verdict(Status.UNKNOWN, *doubted)
    rows: dict[str, tuple[Row, ...]] = {"vllm": VLLM, "lmcache": LMCACHE, "nixl": NIXL}
    if name in rows and row_of(rows[name], version) is None:
        newest = rows[name][-1].span.last
        return Verdict(Status.UNKNOWN, f"pdctl knows {name} {rows[name][0].span.first} to {newest}")
    return Verdict(Status.RESOLVES)


def row_of(rows: Iterable[RowT], version: str) -> RowT | None:
    """The row whose releases hold `version`."""
    return next((row for row in rows if within(version, row.span)), None)


def within(version: str, span: Span) -> bool:
    """Whether it is a release of the span; a pre-release is none. `0.3.10.post1` counts as `0.3.10`."""
    match = RELEASE.fullmatch(version)
    return bool(match) and numbers(span.first) <= numbers(version) <= numbers(span.last)


def _row(one: str, one_version: str, two: str, two_version: str) -> Pair | None:
    for row in PAIRS:
        known = (row.one, row.two) == (one, two)
        if known and within(one_version, row.one_span) and within(two_version, row.two_span):
            return row
    return None


def _vllm_torch(vllm: str, torch: str) -> Verdict:
    row = row_of(VLLM, vllm)
    if row is None:
        return _unknown("vllm", vllm)
    if numbers(torch) != numbers(row.torch):
        why = f"it requires torch {row.torch} exactly"
        return Verdict(Status.KNOWN_BAD, why, row.source, ("torch", row.torch), strict=True)
    built = torch_cuda(torch)
    if built and built.split(".")[0] != row.cuda.split(".")[0]:
        what = "without CUDA" if built == "cpu" else f"for CUDA {built}"
        why = f"its wheel is built for CUDA {row.cuda}, this torch {what}"
        return Verdict(Status.KNOWN_BAD, why, row.source, ("torch", row.torch))
    return Verdict(Status.RESOLVES, "", row.source)


def _vllm_lmcache(vllm: str, lmcache: str) -> Verdict:
    engine, cache = row_of(VLLM, vllm), row_of(LMCACHE, lmcache)
    if engine is None or cache is None:
        return _unknown("vllm", vllm) if engine is None else _unknown("lmcache", lmcache)
    if minor(engine.torch) != minor(cache.torch):
        why = f"its wheel is built for torch {minor(cache.torch)}, and this vLLM brings {minor(engine.torch)}"
        slow = "its native modules would not load, or a slow path be taken without a word"
        return Verdict(
            Status.KNOWN_BAD, f"{why}: {slow}", f"{cache.source}; vLLM issue 53424", _cache(engine, cache)
        )
    if engine.cuda.split(".")[0] != cache.cuda.split(".")[0]:
        why = f"its wheel is built for CUDA {cache.cuda}, and this vLLM brings {engine.cuda}"
        return Verdict(Status.KNOWN_BAD, why, cache.source, _cache(engine, cache))
    return Verdict(Status.RESOLVES, f"both for torch {minor(cache.torch)}", cache.source)


def _cache(engine: Engine, cache: Cache) -> tuple[str, str]:
    """The LMCache for this vLLM; where none fits it, a vLLM for this LMCache."""
    if engine.lmcache:
        return "lmcache", engine.lmcache
    fitting = [row for row in VLLM if minor(row.torch) == minor(cache.torch)]
    return "vllm", (fitting or [row for row in VLLM if row.lmcache])[-1].span.last


def _lmcache_torch(lmcache: str, torch: str) -> Verdict:
    row = row_of(LMCACHE, lmcache)
    if row is None:
        return _unknown("lmcache", lmcache)
    if minor(torch) != minor(row.torch):
        why = f"its wheel is built for torch {minor(row.torch)}"
        return Verdict(Status.KNOWN_BAD, why, row.source, ("torch", row.torch))
    return Verdict(Status.RESOLVES, "", row.source)


def _lmcache_nixl(lmcache: str, nixl: str) -> Verdict:
    row = row_of(LMCACHE, lmcache)
    if row is None:
        return _unknown("lmcache", lmcache)
    if row.nixl is None or within(nixl, row.nixl):
        return Verdict(Status.RESOLVES, "", row.source)
    if numbers(nixl) < numbers(row.nixl.first):
        why = f"it asks for nixl {row.nixl.first} or later"
        return Verdict(Status.KNOWN_BAD, why, row.source, ("nixl", row.nixl.last))
    return Verdict(Status.UNKNOWN, f"it is known with nixl {row.nixl.first} to {row.nixl.last}", row.source)


def _vllm_nixl(vllm: str, nixl: str) -> Verdict:
    engine, wheel = row_of(VLLM, vllm), row_of(NIXL, nixl)
    if engine is None or wheel is None:
        return _unknown("vllm", vllm) if engine is None else _unknown("nixl", nixl)
    if engine.cuda.split(".")[0] not in wheel.cuda:
        why = f"its wheel is built for CUDA {' and '.join(wheel.cuda)}, and this vLLM brings {engine.cuda}"
        return Verdict(Status.UNKNOWN, why, wheel.source, ("nixl", engine.nixl))
    return Verdict(Status.RESOLVES, "", wheel.source)


def _python(name: str) -> Callable[[str, str], Verdict]:
    def judge(version: str, python: str) -> Verdict:
        rows: dict[str, tuple[Engine | Cache | Transfer, ...]] = {
            "vllm": VLLM,
            "lmcache": LMCACHE,
            "nixl": NIXL,
        }
        row = row_of(rows[name], version)
        if row is None or not RELEASE.fullmatch(python):
            return _unknown(name, version) if row is None else _unknown("python", python)
        if not numbers(row.python.first) <= numbers(minor(python)) <= numbers(row.python.last):
            why = f"it has wheels for Python {row.python.first} to {row.python.last}"
            return Verdict(Status.KNOWN_BAD, why, row.source, ("python", PYTHON), strict=True)
        return Verdict(Status.RESOLVES, "", row.source)

    return judge


def _vllm_glibc(vllm: str, glibc: str) -> Verdict:
    row = row_of(VLLM, vllm)
    if row is None or row.glibc is None:
        return Verdict(Status.UNKNOWN, "the tags of its wheel do not say", METADATA)
    if numbers(glibc) < numbers(row.glibc):
        return Verdict(Status.KNOWN_BAD, f"its wheel needs glibc {row.glibc}", row.source, strict=True)
    return Verdict(Status.RESOLVES, "", row.source)


def _vllm_cuda(vllm: str, cuda: str) -> Verdict:
    row = row_of(VLLM, vllm)
    if row is None:
        return _unknown("vllm", vllm)
    if cuda.split(".")[0] != row.cuda.split(".")[0]:
        why = f"its wheels bring CUDA {row.cuda} of their own, and nobody tried them beside another major one"
        return Verdict(Status.UNKNOWN, why, row.source)
    return Verdict(Status.RESOLVES, "", row.source)


def _vllm_driver(vllm: str, driver: str) -> Verdict:
    row = row_of(VLLM, vllm)
    return _unknown("vllm", vllm) if row is None else _cuda_driver(row.cuda, driver)


def _cuda_driver(cuda: str, driver: str) -> Verdict:
    needed = CUDA_DRIVER.get(cuda.split(".")[0])
    if needed is None:
        return _unknown("cuda", cuda)
    if numbers(upstream(driver)) < numbers(needed):
        major, branch = cuda.split(".")[0], needed.split(".")[0]
        why = f"CUDA {major} needs a driver of branch {branch} or later ({needed} at least)"
        return Verdict(Status.KNOWN_BAD, why, CUDA_NOTES, ("driver", needed))
    return Verdict(Status.RESOLVES, "", CUDA_NOTES)


CUDA_NOTES = "NVIDIA CUDA Toolkit release notes"


def _driver_fabricmanager(driver: str, fabricmanager: str) -> Verdict:
    if upstream(driver) != upstream(fabricmanager):
        why = "the daemon refuses any other driver than its own version"
        return Verdict(Status.KNOWN_BAD, why, "NVIDIA Fabric Manager user guide", ("fabricmanager", driver))
    return Verdict(Status.RESOLVES, "", "NVIDIA Fabric Manager user guide")


def _nixl_ucx(nixl: str, ucx: str) -> Verdict:
    least = next((built for span, built in NIXL_UCX if within(nixl, span)), "1.19.0")
    for last, why in UCX_LACKS:
        if numbers(ucx)[:2] <= numbers(last):
            return Verdict(Status.KNOWN_BAD, why, "NIXL issue 166", ("ucx", least))
    if numbers(ucx) < numbers(least):
        return Verdict(Status.UNKNOWN, f"it was built and tested with UCX {least}", "NIXL, README")
    return Verdict(Status.RESOLVES, "", "NIXL, README")


_JUDGES: dict[tuple[str, str], Callable[[str, str], Verdict]] = {
    ("vllm", "torch"): _vllm_torch,
    ("vllm", "lmcache"): _vllm_lmcache,
    ("vllm", "nixl"): _vllm_nixl,
    ("vllm", "python"): _python("vllm"),
    ("vllm", "glibc"): _vllm_glibc,
    ("vllm", "cuda"): _vllm_cuda,
    ("lmcache", "torch"): _lmcache_torch,
    ("lmcache", "nixl"): _lmcache_nixl,
    ("lmcache", "python"): _python("lmcache"),
    ("nixl", "python"): _python("nixl"),
    ("nixl", "ucx"): _nixl_ucx,
    ("cuda", "driver"): _cuda_driver,
    ("vllm", "driver"): _vllm_driver,
    ("driver", "fabricmanager"): _driver_fabricmanager,
}


def judged_pairs() -> Iterator[tuple[str, str]]:
    """Every two components of which something is known, those that decide most first."""
    yield from _JUDGES


def _partner(one: str, version: str, two: str) -> tuple[str, str] | None:
    row = row_of(VLLM, version) if (one, two) == ("vllm", "lmcache") else None
    if row is None:
        return None
    return ("lmcache", row.lmcache) if row.lmcache else ("vllm", [r for r in VLLM if r.lmcache][-1].span.last)


def _unknown(name: str, version: str) -> Verdict:
    return Verdict(Status.UNKNOWN, f"{name} {version} is not in pdctl's tables")

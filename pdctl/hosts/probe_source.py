"""Request -> program: the probe as one text for `python3 -` on a host; and its output -> answer."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pdctl.assets import assets
from pdctl.errors import HostError

BEGIN = "-----BEGIN PDCTL ANSWER-----"
END = "-----END PDCTL ANSWER-----"

# In the order of their imports: a module is ready before the next one asks for it.
MODULES = (
    "pdctl_rows",
    "pdctl_shapes",
    "pdctl_namespace",
    "pdctl_control",
    "pdctl_sockets",
    "pdctl_process",
    "pdctl_observe_pci",
    "pdctl_observe_facts",
    "pdctl_observe_foreign",
    "pdctl_observe_files",
    "pdctl_observe_generations",
    "pdctl_family",
    "pdctl_observe_packages",
    "pdctl_offers",
    "pdctl_observe_apt",
    "pdctl_observe_stack",
    "pdctl_observe_ready",
    "pdctl_observe_peermem",
    "pdctl_observe_ucx",
    "pdctl_observe_deep",
    "pdctl_observe_units",
    "pdctl_observe_venvs",
    "pdctl_observe_weights",
    "pdctl_recorded",
    "pdctl_observe",
)
TURN = (
    "pdctl_rows",
    "pdctl_shapes",
    "pdctl_kept",
    "pdctl_observe_generations",
    "pdctl_lock",
    "pdctl_generations",
    "pdctl_turn",
)

# The modules are written for Ansible's namespace: the program gives them that, and nothing of Ansible.
PROGRAM = """\
import json, sys, types
def load(sources):
    for name in ("ansible", "ansible.module_utils"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    for name, text in sources:
        module = sys.modules["ansible.module_utils." + name] = types.ModuleType(name)
        exec(compile(text, name + ".py", "exec"), module.__dict__)
load({sources!r})
answer = sys.modules["ansible.module_utils." + {entry[0]!r}].{entry[1]}(json.loads({request!r}))
sys.stdout.write("\\n" + {begin!r} + "\\n" + json.dumps(answer) + "\\n" + {end!r} + "\\n")
"""


def probe_program(request: Mapping[str, Any]) -> str:
    """One self-contained Python 3.9 program that prints what `pdctl_observe.observe(request)` answers."""
    return program(MODULES, ("pdctl_observe", "observe"), request)


def turn_program(request: Mapping[str, Any]) -> str:
    """The same for `pdctl_turn.answer(request)`."""
    return program(TURN, ("pdctl_turn", "answer"), request)


def program(modules: Sequence[str], entry: tuple[str, str], request: Mapping[str, Any]) -> str:
    """The same for any function `entry` (module, name), given the modules it needs in their order."""
    return PROGRAM.format(
        sources=_sources(tuple(modules)), entry=entry, request=json.dumps(request), begin=BEGIN, end=END
    )


@functools.cache
def _sources(modules: tuple[str, ...]) -> list[tuple[str, str]]:
    """The same for every host."""
    folder = assets("playbooks") / "module_utils"
    return [(name, (folder / f"{name}.py").read_text(encoding="utf-8")) for name in modules]


def probe_answer(output: str) -> dict[str, Any]:
    """The answer between the markers, whatever a login banner or sudo printed around it."""
    _, begin, rest = output.partition(BEGIN + "\n")
    text, end, _ = rest.partition("\n" + END)
    if not begin or not end:
        last = output.strip().splitlines()[-1:] or ["nothing"]
        raise HostError(
            f"the probe did not finish; it printed: {last[0]}", hint="is python3 3.9 or later there?"
        )
    answer: dict[str, Any] = json.loads(text)
    return answer

"""A sound spec, and parts that stand in place of its own: the examples of rules, and inputs of bug cases."""

from __future__ import annotations

import re

from pdctl.spec.rules.about import About

SOUND = {
    "cluster": "cluster: chat\n",
    "hosts": "hosts: [{name: gpu01, address: 10.0.0.11, gpus: 8}]\n",
    "model": "model: {id: openai/gpt-oss-120b}\n",
    "serving": "serving: {prefillers: {}, decoders: {}}\n",
}
KEY = re.compile(r"^([a-z]+):", re.MULTILINE)
# A file that cannot be read at all, and mistakes that a part of a spec cannot show.
WITHOUT_EXAMPLE = {
    "FILE001",  # test_spec_load
    "SYNTAX002",
    "SYNTAX004",
    "SYNTAX015",
    "PLACE004",
    "LOCK001",  # tests/desired/test_locking
    "LOCK002",
    "LOCK003",
    "LOCK004",
    *(f"FACT{number:03}" for number in range(1, 39)),  # tests/hosts_unit
    "MODEL006",  # test_model_files
    "MODEL010",  # test_vocabulary_files
}


def broken_by(rule: About) -> str:
    """A spec that is sound but for the rule's example."""
    return sound_but_for(rule.example)


def sound_but_for(part: str) -> str:
    """A sound spec in which the sections of `part` stand in place of its own."""
    replaced = set(KEY.findall(part))
    kept = [text for key, text in SOUND.items() if key not in replaced]
    return part + "".join(kept) if part.startswith("%") else "".join(kept) + part

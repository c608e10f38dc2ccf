"""The example of each rule, put into a sound spec."""

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
}


def broken_by(rule: About) -> str:
    """A spec that is sound but for the rule's example."""
    replaced = set(KEY.findall(rule.example))
    kept = [text for key, text in SOUND.items() if key not in replaced]
    return rule.example + "".join(kept) if rule.example.startswith("%") else "".join(kept) + rule.example

"""Text of files found on hosts -> values; broken files are empty."""

from __future__ import annotations

import warnings
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError


def yaml_mapping(text: str) -> dict[str, Any]:
    """The mapping in `text`, by YAML 1.1 as LMCache and vLLM read it: `yes` is true."""
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `1e9` without a point is text there, and no concern of ours
            value = yaml.load(text)
    except (YAMLError, ValueError):  # ValueError: a number or a date that is none
        return {}
    return {str(key): inner for key, inner in value.items()} if isinstance(value, dict) else {}

"""The model -> its JSON Schema for editors, and its reference page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pdctl.knowledge.stacks import STACKS
from pdctl.spec.fields import walk
from pdctl.spec.model import Cluster
from pdctl.spec.values import COMMIT, DEB_VERSION, HOST_NAME, PYTHON, RELEASE

Json = dict[str, Any]

# The single values that may stand for a whole section; the model's validators spell them out.
SHORTHANDS: dict[str, Json] = {
    "Gpus": {"type": "integer", "minimum": 0, "maximum": 64},
    "Stack": {"type": "string", "enum": sorted(STACKS)},
    "Engine": {"type": "string", "enum": ["vllm", "simulator"]},
    "Place": {"type": "string", "pattern": f"^({HOST_NAME})$"},
}
VERSIONS = {f"^({form})$" for form in (COMMIT, DEB_VERSION, PYTHON, RELEASE)}
INTRODUCTION = """\
# cluster.yaml

One file describes one cluster. Every command takes it as an optional argument; the default is
`./cluster.yaml`; a pipe such as bash's `<(...)` will do. It is read as YAML 1.2: unknown keys, duplicate keys
and values of the wrong type are errors, and all errors are shown at once with their lines. Versions are text,
so numbers go in quotes: `"1.10"`. Anchors and merge keys (`<<`) are allowed, tags are not. Secrets never
stand in the file.

`docs/schema/cluster.schema.json` gives editors completion and marks what is refused by its form. `pdctl init`
writes a starter file, `pdctl validate` checks a file without touching a host, and `pdctl explain
serving.prefillers` prints a part of this page with an example. Everything that is found carries the id of
[its rule](rules.md); with `--strict` warnings count, `--format json`, `sarif` and `github` are for machines.

What KV and weights take follows from the model: from `model.kv`, else from the config.json of this machine's
own copy (under `model.path`, or in the Hugging Face cache: `HF_HUB_CACHE`, `HF_HOME`, at `model.revision`),
else from pdctl's table of models. Weights are as large as the files beside that config.json, or as the shapes
and bits in it say. `validate` prints the figures for one GPU of each role and where they are from. Nothing is
downloaded. A model that one machine's files alone tell is an error on others, so write its `model.kv` down.
"""


def json_schema() -> Json:
    """The schema of cluster.yaml, with the short forms."""
    schema = _without_titles(Cluster.model_json_schema())
    schema = _with_key_names(schema)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "pdctl cluster.yaml"}
    definitions = {name: _with_shorthands(part) for name, part in schema.pop("$defs").items()}
    definitions["Stack"]["properties"]["base"]["anyOf"][0] = SHORTHANDS["Stack"]
    return {**head, **_with_shorthands(schema), "$defs": definitions}


def schema_text() -> str:
    """What `pdctl schema` prints and docs/schema/cluster.schema.json holds."""
    return json.dumps(json_schema(), indent=2) + "\n"


def reference() -> str:
    """docs/spec.md: every key with its type, default and meaning."""
    schema = json_schema()
    parts = [INTRODUCTION, _section("The file", schema)]
    for name, paths in _homes(schema).items():
        title = ", ".join(f"`{path}`" for path in paths)
        parts.append(_section(title, schema["$defs"][name]))
    return "\n".join(parts)


def _without_titles(part: Any) -> Any:
    """pydantic titles every field after its name, which says nothing."""
    if isinstance(part, dict):
        return {
            key: {name: _without_titles(field) for name, field in value.items()}
            if key in ("properties", "$defs")
            else _without_titles(value)
            for key, value in part.items()
            if key != "title"
        }
    return [_without_titles(item) for item in part] if isinstance(part, list) else part


def _with_key_names(part: Any) -> Any:
    """Mappings with names of the user's: pydantic lets names of another form pass without a look."""
    if isinstance(part, list):
        return [_with_key_names(item) for item in part]
    if not isinstance(part, dict):
        return part
    found = {key: _with_key_names(value) for key, value in part.items()}
    if "patternProperties" in found:
        [(pattern, value)] = found.pop("patternProperties").items()
        found |= {"propertyNames": {"pattern": pattern}, "additionalProperties": value}
    return found


def _with_shorthands(part: Any) -> Any:
    """Each reference to a section that has a short form, as either of the two."""
    if isinstance(part, list):
        return [_with_shorthands(item) for item in part]
    if not isinstance(part, dict):
        return part
    found = {key: _with_shorthands(value) for key, value in part.items()}
    short = SHORTHANDS.get(str(found.get("$ref", "")).rpartition("/")[2])
    if short is None:
        return found
    return {"anyOf": [short, {"$ref": found.pop("$ref")}], **found}


def _homes(schema: Json) -> dict[str, list[str]]:
    """Section name -> the paths it stands at, in the order of the model."""
    homes: dict[str, list[str]] = {}
    for path, _ in walk():
        field = property_at(schema, path)
        for name in _references(field):
            shown = f"{path}[]" if field.get("type") == "array" or _is_list(field) else path
            homes.setdefault(name, []).append(f"{path}.NAME" if "additionalProperties" in field else shown)
    return homes


def _is_list(field: Json) -> bool:
    return any(option.get("type") == "array" for option in field.get("anyOf", ()))


def property_at(schema: Json, path: str) -> Json:
    """The property that a path of `fields.walk` names."""
    field = schema
    for step in path.replace("[]", "").replace(".NAME", "").split("."):
        names = list(_references(field)) if field is not schema else []
        section = schema["$defs"][names[0]] if names else field
        field = section["properties"][step]
    return field


def _references(field: Any) -> Iterator[str]:
    if isinstance(field, dict):
        if "$ref" in field:
            yield field["$ref"].rpartition("/")[2]
        for key in ("anyOf", "items", "additionalProperties"):
            for inner in field.get(key, ()) if key == "anyOf" else (field.get(key),):
                yield from _references(inner)


def _section(title: str, section: Json) -> str:
    required = section.get("required", ())
    rows = [
        f"| `{name}` | {type_words(field)} | {default_of(field, name in required)} | {field['description']} |"
        for name, field in section["properties"].items()
    ]
    about = section.get("description", "")
    return "\n".join(
        [
            f"## {title}",
            "",
            about,
            "",
            "| key | type | default | meaning |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def default_of(field: Json, required: bool) -> str:
    if required:
        return "**required**"
    default = field.get("default")
    if default in (None, {}, []):
        return ""
    return f"`{json.dumps(default) if not isinstance(default, str) else default}`"


def type_words(field: Json) -> str:
    if "anyOf" in field:
        return " or ".join(type_words(option) for option in field["anyOf"] if option.get("type") != "null")
    if "$ref" in field:
        return "mapping"
    if "enum" in field:
        return ", ".join(f"`{choice}`" for choice in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    return _KINDS[field["type"]](field)


def _number(field: Json) -> str:
    kind = "whole number" if field["type"] == "integer" else "number"
    low = field.get("minimum", field.get("exclusiveMinimum"))
    high = field.get("maximum")
    above = "above " if "exclusiveMinimum" in field else ""
    if low is None:
        return kind
    if high is None or high == 2**31 - 1:
        return f"{kind}, {above or 'at least '}{low}"
    return f"{kind}, {above}{low} to {high}"


def _text(field: Json) -> str:
    return "version" if field.get("pattern") in VERSIONS else "text"


def _mapping(field: Json) -> str:
    inner = field["additionalProperties"]
    return f"mapping of names to {type_words(inner)}"


def _list(field: Json) -> str:
    return f"list of: {type_words(field['items'])}"


_KINDS = {
    "integer": _number,
    "number": _number,
    "string": _text,
    "boolean": lambda _: "`true`, `false`",
    "object": _mapping,
    "array": _list,
}

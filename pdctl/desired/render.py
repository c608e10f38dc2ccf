"""Text from templates: Jinja2 with undefined names refused, and one quoting rule per target language."""

from __future__ import annotations

import functools
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import jinja2

from pdctl.assets import assets
from pdctl.state import File
from pdctl.state.digest import content_digest

# What a backslash must precede inside double quotes: in a unit (systemd.syntax(7)), in an EnvironmentFile
# (systemd.exec(5)).
UNIT_ESCAPED = '\\"'
ENV_FILE_ESCAPED = '\\"$`'
# Words that systemd takes as they are (systemd.syntax(7), systemd.service(5)).
PLAIN_WORD = re.compile(r"[A-Za-z0-9_@+=:,./-]+")


def render(template: str, **values: Any) -> bytes:
    """The bytes of `templates/<template>`; a missing value is an error, not an empty string."""
    return _environment().get_template(template).render(**values).encode()


def rendered(path: str, template: str, **values: Any) -> File:
    """That as a file of the host's own, which everybody may read."""
    content = render(template, **values)
    return File(path, content_digest(content), content=content)


def systemd_command(words: Iterable[str]) -> str:
    return " ".join(_systemd_word(word) for word in words)


def _systemd_word(word: str) -> str:
    """One word of ExecStart: specifiers and variables switched off, quoted when needed."""
    text = word.replace("%", "%%").replace("$", "$$")
    return text if PLAIN_WORD.fullmatch(word) else _double_quoted(text, UNIT_ESCAPED)


def env_file_line(name: str, value: str) -> str:
    """One line of an EnvironmentFile: no specifiers; inside double quotes `\\ " $ `` are escaped."""
    return f"{name}={_double_quoted(value, ENV_FILE_ESCAPED)}"


def env_file(variables: Mapping[str, str]) -> str:
    return "".join(env_file_line(name, value) + "\n" for name, value in variables.items())


def _double_quoted(text: str, escaped: str) -> str:
    return '"' + "".join("\\" + c if c in escaped else c for c in text) + '"'


def _yaml(value: Any) -> str:
    """Any value as one line of YAML: JSON, but for floats, since YAML 1.1 takes `1e-07` for text."""
    if isinstance(value, float):
        digits = repr(value)
        return digits if "." in digits else digits.replace("e", ".0e")
    if isinstance(value, list):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_yaml(name)}: {_yaml(item)}" for name, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(assets("templates")),
        undefined=jinja2.StrictUndefined,
        auto_reload=False,  # else each of 13,000 renderings looks at the file's time
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # plain text; the filters below quote
    )
    environment.filters |= {
        "systemd_command": systemd_command,
        "yaml": _yaml,
        "env_file": env_file,
        "shell_word": shlex.quote,
    }
    return environment

"""Unit files and EnvironmentFiles read as the manual pages say, by nothing of pdctl.

systemd.syntax(7) for lines, quotes and escapes; systemd.service(5), "COMMAND LINES", for ExecStart;
systemd.unit(5) for specifiers; systemd.exec(5) for Environment= and EnvironmentFile=. Whatever the pages
leave open, or systemd would only warn about, is an error here.
"""

from __future__ import annotations

import re

WHITESPACE = " \t\n\r"
ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", '"': '"', "'": "'", "s": " ",
}  # fmt: skip
NUMBERS = {"x": (2, 16), "u": (4, 16), "U": (8, 16)}
# Escapes that mean something inside double quotes of an EnvironmentFile (systemd.exec(5)).
ENV_FILE_ESCAPES = '"\\`$'


class UnreadableError(Exception):
    """systemd would refuse this text, or take it for something else than plain words."""


def sections(text: str) -> dict[str, list[tuple[str, str]]]:
    """Entries by section, in order; `Key=` may come more than once."""
    found: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] | None = None
    for line in text.split("\n"):
        if not line.strip(WHITESPACE) or line.lstrip(WHITESPACE)[0] in "#;":
            continue
        if line.endswith("\\"):
            raise UnreadableError(f"goes on in the next line: {line!r}")
        if line.startswith("[") and line.endswith("]"):
            current = found.setdefault(line[1:-1], [])
            continue
        key, equals, value = line.partition("=")
        if current is None or not equals or not re.fullmatch("[A-Za-z]+", key):
            raise UnreadableError(f"not an entry: {line!r}")
        current.append((key, value.strip(WHITESPACE)))
    return found


def values(text: str, section: str, key: str) -> list[str]:
    return [value for name, value in sections(text).get(section, []) if name == key]


def exec_start(text: str) -> list[str]:
    """The one command of a service, as the process would get it."""
    [value] = values(text, "Service", "ExecStart")
    words = [_without_variables(without_specifiers(word)) for word in split(value)]
    if not words or not re.match(r"/[^@:+!-]", words[0]):
        raise UnreadableError(f"the program is not a plain path: {words[:1]}")
    return words


def environment(text: str) -> dict[str, str]:
    """The variables of `Environment=`; `$` has no special meaning there."""
    found: dict[str, str] = {}
    for value in values(text, "Service", "Environment"):
        for word in split(value):
            name, equals, content = without_specifiers(word).partition("=")
            if not equals or not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
                raise UnreadableError(f"not an assignment: {word!r}")
            found[name] = content
    return found


def split(text: str) -> list[str]:
    """Words with quotes removed and escapes resolved."""
    words: list[str] = []
    at = 0
    while at < len(text):
        if text[at] in WHITESPACE:
            at += 1
            continue
        word, end = _quoted(text, at) if text[at] in "\"'" else _bare(text, at)
        if end < len(text) and text[end] not in WHITESPACE:
            raise UnreadableError(f"a quote ends within a word: {text!r}")
        words.append(word)
        at = end
    return words


def without_specifiers(word: str) -> str:
    """`%%` is a percent sign; any other `%` would be looked up."""
    found = re.sub("%%", "", word)
    if "%" in found:
        raise UnreadableError(f"has a specifier: {word!r}")
    return word.replace("%%", "%")


def env_file(text: str) -> dict[str, str]:
    """An EnvironmentFile whose values all stand in double quotes on one line."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        if not line or line[0] in "#;":
            if line.endswith("\\"):
                raise UnreadableError(f"a comment that goes on in the next line: {line!r}")
            continue
        name, equals, value = line.partition("=")
        if not equals or not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) or name in found:
            raise UnreadableError(f"not an assignment: {line!r}")
        found[name] = _env_value(value)
    return found


def _quoted(text: str, at: int) -> tuple[str, int]:
    quote, out = text[at], ""
    at += 1
    while at < len(text):
        if text[at] == quote:
            return out, at + 1
        piece, at = _escape(text, at) if text[at] == "\\" else (text[at], at + 1)
        out += piece
    raise UnreadableError(f"a quote does not end: {text!r}")


def _bare(text: str, at: int) -> tuple[str, int]:
    start, out = at, ""
    while at < len(text) and text[at] not in WHITESPACE:
        if text[at] in "\"'":
            raise UnreadableError(f"a quote begins within a word: {text!r}")
        piece, at = _escape(text, at) if text[at] == "\\" else (text[at], at + 1)
        out += piece
    if text[start:at] == ";":
        raise UnreadableError("a second command begins")
    return out, at


def _escape(text: str, at: int) -> tuple[str, int]:
    """The character behind the backslash at `at`, and where reading goes on."""
    kind = text[at + 1 : at + 2]
    if kind in ESCAPES and kind:
        return ESCAPES[kind], at + 2
    digits, base, first = (3, 8, at + 1) if kind.isdigit() else (*NUMBERS.get(kind, (0, 0)), at + 2)
    number = text[first : first + digits]
    if not digits or len(number) < digits:
        raise UnreadableError(f"an unknown escape: {text[at : at + 2]!r}")
    try:
        return chr(int(number, base)), first + digits
    except ValueError:
        raise UnreadableError(f"an unknown escape: {text[at : first + digits]!r}") from None


def _without_variables(word: str) -> str:
    """`$$` is a dollar sign; any other `$` could be a variable."""
    if "$" in re.sub(r"\$\$", "", word):
        raise UnreadableError(f"has a variable: {word!r}")
    return word.replace("$$", "$")


def _env_value(text: str) -> str:
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        raise UnreadableError(f"not in double quotes: {text!r}")
    out, at, inside = "", 0, text[1:-1]
    while at < len(inside):
        if inside[at] == '"':
            raise UnreadableError(f"the quotes end early: {text!r}")
        if inside[at] == "\\":
            if at + 1 == len(inside):
                raise UnreadableError(f"the quotes do not end: {text!r}")
            # Before other characters the backslash stays where it is.
            out += inside[at + 1] if inside[at + 1] in ENV_FILE_ESCAPES else inside[at : at + 2]
            at += 2
        else:
            out += inside[at]
            at += 1
    return out

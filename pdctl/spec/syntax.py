"""What the YAML parser complains about -> a Problem in plain words that never quotes the file."""

from __future__ import annotations

from typing import NamedTuple

from ruamel.yaml.error import MarkedYAMLError, YAMLError

from pdctl.spec.finding import Problem
from pdctl.spec.source import Source


class MalformedError(Exception):
    """The text cannot be read further."""

    def __init__(self, rule: str, offset: int, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.offset = offset
        self.message = message
        self.hint = hint


class Complaint(NamedTuple):
    """A phrase of the parser's, and how we say it; with `start` the place is where the thing begins."""

    phrase: str
    message: str
    hint: str | None = None
    start: bool = False
    rule: str = "SYNTAX001"


INDENT = "check the indentation of this line and the one above"
# ruamel.yaml 0.18 and 0.19, scanner.py and parser.py; the first match counts.
COMPLAINTS = (
    Complaint(
        "found character '\\t'", "a tab is used as indentation", "indent with spaces", rule="SYNTAX014"
    ),
    Complaint(
        "cannot start any token", "a value cannot begin with this character", "put the value in quotes"
    ),
    Complaint(
        "mapping values are not allowed", "a `:` is not expected here", f"{INDENT}, and quote text with `: `"
    ),
    Complaint("sequence entries are not allowed", "a list entry `- ` is not expected here", INDENT),
    Complaint("mapping keys are not allowed", "a key is not expected here", INDENT),
    Complaint("could not find expected ':'", "a key without its `:`", INDENT, start=True),
    Complaint("found unexpected ':'", "a `:` is not expected inside this value", "put the value in quotes"),
    Complaint(
        "unknown escape", "an escape that YAML does not know", "use single quotes, or double the backslash"
    ),
    Complaint(
        "expected escape sequence",
        "an escape without its digits",
        "use single quotes, or double the backslash",
    ),
    Complaint("scanning a quoted scalar", "a quote opens here and is never closed", "close it", start=True),
    Complaint(
        "scanning a double-quoted scalar", "a quote opens here and is never closed", "close it", start=True
    ),
    Complaint("scanning a block scalar", "a `|` or `>` block cannot be read", INDENT),
    Complaint(
        "parsing a flow sequence", "a `[` opens here and its list is not closed or lacks a comma", None, True
    ),
    Complaint(
        "parsing a flow mapping",
        "a `{` opens here and its mapping is not closed or lacks a comma",
        None,
        True,
    ),
    Complaint("expected <block end>", "the line does not fit the lines above", INDENT),
    Complaint(
        "scanning an alias",
        "`*` must be followed by the name of an anchor",
        "quote the value if it is text",
        rule="SYNTAX011",
    ),
    Complaint(
        "scanning an anchor",
        "`&` must be followed by a name",
        "quote the value if it is text",
        rule="SYNTAX011",
    ),
    Complaint("a tag", "tags (`!...`) are not used here", "quote the value if it is text", rule="SYNTAX008"),
    Complaint("a directive", "lines that begin with `%` are not used here", "remove it", rule="SYNTAX013"),
)


def words(error: YAMLError, source: Source) -> Problem:
    """The parser's error in the user's words."""
    if not isinstance(error, MarkedYAMLError):
        return Problem("SYNTAX001", 0, (), "is not valid YAML")
    text = f"{error.problem} {error.context}"
    said = next((c for c in COMPLAINTS if c.phrase in text), Complaint("", "is not valid YAML here"))
    mark = (error.context_mark if said.start else error.problem_mark) or error.problem_mark
    offset = min(mark.index, len(source.text)) if mark else 0
    return Problem(said.rule, offset, (), said.message, said.hint)

"""The reader that the round trips are judged by: the manual's own examples, and what it must refuse."""

from __future__ import annotations

import pytest

from tests.units.reader import (
    UnreadableError,
    env_file,
    environment,
    exec_start,
    sections,
    split,
    without_specifiers,
)


def service(line: str) -> str:
    return f"[Service]\nType=exec\n{line}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"some thing" "something" "..."', ["some thing", "something", "..."]),
        ("a 'b c' \"d'e\"", ["a", "b c", "d'e"]),
        (r'"\a\b\f\n\r\t\v\\\"\'\s"', ["\a\b\f\n\r\t\v\\\"' "]),
        (r'"\x41\101\u0041\U0001f680"', ["AAA🚀"]),
        ('"" x', ["", "x"]),
    ],
)
def test_quotes_and_escapes_are_read_as_in_systemd_syntax(text: str, words: list[str]) -> None:
    assert split(text) == words


@pytest.mark.parametrize("text", ['"a', "'a'b", 'a"b"', r'"\q"', r'"\x4"', r'"\8"', "a ; b", "\\"])
def test_what_systemd_does_not_take_is_refused(text: str) -> None:
    with pytest.raises(UnreadableError):
        split(text)


def test_a_command_line_loses_its_doubled_signs() -> None:
    assert exec_start(service('ExecStart=/bin/x 100%% $$HOME "a $${b} %%n"')) == [
        "/bin/x", "100%", "$HOME", "a ${b} %n",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line", ["/bin/x %n", "/bin/x $HOME", "/bin/x ${HOME}", "-/bin/x", "x", "/bin/x a\\", "/bin/x $"]
)
def test_a_command_line_that_means_more_than_it_says_is_refused(line: str) -> None:
    with pytest.raises(UnreadableError):
        exec_start(service(f"ExecStart={line}"))


def test_environment_is_read_as_in_systemd_exec() -> None:
    text = service('Environment="VAR1=word1 word2" VAR2=word3 "VAR3=$word 5 6"')
    assert environment(text) == {"VAR1": "word1 word2", "VAR2": "word3", "VAR3": "$word 5 6"}
    # The report behind this: `FOO=a b=c` without quotes makes two variables.
    assert environment(service("Environment=FOO=a b=c")) == {"FOO": "a", "b": "c"}


def test_an_environment_file_is_read_as_in_systemd_exec() -> None:
    text = '# comment\n\nA="a b=c"\nB="\\"\\\\\\`\\$ \\n %n"\n'
    assert env_file(text) == {"A": "a b=c", "B": '"\\`$ \\n %n'}


@pytest.mark.parametrize("line", ["A=b", 'A="b', 'A="b"c"', 'A="b\\"', "A B", '1="x"', "# x\\"])
def test_an_environment_file_that_could_be_read_otherwise_is_refused(line: str) -> None:
    with pytest.raises(UnreadableError):
        env_file(line + "\n")


def test_sections_and_comments_are_told_apart() -> None:
    text = "# x\n[Unit]\nA=1\n; y\n\n[Service]\nA = 2\n"
    with pytest.raises(UnreadableError):
        sections(text)  # spaces before `=` are never written
    assert sections(text.replace("A = 2", "A= 2")) == {"Unit": [("A", "1")], "Service": [("A", "2")]}


def test_specifiers_are_told_from_percent_signs() -> None:
    assert without_specifiers("%%%%n") == "%%n"
    with pytest.raises(UnreadableError):
        without_specifiers("%%%n")

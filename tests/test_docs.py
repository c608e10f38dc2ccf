"""The documentation cannot rot: its commands exist, its specs are valid, its links lead somewhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from docs.generate import PAGE, commands, reference
from pdctl.cli.main import app
from pdctl.spec.load import load

ROOT = Path(__file__).parents[1]
PAGES = [p for p in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if p != PAGE]
TARGETS = re.findall(r"^([a-z-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELLS = ("", "sh", "bash", "console", "shell")
INLINE = re.compile(r"`((?:sudo )?(?:pdctl|make) [^`]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
OPERATORS = {"|", "||", "&&", "&", ";", ">", ">>", "<", "(", ")"}


def test_the_reference_page_is_current(request: pytest.FixtureRequest) -> None:
    page = reference()
    if request.config.getoption("--accept"):
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page, "`make golden` writes it anew"


def test_every_command_is_on_the_reference_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    found = [" ".join(words) for words, _ in commands()]
    assert {"pdctl apply", "pdctl lab up"} <= set(found) and len(found) > 20
    assert all(f" `{words}`\n" in page for words in found)


@pytest.mark.parametrize("words", [words for words, _ in commands()], ids=" ".join)
def test_every_command_argument_and_option_says_what_it_is(words: tuple[str, ...]) -> None:
    command: Any = typer.main.get_command(app)
    for name in words[1:]:
        command = command.commands[name]
    assert command.help and command.help.strip().endswith(".")
    for parameter in command.params:
        assert parameter.name == "help" or (parameter.help or "").strip(), parameter.name


def written(page: Path) -> Iterator[str]:
    """Every line of shell and every command in running text; a line may hold several, set apart by spaces."""
    text = page.read_text(encoding="utf-8")
    blocks = [body for language, body in FENCE.findall(text) if language in SHELLS]
    rest = FENCE.sub("", text)
    blocks += re.findall(r"(?:^    .*\n)+", rest, re.MULTILINE)
    for block in blocks:
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            yield from re.split(r"\s{3,}", line.strip())
    yield from INLINE.findall(rest)


def calls(line: str) -> Iterator[list[str]]:
    """The calls of pdctl and make in a line of shell: `[pdctl, diff, --json]`."""
    lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*tokens(lexer), ";"]:
        if word not in OPERATORS:
            words.append(word)
            continue
        while words and (words[0] in ("sudo", "-E", "time") or re.match("[A-Z_]+=", words[0])):
            words.pop(0)
        if words and Path(words[0]).name in ("pdctl", "make"):
            yield [Path(words[0]).name, *words[1:]]
        words = []


def tokens(lexer: shlex.shlex) -> list[str]:
    try:
        return list(lexer)
    except ValueError:  # an apostrophe in a line that is no shell
        return []


def parse(words: list[str]) -> None:
    """Have pdctl's own parser read the call; whatever it does not take is an error."""
    command: Any = typer.main.get_command(app)
    name, rest = "pdctl", list(words[1:])
    while hasattr(command, "commands"):
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        while rest and rest[0].startswith("-"):
            assert rest[0] in known, f"{name} has no option {rest[0]}"
            rest.pop(0)
        if not rest:
            return
        name = rest.pop(0)
        assert name in command.commands, f"there is no command {name}"
        command = command.commands[name]
    if "--help" not in rest:
        command.make_context(name, rest)


def check(words: list[str]) -> None:
    if words[0] == "pdctl":
        return parse(words)
    for word in words[1:]:
        assert word.startswith("-") or "=" in word or word in TARGETS, f"make has no target {word}"


CALLS = [(page.name, call) for page in PAGES for line in written(page) for call in calls(line)]


@pytest.mark.parametrize(("page", "words"), CALLS, ids=[f"{page}: {' '.join(w)}" for page, w in CALLS])
def test_every_command_in_the_documentation_exists_with_its_options(page: str, words: list[str]) -> None:
    check(words)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("pdctl bench --quik", "No such option"),
        ("pdctl aply cluster.yaml", "no command aply"),
        ("pdctl lab upp 2", "no command upp"),
        ("sudo .venv/bin/pdctl lab up two", "valid int"),
        ("pdctl validate a.yaml b.yaml", "unexpected extra argument"),
        ("pdctl --jsn diff", "has no option --jsn"),
        ("pdctl logs", "instance"),
        ("make demo && make tset", "no target tset"),
    ],
)
def test_a_planted_command_is_found(line: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        for call in calls(line):
            check(call)


def test_commands_are_found_wherever_they_stand(tmp_path: Path) -> None:
    page = tmp_path / "x.md"
    page.write_text(
        "Run `pdctl ask x`, or:\n\n    pdctl a   pdctl b # c\n\n"
        "```sh\n$ X=1 sudo pdctl d \\\n    --e | tee f\n```\n```yaml\npdctl: no\n```\n"
    )
    found = [call for line in written(page) for call in calls(line)]
    assert sorted(found) == [["pdctl", "a"], ["pdctl", "ask", "x"], ["pdctl", "b"], ["pdctl", "d", "--e"]]


def test_there_are_commands_to_check() -> None:
    assert len(CALLS) > 30 and {"README.md", "lab.md"} <= {page for page, _ in CALLS}


SPECS = [
    (page.name, body)
    for page in PAGES
    for language, body in FENCE.findall(page.read_text(encoding="utf-8"))
    if language == "yaml" and re.search("^cluster:", body, re.MULTILINE)
]


@pytest.mark.parametrize(("page", "body"), SPECS, ids=[f"{page}-{i}" for i, (page, _) in enumerate(SPECS)])
def test_every_spec_in_the_documentation_is_valid(page: str, body: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(body, encoding="utf-8")
    assert load(path).hosts


def test_every_page_is_reachable_from_the_readme_or_the_index() -> None:
    fronts = [p for p in (ROOT / "README.md", ROOT / "docs" / "index.md") if p.is_file()]
    linked = {(front.parent / link).resolve() for front in fronts for link in links(front)}
    assert [p.name for p in (*PAGES, PAGE) if p.resolve() not in linked and p not in fronts] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    assert [link for link in links(page) if not (page.parent / link).exists()] == []


def links(page: Path) -> list[str]:
    return [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]


def test_every_page_that_the_code_names_is_there() -> None:
    sources = [
        p for folder in ("pdctl", "playbooks", "templates", "tools") for p in (ROOT / folder).rglob("*")
    ]
    texts = {
        p: p.read_text(errors="replace")
        for p in sources
        if p.suffix in ("", ".py", ".yml", ".j2") and p.is_file()
    }
    named = {(name, str(p)) for p, text in texts.items() for name in re.findall(r"docs/[\w-]+\.md", text)}
    assert {name for name, _ in named} >= {"docs/proxy.md"}
    assert [pair for pair in named if not (ROOT / pair[0]).is_file()] == []


def test_make_help_tells_every_target() -> None:
    text = (ROOT / "Makefile").read_text()
    told = re.findall(r"^([a-z-]+):.*##", text, re.MULTILINE)
    assert sorted(told) == sorted(TARGETS) and {"demo", "test", "golden"} <= set(told)

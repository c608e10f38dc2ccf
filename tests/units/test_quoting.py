"""Whatever text a spec may hold, the process gets exactly that: no more words, no other variables."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError
from ruamel.yaml import YAML

from pdctl.desired import desire
from pdctl.desired.engine import model_argument
from pdctl.desired.render import env_file, render, systemd_command
from pdctl.state import File, Unit
from pdctl.topology import resolve
from tests.topology.specs import cluster, serving
from tests.units import reader
from tests.units.hostile import HOSTILE

# Unicode's noncharacters; systemd takes a line that holds one for broken UTF-8 (src/basic/utf8.c).
NONCHARACTERS = [chr(c) for c in range(0xFDD0, 0xFDF0)] + [
    chr(plane * 0x10000 + low) for plane in range(17) for low in (0xFFFE, 0xFFFF)
]
# What a spec may hold: anything but control characters, Unicode's line ends and lone surrogates.
TEXTS = st.text(
    st.characters(
        exclude_categories=("Cc", "Cs", "Zl", "Zp"),
        include_characters="\t",
        exclude_characters="".join(NONCHARACTERS),
    )
)
# The characters that mean something to anyone on the way, far more often than chance would have them.
NASTY = st.text(st.sampled_from("%$\\\"'`{}[]();&|<>!#=:, \t-@+~^*?nHOMEx2F0é🚀"), max_size=12)
WORDS = st.one_of(st.sampled_from(HOSTILE), NASTY, TEXTS)
NAMES = st.text(string.ascii_uppercase + "_", min_size=1, max_size=8).map(lambda name: f"X_{name}")
ARGS = st.lists(WORDS.filter(bool), max_size=5)
VARIABLES = st.dictionaries(NAMES, WORDS, max_size=5)


def engine(args: list[str], env: dict[str, str], **serving_too: Any) -> tuple[Unit, str, str]:
    """The decoder's unit as a resource, its unit file and its environment file."""
    pools = serving(1, 1, 1) | {"decoders": {"extra_args": args, "env": env}} | serving_too
    state = desire(resolve(cluster(serving=pools)))
    texts = {r.path: r.content.decode() for r in state.values() if isinstance(r, File) and r.content}
    [unit] = [r for r in state.values() if isinstance(r, Unit) and r.instance == "decoder-0"]
    return unit, texts[f"/etc/systemd/system/{unit.name}"], texts["/etc/pdctl/chat/decoder-0.env"]


@given(ARGS, VARIABLES)
@example(HOSTILE, {f"X_{i}": text for i, text in enumerate(HOSTILE)})
def test_arguments_and_variables_arrive_as_they_were_written(args: list[str], env: dict[str, str]) -> None:
    unit, unit_file, env_text = engine(args, env)
    words = reader.exec_start(unit_file)
    assert words == list(unit.argv) and words[len(words) - len(args) :] == args
    variables = reader.env_file(env_text)
    assert variables == dict(unit.environment) and env.items() <= variables.items()
    # Nothing that the user wrote made a line of its own.
    plain = engine(["x"], {})
    assert {k: len(v) for k, v in reader.sections(unit_file).items()} == {
        k: len(v) for k, v in reader.sections(plain[1]).items()
    }
    assert variables.keys() == reader.env_file(plain[2]).keys() | env.keys()


@given(st.lists(WORDS.filter(bool), min_size=1))
def test_a_command_line_is_read_back_as_the_same_words(words: list[str]) -> None:
    line = systemd_command(["/bin/x", *words])
    assert reader.exec_start(f"[Service]\nExecStart={line}\n") == ["/bin/x", *words]


@given(VARIABLES)
def test_an_environment_file_is_read_back_as_the_same_variables(env: dict[str, str]) -> None:
    assert reader.env_file(env_file(env)) == env


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\0b", "\x1b[0m", "a\u2028b", "a\x85b"])
@pytest.mark.parametrize("field", ["extra_args", "env"])
def test_what_could_begin_another_line_is_refused_by_the_spec(field: str, text: str) -> None:
    given_value: Any = [text] if field == "extra_args" else {"P": text}
    with pytest.raises(ValidationError) as caught:
        cluster(serving=serving(1, 1, 1) | {"decoders": {field: given_value}})
    assert "one line of text" in str(caught.value)


@pytest.mark.parametrize("text", ["\ufffe", "a\ufdd0", "\U0001ffff"])
def test_noncharacters_are_refused_by_the_spec(text: str) -> None:
    with pytest.raises(ValidationError):
        cluster(serving=serving(1, 1, 1) | {"decoders": {"extra_args": [text]}})


def test_paths_and_names_with_percent_signs_survive() -> None:
    model = {"id": "x/y", "path": "/models/My%20Model $HOME", "served_name": "50%n", "max_model_len": 1024}
    shape = {"layers": 2, "kv_heads": 2, "head_dim": 64}
    topology = resolve(cluster(model=model | {"kv": shape}))
    state = desire(topology)
    units = [r for r in state.values() if isinstance(r, File) and r.path.endswith("-decoder-0.service")]
    words = reader.exec_start((units[0].content or b"").decode())
    assert words[4] == model_argument(topology) == "/models/My%20Model $HOME"
    assert words[words.index("--served-model-name") + 1] == "50%n"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(JSON_VALUES)
@example(
    {"discard_partial_chunks": False, "empty": {}, "text": '{"a": null}', "none": None, "ü": [1.5, "🚀"]}
)
def test_json_in_an_argument_is_the_same_json_in_the_process(value: Any) -> None:
    """No `None`, no `False`, no single quotes: what a JSON parser reads on the host equals what was meant."""
    words = ["/bin/x", "--kv-transfer-config", json.dumps(value, separators=(",", ":"))]
    unit_file = f"[Service]\nExecStart={systemd_command(words)}\n"
    assert json.loads(reader.exec_start(unit_file)[2]) == value


@given(st.lists(st.tuples(st.from_regex(r"[a-z_]{1,12}", fullmatch=True), JSON_VALUES), max_size=4))
@example([("pd_peer_init_port", [7300, 7301]), ("enable_pd", True), ("size", 4841275392), ("host", "::1")])
@example([("timeout", 1e-7), ("big", 1e16), ("list", [1e22, {"x": 2.5e-9}])])
def test_an_lmcache_file_is_read_back_as_the_same_values(rows: list[tuple[str, Any]]) -> None:
    content = {f"{key}{i}": value for i, (key, value) in enumerate(rows)}
    entries = [{"key": key, "value": value, "why": ""} for key, value in content.items()]
    text = render("lmcache/lmcache.yaml.j2", version="0.3.10", role="decoder", entries=entries).decode()
    assert (yaml.safe_load(text) or {}) == content
    assert (YAML(typ="safe", pure=True).load(text) or {}) == content


@given(st.text(st.characters(exclude_categories=("Cc", "Cs", "Z"), exclude_characters="-"), min_size=1))
@example("{{served}}")
@example('"%n\\🚀')
def test_the_proxys_file_holds_names_as_they_were_written(name: str) -> None:
    state = desire(resolve(cluster(model={"id": "openai/gpt-oss-120b", "served_name": name[:64]})))
    [file] = [r for r in state.values() if isinstance(r, File) and r.path.endswith("/proxy.json")]
    assert json.loads(file.content or b"")["model"] == name[:64]


@pytest.mark.parametrize("text", ["%n", "$HOME", "a b", '"', "\\", "it's", ";"])
def test_the_round_trip_notices_text_that_is_not_quoted(text: str) -> None:
    try:
        words = reader.exec_start(f"[Service]\nExecStart=/bin/x {text}\n")
    except reader.UnreadableError:
        return
    assert words != ["/bin/x", text]

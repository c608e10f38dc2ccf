"""proxy.json: what is accepted, and the one line for what is not."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from pdctl.proxy.__main__ import main
from pdctl.proxy.config import load, parse
from pdctl.proxy.typed import ConfigError

GOOD: dict[str, Any] = {
    "cluster": "chat",
    "mode": "disaggregated",
    "connector": "lmcache",
    "listen": {"host": "10.0.0.11", "port": 9100},
    "metrics": {"host": "10.0.0.11", "port": 9101},
    "notification": {"host": "10.0.0.11", "port": 7500},
    "model": "served-name",
    "chunk_size": 256,
    "decode_leg": "original",
    "chat": False,
    "prefillers": [{"name": "prefiller-0", "url": "http://10.0.0.11:7100"}],
    "decoders": [
        {
            "name": "decoder-0",
            "url": "http://10.0.0.12:7200",
            "host": "10.0.0.12",
            "init_ports": [7300],
            "alloc_ports": [7400],
            "slots": 256,
        }
    ],
    "servers": [],
    "limits": {
        "connect_s": 3,
        "prefill_s": 120,
        "notification_s": 30,
        "first_byte_s": 60,
        "queue": 1024,
        "queue_wait_s": 60,
        "body_bytes": 67108864,
    },
}


def changed(path: str, value: Any) -> dict[str, Any]:
    raw: Any = copy.deepcopy(GOOD)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place = raw
    for part in parents:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    loaded: dict[str, Any] = raw
    return loaded


def test_the_whole_of_a_config_is_read() -> None:
    config = parse(GOOD)
    assert str(config.listen) == "10.0.0.11:9100"
    assert config.decoders[0].ranks == 1
    assert config.limits.prefill_s == 120.0
    assert not config.appends


def test_nixl_and_aggregated_need_less() -> None:
    nixl = changed("connector", "nixl")
    for key in ("notification", "chunk_size", "decode_leg", "metrics", "limits", "servers"):
        del nixl[key]
    nixl["decoders"] = [{"name": "d", "url": "http://x:1"}]
    assert parse(nixl).decoders[0].slots == 0
    aggregated = {**nixl, "mode": "aggregated", "connector": None, "prefillers": [], "decoders": []}
    assert parse({**aggregated, "servers": [{"name": "s", "url": "https://x:1/"}]}).mode == "aggregated"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("colour", "red", "colour: unknown key (known: "),
        ("limits.prefil_s", 1, "limits.prefil_s: unknown key"),
        ("prefillers.0.slots", 1, "prefillers[0].slots: unknown key (known: name, url)"),
        ("cluster", ..., "cluster: missing"),
        ("listen.port", "9100", "listen.port: expected a whole number, got '9100'"),
        ("listen.port", True, "listen.port: expected a whole number, got true"),
        ("listen.port", 70000, "listen.port: must be 0-65535, got 70000"),
        ("listen", None, "listen: expected an object, got null"),
        ("mode", "both", "mode: expected one of disaggregated, aggregated, got 'both'"),
        ("mode", "aggregated", "connector: must be null in mode aggregated, got lmcache"),
        ("connector", None, "connector: mode disaggregated needs lmcache or nixl"),
        ("decoders", [], "decoders: mode disaggregated needs at least one"),
        ("decoders", {}, "decoders: expected a list, got an object"),
        ("servers", [{"name": "s", "url": "http://x"}], "servers: must be empty in mode disaggregated"),
        ("notification", None, "notification: connector lmcache needs it"),
        ("chunk_size", 0, "chunk_size: must be above 0"),
        ("decode_leg", ..., "decode_leg: connector lmcache needs it"),
        (
            "decoders.0.init_ports",
            [1, 2],
            "decoders[0]: init_ports and alloc_ports need one port per rank each, got 2 and 1",
        ),
        ("decoders.0.init_ports", ["a"], "decoders[0].init_ports[0]: expected a whole number, got 'a'"),
        ("decoders.0.slots", 0, "decoders[0].slots: must be above 0"),
        ("decoders.0.host", "", "decoders[0].host: connector lmcache needs it"),
        (
            "decoders.0.name",
            "prefiller-0",
            "decoders[0].name: 'prefiller-0' is also the name of prefillers[0]",
        ),
        (
            "decoders.0.url",
            "10.0.0.12:7200",
            "decoders[0].url: expected http://HOST:PORT, got '10.0.0.12:7200'",
        ),
        ("decoders.0.url", "http://u:p@x:1", "decoders[0].url: expected http://HOST:PORT"),
        ("decoders.0.url", "http://x:99999", "decoders[0].url: expected http://HOST:PORT"),
        ("limits.connect_s", 0, "limits.connect_s: must be above 0"),
        ("limits.queue", -1, "limits.queue: must be 0 or more"),
        ("chat", 1, "chat: expected true or false, got 1"),
    ],
)
def test_a_mistake_is_named_with_its_path(path: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(changed(path, value))
    assert str(error.value).startswith(message)


def test_chat_cannot_be_had_with_an_appended_token() -> None:
    with pytest.raises(ConfigError, match="chat: not possible"):
        parse({**GOOD, "chat": True, "decode_leg": "append-first-token"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "the file: expected an object, got a list"),
        ('{"mode": "aggregated", "mode": "aggregated"}', "mode: given twice"),
        (json.dumps({**GOOD, "limits": {"connect_s": float("nan")}}), "limits.connect_s: expected a number"),
    ],
)
def test_a_bad_file_is_one_line_and_exit_code_2(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "proxy.json"
    path.write_text(text)
    assert main(["--config", str(path)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"pdctl_proxy: {path}: " in err
    assert message in err


def test_a_missing_file_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--config", str(tmp_path / "none.json")]) == 2
    assert capsys.readouterr().err.strip().endswith("none.json: No such file or directory")


def test_a_file_on_disk_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "proxy.json"
    path.write_text(json.dumps(GOOD))
    assert load(path).config == parse(GOOD)

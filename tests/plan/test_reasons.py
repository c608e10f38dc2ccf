"""Every change names the lines of the spec that ask for it, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdctl.desired import desire
from pdctl.knowledge.models import KnownModel
from pdctl.plan import make_plan
from pdctl.plan.reasons import DRIFTED, Ground, find_reasons
from pdctl.spec.load import examine
from pdctl.spec.model_files import ModelFiles
from pdctl.state import Key
from pdctl.topology import resolve
from tests.plan.changes import SPEC, Edit, edit, running

SEQS = ("max_num_seqs: 64", "max_num_seqs: 128")
CHUNK = ("chunk_size: 32", "chunk_size: 64")
LESS = ("count: 2\n  decoders", "count: 1\n  decoders")
MORE = ("count: 2\n    max", "count: 3\n    max")


def test_a_field_is_told_with_its_old_and_new_value_and_its_line() -> None:
    [reason] = edit(SEQS).reasons.fields
    assert (reason.text, reason.field, reason.where) == (
        "serving.decoders.max_num_seqs 64 -> 128",
        "serving.decoders.max_num_seqs",
        "cluster.yaml:12",
    )


def test_each_of_several_changed_fields_is_held_to_what_follows_from_it() -> None:
    done = edit(SEQS, CHUNK, LESS, ("WARN", "INFO"))
    count, chunk = "serving.prefillers.count 2 -> 1", "serving.lmcache.chunk_size 32 -> 64"
    seqs, env = "serving.decoders.max_num_seqs 64 -> 128", "serving.decoders.env.NCCL_DEBUG WARN -> INFO"
    assert done.why("/decoder-1.env") == [env]
    assert done.why("/decoder-1.lmcache.yaml") == [chunk]
    assert done.why("/prefiller-0.lmcache.yaml") == [chunk]
    assert done.why("file:/etc/systemd/system/pdctl-chat-decoder-0.service") == [seqs, env, chunk]
    assert done.why("/proxy.json") == [count, chunk]


def test_what_comes_or_goes_follows_from_what_brings_or_removes_it_alone() -> None:
    done = edit(CHUNK, LESS, MORE)
    assert done.why("/prefiller-1.lmcache.yaml") == ["serving.prefillers.count 2 -> 1"]
    assert done.why("/decoder-2.lmcache.yaml") == ["serving.decoders.count 2 -> 3"]


def test_fields_that_make_no_spec_alone_go_together() -> None:
    done = edit(("count: 2\n    max", "count: 3\n    placement: [h1, h2, h1]\n    max"))
    together = ["serving.decoders.count 2 -> 3", "serving.decoders.placement unset -> 3 entries"]
    assert done.why("/decoder-2.env") == together


def test_an_entry_of_a_list_is_told_by_its_place() -> None:
    placed = SPEC.replace(
        "    count: 2\n    max", "    placement: [{host: h1}, {host: h2, ports: {http: 7201}}]\n    max"
    )
    done = edit(("http: 7201", "http: 7211"), spec=placed, earlier=placed)
    [reason] = done.reasons.fields
    assert (reason.text, reason.where) == (
        "serving.decoders.placement[1].ports.http 7201 -> 7211",
        "cluster.yaml:11",
    )
    assert {key.id.split("-")[-1][:1] for key in done.reasons.by_key if "decoder" in key.id} == {"1"}


def test_a_field_that_no_host_is_told_of_is_idle() -> None:
    done = edit(SEQS, ("model:", "slo: {ttft_ms: 300}\nmodel:"))
    assert [reason.field for reason in done.reasons.idle] == ["slo"]
    assert {r.field for reasons in done.reasons.by_key.values() for r in reasons} == {
        "serving.decoders.max_num_seqs"
    }


def test_spelling_a_default_out_changes_nothing() -> None:
    done = edit(("count: 2\n  decoders", "count: 2\n    tensor_parallel: 1\n  decoders"))
    assert done.reasons.fields == () and done.plan.empty


def test_a_host_is_told_by_its_name() -> None:
    third = "  - {name: h3, address: 198.18.0.12}\nengine"
    done = edit(("engine", third), MORE)
    assert (
        done.reasons.fields[0].text == "hosts[h3] added" and done.reasons.fields[0].where == "cluster.yaml:5"
    )
    moved = edit(("198.18.0.11}", "198.18.0.21}"))
    assert moved.reasons.fields[0].text == "hosts[h2].address 198.18.0.11 -> 198.18.0.21"
    assert moved.reasons.fields[0].where == "cluster.yaml:4"


def test_beyond_a_bound_nothing_is_told_apart() -> None:
    more = ", ".join(f"NCCL_X{i}: a" for i in range(30))
    done = edit(("NCCL_DEBUG: WARN", f"NCCL_DEBUG: WARN, {more}"))
    assert done.why("/decoder-1.env") == ["one of 30 fields of the spec that changed"]


def test_a_prefiller_with_stale_peers_restarts_for_what_restarts_its_decoders() -> None:
    spec = SPEC.replace("engine: simulator", "engine: {kind: simulator, simulator: {stale_peers: true}}")
    done = edit(("WARN", "INFO"), spec=spec, earlier=spec)
    assert "prefiller-0" in {restart.instance for restart in done.plan.restarts}
    assert done.why("unit:pdctl-chat-prefiller-0.service") == ["serving.decoders.env.NCCL_DEBUG WARN -> INFO"]


@pytest.mark.parametrize(
    ("end", "field", "where"),
    [
        ("unit:pdctl-chat-decoder-0.service", "serving.decoders", "cluster.yaml:10"),
        ("/prefiller-1.env", "serving.prefillers", "cluster.yaml:8"),
        ("/proxy.json", "serving", "cluster.yaml:7"),
    ],
)
def test_a_first_apply_names_the_section_that_asks(end: str, field: str, where: str) -> None:
    done = first()
    [found] = [reasons for key, reasons in done.reasons.by_key.items() if key.id.endswith(end)]
    assert [(reason.field, reason.where) for reason in found] == [(field, where)]


def first() -> Edit:
    """Nothing is there yet, and no spec was applied."""
    plain = edit()
    plan = make_plan(plain.topology, plain.desired, {}, {})
    ground = Ground(plain.topology, plain.reading, plain.desired)
    return replace(plain, plan=plan, reasons=find_reasons(plan, ground))


def test_a_host_that_the_last_apply_left_out_is_held_against_the_spec_it_was_brought_to() -> None:
    done = edit(SEQS)
    texts = {"h1": done.reading.text.source.text, "h2": SPEC}
    ground = Ground(done.topology, done.reading, done.desired, earlier=texts["h1"], of_hosts=texts)
    found = find_reasons(done.plan, ground)
    assert [r.text for r in found.by_key[Key("h2", "unit:pdctl-chat-decoder-0.service")]] == [
        "serving.decoders.max_num_seqs 64 -> 128"
    ]
    assert [r.text for r in found.fields] == ["serving.decoders.max_num_seqs 64 -> 128"] and not found.idle
    [own] = found.by_key[Key("h1", "unit:pdctl-chat-decoder-1.service")]
    assert own.text == "serving.decoders"


def test_units_change_for_rotated_secrets_that_no_field_tells_of() -> None:
    spec = SPEC.replace("model:", "secrets: {MY_KEY: {from_env: MY_KEY}}\nmodel:")
    plain = edit(spec=spec, earlier=spec)
    wanted = desire(plain.topology, "scrypt:new")
    plan = make_plan(plain.topology, wanted, plain.observed, plain.observed)
    found = find_reasons(plan, Ground(plain.topology, plain.reading, wanted, "scrypt:new", earlier=spec))
    by_end = {key.id.split("/")[-1]: [r.text for r in reasons] for key, reasons in found.by_key.items()}
    assert by_end["unit:pdctl-chat-decoder-0.service"] == ["secrets"] == by_end["secrets.env"]
    assert by_end["pdctl-chat-decoder-0.service"] == ["secrets"]


def test_another_pdctl_renders_otherwise() -> None:
    """The spec has not changed; the hosts hold something else, as the last pdctl left it."""
    done = edit(SEQS, earlier=SPEC.replace(*SEQS), version="0.3")
    assert done.why("unit:pdctl-chat-decoder-0.service") == ["pdctl 0.2 -> 0.3 renders it otherwise"]


def test_another_lock_is_the_reason_where_no_field_of_the_spec_is() -> None:
    done = edit(SEQS, earlier=SPEC.replace(*SEQS))
    ground = Ground(done.topology, done.reading, done.desired, earlier=SPEC.replace(*SEQS), relocked=True)
    found = find_reasons(done.plan, ground)
    (reason,) = found.by_key[Key("h2", "unit:pdctl-chat-decoder-0.service")]
    assert (reason.text, reason.where) == ("cluster.lock changed", "cluster.lock")


def test_drift_is_a_reason_of_its_own() -> None:
    plain = edit()
    key = Key("h1", "file:/etc/pdctl/chat/proxy.json")
    observed = {**plain.observed, key: replace(plain.observed[key], mode="0666")}
    plan = make_plan(plain.topology, plain.desired, observed, plain.observed)
    found = find_reasons(plan, Ground(plain.topology, plain.reading, plain.desired, earlier=SPEC))
    assert [reason.text for reason in found.by_key[key]] == [DRIFTED]


def test_an_earlier_spec_that_is_none_any_more_gives_no_reason() -> None:
    done = edit(SEQS, earlier="cluster: chat\nnonsense: 1\n")
    assert done.reasons.fields == () and done.why("unit:pdctl-chat-decoder-0.service") == ["serving.decoders"]


def test_values_that_could_be_secrets_are_not_told() -> None:
    done = edit(("NCCL_DEBUG: WARN", "NCCL_DEBUG: WARN, WEBHOOK: 'https://x/?api_key=a1b2c3'"))
    assert done.reasons.fields[0].text == "serving.decoders.env.WEBHOOK added: ***"


def test_fields_are_told_apart_where_only_the_models_own_file_tells_its_shape() -> None:
    before = SPEC.replace("pdctl/tiny", "acme/x")
    reading = examine(before.replace(*SEQS).replace("WARN", "INFO"), "cluster.yaml")
    files = ModelFiles("/models/x/config.json", KnownModel(4, 8, 64, 2, 4096))
    topology = resolve(reading.cluster, files)
    desired, old = desire(topology), running(desire(resolve(examine(before, "old").cluster, files)))
    plan = make_plan(topology, desired, old, old)
    found = find_reasons(plan, Ground(topology, reading, desired, earlier=before))
    [reasons] = [some for key, some in found.by_key.items() if key.id.endswith("/decoder-1.env")]
    assert [reason.text for reason in reasons] == ["serving.decoders.env.NCCL_DEBUG WARN -> INFO"]

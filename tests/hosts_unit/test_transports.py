"""What the UCX of an engine offers, against what the spec wants of it."""

from __future__ import annotations

from typing import Any

import pytest

from pdctl.hosts.questions import questions
from pdctl.hosts.ready import Deep, Rdma, Ucx
from pdctl.knowledge.transports import chosen, lacking
from pdctl.spec.load import inspect
from pdctl.topology.judge import judge
from tests.hosts_unit.test_suitability import SPEC, found, told
from tests.spec.breaking import sound_but_for

# As UCX 1.23 of the nixl wheel names them on a host without RDMA and CUDA.
PLAIN = {"self": ("memory",), "tcp": ("eth0", "lo"), "sysv": ("memory",), "cma": ("memory",)}
CUDA = {**PLAIN, "cuda_copy": ("cuda",), "cuda_ipc": ("cuda",)}
WHOLE = {**CUDA, "rc_mlx5": ("mlx5_0:1", "mlx5_1:1"), "ud_mlx5": ("mlx5_0:1", "mlx5_1:1")}
TWO = (
    "hosts:\n- {name: gpu01, address: 10.0.0.11, gpus: {count: 8, model: H100-SXM-80GB}%s}\n"
    "- {name: gpu02, address: 10.0.0.12, gpus: {count: 8, model: H100-SXM-80GB}}\n"
    "stack: article-2025\nmodel: {id: openai/gpt-oss-20b}\n"
)
ROCE = ", network: {gbit: 400, kind: roce}"
NIC = ", nics: [{name: mlx5_1, gpus: [0, 1, 2, 3, 4, 5, 6, 7]}]"


def rules(spec: str, offered: dict[str, tuple[str, ...]], name: str = "prefiller-0") -> list[tuple[str, str]]:
    ucx = {name: Ucx("UCX 1.23.0 of the nixl wheel", offered)}
    return [row for row in told(found(spec, deep=Deep(ucx=ucx))) if row[0] > "FACT035"]


def engines(tls: str) -> str:
    return (
        SPEC
        + f"serving: {{prefillers: {{env: {{UCX_TLS: '{tls}'}}}}, decoders: {{env: {{UCX_TLS: '{tls}'}}}}}}\n"
    )


def test_a_whole_ucx_is_silent_on_one_host_and_between_two() -> None:
    assert rules(SPEC, WHOLE) == [] and rules(SPEC, CUDA) == []
    assert rules(TWO % "", WHOLE) == [] and rules(TWO % ROCE, WHOLE) == [] and rules(TWO % NIC, WHOLE) == []
    assert rules(TWO % "", CUDA) == []  # nobody asked for RDMA


def test_a_ucx_without_cuda_lacks_each_name_that_is_asked_for() -> None:
    ((rule, message),) = rules(SPEC, PLAIN)
    assert rule == "FACT038"
    assert "gpu01 has no cuda_ipc, cuda_copy for prefiller-0 (UCX_TLS is `cuda_ipc,cuda_copy,tcp`)" in message
    assert "its UCX 1.23.0 of the nixl wheel offers self, tcp, sysv, cma" in message


@pytest.mark.parametrize(
    ("tls", "missing"),
    [
        ("^cuda_ipc", "cuda_ipc"),
        ("^tcp", ""),
        ("all", ""),
        ("cuda,tcp", ""),
        ("cuda_copy,cuda_ipc,rc", ""),
        ("cuda_copy,cuda_ipc,dc", "dc"),
        ("cuda_copy,tcp", "cuda_ipc"),  # on one host GPUs talk over it
    ],
)
def test_exclusions_and_short_names_count_as_ucx_counts_them(tls: str, missing: str) -> None:
    messages = [message for rule, message in rules(engines(tls), WHOLE) if rule == "FACT038"]
    assert [f"has no {missing} for prefiller-0" in message for message in messages] == (
        [True] if missing else []
    )


@pytest.mark.parametrize(
    ("more", "offered", "says"),
    [
        (ROCE, CUDA, "has no RDMA transport for prefiller-0, which the spec wants"),
        (NIC, {**CUDA, "rc_mlx5": ("mlx5_0:1",)}, "has no RDMA transport on mlx5_1:1 for prefiller-0"),
    ],
)
def test_rdma_that_the_spec_wants_must_be_there_on_its_nic(
    more: str, offered: dict[str, tuple[str, ...]], says: str
) -> None:
    ((rule, message),) = rules(TWO % more, offered)
    assert rule == "FACT037" and says in message and "KV would go over tcp" in message


def test_a_peermem_that_the_kernel_did_not_take_is_told_in_its_words() -> None:
    said = "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client"
    ((rule, message),) = told(found(rdma=Rdma("OFED-internal-25.04-0.6.1", said)))
    assert rule == "FACT036" and f"`{said}`" in message and message.startswith("gpu01 ")


def test_engines_are_asked_about_as_their_user_with_their_variables() -> None:
    def asked(spec: str) -> dict[str, Any]:
        rows: dict[str, Any] = questions(judge(inspect(sound_but_for(spec), "c")).sound())["gpu01"]["ucx"]
        return rows

    row = asked(SPEC)["prefiller-0"]
    assert row["user"] == "pdctl" and row["python"].startswith("/opt/pdctl/venvs/engine-cuda-")
    assert row["env"]["UCX_TLS"] == "cuda_ipc,cuda_copy,tcp" and "CUDA_VISIBLE_DEVICES" in row["env"]
    assert "HOME" not in row["env"]
    lab = "hosts: [{name: gpu01, address: 198.18.0.10}]\nengine: simulator\nmodel: {id: pdctl/tiny}\n"
    assert asked(lab) == {}


def test_what_is_left_and_what_lacks() -> None:
    assert chosen("rc,cuda", WHOLE) == {"rc_mlx5", "cuda_copy", "cuda_ipc"}
    assert not chosen("^cuda", WHOLE) & {"cuda_copy", "cuda_ipc"}
    assert chosen("", PLAIN) == set(PLAIN) and chosen("^sm,tcp", PLAIN) == {"self"}
    assert lacking("\\\\rc_verbs,tcp,sm", WHOLE) == ["\\\\rc_verbs"]

"""cluster.yaml as types: what the user may write. Defaults that depend on other facts are filled later."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from pdctl.spec.hardware import Gpus, Network, Nic
from pdctl.spec.repository import Repository
from pdctl.spec.serving import Serving
from pdctl.spec.values import (
    AbsolutePath,
    Address,
    Commit,
    DebVersion,
    EnvName,
    FileName,
    HostName,
    JumpHosts,
    Labels,
    ModelId,
    Name,
    Package,
    Port,
    Positive,
    PythonVersion,
    Reason,
    Release,
    RuleId,
    Section,
    SshFile,
    Word,
    optional,
)


class Ssh(Section):
    """How pdctl and Ansible reach the hosts."""

    user: Word | None = Field(None, description="Login name; default: what ssh would use.")
    port: Port | None = Field(None, description="SSH port; default: what ssh would use.")
    key: SshFile | None = Field(None, description="Private key file; default: agent and ~/.ssh/config.")
    jump: JumpHosts | None = Field(None, description="Jump host, as `user@host:port`.")
    config: SshFile | None = Field(
        None, description="ssh_config file, relative to this file; default ~/.ssh/config."
    )
    known_hosts: SshFile | None = Field(None, description="known_hosts file; default ~/.ssh/known_hosts.")
    connection: Literal["ssh", "local"] = Field(
        "ssh", description="`local` works on this very machine, without ssh."
    )
    become: bool = Field(True, description="Use sudo (without a password) for changes.")


def _gpus(value: Any) -> Any:
    return {"count": value} if isinstance(value, int) and not isinstance(value, bool) else value


class Host(Section):
    """One machine."""

    name: HostName = Field(description="Name used in this file, in plans and in logs.")
    address: Address | None = Field(None, description="Where ssh and clients reach it; default: its name.")
    private_address: Address | None = Field(
        None, description="Address other hosts send KV and requests to; default: `address`."
    )
    os: Literal["debian-12", "ubuntu-22.04", "ubuntu-24.04"] | None = Field(
        None,
        description="What it runs; default: `ubuntu-22.04` with GPUs,"
        " `debian-12` with the CPU engine or the simulator.",
    )
    interface: Word | None = Field(None, description="Network interface of `private_address`, e.g. `eth0`.")
    gpus: Annotated[Gpus, BeforeValidator(_gpus)] = optional(
        "A number, or `{count, model, memory_gib, pci}`.", count=0
    )
    nics: list[Nic] = Field(
        [],
        max_length=64,
        description="RDMA NICs and the GPUs near them: an engine keeps to those of its GPUs."
        " `validate --hosts` prints what to write.",
    )
    network: Network | None = Field(
        None, description="What carries KV to other hosts, to tell whether it keeps up with the prefillers."
    )
    labels: Labels = Field({}, description="Free labels; a pool can select hosts by them.")
    ssh: Ssh | None = Field(None, description="Overrides the cluster's `ssh` for this host, whole.")


class Stack(Section):
    """Version pins. `base` names a shipped set; single pins override it. All are quoted text."""

    base: Word | None = Field(None, description="A shipped set of pins, e.g. `article-2025`.")
    driver: DebVersion | None = Field(None, description="NVIDIA driver package version.")
    driver_package: Package | None = Field(None, description="Driver package name.")
    fabricmanager: DebVersion | None = Field(None, description="Fabric Manager package version.")
    nvlsm: DebVersion | None = Field(
        None,
        description="NVLink subnet manager's package version, for boards that need it (B200, B300); default:"
        " the repository's newest when it is installed, held from then on.",
    )
    kernel: Package | None = Field(
        None, description="Kernel that hosts shall run, as `uname -r` says it, held with headers and modules."
    )
    kernel_headers: Package | None = Field(
        None,
        description="Metapackage of the kernel headers that the driver's modules are built with, for hosts"
        " with another kernel than their system's generic one, e.g. `linux-headers-generic-hwe-22.04`.",
    )
    cuda: DebVersion | None = Field(None, description="CUDA toolkit component version.")
    doca_ofed: DebVersion | None = Field(None, description="DOCA-OFED version.")
    ucx: Release | None = Field(
        None,
        description="UCX version, for NIXL built from source; this version of pdctl installs the nixl wheel,"
        " which brings its own.",
    )
    nixl: Release | None = Field(None, description="NIXL wheel version.")
    nixl_commit: Commit | None = Field(
        None,
        description="NIXL git commit, for NIXL built from source; this version of pdctl installs the nixl"
        " wheel.",
    )
    lmcache: Release | None = Field(None, description="LMCache version.")
    vllm: Release | None = Field(None, description="vLLM version.")
    torch: Release | None = Field(None, description="PyTorch version.")
    python: PythonVersion | None = Field(None, description='Python of the serving environment, e.g. "3.12".')


def _stack(value: Any) -> Any:
    return {"base": value} if isinstance(value, str) else value


def _bytes(value: Any) -> Any:
    if isinstance(value, bool):  # True equals 1
        raise ValueError("must be 1, 2 or 4")
    return value


class KvShape(Section):
    """The part of a model's config.json that sets the size of its KV cache."""

    layers: Positive = Field(description="num_hidden_layers.")
    kv_heads: Positive = Field(description="num_key_value_heads.")
    head_dim: Positive = Field(description="head_dim, or hidden_size / num_attention_heads.")
    bytes_per_value: Annotated[Literal[1, 2, 4], BeforeValidator(_bytes)] = Field(
        2, description="2 for bf16/fp16 KV, 1 for fp8, 4 for float32."
    )
    mla: bool = Field(
        False, description="True for multi-head latent attention (one tensor instead of K and V)."
    )


class Model(Section):
    """What is served."""

    id: ModelId = Field(description="Hugging Face id, or the built-in `pdctl/tiny` random-weight model.")
    path: AbsolutePath | None = Field(
        None,
        description="Folder on the hosts; default: loaded by id. Its config.json counts if it is here too.",
    )
    revision: Word | None = Field(None, description="Pinned revision of the weights.")
    served_name: Word | None = Field(None, description="Name in requests; default: `id`.")
    max_model_len: int | None = Field(None, ge=16, description="Longest prompt plus answer, tokens.")
    # vLLM 0.32.0 config/model.py, ModelDType
    dtype: Literal["auto", "half", "float16", "bfloat16", "float", "float32"] | None = Field(
        None, description="Weight dtype; default: the engine's choice."
    )
    vocabulary: FileName | None = Field(
        None,
        description="Folder on this machine, relative to this file, with vocabulary files that engines else"
        " download (gpt-oss: `o200k_base.tiktoken`); pdctl puts them on the hosts.",
    )
    kv: KvShape | None = Field(
        None, description="Needed for models that pdctl does not know, nor finds here."
    )


class SimulatorTiming(Section):
    """What the engine simulator pretends; its numbers mean nothing about real hardware."""

    prefill_tokens_per_s: float = Field(20000.0, gt=0, description="Prefill speed.")
    itl_ms: float = Field(5.0, ge=0, description="Time per output token, alone.")
    kv_gib_per_s: float = Field(10.0, gt=0, description="KV transfer speed.")
    start_s: float = Field(0.0, ge=0, description="Pretended load time.")
    stale_peers: bool = Field(
        False, description="Play LMCache's habit of never renewing a decoder's addresses."
    )
    stack: bool = Field(False, description="Install what `stack` pins of driver and kernel, to rehearse it.")


class Engine(Section):
    """Which program serves."""

    kind: Literal["vllm", "simulator"] = Field(
        "vllm", description="`simulator` pretends, for labs and tests."
    )
    device: Literal["cuda", "cpu"] = Field("cuda", description="`cpu` runs real vLLM on CPU, for evaluation.")
    simulator: SimulatorTiming = optional("Timing of the simulator.")


def _engine(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


class Secret(Section):
    """A secret by reference; its value is read on the controller when a playbook runs, and never kept."""

    from_env: EnvName | None = Field(None, description="Environment variable of the controller.")
    from_file: FileName | None = Field(None, description="File on the controller.")


class Slo(Section):
    """Targets. A request meets the SLO when it meets all that are given."""

    ttft_ms: float | None = Field(None, gt=0, description="Time to first token.")
    tpot_ms: float | None = Field(None, gt=0, description="Time per output token after the first.")
    itl_p99_ms: float | None = Field(None, gt=0, description="99th percentile over all gaps between tokens.")
    e2el_ms: float | None = Field(None, gt=0, description="End-to-end latency.")
    attainment: float = Field(0.9, gt=0, le=1, description="Share of requests that must meet it.")


class Bench(Section):
    """Load of `pdctl bench --quick`; absent fields take the preset of the engine."""

    input_len: Positive | None = Field(None, description="Prompt tokens.")
    output_len: Positive | None = Field(None, description="Output tokens.")
    concurrency: Positive | None = Field(None, description="Requests in flight.")
    num_prompts: int | None = Field(None, ge=1, le=100000, description="Requests in all.")
    seed: int | None = Field(None, description="Seed of the prompts; default: the time.")


class Apt(Section):
    """The package manager of the hosts: where packages come from, and how long to wait."""

    repositories: list[Repository] = Field(
        [],
        max_length=32,
        description="Repositories that pdctl adds on hosts with engines, beside the hosts' own.",
    )

    lock_timeout_s: int = Field(
        600,
        ge=1,
        le=86400,
        description="How long to wait for somebody else who holds a lock of apt or dpkg, such as an"
        " unattended upgrade; then the host fails, and the lock and its holder are left alone.",
    )
    fetch_timeout_s: int = Field(
        1800,
        ge=1,
        le=86400,
        description="The most that fetching package lists, or the packages of one apply, may take.",
    )


class Generations(Section):
    """What the hosts keep of earlier applies, for `pdctl history` and `pdctl rollback`."""

    keep: int = Field(
        10, ge=1, le=1000, description="How many; older ones go with the next apply, their environments too."
    )


class Suppression(Section):
    """A rule that does not apply to this cluster, and why."""

    rule: RuleId = Field(description="Id of the rule, as in docs/rules.md.")
    reason: Reason = Field(description="Why it does not apply here, for the next reader.")


class Cluster(Section):
    """One serving system on one set of hosts."""

    cluster: Name = Field(description="Name of the cluster: units, folders and records carry it.")
    ssh: Ssh = optional("How the hosts are reached.")
    hosts: list[Host] = Field(min_length=1, max_length=2000, description="The machines.")
    offline: bool = Field(
        False, description="The hosts have no way to the internet: engines must have all they need there."
    )
    stack: Annotated[Stack, BeforeValidator(_stack)] = optional("Version pins: a name, or a mapping.")
    engine: Annotated[Engine, BeforeValidator(_engine)] = optional(
        "vllm (default) or simulator; a name, or a mapping."
    )
    model: Model = Field(description="Which model is served.")
    serving: Serving = Field(description="How it is served: roles, counts, placement, ports.")
    secrets: dict[EnvName, Secret] = Field(
        {}, max_length=64, description="Environment variables of the engines, by reference."
    )
    slo: Slo | None = Field(None, description="Service level objective.")
    bench: Bench = optional("Defaults of the benchmark.")
    apt: Apt = optional("The package manager of the hosts: its repositories, its limits.")
    generations: Generations = optional("What the hosts keep of earlier applies.")
    suppress: list[Suppression] = Field(
        [], max_length=64, description="Rules that do not apply to this cluster, each with its reason."
    )

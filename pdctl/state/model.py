"""The kinds of resource a host can hold, and what makes two of them differ.

Fields that take part in comparison say what must be true on the host. Fields marked `compare=False` are
the means to get there (bytes, sources, arguments): only the desired side has them, and the record does
not keep them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple


class Key(NamedTuple):
    """Where a resource lives and what it is: `("h1", "file:/etc/pdctl/chat/decoder-0.yaml")`."""

    host: str
    id: str


@dataclass(frozen=True)
class User:
    """A system user and its group of the same name, without a login shell."""

    name: str
    home: str
    shell: str = "/usr/sbin/nologin"

    @property
    def id(self) -> str:
        return f"user:{self.name}"


@dataclass(frozen=True)
class Directory:
    """A directory; `mode` is four octal digits as text."""

    path: str
    owner: str = "root"
    group: str = "root"
    mode: str = "0755"

    @property
    def id(self) -> str:
        return f"directory:{self.path}"


@dataclass(frozen=True)
class File:
    """A file. `digest` is `sha256:...` of its bytes, or `scrypt:...` for a secret (see `state.digest`).

    Desired files carry their bytes in `content`, or `source`: a path inside the bundle, or, for a secret,
    `secret_env`: (variable, where the controller finds its value) pairs; the values are never held here.
    """

    path: str
    digest: str
    owner: str = "root"
    group: str = "root"
    mode: str = "0644"
    secret: bool = False
    content: bytes | None = field(default=None, compare=False, repr=False)
    source: str | None = field(default=None, compare=False)
    secret_env: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @property
    def id(self) -> str:
        return f"file:{self.path}"


@dataclass(frozen=True)
class Package:
    """An installed Debian package. `version` None in the desired state means any version will do.

    `deb` names the file inside the bundle it is installed from; None means the host's own repositories.
    `family` are names (as in a shell) of what must be of the same upstream version wherever it is installed,
    and is held with it, but for names in `strangers`; `deviations` tell in words what of it is not.
    """

    name: str
    version: str | None = None
    hold: bool = False
    deviations: tuple[str, ...] = ()
    deb: str | None = field(default=None, compare=False)
    family: tuple[str, ...] = field(default=(), compare=False, repr=False)
    strangers: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def id(self) -> str:
        return f"package:{self.name}"


@dataclass(frozen=True)
class Venv:
    """A Python environment. `digest` is that of its lock; `damage` names files that are not as installed.

    `wheels` are file names inside the bundle; empty means that the pins in `requirements` are resolved by
    the host's own index. `proof` stands for what was imported from it as its services would; `proofs` are
    these trials, as JSON.
    """

    path: str
    digest: str
    python: str
    damage: tuple[str, ...] = ()
    proof: str = ""
    requirements: tuple[str, ...] = field(default=(), compare=False, repr=False)
    wheels: tuple[str, ...] = field(default=(), compare=False, repr=False)
    proofs: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def id(self) -> str:
        return f"venv:{self.path}"


@dataclass(frozen=True)
class Weights:
    """A model's files in one folder, of one revision; `damage` names those that are not as they must be.

    `repo` is where they come from; a folder that is `given` is somebody else's to fill, and only looked at.
    `tool` is the environment whose huggingface_hub fetches them as `owner`, with the variables of
    `environment` and a token out of the file `secrets`. `manifest` (JSON) says what each file must be.
    """

    path: str
    revision: str
    damage: tuple[str, ...] = ()
    repo: str = field(default="", compare=False)
    given: bool = field(default=False, compare=False)
    offline: bool = field(default=False, compare=False)
    tool: str = field(default="", compare=False)
    owner: str = field(default="root", compare=False)
    environment: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    secrets: str = field(default="", compare=False)
    manifest: str = field(default="", compare=False, repr=False)

    @property
    def id(self) -> str:
        return f"weights:{self.path}"


@dataclass(frozen=True)
class Unit:
    """A systemd service and the process behind it.

    `revision` is the digest of everything the process was started from (unit text, config files, runtime);
    the unit hands it to its process, so the value read from a running process tells whether it is stale.
    `deviations` says how the running process differs from what its unit asks for (a drop-in, an edited
    environment, a forgotten daemon-reload). `invocation` is systemd's id of the current run: it tells a
    restart that happened outside pdctl, and only drift looks at it. `inputs` are the ids of the resources
    the process reads; `restart` is the plan's order to restart although the unit itself looks right.
    `ports` are those that a process listens on which is not the wanted one: another may need them. `crashes`
    counts how often systemd has started it again since somebody started it. `limits` are the least that its
    process must have, by their names in /proc/PID/limits. With `fabric_s` it is
    started only once the NVLink fabric has taken in all GPUs of its host, which may last so many seconds.

    Only the proxy has these, and tells them on its `control` socket: `loaded` is the digest of the
    configuration it has read, of which a part is taken up without a restart; `drained` are instances that it
    gives no new requests, `sides` those that it keeps apart from the others (docs/proxy.md).
    """

    name: str
    enabled: bool = True
    active: str = "active"
    revision: str = ""
    deviations: tuple[str, ...] = ()
    loaded: str = ""
    drained: tuple[str, ...] = ()
    sides: tuple[str, ...] = ()
    invocation: str = field(default="", compare=False)
    instance: str = field(default="", compare=False)
    role: str = field(default="", compare=False)
    argv: tuple[str, ...] = field(default=(), compare=False, repr=False)
    environment: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    secret_names: tuple[str, ...] = field(default=(), compare=False)
    limits: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    health_url: str = field(default="", compare=False)
    health_s: int = field(default=0, compare=False)
    fabric_s: int = field(default=0, compare=False)
    inputs: tuple[str, ...] = field(default=(), compare=False)
    restart: bool = field(default=False, compare=False)
    control: str = field(default="", compare=False)
    ports: tuple[int, ...] = field(default=(), compare=False)
    crashes: int = field(default=0, compare=False)

    @property
    def id(self) -> str:
        return f"unit:{self.name}"


Resource = User | Directory | File | Package | Venv | Weights | Unit
State = Mapping[Key, Resource]

KINDS: dict[str, type[Resource]] = {
    "user": User,
    "directory": Directory,
    "file": File,
    "package": Package,
    "venv": Venv,
    "weights": Weights,
    "unit": Unit,
}


# Fields of a unit that are its process's.
OF_A_PROCESS = ("revision", "loaded", "drained", "sides")


def key_of(host: str, resource: Resource) -> Key:
    return Key(host, resource.id)


def kind_of(resource: Resource) -> str:
    return resource.id.split(":", 1)[0]


def difference(want: Resource, have: Resource) -> tuple[str, ...]:
    """Which fields of `have` are not as `want` asks, as `mode 0644 -> 0640`; empty when all is well."""
    if want == have:  # almost always, and a plan for 1,000 hosts asks a hundred thousand times
        return ()
    return tuple(
        _words(name, getattr(have, name), getattr(want, name))
        for name in compared(want)
        if getattr(want, name) != getattr(have, name, None) and not _does_not_count(want, have, name)
    )


def _does_not_count(want: Resource, have: Resource, name: str) -> bool:
    if isinstance(want, Package):
        return name == "version" and want.version is None
    if isinstance(want, Venv):
        return name == "proof" and not want.proof
    if not isinstance(have, Unit) or name not in OF_A_PROCESS:
        return False
    # A process that does not run says nothing, and a record from before this field asks for nothing.
    return not have.revision or (name == "loaded" and not getattr(want, name))


def compared(resource: Resource) -> tuple[str, ...]:
    """The names of the fields that take part in comparison."""
    return _COMPARED[type(resource)]


_COMPARED: dict[type, tuple[str, ...]] = {
    kind: tuple(f.name for f in fields(kind) if f.compare) for kind in KINDS.values()
}


def _words(name: str, have: Any, want: Any) -> str:
    if name == "digest":
        return "content"
    if name in ("damage", "deviations"):
        return "; ".join(have) or f"{name} expected"
    if name == "proof":
        return "its imports have not been tried as its services start it"
    if name == "revision":
        return "runs with an older configuration"
    if name == "loaded":
        return "works with another list of instances" if have else "its control socket does not answer"
    if name in ("drained", "sides"):
        word = "drained" if name == "drained" else "kept apart"
        return "; ".join([*_said(have, want, f"is {word}"), *_said(want, have, f"is not {word}")])
    return f"{name} {_plain(have)} -> {_plain(want)}"


def _said(these: Collection[str], those: Collection[str], what: str) -> list[str]:
    return [f"{name} {what}" for name in these if name not in those]


def _plain(value: Any) -> str:
    return "yes" if value is True else "no" if value is False else str(value)

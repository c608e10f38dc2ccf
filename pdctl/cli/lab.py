"""`pdctl lab`: virtual hosts on this machine, made, broken and removed."""

from __future__ import annotations

import json as jsonlib
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pdctl.lab import Lab, LabStatus

lab_app = typer.Typer(
    name="lab",
    help="Virtual hosts on this machine, to try pdctl on without a GPU server.",
    no_args_is_help=True,
)

Directory = Annotated[Path, typer.Option("--dir", help="Where the lab keeps its state.")]
Cache = Annotated[
    Path | None,
    typer.Option(help="Where base trees are kept between labs. Default: ~/.cache/pdctl/lab."),
]
Host = Annotated[str, typer.Argument(help="A host of the lab, e.g. h1.")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait for ssh.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
HERE = Path(".pdctl/lab")


@lab_app.command()
def build(
    suite: Annotated[str | None, typer.Option(help="Release of the hosts. Default: bookworm.")] = None,
    looks_like: Annotated[
        str, typer.Option(help="Ubuntu release the hosts pretend to be: none, jammy or noble.")
    ] = "none",
    force: Annotated[bool, typer.Option("--force", help="Build again even if the cache has one.")] = False,
    directory: Directory = HERE,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Choose the base tree of the hosts to come and build it if the cache has none."""
    tree = str(_lab(directory, cache).build(suite, looks_like, force))
    _print({"tree": tree} if json else tree)


@lab_app.command()
def up(
    count: Annotated[int, typer.Argument(help="Number of hosts.")] = 2,
    prefix: Annotated[str, typer.Option(help="Hosts are called PREFIX1, PREFIX2, ...")] = "h",
    bind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SRC:DST", help="Show a path of this machine read-only in every host. Repeatable."
        ),
    ] = None,
    timeout: Timeout = 60.0,
    directory: Directory = HERE,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Boot hosts and wait for their sshd; again: add and repair, never remove."""
    from pdctl.lab import parse_bind

    binds = [parse_bind(text) for text in bind or ()]
    _show(_lab(directory, cache).up(count, prefix, binds, timeout=timeout), json)


@lab_app.command()
def status(directory: Directory = HERE, json: Json = False) -> None:
    """Show the hosts and services of the lab."""
    _show(_lab(directory).status(), json)


@lab_app.command(name="exec", context_settings={"allow_interspersed_args": False})
def exec_(
    command: Annotated[list[str], typer.Argument(help="The command and its arguments, after `--`.")],
    host: Annotated[str | None, typer.Option(help="Run as root in this host, without ssh.")] = None,
    directory: Directory = HERE,
) -> None:
    """Run a command of this machine inside the lab's network, or in a host."""
    lab = _lab(directory)
    argv = lab.enter_argv(host, command) if host else lab.inside_argv(command)
    sys.stdout.flush()
    os.execvp(argv[0], argv)


@lab_app.command()
def cut(host: Host, directory: Directory = HERE) -> None:
    """Unplug a host's network cable."""
    _lab(directory).cut(host)


@lab_app.command()
def uncut(host: Host, directory: Directory = HERE) -> None:
    """Plug a host's network cable in again."""
    _lab(directory).uncut(host)


@lab_app.command()
def poweroff(host: Host, directory: Directory = HERE) -> None:
    """Pull a host's power: every process is killed at once, files stay."""
    _lab(directory).poweroff(host)


@lab_app.command()
def boot(host: Host, timeout: Timeout = 60.0, directory: Directory = HERE) -> None:
    """Power a host on and wait for its sshd."""
    _lab(directory).boot(host, timeout)


@lab_app.command()
def reboot(host: Host, timeout: Timeout = 60.0, directory: Directory = HERE) -> None:
    """Reboot a host in order and wait for its sshd."""
    _lab(directory).reboot(host, timeout)


@lab_app.command()
def reset(host: Host, timeout: Timeout = 60.0, directory: Directory = HERE) -> None:
    """Forget every change of a host, disks and host key included, and boot it as new."""
    _lab(directory).reset(host, timeout)


@lab_app.command()
def rekey(host: Host, directory: Directory = HERE) -> None:
    """Change a host's ssh key, so that it looks like another machine."""
    _lab(directory).rekey(host)


@lab_app.command()
def shrink(
    host: Host,
    path: Annotated[str, typer.Argument(help="A directory of the host.")],
    size: Annotated[str, typer.Argument(help="As tmpfs takes it, e.g. 64k.")],
    directory: Directory = HERE,
) -> None:
    """Mount a small empty file system on a host's directory, to play a full disk."""
    _lab(directory).shrink(host, path, size)


@lab_app.command()
def serve(
    path: Annotated[Path, typer.Argument(help="A directory of this machine.")],
    port: Annotated[int, typer.Argument(help="Port at the lab's gateway.")] = 8080,
    directory: Directory = HERE,
    json: Json = False,
) -> None:
    """Serve a directory to the hosts over HTTP until the lab goes down."""
    url = _lab(directory).serve(path, port)
    _print({"url": url} if json else url)


@lab_app.command()
def down(
    purge: Annotated[bool, typer.Option("--purge", help="Drop the base tree from the cache too.")] = False,
    directory: Directory = HERE,
) -> None:
    """End every process of the lab and remove all that it made."""
    _lab(directory).down(purge)


def _lab(directory: Path, cache: Path | None = None) -> Lab:
    from pdctl.lab import Lab

    return Lab(directory, cache, report=lambda line: typer.echo(line, err=True))


def _show(status: LabStatus, json: bool) -> None:
    if json:
        return _print(asdict(status))
    for host in status.hosts:
        typer.echo(f"{host.name:<8} {host.address:<15} power {host.power:<4} network {host.network}")
    for service in status.services:
        typer.echo(f"{service.url} {'serves' if service.running else 'no longer serves'} {service.path}")
    if status.hosts:
        typer.echo(f"ssh -F {status.ssh_config} {status.hosts[0].name}", err=True)
    else:
        typer.echo("no hosts: pdctl lab up 2", err=True)


def _print(result: dict[str, Any] | str) -> None:
    typer.echo(result if isinstance(result, str) else jsonlib.dumps(result, indent=2))

"""A package row -> what was built with it and is installed here, and what of that is not as its pin asks."""

from __future__ import annotations

from fnmatch import fnmatchcase

from ansible.module_utils.pdctl_rows import Row

SHOWN = 3  # names; a driver's family has about twenty
Installed = dict[str, tuple[str, str]]  # name -> version, and what dpkg is told to do with it


def upstream(version: str) -> str:
    """The same as `pdctl.knowledge.reboots.upstream`; a test holds them together."""
    return version.rpartition(":")[2].split("-")[0].split("+")[0]


def belongs(row: Row, name: str) -> bool:
    """By its name; the package itself does, too."""
    return name == row["name"] or (
        any(fnmatchcase(name, one) for one in row.get("family") or ())
        and not any(fnmatchcase(name, one) for one in row.get("strangers") or ())
    )


def members(row: Row, installed: Installed) -> Installed:
    """By name, and by a version of the same kind: `nvidia-gds-13-0` is of CUDA, not of the driver."""
    digits = len(upstream(row["version"] or "").split(".")[0])
    return {
        name: (version, want)
        for name, (version, want) in installed.items()
        if belongs(row, name)
        and name != row["name"]
        and (not digits or len(upstream(version).split(".")[0]) == digits)
    }


def astray(row: Row, installed: Installed) -> Installed:
    """Members of another upstream version than the pin."""
    found = members(row, installed)
    wanted = upstream(row["version"] or "")
    return {name: pair for name, pair in found.items() if wanted and upstream(pair[0]) != wanted}


def loose(row: Row, installed: Installed) -> list[str]:
    """Members that should be held and are not."""
    return [name for name, (_, want) in members(row, installed).items() if row["hold"] and want != "hold"]


def deviations(row: Row, installed: Installed) -> list[str]:
    """`libnvidia-compute-580-server is 580.159.03, not 580.95.05`; `nvidia-utils-580-server is not held`."""
    by_version: dict[str, list[str]] = {}
    for name, (version, _) in sorted(astray(row, installed).items()):
        by_version.setdefault(upstream(version), []).append(name)
    wanted = upstream(row["version"] or "")
    found = [f"{_named(names)} {version}, not {wanted}" for version, names in by_version.items()]
    free = sorted(loose(row, installed))
    return found + ([f"{_named(free)} not held"] if free else [])


def _named(names: list[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} is"
    shown = names if len(names) <= SHOWN else [*names[: SHOWN - 1], f"{len(names) - SHOWN + 1} more"]
    return f"{', '.join(shown[:-1])} and {shown[-1]} are"

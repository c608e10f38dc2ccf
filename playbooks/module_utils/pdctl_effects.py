"""A file that changed -> what has to follow on this host, by where the file lies."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ansible.module_utils.pdctl_files import run
from ansible.module_utils.pdctl_rows import Row, Rows, row_id, row_of

# What a changed file below a folder asks for; as in `pdctl.knowledge.effects`, a test holds them together.
EFFECTS = {
    # modprobe's rules are copied into the initramfs: the ones in /etc alone change nothing at early boot
    # (initramfs-tools(7), hook `kmod`).
    "/etc/modprobe.d/": ("update-initramfs", "-u", "-k", "all"),
}


def effect_of(path: str) -> tuple[str, ...]:
    return next((command for folder, command in EFFECTS.items() if path.startswith(folder)), ())


def asks_for_more(row: Row, have: Row | None) -> bool:
    """Whether what this file says is about to change; its owner and mode alone ask for nothing."""
    changes = have is None or have.get("digest") != row.get("digest")
    return row["kind"] == "file" and changes and bool(effect_of(row["path"]))


def due(put: list[Row], seen: Rows, pending: Collection[str]) -> dict[str, str]:
    """{id: path} of files whose effect has to follow: they are about to change, or an earlier run was at them
    and did not end."""
    rows = {row_id(row): row["path"] for row in put if asks_for_more(row, seen.get(row_id(row)))}
    left = [row_of(key) for key in pending]
    return {
        **{row_id(row): row["path"] for row in left if row["kind"] == "file" and effect_of(row["path"])},
        **rows,
    }


def carry_out(paths: Iterable[str]) -> list[str]:
    """Each effect once, however many files ask for it. Returns what was done, in lines."""
    by_effect: dict[tuple[str, ...], list[str]] = {}
    for path in paths:
        by_effect.setdefault(effect_of(path), []).append(path)
    for command, some in by_effect.items():
        run(list(command), f"after a change of {', '.join(some)}")
    return [effect_line(paths) for paths in by_effect.values()]


def effect_line(paths: list[str]) -> str:
    """`run update-initramfs -u -k all: /etc/modprobe.d/x.conf changed`"""
    return f"run {' '.join(effect_of(paths[0]))}: {', '.join(paths)} changed"

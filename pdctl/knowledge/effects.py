"""Files whose change asks for something else on the host, by where they lie."""

from __future__ import annotations

# Folder -> the command that has to follow. modprobe's rules are copied into the initramfs, so that those in
# /etc alone change nothing at early boot (initramfs-tools(7), hook `kmod`). Hosts have the same table in
# playbooks/module_utils/pdctl_effects.py.
EFFECTS: dict[str, tuple[str, ...]] = {
    "/etc/modprobe.d/": ("update-initramfs", "-u", "-k", "all"),
}


def effect_of(path: str) -> tuple[str, ...]:
    """Empty where nothing has to follow."""
    return next((command for folder, command in EFFECTS.items() if path.startswith(folder)), ())

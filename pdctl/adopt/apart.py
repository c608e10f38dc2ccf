"""Pinned places that overlap -> places apart: another free GPU, a port that pdctl chooses, or no instance."""

from __future__ import annotations

from typing import Any

from pdctl.adopt.note import DECODERS, INSTANCES, PREFILLERS, Kind, Note, Section
from pdctl.topology.model import Role
from pdctl.topology.placement import POOL_FIELD

SECTIONS: dict[Role, Section] = {
    Role.PREFILLER: PREFILLERS,
    Role.DECODER: DECODERS,
    Role.SERVER: INSTANCES,
}
LISTS = ("init", "alloc", "side_channel")


def set_apart(serving: dict[str, Any], counts: dict[str, int]) -> list[Note]:
    """Change the placements of `serving` in place; `counts` are the GPUs of each host."""
    notes: list[Note] = []
    gpus: dict[str, set[int]] = {name: set() for name in counts}
    ports: dict[str, set[int]] = {name: set() for name in counts}
    for role, section in SECTIONS.items():
        pool = serving.get(POOL_FIELD[role])
        if pool is None:
            continue
        kept = []
        for place in pool["placement"]:
            note, stays = _own_gpus(place, gpus[place["host"]], counts[place["host"]], section)
            notes += note
            if stays:
                kept.append(place)
                notes += _own_ports(place, ports[place["host"]], section)
        pool["placement"] = kept
    return notes


def _own_gpus(place: dict[str, Any], used: set[int], count: int, section: Section) -> tuple[list[Note], bool]:
    """GPUs that nobody before it has; False if there are not enough."""
    wanted = place.get("gpus", [])
    if not used & set(wanted):
        used |= set(wanted)
        return [], True
    free = [gpu for gpu in range(count) if gpu not in used][: len(wanted)]
    where, now = _label(place), ", ".join(map(str, wanted))
    if len(free) < len(wanted):
        text = f"shares GPUs {now} with another engine, and no other is free: pdctl shares none"
        return [Note(Kind.LEFT_OUT, section, where, text)], False
    place["gpus"] = free
    used |= set(free)
    text = f"shares GPUs {now} with another engine; pdctl shares none, so the draft gives it {free}"
    return [Note(Kind.DIFFERENT, section, where, text)], True


def _own_ports(place: dict[str, Any], used: set[int], section: Section) -> list[Note]:
    notes = []
    used.add(place["ports"]["http"])
    for name in LISTS:
        ports = set(place["ports"].get(name, ()))
        if ports & used:
            text = f"its {name} ports {sorted(ports)} are also another engine's; pdctl chooses others"
            notes.append(Note(Kind.CONTRADICTION, section, _label(place), text))
            del place["ports"][name]
        used |= ports
    return notes


def _label(place: dict[str, Any]) -> str:
    return f"{place['host']}:{place['ports']['http']}"

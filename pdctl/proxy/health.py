"""Every instance's own /health, /version and /metrics -> its state in the fleet. Never a completion:
LMCache 0.3.10 ends a prefiller that gets one without a receiver."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Collection

import aiohttp

from .config import Config
from .fleet import Fleet
from .member import Member
from .tasks import end

log = logging.getLogger("pdctl.proxy")

# Start time and version change rarely and /metrics is long: look when an instance comes up, then this often.
POLLS_PER_DETAILS = 5
# One missed answer may be a busy API server, two in a row are not.
MISSES = 2
_STARTED = re.compile(r"^process_start_time_seconds (\d+(?:\.\d+)?(?:e[+]?\d+)?)$", re.MULTILINE)


class Poller:
    def __init__(self, config: Config, fleet: Fleet, session: aiohttp.ClientSession) -> None:
        self.config = config
        self._fleet = fleet
        self._session = session
        self._watches: dict[Member, asyncio.Task[None]] = {}
        self.broken = asyncio.Event()  # a watch has ended that was not told to

    def follow(self) -> list[asyncio.Task[None]]:
        """Watch the members that the fleet has now. Returns the watches of others, told to end."""
        gone = [self._watches.pop(member) for member in [*self._watches] if member not in self._fleet.members]
        for member in self._fleet.members:
            if member not in self._watches:
                task = asyncio.create_task(self._watch(member), name=f"watch {member.name}")
                task.add_done_callback(self._ended)
                self._watches[member] = task
        for task in gone:
            task.cancel()
        return gone

    async def close(self) -> None:
        await end(self._watches.values())

    async def look(self, members: Collection[Member]) -> None:
        """Look now, with all details: is it there, and still the process that was there before?"""
        await asyncio.gather(*(self._look(member, detailed=True, patient=False) for member in members))

    async def _watch(self, member: Member) -> None:
        polls = misses = 0
        while True:
            detailed = not member.up or polls % POLLS_PER_DETAILS == 0
            if await self._look(member, detailed=detailed, patient=misses + 1 < MISSES):
                misses, polls = 0, polls + 1
            else:
                misses += 1
            await asyncio.sleep(self.config.health.interval_s)

    async def _look(self, member: Member, *, detailed: bool, patient: bool) -> bool:
        """Whether it is healthy; `patient` forgives a late or bad answer, not a refused connection."""
        status, text = await self._get(member, "/health")
        if status == 200:
            self._fleet.back(member, await self._details(member) if detailed else None)
        elif status == 0 or not patient:
            self._fleet.down(member, text if status == 0 else f"/health says {status or text}")
        self._fleet.looked_at(member)
        return status == 200

    async def _details(self, member: Member) -> float | None:
        status, text = await self._get(member, "/version")
        if status == 200:
            member.version, member.simulated = version_of(text)
        status, text = await self._get(member, "/metrics")
        found = _STARTED.search(text) if status == 200 else None
        return float(found.group(1)) if found else None

    async def _get(self, member: Member, path: str) -> tuple[int, str]:
        """Status and text; status 0 when nothing listens there, -1 when it did not answer."""
        timeout = aiohttp.ClientTimeout(total=self.config.limits.connect_s)
        try:
            async with self._session.get(member.url + path, timeout=timeout) as response:
                return response.status, await response.text(errors="replace")
        except aiohttp.ClientConnectorError:
            return 0, "refuses connections"
        except (aiohttp.ClientError, asyncio.TimeoutError):
            return -1, "no answer"

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            log.critical("%s has ended", task.get_name(), exc_info=task.exception())
            self.broken.set()


def version_of(text: str) -> tuple[str | None, bool]:
    try:
        answer = json.loads(text)
    except ValueError:
        return None, False
    if not isinstance(answer, dict):
        return None, False
    version = answer.get("version")
    return (version if isinstance(version, str) else None), answer.get("simulated") is True

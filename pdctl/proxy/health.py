"""Every instance's own /health, /version and /metrics -> its state in the fleet. Never a completion:
LMCache 0.3.10 ends a prefiller that gets one without a receiver."""

from __future__ import annotations

import asyncio
import json
import logging
import re

import aiohttp

from .config import Config
from .fleet import Fleet, Member
from .tasks import end

log = logging.getLogger("pdctl.proxy")

# Start time and version change rarely and /metrics is long: look when an instance comes up, then this often.
POLLS_PER_DETAILS = 5
# One missed answer may be a busy API server, two in a row are not.
MISSES = 2
_STARTED = re.compile(r"^process_start_time_seconds (\d+(?:\.\d+)?(?:e[+]?\d+)?)$", re.MULTILINE)


class Poller:
    def __init__(self, config: Config, fleet: Fleet, session: aiohttp.ClientSession) -> None:
        self._interval = config.health.interval_s
        self._timeout = aiohttp.ClientTimeout(total=config.limits.connect_s)
        self._fleet = fleet
        self._session = session
        self.tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self.tasks = [
            asyncio.create_task(self._watch(member), name=f"watch {member.name}")
            for member in self._fleet.members
        ]

    async def close(self) -> None:
        await end(self.tasks)

    async def _watch(self, member: Member) -> None:
        polls = misses = 0
        while True:
            status, text = await self._get(member, "/health")
            if status == 200:
                misses = 0
                detailed = not member.up or polls % POLLS_PER_DETAILS == 0
                polls += 1
                self._fleet.back(member, await self._details(member) if detailed else None)
            else:
                misses += 1
                if misses >= MISSES or status == 0:
                    self._fleet.down(member, text if status == 0 else f"/health says {status or text}")
            await asyncio.sleep(self._interval)

    async def _details(self, member: Member) -> float | None:
        status, text = await self._get(member, "/version")
        if status == 200:
            member.version, member.simulated = version_of(text)
        status, text = await self._get(member, "/metrics")
        found = _STARTED.search(text) if status == 200 else None
        return float(found.group(1)) if found else None

    async def _get(self, member: Member, path: str) -> tuple[int, str]:
        """Status and text; status 0 when nothing listens there, -1 when it did not answer."""
        try:
            async with self._session.get(member.url + path, timeout=self._timeout) as response:
                return response.status, await response.text(errors="replace")
        except aiohttp.ClientConnectorError:
            return 0, "refuses connections"
        except (aiohttp.ClientError, asyncio.TimeoutError):
            return -1, "no answer"


def version_of(text: str) -> tuple[str | None, bool]:
    try:
        answer = json.loads(text)
    except ValueError:
        return None, False
    if not isinstance(answer, dict):
        return None, False
    version = answer.get("version")
    return (version if isinstance(version, str) else None), answer.get("simulated") is True

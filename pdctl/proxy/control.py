"""The control socket: what an operator asks of a running proxy -> its state."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any

from aiohttp import web

from .fleet import Fleet
from .gateway import Gateway
from .member import Member
from .reload import ReloadError

FORMAT = "pdctl-control/1"
# How long an undrain waits to know how the instances are: nobody's client waits longer than 5 s for it.
LOOK_S = 3.0
Look = Callable[[Collection[Member]], Coroutine[Any, Any, None]]


class Control:
    """`look` asks instances for their health at once, `reload` reads the configuration file again."""

    def __init__(self, gateway: Gateway, look: Look, reload: Callable[[], None]) -> None:
        self._gateway = gateway
        self._look = look
        self._reload = reload

    def application(self) -> web.Application:
        app = web.Application(middlewares=[refusals_as_json])
        app.router.add_get("/state", self.state)
        app.router.add_post("/drain", self.drain)
        app.router.add_post("/undrain", self.undrain)
        app.router.add_post("/sides", self.sides)
        app.router.add_post("/reload", self.reload)
        return app

    async def state(self, request: web.Request) -> web.Response:
        return web.json_response(state_of(self._gateway))

    async def drain(self, request: web.Request) -> web.Response:
        self._fleet.drain(self._named(await names_in(request, "instances")))
        return await self.state(request)

    async def undrain(self, request: web.Request) -> web.Response:
        """They take requests from the moment when it is known how they are: a restart must have been noticed
        before a prefiller is sent to one of them."""
        members = self._named(await names_in(request, "instances"))
        orders = {member: member.orders for member in members}
        look = self._gateway.in_background(self._look(members))
        await asyncio.wait({look}, timeout=LOOK_S)
        # Whoever was drained again meanwhile, stays so.
        self._fleet.undrain([member for member in members if member.orders == orders[member]])
        return await self.state(request)

    async def sides(self, request: web.Request) -> web.Response:
        self._fleet.divide([member.name for member in self._named(await names_in(request, "new"))])
        return await self.state(request)

    async def reload(self, request: web.Request) -> web.Response:
        try:
            self._reload()
        except ReloadError as error:
            raise RefusalError(409, str(error), restart=list(error.keys)) from error
        return await self.state(request)

    @property
    def _fleet(self) -> Fleet:
        return self._gateway.fleet

    def _named(self, names: Sequence[str]) -> list[Member]:
        members = {member.name: member for member in self._fleet.members}
        unknown = sorted(set(names) - members.keys())
        if unknown:
            raise RefusalError(404, f"no instance named {', '.join(unknown)}", known=sorted(members))
        return [members[name] for name in dict.fromkeys(names)]


class RefusalError(Exception):
    def __init__(self, status: int, message: str, **more: object) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": message, **more}


def state_of(gateway: Gateway) -> dict[str, Any]:
    fleet = gateway.fleet
    return {
        "format": FORMAT,
        "cluster": gateway.config.cluster,
        "config": gateway.loaded.digest,
        "sides": sorted(fleet.sides),
        "waiting": gateway.admission.waiting,
        "members": [described(member, fleet) for member in fleet.members],
        "leaving": [described(member, fleet) for member in fleet.leaving if not member.idle],
    }


def described(member: Member, fleet: Fleet) -> dict[str, Any]:
    idle_s = member.idle_s
    return {
        "name": member.name,
        "role": member.role,
        "up": member.healthy,
        "drained": member.drained,
        "in_flight": member.in_flight,
        "held": member.held,
        "idle_s": None if idle_s is None else round(idle_s, 3),
        "new": member.name in fleet.sides,
    }


async def names_in(request: web.Request, key: str) -> list[str]:
    try:
        body = json.loads(await request.read())
    except (ValueError, RecursionError):
        body = None
    names = body.get(key) if isinstance(body, dict) and set(body) == {key} else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RefusalError(400, f'the body must be {{"{key}": [names of instances]}}')
    return names


@web.middleware
async def refusals_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except RefusalError as refusal:
        return web.json_response(refusal.body, status=refusal.status)
    except web.HTTPException as problem:
        body = {"error": f"{request.method} {request.path}: {problem.reason}"}
        return web.json_response(body, status=problem.status)

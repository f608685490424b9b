# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""webhook_listeners 1.2.0: registrations, and a delivery that forgets what it could not deliver."""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from demo.appapi import signed
from demo.gate import ExApp
from demo.ocs import OcsError, params, reply, route, world_of
from demo.people import Event
from demo.world import World

_API = "/apps/webhook_listeners/api/v1/webhooks"
_TIMEOUT_S = 3.0
# Event classes that 31.0.6 takes. NodeRenamed is taken and never fires; cards, shares and groups are not taken at all.
_NODE = ("NodeCreated", "NodeWritten", "NodeTouched", "NodeDeleted", "NodeRenamed", "NodeCopied", "BeforeNodeDeleted")
_CLASSES = {f"OCP\\Files\\Events\\Node\\{name}Event": name for name in _NODE}
_SILENT = {"NodeRenamed"}


@dataclass(eq=False, slots=True)
class Webhook:
    """A registration."""

    id: int
    app: ExApp
    uri: str
    event: str
    http_method: str = "POST"
    user_filter: str = ""
    headers: dict[str, str] = field(default_factory=dict)


class Webhooks:
    """All registrations, and how far the job queue has come."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.hooks: dict[int, Webhook] = {}
        self._ids = itertools.count(1)
        self._told = 0

    def routes(self) -> list[Route]:
        """The OCS endpoints."""
        return [
            *route(_API, self._list, "GET"),
            *route(_API, self._create, "POST"),
            *route(f"{_API}/byappid/{{app}}", self._drop_app, "DELETE"),
            *route(f"{_API}/{{hook:int}}", self._drop, "DELETE"),
        ]

    async def deliver(self) -> int:
        """Run the queued jobs once, in order, as cron does; returns how many arrived. Nothing is ever tried twice."""
        with self.world.lock:
            queued, self._told = self.world.events[self._told :], len(self.world.events)
        arrived = 0
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False) as client:
            for event, hook in itertools.product(queued, [*self.hooks.values()]):
                if _CLASSES[hook.event] == event.name not in _SILENT and hook.user_filter in ("", event.uid):
                    arrived += await self._call(client, hook, event)
        return arrived

    async def run(self, every_s: float) -> None:
        """Deliver for ever."""
        while True:
            await self.deliver()
            await asyncio.sleep(every_s)

    async def _call(self, client: httpx.AsyncClient, hook: Webhook, event: Event) -> bool:
        if not hook.app.enabled:
            return False
        person = self.world.people.get(event.uid or "")
        user = {"uid": person.uid, "displayName": person.display_name} if person else None
        payload = {"event": {**event.payload, "class": hook.event}, "user": user, "time": event.time}
        headers = signed(hook.app, event.uid) | hook.headers  # no Content-Type, as on the server
        try:
            url = hook.app.url + hook.uri
            answer = await client.request(hook.http_method, url, headers=headers, content=json.dumps(payload).encode())
        except httpx.HTTPError:
            return False
        return answer.is_success

    async def _list(self, request: Request) -> Response:
        _demand_app(request)
        uri = request.query_params.get("uri")
        return reply(request, [_shown(hook) for hook in self.hooks.values() if uri in (None, hook.uri)])

    async def _create(self, request: Request) -> Response:
        app, given = _demand_app(request), await params(request)
        event = str(given.get("event", "")).lstrip("\\")
        if event not in _CLASSES:
            raise OcsError(400, f"{event} is not an event class compatible with webhooks")
        method, user = str(given.get("httpMethod", "POST")), str(given.get("userIdFilter") or "")
        hook = Webhook(next(self._ids), app, str(given["uri"]), event, method, user, dict(given.get("headers") or {}))
        self.hooks[hook.id] = hook
        return reply(request, _shown(hook))

    async def _drop(self, request: Request) -> Response:
        _demand_app(request)
        return reply(request, self.hooks.pop(request.path_params["hook"], None) is not None)

    async def _drop_app(self, request: Request) -> Response:
        _demand_app(request)
        mine = [hook.id for hook in self.hooks.values() if hook.app.id == request.path_params["app"]]
        for hook_id in mine:
            del self.hooks[hook_id]
        return reply(request, len(mine))


def _demand_app(request: Request) -> ExApp:
    """An ExApp acting for nobody or for an admin; others are refused."""
    caller = request.state.caller
    if caller.app is None or (caller.uid and caller.uid not in world_of(request).groups["admin"]):
        raise OcsError(403, "Logged in account must be an admin")
    app: ExApp = caller.app
    return app


def _shown(hook: Webhook) -> dict[str, Any]:
    return {
        "id": hook.id,
        "appId": hook.app.id,
        "userId": None,
        "httpMethod": hook.http_method,
        "uri": hook.uri,
        "event": hook.event,
        "eventFilter": [],
        "userIdFilter": hook.user_filter,
        "headers": hook.headers or None,
        "authMethod": "none",
        "authData": None,
    }

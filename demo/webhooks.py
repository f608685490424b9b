# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""webhook_listeners 1.2.0: registrations, and a delivery that forgets what it could not deliver.

As in 31.0.6, or as newer servers do it (`newer`): they tell of renames, tags and cards, and no longer of what was
deleted by its id.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import secrets
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
# Taken too; nothing of it is told here.
_UNTOLD = {
    f"OCP\\Files\\Events\\Node\\BeforeNode{name}Event"
    for name in ("Created", "Written", "Touched", "Copied", "Renamed", "Read")
} | {f"OCA\\Files_Trashbin\\Events\\{name}Event" for name in ("BeforeNodeRestored", "NodeRestored")}
# What Nextcloud 32 and a newer Deck add.
_TAGS = ("TagAssigned", "TagUnassigned")
_DECK = ("CardCreated", "CardUpdated", "CardDeleted", "AclCreated", "AclUpdated", "AclDeleted", "BoardUpdated")
_NEWER = {f"OCP\\SystemTag\\{name}Event": name for name in _TAGS} | {
    f"OCA\\Deck\\Event\\{name}Event": name for name in _DECK
}


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
    auth: dict[str, str] | None = None  # more headers, which the server keeps encrypted


class Webhooks:
    """All registrations, and how far the job queue has come.

    newer: behave as newer servers do; transport: where the calls go instead of to the apps' addresses.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.newer = False
        self.transport: httpx.AsyncBaseTransport | None = None
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
        arrived = 0
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False, transport=self.transport) as client:
            for event, hook in itertools.product(self.take(), [*self.hooks.values()]):
                told = _CLASSES.get(hook.event) or _NEWER.get(hook.event, "")
                if told == event.name and self._fires(told) and hook.user_filter in ("", event.uid):
                    arrived += await self._call(client, hook, event)
        return arrived

    def take(self) -> list[Event]:
        """The queued events; whoever takes them and does not deliver them has lost them."""
        with self.world.lock:
            queued, self._told = self.world.events[self._told :], len(self.world.events)
        return queued

    def _fires(self, name: str) -> bool:
        return self.newer or name not in _SILENT

    def _accepts(self, event: str) -> bool:
        return event in _CLASSES or event in _UNTOLD or (self.newer and event in _NEWER)

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
        told = {**event.payload, "class": hook.event}
        node = event.payload.get("node")
        if self.newer and event.name == "NodeDeleted" and isinstance(node, dict):
            told["node"] = {"path": node["path"]}
        payload = {"event": told, "user": user, "time": event.time}
        # No Content-Type, as on the server.
        headers = signed(hook.app, event.uid) | hook.headers | (hook.auth or {})
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
        if not self._accepts(event):
            raise OcsError(400, f"{event} is not an event class compatible with webhooks")
        method, user = str(given.get("httpMethod", "POST")), str(given.get("userIdFilter") or "")
        auth = dict(given.get("authData") or {}) if given.get("authMethod") == "header" else None
        if auth == {}:
            raise OcsError(400, "Header auth method needs an associative array of headers as auth data")
        headers = dict(given.get("headers") or {})
        hook = Webhook(next(self._ids), app, str(given["uri"]), event, method, user, headers, auth)
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
        "authMethod": "none" if hook.auth is None else "header",
        "authData": None if hook.auth is None else _sealed(hook.auth),
    }


def _sealed(auth: dict[str, str]) -> str:
    """What the server shows of what it keeps encrypted: never twice the same."""
    return f"{hashlib.sha256(repr(auth).encode() + secrets.token_bytes(16)).hexdigest()}|{secrets.token_hex(16)}|3"

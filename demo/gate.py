# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What every request passes first: the record, a PHP worker, failures on demand, and who is asking."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import SimpleCookie
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from demo.habits import Failure, Request, claimed_user, decoded_pair
from demo.multistatus import date, error
from demo.world import World

SESSION_COOKIE = "stand_in_session"  # the demo's own way in: its value is a user id

_STATE = "/apps/app_api/ex-app/state"


@dataclass(eq=False, slots=True)
class ExApp:
    """A registered ExApp. routes: rows of info.xml; registered: what it announced, by kind and name."""

    id: str
    name: str
    version: str
    secret: str
    url: str
    routes: list[dict[str, Any]] = field(default_factory=list)
    enabled: bool = False
    progress: int = 0
    error: str = ""
    initialised: bool = False  # it has been told that it is enabled
    enable_timeout_s: float = 60.0  # how long Nextcloud waits for its answer to that
    registered: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    preferences: dict[tuple[str, str], str] = field(default_factory=dict)
    log: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. uid None: nobody; app: the ExApp that signed the request, which may act for nobody."""

    uid: str | None = None
    app: ExApp | None = None


def authenticate(world: World, apps: dict[str, ExApp], scope: Scope) -> Caller | Response:
    """The caller of a request, or the refusal that he gets."""
    headers = headers_of(scope)
    path = str(scope["path"])
    if signed := headers.get("authorization-app-api"):
        found = _exapp(world, apps, headers, path, *decoded_pair(signed))
        if found is not None:
            return found
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        return _basic(world, path, *decoded_pair(value))
    if scheme.lower() == "bearer":
        owners = (p for p in world.people.values() if p.app_password == value and p.enabled)
        return Caller(next((person.uid for person in owners), None))
    cookie = SimpleCookie(headers.get("cookie", "")).get(SESSION_COOKIE)
    person = world.people.get(cookie.value) if cookie else None
    return Caller(person.uid if person and person.enabled else None)


def headers_of(scope: Scope) -> dict[str, str]:
    """Header values by lower-case name; of repeated ones the last."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _basic(world: World, path: str, uid: str, password: str) -> Caller | Response:
    person = world.people.get(uid)
    if person and person.enabled and password in (person.password, person.app_password):
        person.last_login = person.last_login or int(world.clock())
        return Caller(uid)
    if path.startswith("/remote.php"):
        return error(401, "NotAuthenticated", "Username or password was incorrect")
    if path.startswith("/ocs/"):
        return _ocs_401("Unauthorised")
    return JSONResponse({"message": ""}, 401)


def _exapp(
    world: World, apps: dict[str, ExApp], headers: dict[str, str], path: str, uid: str, secret: str
) -> Caller | Response | None:
    """Check AppAPI's headers. A disabled app or user is refused on OCS, not on DAV; None: look at other credentials."""
    dav = path.startswith("/remote.php")
    refused: Response | None = None
    if path.startswith("/ocs/") and "/apps/app_api/" in path:
        refused = JSONResponse({"message": "AppAPI authentication failed"}, 401)
    if world.locked_out(world.clock()):
        return JSONResponse({"message": "Reached maximum delay"}, 429)
    app = apps.get(headers.get("ex-app-id", ""))
    if not app or secret != app.secret:
        if "ex-app-id" in headers:
            world.wrong_secrets.append(world.clock())
        return refused
    if not dav and not app.enabled and not path.endswith(_STATE):
        return refused
    given = headers.get("ex-app-version", "")
    if not given or (uid and uid not in world.people):
        return refused
    app.version = max(app.version, given, key=_version)
    if uid and not world.people[uid].enabled and not dav:
        return refused
    return Caller(uid or None, app)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def _ocs_401(message: str) -> Response:
    meta = {"status": "failure", "statuscode": 997, "message": message}
    return JSONResponse({"ocs": {"meta": meta, "data": []}}, 401)


class Gate:
    """ASGI middleware. workers: how many requests PHP can be in at once; the others wait, callbacks included."""

    def __init__(self, app: ASGIApp, *, world: World, apps: dict[str, ExApp], workers: int) -> None:
        self._app, self._world, self._apps = app, world, apps
        self._workers = asyncio.Semaphore(workers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        raw = scope.get("raw_path") or scope["path"].encode()
        request = Request(claimed_user(headers_of(scope)), scope["method"], raw.decode("latin-1"))
        self._world.requests.append(request)
        self._world.received[request.kind] += _request_bytes(scope, raw)

        async def dated(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"date", date(int(self._world.clock())).encode())]
            self._world.sent[request.kind] += _answer_bytes(message)
            await send(message)

        await self._take_turn(request, scope, receive, dated)

    async def _take_turn(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._workers:
            await asyncio.sleep(self._world.latency_s)
            failure = self._world.failure_for(request)
            if failure is not None:
                await self._fail(failure, scope, receive, send)
                return
            await self._admit(scope, receive, send)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = authenticate(self._world, self._apps, scope)
        if isinstance(caller, Response):
            await caller(scope, receive, send)
            return
        scope.setdefault("state", {})["caller"] = caller
        await self._app(scope, receive, send)

    async def _fail(self, failure: Failure, scope: Scope, receive: Receive, send: Send) -> None:
        match failure:
            case int():
                await Response(b"", failure, {"Retry-After": "120"} if failure == 503 else {})(scope, receive, send)
            case "timeout":
                while (await receive())["type"] != "http.disconnect":
                    pass
            case "reset":
                cut(receive)
            case "truncate" | "garbage":
                await self._spoil(failure, scope, receive, send)

    async def _spoil(self, failure: Failure, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as usual, but with half the body and a cut, or with bytes that mean nothing."""
        answer: list[Message] = []

        async def keep(message: Message) -> None:
            answer.append(message)

        await self._admit(scope, receive, keep)
        body = b"".join(message.get("body", b"") for message in answer)
        headers = [(name, value) for name, value in answer[0]["headers"] if name != b"content-length"]
        spoilt = body[: len(body) // 2] if failure == "truncate" else b"\xff<!-- \x00 {]"
        length = len(body) if failure == "truncate" else len(spoilt)
        await send({**answer[0], "headers": [*headers, (b"content-length", str(length).encode())]})
        await send({"type": "http.response.body", "body": spoilt, "more_body": failure == "truncate"})
        if failure == "truncate":
            cut(receive)


def cut(receive: Receive) -> None:
    """Drop the connection: ASGI has no word for it, so reach uvicorn's transport; elsewhere raise as a lost peer."""
    transport = getattr(getattr(receive, "__self__", None), "transport", None)
    if transport is None:
        raise ConnectionResetError("connection reset by the stand-in")
    transport.close()


def _request_bytes(scope: Scope, raw_path: bytes) -> int:
    """A request's size: first line, headers, and the body as announced."""
    query: bytes = scope.get("query_string", b"")
    first = len(scope["method"]) + len(raw_path) + (len(query) + 1 if query else 0) + len("  HTTP/1.1\r\n")
    announced = dict(scope["headers"]).get(b"content-length", b"0")
    return first + _head_bytes(scope["headers"]) + int(announced)


def _answer_bytes(message: Message) -> int:
    if message["type"] != "http.response.start":
        return len(message.get("body", b""))
    first = f"HTTP/1.1 {message['status']} {HTTPStatus(message['status']).phrase}\r\n"
    return len(first) + _head_bytes(message["headers"])


def _head_bytes(headers: Iterable[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) + len(": \r\n") for name, value in headers) + len("\r\n")

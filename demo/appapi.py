# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""AppAPI 5.0.2: an ExApp's life (register, init, enable) and what it may call."""

from __future__ import annotations

import asyncio
import base64
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import httpx
from defusedxml.ElementTree import fromstring
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from demo.gate import ExApp
from demo.ocs import OcsError, params, reply, route, user_of, world_of

_API = "/apps/app_api/api/v1"
_LEVELS = {"PUBLIC": 0, "USER": 1, "ADMIN": 2}
# What an ExApp announces, and by which fields an announcement is known.
_KINDS = {
    "ui/top-menu": ("name",),
    "ui/script": ("type", "name", "path"),
    "ui/style": ("type", "name", "path"),
    "ui/initial-state": ("type", "name", "key"),
    "ui/files-actions-menu": ("name",),
    "ui/settings": ("formId",),
    "occ_command": ("name",),
}


class HandshakeFailed(RuntimeError):
    """The ExApp did not come up, or said why it cannot be enabled."""


async def register(apps: dict[str, ExApp], app: ExApp, *, deadline_s: float = 30.0, poll_s: float = 0.02) -> ExApp:
    """Register an ExApp that listens at app.url, as `occ app_api:app:register --wait-finish` does.

    Polls /heartbeat, posts /init, and waits until the ExApp has reported progress 100, which lets the server ask it for
    /heartbeat and /enabled again. Raises HandshakeFailed.
    """
    end = time.monotonic() + deadline_s
    apps[app.id] = app
    await _heartbeat(app, end, poll_s)
    app.enabled, app.initialised, app.progress, app.error = True, False, 0, ""
    async with _client() as client:
        answer = await client.post(f"{app.url}/init", headers=signed(app, None))
    if answer.status_code in (404, 501):
        app.progress = 100
        await _enable(app, end, poll_s)
    while app.progress < 100 or not app.initialised:
        if app.error or time.monotonic() > end:
            raise HandshakeFailed(app.error or f"{app.id} stays at {app.progress} %")
        await asyncio.sleep(poll_s)
    return app


async def set_enabled(app: ExApp, enabled: bool, *, deadline_s: float = 30.0) -> None:
    """Enable (after a heartbeat) or disable an ExApp, telling it."""
    if enabled:
        await _enable(app, time.monotonic() + deadline_s, 0.02)
        return
    async with _client() as client:
        await client.put(f"{app.url}/enabled", params={"enabled": "0"}, headers=signed(app, None))
    app.enabled = False


async def unregister(apps: dict[str, ExApp], app: ExApp) -> None:
    """Disable an ExApp and forget it with everything that it announced."""
    await set_enabled(app, enabled=False)
    apps.pop(app.id, None)


def routes_from(info_xml: str | Path) -> list[dict[str, Any]]:
    """The proxy routes of an appinfo/info.xml, given as path or text."""
    text = info_xml.read_text("utf-8") if isinstance(info_xml, Path) else info_xml
    rows = fromstring(text).iterfind(".//external-app/routes/route")
    return [
        {
            "url": row.findtext("url") or "",
            "verb": row.findtext("verb") or "",
            "access_level": _LEVELS[(row.findtext("access_level") or "").strip().upper()],
            "headers_to_exclude": row.findtext("headers_to_exclude") or "[]",
        }
        for row in rows
    ]


def signed(app: ExApp, uid: str | None, *, request_id: str = "CLI") -> dict[str, str]:
    """The headers by which an ExApp knows Nextcloud and the acting user."""
    return {
        "AA-VERSION": "5.0.2",
        "EX-APP-ID": app.id,
        "EX-APP-VERSION": app.version,
        "AUTHORIZATION-APP-API": base64.b64encode(f"{uid or ''}:{app.secret}".encode()).decode(),
        "AA-REQUEST-ID": request_id,
        "Accept-Language": "en",
        "User-Agent": "Nextcloud Server Crawler",
    }


async def _heartbeat(app: ExApp, end: float, poll_s: float) -> None:
    async with _client() as client:
        while True:
            try:
                answer = await client.get(f"{app.url}/heartbeat", headers={"Accept": "application/json"})
                if answer.status_code == 200 and answer.json().get("status") == "ok":
                    return
            except (httpx.HTTPError, ValueError):
                pass  # not up yet
            if time.monotonic() > end:
                raise HandshakeFailed(f"{app.id} has no heartbeat at {app.url}")
            await asyncio.sleep(poll_s)


async def _enable(app: ExApp, end: float, poll_s: float) -> None:
    await _heartbeat(app, end, poll_s)
    app.enabled = True
    async with _client() as client:
        answer = await client.put(
            f"{app.url}/enabled", params={"enabled": "1"}, headers=signed(app, None), timeout=app.enable_timeout_s
        )
    refusal = answer.json().get("error") if answer.content else ""
    if refusal:
        app.enabled, app.error = False, str(refusal)
        raise HandshakeFailed(str(refusal))
    app.initialised = True


def _client() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=60, trust_env=False)


def routes() -> list[Route]:
    """AppAPI's OCS endpoints for ExApps."""
    found = [
        *route("/apps/app_api/ex-app/status", _status, "PUT", csrf=False),
        *route("/apps/app_api/ex-app/state", _state, "GET", csrf=False),
        *route(f"{_API}/users", _all_users, "GET", csrf=False),
        *route(f"{_API}/log", _log, "POST", csrf=False),
        *route(f"{_API}/notification", _notification, "POST", csrf=False),
        *route(f"{_API}/ex-app/config", _set_config, "POST", csrf=False),
        *route(f"{_API}/ex-app/config/get-values", _get_config, "POST", csrf=False),
        *route(f"{_API}/ex-app/preference", _set_preference, "POST", csrf=False),
        *route(f"{_API}/ex-app/preference/get-values", _get_preference, "POST", csrf=False),
    ]
    for kind in _KINDS:
        found += route(f"{_API}/{kind}", _announced(kind), "GET", "POST", "DELETE", csrf=False)
    return found


def _app(request: Request) -> ExApp:
    app: ExApp | None = request.state.caller.app
    if app is None:
        raise OcsError(401, "AppAPI authentication failed")
    return app


async def _status(request: Request) -> Response:
    """Progress of /init. At 100 Nextcloud calls the ExApp's /heartbeat and /enabled before it answers this request."""
    app, given = _app(request), await params(request)
    progress, problem = int(given.get("progress", 0)), str(given.get("error", ""))
    if not 0 <= progress <= 100:
        raise OcsError(500, "Invalid ExApp init status progress value")
    if progress and app.progress == 100:
        return reply(request, [])
    app.error = problem
    app.progress = app.progress if problem else progress
    if app.progress == 100:
        try:
            await _enable(app, time.monotonic() + 600, 1.0)
        except (HandshakeFailed, httpx.HTTPError, ValueError) as failure:
            app.enabled, app.error = False, app.error or str(failure) or type(failure).__name__
    return reply(request, [])


async def _state(request: Request) -> Response:
    return reply(request, int(_app(request).enabled))


async def _all_users(request: Request) -> Response:
    _app(request)
    return reply(request, sorted(world_of(request).people))


async def _log(request: Request) -> Response:
    given = await params(request)
    _app(request).log.append((int(given["level"]), str(given["message"])))
    return reply(request, [])


async def _notification(request: Request) -> Response:
    app, uid, given = _app(request), user_of(request), await params(request)
    thing = given.get("params", {})
    shown = {"object_type": str(thing.get("object", "")), "object_id": str(thing.get("object_id") or uuid.uuid4().hex)}
    app.registered.setdefault("notification", {})[shown["object_id"]] = {"user": uid, **given}
    return reply(request, {"app": app.id, "user": uid, **shown})


def _announced(kind: str) -> Callable[[Request], Any]:
    """The endpoint of one kind of announcement: POST stores, GET shows, DELETE removes."""

    async def endpoint(request: Request) -> Response:
        store, given = _app(request).registered.setdefault(kind, {}), await params(request)
        given.pop("format", None)
        if kind == "ui/settings" and "formScheme" in given:
            given = given["formScheme"] | {"formId": given["formScheme"]["id"]}
        name = "/".join(str(given.get(part, "")).lstrip("/") for part in _KINDS[kind])
        if request.method == "POST":
            store[name] = given
            return reply(request, [])
        if name not in store:
            raise OcsError(404, f"No such {kind}")
        return reply(request, _as_shown(store[name]) if request.method == "GET" else [store.pop(name), []][1])

    return endpoint


def _as_shown(given: dict[str, Any]) -> dict[str, Any]:
    """AppAPI takes camelCase and shows snake_case."""
    return {"".join(f"_{c.lower()}" if c.isupper() else c for c in name): value for name, value in given.items()}


async def _set_config(request: Request) -> Response:
    app, given = _app(request), await params(request)
    app.config[given["configKey"]] = str(given["configValue"])
    return reply(request, {"appid": app.id, "configkey": given["configKey"], "configvalue": given["configValue"]})


async def _get_config(request: Request) -> Response:
    config, given = _app(request).config, await params(request)
    return reply(request, _pairs((key, config.get(key)) for key in given["configKeys"]))


async def _set_preference(request: Request) -> Response:
    app, uid, given = _app(request), user_of(request), await params(request)
    app.preferences[uid, given["configKey"]] = str(given["configValue"])
    return reply(request, {"user_id": uid, "configkey": given["configKey"], "configvalue": given["configValue"]})


async def _get_preference(request: Request) -> Response:
    app, uid, given = _app(request), user_of(request), await params(request)
    return reply(request, _pairs((key, app.preferences.get((uid, key))) for key in given["configKeys"]))


def _pairs(found: Iterable[tuple[str, str | None]]) -> list[dict[str, str]]:
    return [{"configkey": key, "configvalue": value} for key, value in found if value is not None]

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""AppAPI's PHP proxy 5.0.2 to an ExApp, with its holes: raw regular expressions, `..` let through, streams broken."""

from __future__ import annotations

import json
import mimetypes
import posixpath
import re
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import httpx
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from demo.appapi import signed
from demo.gate import ExApp, cut
from demo.world import World

_METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
_CACHED = "private, max-age=3600, must-revalidate"
_NOT_BACK = {"aa-version", "ex-app-id", "authorization-app-api", "ex-app-version", "aa-request-id"}
_HOP = {"date", "server", "connection", "keep-alive", "transfer-encoding", "content-encoding", "content-length"}


def routes() -> list[Route]:
    """The proxy's address."""
    return [Route("/index.php/apps/app_api/proxy/{app}/{other:path}", _proxy, methods=_METHODS)]


async def _proxy(request: Request) -> Response:
    if request.method in ("PATCH", "OPTIONS"):
        return Response(b"", 405, media_type="text/html; charset=UTF-8")
    apps: dict[str, ExApp] = request.app.state.apps
    app, other = apps.get(request.path_params["app"]), request.path_params["other"]
    matched = matching_route(app, other, request.method, _level(request)) if app and app.enabled else None
    if not app or matched is None:
        return HTMLResponse("<!DOCTYPE html>\n<html><head><title>Nextcloud</title></head>Page not found</html>", 404)
    # The client normalises "mcp/../hook" only now, after the route has matched.
    path = quote(posixpath.normpath("/" + other.lstrip("/")), safe="/%:@!$&'()*+,;=~-._")
    url = f"{app.url}{path}{'/' if other.endswith('/') else ''}"
    query = urlencode(dict(parse_qsl(request.url.query, keep_blank_values=True)))
    headers = _forwarded(request, app, matched)
    try:
        # Plain HTTP on this machine: to read the authorities' certificates would take 20 ms a request.
        async with httpx.AsyncClient(timeout=None, trust_env=False, verify=False) as client:
            method = "GET" if request.method == "HEAD" else request.method
            answer = await client.request(
                method, f"{url}?{query}" if query else url, headers=headers, content=await request.body()
            )
    except httpx.HTTPError:
        return Response(b"", 500)
    return _answer(answer, other)


def matching_route(app: ExApp, other: str, method: str, level: int) -> dict[str, Any] | None:
    """The first route whose pattern, verb and access level let the request pass. level: 0 anyone, 1 user, 2 admin."""
    for row in app.routes:
        pattern = row["url"]
        # preg_match('/' . url . '/i'): a bare slash ends the pattern early, and what follows is no modifier.
        if re.search(r"(?<!\\)/", pattern) or not re.search(pattern, other, re.IGNORECASE):
            continue
        if method.lower() in row["verb"].lower() and level >= row["access_level"]:
            return dict(row)
    return None


def _level(request: Request) -> int:
    world: World = request.app.state.world
    uid = request.state.caller.uid
    return 0 if uid is None else 2 if uid in world.groups["admin"] else 1


def _forwarded(request: Request, app: ExApp, row: dict[str, Any]) -> list[tuple[str, str]]:
    """The client's headers less the excluded ones; cookies travel in a jar of their own, whatever is excluded."""
    excluded = {name.lower() for name in json.loads(row["headers_to_exclude"] or "[]")}
    excluded |= {"x-origin-ip", "content-length", "authorization-app-api", "transfer-encoding"}
    excluded -= {"cookie"}
    uid = request.state.caller.uid
    own = signed(app, uid, request_id=f"{id(request):020x}")
    kept = [(name, value) for name, value in request.headers.items() if name not in excluded]
    if any(name == "accept-language" for name, _ in kept):
        own.pop("Accept-Language")
    if any(name == "user-agent" for name, _ in kept):
        own.pop("User-Agent")
    kept = [(name, value) for name, value in kept if name not in {key.lower() for key in own}]
    client = request.client.host if request.client else "127.0.0.1"
    return [*kept, ("x-origin-ip", client), *own.items()]


def _answer(answer: httpx.Response, other: str) -> Response:
    kept = {name: value for name, value in answer.headers.items() if name not in _NOT_BACK | _HOP}
    kind = answer.headers.get("content-type", "")
    if not kind:
        kept["content-type"] = mimetypes.guess_type(other)[0] or "text/html; charset=UTF-8"
    if "cache-control" not in kept:
        cached = kind not in ("application/json", "application/x-tar") and not other.endswith(".html")
        kept["cache-control"] = (
            "private, max-age=3600, must-revalidate" if cached else "no-cache, no-store, must-revalidate"
        )
    broken = "chunked" in answer.headers.get("transfer-encoding", "")
    return (_Broken if broken else Response)(answer.content, answer.status_code, kept)


class _Broken(Response):
    """A streamed answer: buffered to its end, then sent with a framing that clients cannot read."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.headers["content-length"] = str(len(self.body) + 1)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        cut(receive)

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Who may knock where: everything that is not in the table is refused, whoever asks.

Nextcloud signs each request with our shared secret and the user for whom it asks (AppAPI). The user id comes from that
signature and from nowhere else.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ex_app.search.question import Caller
from ex_app.settings import Settings


class Who(Enum):
    """Who may use a route."""

    ANYONE = "anyone"  # answers nothing that a stranger may not know
    NEXTCLOUD = "nextcloud"  # signed for nobody: Nextcloud itself asks
    WEBHOOK = "webhook"  # signed for any user or for nobody, and not relayed; the route itself demands our proof
    COMPANION = "companion"  # signed for a user and not relayed; the route itself demands proof of the companion's key
    USER = "user"  # signed for a user


# Exact paths: AppAPI's proxy passes "%2e%2e" on, so prefixes would lead elsewhere.
ROUTES: Mapping[tuple[str, str], Who] = {
    ("GET", "/heartbeat"): Who.ANYONE,
    ("POST", "/init"): Who.NEXTCLOUD,
    ("PUT", "/enabled"): Who.NEXTCLOUD,
    ("GET", "/progress"): Who.NEXTCLOUD,
    ("POST", "/events"): Who.WEBHOOK,
    ("POST", "/companion/candidates"): Who.COMPANION,
    ("GET", "/api/search"): Who.USER,
    ("GET", "/api/status"): Who.USER,
    ("GET", "/api/me"): Who.USER,
    ("PUT", "/api/me"): Who.USER,
    ("POST", "/mcp"): Who.USER,
    ("GET", "/mcp"): Who.USER,
    ("DELETE", "/mcp"): Who.USER,
    ("GET", "/ui/search.js"): Who.USER,
    ("GET", "/ui/search.css"): Who.USER,
    ("GET", "/img/app.svg"): Who.USER,
    ("GET", "/img/app-dark.svg"): Who.USER,
}

# The PHP proxy adds this header to what it relays; the requests that Nextcloud makes itself lack it. A second line of
# defence only: other proxies never set it.
_RELAYED = "x-origin-ip"


@dataclass(frozen=True, slots=True)
class Signature:
    """What a correctly signed request says: for whom it was made; empty for Nextcloud itself."""

    user: str


class Guard:
    """ASGI middleware that admits by the table and puts the Caller into `scope["state"]["caller"]`."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refusal = self._admit(scope)
        if refusal is None:
            await self._app(scope, receive, _uncached(send))
        else:
            await refusal(scope, receive, _uncached(send))

    def _admit(self, scope: Scope) -> JSONResponse | None:
        """None when the request may pass, else the refusal."""
        who = ROUTES.get((scope["method"], scope["path"]))
        if who is None:
            return _refusal(404, "There is nothing here")
        if who is Who.ANYONE:
            return None
        headers = Headers(scope=scope)
        signature = verify_signature(headers, self._settings)
        if signature is None:
            return _refusal(401, "Only Nextcloud may ask, with the secret that it shares with this app")
        relayed = _RELAYED in headers
        if who is Who.NEXTCLOUD and (relayed or signature.user):
            return _refusal(404, "There is nothing here")
        if who is Who.COMPANION and (relayed or not signature.user):
            return _refusal(404, "There is nothing here")
        if who is Who.WEBHOOK and relayed:
            return _refusal(404, "There is nothing here")
        if not signature.user and who not in (Who.NEXTCLOUD, Who.WEBHOOK):
            return _refusal(401, "Sign in to Nextcloud first")
        scope.setdefault("state", {})["caller"] = Caller(signature.user, vouched=relayed)
        return None


def verify_signature(headers: Headers, settings: Settings) -> Signature | None:
    """Check AppAPI's headers in constant time; None for anything that does not fit."""
    try:
        token = base64.b64decode(headers.get("authorization-app-api", ""), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    # A user id may hold anything but a colon; the secret may hold colons.
    user, separator, secret = token.partition(":")
    right_app = hmac.compare_digest(headers.get("ex-app-id", "").encode(), settings.app_id.encode())
    right_secret = hmac.compare_digest(secret.encode(), settings.app_secret.get_secret_value().encode())
    if not (right_app and right_secret and separator):
        return None
    return Signature(user)


def _uncached(send: Send) -> Send:
    """AppAPI would keep some answers for an hour; ours depend on who asks and when."""

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Cache-Control"] = "no-store"
            headers["X-Content-Type-Options"] = "nosniff"
        await send(message)

    return wrapped


def _refusal(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status)

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Speaks to Nextcloud as a user: one pooled client, signed per request, without a shared cookie jar.

A shared jar would carry one PHP session for everybody and queue all requests behind its lock.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from io import BytesIO
from types import TracebackType

import httpx

from ex_app.domain import Missing, NextcloudUnavailable, NotPermitted
from ex_app.nextcloud.standing import Standing
from ex_app.settings import Settings

ANSWER_LIMIT = 64 * 1024 * 1024  # bytes of an XML or JSON answer; larger is hostile or a bug
_BUSY = frozenset({423, 429, 503})

# Seconds for one answer, a large file over a slow line included.
_LONGEST_ANSWER_S = 300.0

# Seconds of rest that a server may ask for: whoever stands between us and it must not send us to sleep for good.
_LONGEST_REST_S = 900.0


@dataclass(frozen=True, slots=True)
class Reply:
    """A successful answer, read whole."""

    headers: Mapping[str, str]  # case-insensitive
    body: bytes


class Nextcloud:
    """The pooled connection; `as_user` gives what acts for one person."""

    def __init__(self, settings: Settings, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._settings = settings
        no_cookies = CookieJar(policy=DefaultCookiePolicy(allowed_domains=[]))
        self._client = httpx.AsyncClient(
            base_url=settings.nextcloud_url.rstrip("/"),
            transport=transport,
            cookies=no_cookies,
            timeout=httpx.Timeout(30.0, connect=5.0),
            limits=httpx.Limits(max_connections=16, max_keepalive_connections=8),
        )
        self._standing = Standing(self._ask_for_us)

    def as_user(self, user: str) -> Session:
        """A session that acts for `user`; the empty user is the app itself."""
        return Session(self._client, self._settings, user, self._standing)

    def trust(self) -> None:
        """Nextcloud has just called us, so it knows us: ask again what it refused."""
        self._standing.trust()

    async def _ask_for_us(self) -> int:
        """The status of the one question that AppAPI answers whenever the signature is right, even while we are off."""
        headers = _signature(self._settings, "")
        try:
            return (await self._client.get("/ocs/v2.php/apps/app_api/ex-app/state", headers=headers)).status_code
        except httpx.HTTPError as error:
            raise NextcloudUnavailable(f"Nextcloud does not answer ({type(error).__name__})") from error

    async def __aenter__(self) -> Nextcloud:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()


class Session:
    """Requests to Nextcloud under one user's identity (AppAPI impersonation headers)."""

    def __init__(self, client: httpx.AsyncClient, settings: Settings, user: str, standing: Standing) -> None:
        self._client = client
        self._settings = settings
        self._standing = standing
        self.user = user

    async def request(
        self,
        method: str,
        path: str,
        *,
        content: str | bytes = b"",
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        limit: int = ANSWER_LIMIT,
    ) -> Reply:
        """One request, its answer read whole.

        Raises NotPermitted (401, 403), Missing (404), NextcloudUnavailable (anything else that is no success,
        no answer, an answer of more than `limit` bytes, or a Nextcloud that does not know us any more). Messages name
        the method and status, never the path.
        """
        await self._standing.demand()
        signature = _signature(self._settings, self.user)
        request = self._client.build_request(
            method, path, content=content, headers={**signature, **(headers or {})}, params=params
        )
        try:
            # In all, as the client's own limits are per read: an answer that trickles must not hold us for ever.
            async with asyncio.timeout(_LONGEST_ANSWER_S):
                response = await self._client.send(request, stream=True)
                try:
                    if response.status_code == 401:
                        await self._standing.doubt()
                    _raise_for(method, response)
                    return Reply(response.headers, await _read_up_to(response, limit))
                finally:
                    await response.aclose()
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL) as error:
            raise NextcloudUnavailable(f"Nextcloud does not answer ({type(error).__name__})") from error


def _signature(settings: Settings, user: str) -> dict[str, str]:
    """AppAPI's headers by which Nextcloud knows us and for whom we act."""
    token = base64.b64encode(f"{user}:{settings.app_secret.get_secret_value()}".encode()).decode()
    return {
        "EX-APP-ID": settings.app_id,
        "EX-APP-VERSION": settings.app_version,
        "AUTHORIZATION-APP-API": token,
        "AA-VERSION": "5.0.2",
        "OCS-APIRequest": "true",
        "User-Agent": "semantic-search",
    }


async def _read_up_to(response: httpx.Response, limit: int) -> bytes:
    body = BytesIO()  # the one thing that grows and gives its bytes away without copying them
    async for part in response.aiter_bytes():
        body.write(part)
        if body.tell() > limit:
            raise NextcloudUnavailable("Nextcloud's answer is larger than we accept")
    return body.getvalue()


def _raise_for(method: str, response: httpx.Response) -> None:
    status = response.status_code
    if 200 <= status < 300:
        return
    message = f"Nextcloud answered {status} to {method}"
    if status in (401, 403):
        raise NotPermitted(message)
    if status == 404:
        raise Missing(message)
    rest = _retry_after(response) if status in _BUSY else None
    raise NextcloudUnavailable(message, retry_after=rest, status=status)


def _retry_after(response: httpx.Response) -> float | None:
    """The rest that the server asked for; None for none, as one lost or locked file answers 503 or 423 too."""
    value = response.headers.get("Retry-After", "")
    if value.isascii() and value.isdigit():
        return min(float(value), _LONGEST_REST_S)
    return 30.0 if response.status_code == 429 else None

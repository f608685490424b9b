# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What tests hold the stand-in to: a record of every request, and failures on demand."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

# A status to answer with; or hang until the client gives up, cut the connection before or in the answer, or nonsense.
Failure = int | Literal["timeout", "reset", "truncate", "garbage"]

# Wrong secrets before AppAPI answers 429 to everything from that address (PHP also sleeps; the stand-in does not).
MAX_WRONG_SECRETS = 10
WRONG_SECRET_WINDOW_S = 1800

_KINDS = {
    "/remote.php/dav/calendars": "caldav",
    "/remote.php/dav": "dav",
    "/index.php/apps/app_api/proxy": "proxy",
    "/index.php/apps/app_api/embedded": "page",
    "/index.php/apps/notes": "notes",
    "/index.php/apps/deck": "deck",
    "/ocs/": "ocs",
}


class Request(NamedTuple):
    """One request as it came in; path without query, still percent-encoded. user: as claimed, None for nobody."""

    user: str | None
    method: str
    path: str

    @property
    def kind(self) -> str:
        """Which part of Nextcloud it reached: dav, caldav, ocs, deck, notes, proxy or page."""
        return next((kind for prefix, kind in _KINDS.items() if self.path.startswith(prefix)), "page")


@dataclass(slots=True)
class _Fault:
    predicate: Callable[[Request], bool]
    status: Failure
    times: int | None


class Habits:
    """The ground of the world. requests: everything since the last reset; latency_s: added to every request.

    received, sent: bytes since the last reset by kind of request, as HTTP/1.1 puts heads and bodies on the wire.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.received: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.latency_s = 0.0
        self.wrong_secrets: list[float] = []
        self._faults: list[_Fault] = []

    def reset_requests(self) -> None:
        self.requests.clear()
        self.received.clear()
        self.sent.clear()

    def count(self, *, method: str | None = None, kind: str | None = None, user: str | None = None) -> int:
        """How many requests since the last reset match."""
        return sum(
            (method is None or r.method == method)
            and (kind is None or r.kind == kind)
            and (user is None or r.user == user)
            for r in self.requests
        )

    def counted(self) -> Counter[tuple[str, str]]:
        """Requests since the last reset by (method, kind)."""
        return Counter((request.method, request.kind) for request in self.requests)

    def fail(
        self, predicate: Callable[[Request], bool], *, status: Failure = 503, times: int | None = None
    ) -> Callable[[], None]:
        """Let matching requests fail (`times` of them, or until healed); returns what takes it back."""
        fault = _Fault(predicate, status, times)
        self._faults.append(fault)
        return lambda: self._faults.remove(fault) if fault in self._faults else None

    def heal(self) -> None:
        """End every failure."""
        self._faults.clear()

    def failure_for(self, request: Request) -> Failure | None:
        """The failure this request is to meet, counted down."""
        for fault in self._faults:
            if fault.times != 0 and fault.predicate(request):
                fault.times = fault.times and fault.times - 1
                return fault.status
        return None

    def locked_out(self, now: float) -> bool:
        """Did this address present too many wrong secrets lately?"""
        return sum(now - at < WRONG_SECRET_WINDOW_S for at in self.wrong_secrets) >= MAX_WRONG_SECRETS


def claimed_user(headers: dict[str, str]) -> str | None:
    """The user id that a request claims in its headers, unchecked."""
    if signed := headers.get("authorization-app-api"):
        return decoded_pair(signed)[0] or None
    scheme, _, value = headers.get("authorization", "").partition(" ")
    return decoded_pair(value)[0] or None if scheme.lower() == "basic" else None


def decoded_pair(value: str) -> tuple[str, str]:
    """ "uid", "secret" from base64("uid:secret"); empty strings for nonsense."""
    try:
        uid, _, secret = base64.b64decode(value).decode().partition(":")
    except (ValueError, UnicodeDecodeError):
        return "", ""
    return uid, secret

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Whether Nextcloud still knows this app: a 401 may mean a user, or that our own signature counts no more.

AppAPI counts each request of an app that it doesn't know, and after ten of them refuses every app at our address for
half an hour. So an app that was removed behind its own back must fall silent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from ex_app.domain import NextcloudUnavailable

# Seconds of silence after Nextcloud refused us; twice as long each time. Two requests in half an hour are far from ten.
_FIRST_REST_S = 900.0
_LONGEST_REST_S = 3600.0

# Seconds for which Nextcloud's word that it knows us is enough: more 401s are about their users.
_KNOWN_S = 60.0

_UNKNOWN = 401


class Standing:
    """Shared by all sessions of a process. ask: the status with which Nextcloud answers the app itself."""

    def __init__(self, ask: Callable[[], Awaitable[int]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = asyncio.Lock()
        self._rest = 0.0  # 0 as long as nothing speaks against us
        self._silent_until = 0.0
        self._known_until = 0.0

    async def demand(self) -> None:
        """Before a request. Raises NextcloudUnavailable while Nextcloud refuses this app."""
        if not self._rest:
            return
        async with self._lock:
            if self._rest:
                await self._look_again()

    async def doubt(self) -> None:
        """After a 401. Returns when it was about the user; raises NextcloudUnavailable when it is about us."""
        async with self._lock:
            if self._rest:
                await self._look_again()
            elif self._clock() >= self._known_until:
                await self._look()

    def trust(self) -> None:
        """Nextcloud has just called us by our secret: whatever it said before is over."""
        self._rest = self._silent_until = self._known_until = 0.0

    async def _look_again(self) -> None:
        left = self._silent_until - self._clock()
        if left > 0:
            raise _refusal(left)
        await self._look()

    async def _look(self) -> None:
        if await self._ask() == _UNKNOWN:
            self._rest = min(_LONGEST_REST_S, self._rest * 2 or _FIRST_REST_S)
            self._silent_until = self._clock() + self._rest
            raise _refusal(self._rest)
        self._rest = 0.0
        self._known_until = self._clock() + _KNOWN_S


def _refusal(seconds: float) -> NextcloudUnavailable:
    return NextcloudUnavailable(
        "Nextcloud does not know this app or its secret any more: register it again", retry_after=seconds
    )

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Between two sweeps: walk those of whom a change was heard that only a walk can follow."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ex_app.domain import Missing, NextcloudUnavailable, NotAvailable, NotPermitted
from ex_app.store.registry import Registry

log = logging.getLogger(__name__)

# How often we look for wishes, and how long one waits that Nextcloud could not answer; seconds.
_LOOK_S = 1.0
_WAIT_S = 15.0

Visit = Callable[[str], Awaitable[None]]


async def attend(registry: Registry, visit: Visit, stop: asyncio.Event, *, seconds: float) -> None:
    """Grant wishes to walk for so many seconds, or until told to stop."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not stop.is_set() and loop.time() < end:
        pause = _LOOK_S
        try:
            await grant_wishes(registry, visit, stop)
        except NotAvailable as error:
            pause = getattr(error, "retry_after", None) or _WAIT_S
            log.warning("event=wishes_wait pause_s=%.0f error=%s", pause, error)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), min(pause, max(0.0, end - loop.time())))


async def grant_wishes(registry: Registry, visit: Visit, stop: asyncio.Event) -> None:
    """Walk everybody whose walk is due. A walk that Nextcloud cannot answer now is due again later.

    Raises NotAvailable when Nextcloud asks for rest or another part is away; what was not walked is due still.
    """
    for wish in await registry.wishes.due():
        if stop.is_set():
            return
        try:
            await visit(wish.user)
        except NextcloudUnavailable as error:
            log.warning("event=wish_put_off user=%s error=%s", wish.user, error)
            await registry.wishes.put_off(wish, error.retry_after or _WAIT_S)
            if error.retry_after is not None:
                raise
            continue
        except NotAvailable:
            raise
        except (NotPermitted, Missing) as error:
            log.warning("event=wish_refused user=%s error=%s", wish.user, error)
        except Exception as error:  # noqa: BLE001
            # As in a sweep: one home that breaks our code must not stop the others, nor be tried every second.
            log.error("event=wish_broke user=%s error=%s", wish.user, type(error).__name__)  # noqa: TRY400
        await registry.wishes.grant(wish)

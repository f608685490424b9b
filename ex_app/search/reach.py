# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What is open to a user, remembered for a minute. It only says where to look; Nextcloud decides later."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ex_app.domain import Missing, NextcloudUnavailable, NotPermitted, Reach
from ex_app.nextcloud.session import Nextcloud, Session
from ex_app.sources import Source

T = TypeVar("T")

_USERS = 2_000  # remembered at once; a reach is some kilobytes


@dataclass(frozen=True, slots=True)
class Known:
    """A reach, whether a source could not be asked for its part, and how to confirm it when it has grown old."""

    reach: Reach
    degraded: bool
    remembered: bool
    confirm: Awaitable[Known] | None = None


@dataclass(frozen=True, slots=True)
class _Entry:
    known: Known
    pulse: tuple[str, ...]
    epoch: int
    until: float


class ReachBook:
    """Reach per user: computed, kept `ttl` seconds, then kept or recomputed as the sources' pulses say.

    A source that does not answer within `seconds` in all contributes nothing.
    """

    def __init__(
        self,
        nextcloud: Nextcloud,
        sources: Mapping[str, Source],
        *,
        ttl: float,
        seconds: float,
        epoch: Callable[[], Awaitable[int]],
    ) -> None:
        self._nextcloud = nextcloud
        self._sources = sources
        self._ttl = ttl
        self._seconds = seconds
        self._epoch = epoch
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._confirming: set[asyncio.Task[Known]] = set()
        self._asking: dict[str, asyncio.Task[Known]] = {}

    async def of(self, user: str) -> Known:
        """The user's reach. An old one comes at once, with `confirm` running beside the search."""
        entry = self._entries.get(user)
        if entry is None or entry.epoch != await self._epoch():
            return await self.fresh(user)
        if entry.until > time.monotonic():
            return entry.known
        confirm = asyncio.create_task(self._confirm(user, entry))
        self._confirming.add(confirm)
        confirm.add_done_callback(self._confirmed)
        return Known(entry.known.reach, entry.known.degraded, remembered=True, confirm=confirm)

    async def fresh(self, user: str) -> Known:
        """Ask Nextcloud now, whatever is remembered. Searches of one user that come together share one asking."""
        asking = self._asking.get(user)
        if asking is None:
            asking = asyncio.create_task(self._ask(user))
            self._asking[user] = asking
            asking.add_done_callback(lambda done: self._asked(user, done))
        return await asyncio.shield(asking)

    def _asked(self, user: str, task: asyncio.Task[Known]) -> None:
        self._asking.pop(user, None)
        self._confirmed(task)

    async def _ask(self, user: str) -> Known:
        session = self._nextcloud.as_user(user)
        until = asyncio.get_running_loop().time() + self._seconds
        epoch = await self._epoch()
        looks = await asyncio.gather(*(_look(source, session, until=until) for source in self._sources.values()))
        pulse, parts = tuple(pulse for pulse, _ in looks), [part for _, part in looks]
        reach = Reach()
        for part in parts:
            reach = reach | (part or Reach())
        degraded = any(part is None for part in parts)
        if degraded and (last := self._entries.get(user)) is not None:
            # It grants nothing, so an old one does no harm; without it a slow answer would hide everything.
            reach = reach | last.known.reach
        if not degraded and "" not in pulse:
            known = Known(reach, degraded=False, remembered=True)
            self._entries[user] = _Entry(known, pulse, epoch, time.monotonic() + self._ttl)
            self._entries.move_to_end(user)
            if len(self._entries) > _USERS:
                self._entries.popitem(last=False)
        return Known(reach, degraded, remembered=False)

    async def _confirm(self, user: str, entry: _Entry) -> Known:
        until = asyncio.get_running_loop().time() + self._seconds
        if await self._pulse(self._nextcloud.as_user(user), until=until) != entry.pulse:
            return await self.fresh(user)
        if self._entries.get(user) is entry:  # else somebody asked anew meanwhile
            self._entries[user] = _Entry(entry.known, entry.pulse, entry.epoch, time.monotonic() + self._ttl)
        return entry.known

    def _confirmed(self, task: asyncio.Task[Known]) -> None:
        self._confirming.discard(task)
        if not task.cancelled():
            task.exception()  # whoever still waits has it; a search that failed meanwhile need not be told

    async def _pulse(self, session: Session, *, until: float) -> tuple[str, ...]:
        """One pulse a source; empty where it cannot be told."""
        pulses = await asyncio.gather(
            *(_or_none(source.pulse(session), until=until) for source in self._sources.values())
        )
        return tuple(pulse or "" for pulse in pulses)


async def _look(source: Source, session: Session, *, until: float) -> tuple[str, Reach | None]:
    """Pulse, empty if unknown, and reach, None if unknown.

    The pulse is read first: a change between the two makes the next comparison differ, which is the safe side.
    """
    pulse = await _or_none(source.pulse(session), until=until)
    return pulse or "", await _or_none(source.reach(session), until=until)


async def _or_none(asked: Coroutine[None, None, T], *, until: float) -> T | None:
    """What a source answers, None when it cannot or not by this moment of the loop's clock."""
    try:
        async with asyncio.timeout_at(until):
            return await asked
    except (TimeoutError, NextcloudUnavailable, NotPermitted, Missing):
        return None

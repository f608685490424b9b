# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What is open to a user, remembered for a minute. It only says where to look; Nextcloud decides later.

What takes Nextcloud long to tell (the late part) is asked beside the rest and joins it when it is there.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ex_app.domain import Missing, NextcloudUnavailable, NotPermitted, Reach
from ex_app.nextcloud.session import Nextcloud, Session
from ex_app.search.memory import keep
from ex_app.sources import Source

T = TypeVar("T")

# A reach of which a part could not be asked is believed so long: a server in trouble is not asked for all the rest with
# every search; seconds.
_ILL_S = 3.0

_USERS = 2_000  # remembered at once; a reach is some kilobytes

# Tags and the rules of group folders change no ETag, so no pulse: for longer than this nothing is believed.
_LONGEST_S = 900.0

# Seconds beyond the rest that a search waits for the late part.
_LATE_S = 0.3

# Seconds after which a late part will not come any more.
_LATE_LIMIT_S = 60.0

# The late part is asked so seldom that it takes one PHP worker a twentieth of its time at most.
_LATE_SHARE = 20


@dataclass(frozen=True, slots=True)
class Known:
    """A reach, whether a source could not be asked for its part, and how to confirm it when it has grown old."""

    reach: Reach
    degraded: bool
    remembered: bool
    confirm: Awaitable[Known] | None = None


@dataclass(frozen=True, slots=True)
class _Entry:
    """The part that is told at once. learned, until: seconds of the monotonic clock."""

    known: Known
    pulse: tuple[str, ...]
    epoch: int
    learned: float
    until: float


@dataclass(slots=True)
class _Late:
    """One user's late parts by source. wanted: something may have changed since they were asked."""

    parts: dict[str, Reach] = field(default_factory=dict)
    due: float = float("-inf")
    wanted: bool = False
    task: asyncio.Task[None] | None = None


class _LateParts:
    """What takes long to ask, one asking per user at a time; the last known answer is kept until a newer one comes."""

    def __init__(self, nextcloud: Nextcloud, sources: Mapping[str, Source], *, ttl: float) -> None:
        self._nextcloud = nextcloud
        self._sources = sources
        self._ttl = ttl
        self._users: OrderedDict[str, _Late] = OrderedDict()

    def want(self, user: str) -> None:
        """Ask now, or as soon as it is due again and somebody searches."""
        late = self._users.get(user) or _Late()
        keep(self._users, user, late, most=_USERS)
        late.wanted = True
        self.resume(user)

    def resume(self, user: str) -> None:
        """Ask what is wanted, unless it is being asked or was asked too recently."""
        late = self._users.get(user)
        if late is None or not late.wanted or late.task is not None or late.due > time.monotonic():
            return
        late.wanted = False
        late.task = asyncio.create_task(self._ask(user, late))
        late.task.add_done_callback(_quietly)

    async def wait(self, user: str, *, seconds: float) -> None:
        """Until the answer is there, but not for long; it goes on being waited for by itself."""
        late = self._users.get(user)
        if late is not None and late.task is not None:
            await asyncio.wait({late.task}, timeout=seconds)

    def joined(self, user: str, known: Known) -> Known:
        """With what is known of the late part; degraded when a source never told its own."""
        late = self._users.get(user, _Late())
        reach = known.reach
        for part in late.parts.values():
            reach = reach | part
        return replace(known, reach=reach, degraded=known.degraded or late.parts.keys() != self._sources.keys())

    async def _ask(self, user: str, late: _Late) -> None:
        session, began = self._nextcloud.as_user(user), time.monotonic()
        until = asyncio.get_running_loop().time() + _LATE_LIMIT_S
        try:
            asked = (_or_none(source.late_reach(session), until=until) for source in self._sources.values())
            for name, part in zip(self._sources, await asyncio.gather(*asked), strict=True):
                if part is None:
                    late.wanted = True
                else:
                    late.parts[name] = part
        finally:
            late.due = began + max(self._ttl, _LATE_SHARE * (time.monotonic() - began))
            late.task = None


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
        self._late = _LateParts(nextcloud, sources, ttl=ttl)
        self._doubted: OrderedDict[str, float] = OrderedDict()
        self._confirming: set[asyncio.Task[Known]] = set()
        self._asking: dict[str, asyncio.Task[Known]] = {}

    async def of(self, user: str) -> Known:
        """The user's reach. An old one comes at once, with `confirm` running beside the search."""
        entry = self._entries.get(user)
        if entry is None or entry.epoch != await self._epoch():
            return await self.fresh(user)
        self._late.resume(user)
        if entry.until > time.monotonic():
            return self._late.joined(user, entry.known)
        if entry.known.degraded:
            return await self.fresh(user)
        confirm = asyncio.create_task(self._confirm(user, entry))
        self._confirming.add(confirm)
        confirm.add_done_callback(self._confirmed)
        return replace(self._late.joined(user, entry.known), confirm=confirm)

    async def doubted(self, user: str) -> Known:
        """Most of what was found within the remembered reach was denied: ask Nextcloud once in `ttl` seconds.

        Who is denied much for other reasons (rules about single files) would else cost a new reach with every search.
        """
        asking, entry, now = self._asking.get(user), self._entries.get(user), time.monotonic()
        if asking is None and entry is not None and self._doubted.get(user, now) > now:
            return self._late.joined(user, entry.known)
        keep(self._doubted, user, now + self._ttl, most=_USERS)
        return await self.fresh(user)

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
        self._late.want(user)
        looks = await asyncio.gather(*(_look(source, session, until=until) for source in self._sources.values()))
        pulse, parts = tuple(pulse for pulse, _ in looks), [part for _, part in looks]
        reach = Reach()
        for part in parts:
            reach = reach | (part or Reach())
        degraded = any(part is None for part in parts)
        if degraded and (last := self._entries.get(user)) is not None:
            # It grants nothing, so an old one does no harm; without it a slow answer would hide everything.
            reach = reach | last.known.reach
        ttl = self._ttl if not degraded and "" not in pulse else min(self._ttl, _ILL_S)
        now = time.monotonic()
        entry = _Entry(Known(reach, degraded, remembered=True), pulse, epoch, now, now + ttl)
        keep(self._entries, user, entry, most=_USERS)
        await self._late.wait(user, seconds=_LATE_S)
        return self._late.joined(user, Known(reach, degraded, remembered=False))

    async def _confirm(self, user: str, entry: _Entry) -> Known:
        until = asyncio.get_running_loop().time() + self._seconds
        worn = time.monotonic() - entry.learned >= _LONGEST_S or "" in entry.pulse
        if worn or await self._pulse(self._nextcloud.as_user(user), until=until) != entry.pulse:
            return await self.fresh(user)
        if self._entries.get(user) is entry:  # else somebody asked anew meanwhile
            self._entries[user] = replace(entry, until=time.monotonic() + self._ttl)
        return self._late.joined(user, entry.known)

    def _confirmed(self, task: asyncio.Task[Known]) -> None:
        self._confirming.discard(task)
        _quietly(task)

    async def _pulse(self, session: Session, *, until: float) -> tuple[str, ...]:
        """One pulse a source; empty where it cannot be told."""
        pulses = await asyncio.gather(
            *(_or_none(source.pulse(session), until=until) for source in self._sources.values())
        )
        return tuple(pulse or "" for pulse in pulses)


def _quietly(task: asyncio.Task[Any]) -> None:
    """Whoever still waits has the exception; a search that ended meanwhile need not be told."""
    if not task.cancelled():
        task.exception()


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

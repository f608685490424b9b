# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Notices when work is due and none of it gets done, and says what it waits for; and that a clock was set back.

Nothing is restarted: what waits for Nextcloud or another process goes on by itself when that is back, and a document
that hangs is somebody else's as soon as its lease ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum

from ex_app.domain import NotAvailable, SemanticSearchError
from ex_app.store.registry import Registry
from ex_app.store.upkeep import Queue

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 60.0

# Nobody has looked for so long: the worker is not running; seconds.
_UNWATCHED_S = 5 * _LOOK_EVERY_S

# How often the database's log is emptied, which holds words of what was deleted; in looks.
_SCRUB_EVERY = 60

_SETTING = "watch"


@dataclass(frozen=True, slots=True)
class Watch:
    """What the watchdog saw last. since: from when on nothing was done, None while all is well; times as of an epoch.

    waits_for, to_do: in words that an admin understands; empty while all is well.
    """

    looked_at: float
    since: float | None = None
    waits_for: str = ""
    to_do: str = ""


class State(StrEnum):
    """Whether indexing goes on."""

    OFF = "switched off"
    NOT_RUNNING = "not running"
    STALLED = "stalled"
    WORKING = "working"
    DONE = "all done"


@dataclass(frozen=True, slots=True)
class Condition:
    """How it is. stalled_since: seconds since the epoch; waits_for, to_do: for an admin, empty while all is well."""

    state: State
    stalled_since: float | None = None
    waits_for: str = ""
    to_do: str = ""


OFF = Condition(State.OFF, to_do="enable the app in Nextcloud")
_NOT_RUNNING = Condition(
    State.NOT_RUNNING,
    waits_for="nobody works on the index",
    to_do="start the app, or read its log: the process `worker` says why it ended",
)


@dataclass(slots=True)
class Watchdog:
    """parts: what work needs, by a name for people; each raises SemanticSearchError when it is away."""

    registry: Registry
    parts: Mapping[str, Callable[[], Awaitable[object]]]
    patience_s: float
    _waiting_since: float | None = None
    _worked_at: float | None = None
    _said: bool = False

    async def run(self, stop: asyncio.Event) -> None:
        """Look once a minute until told to stop."""
        looks = 0
        while not stop.is_set():
            # The registry itself is away: whoever needs it says so.
            with suppress(NotAvailable):
                await self.look()
                if looks % _SCRUB_EVERY == 0:
                    await self.registry.scrub()
            looks += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _LOOK_EVERY_S)

    async def look(self) -> Watch:
        """Look once; what is seen is kept in the registry, for `status`."""
        before = await _noted(self.registry)
        if await self.registry.upkeep.set_clock_right(before.looked_at if before else 0.0):
            log.warning("event=clock_was_ahead")
            self._waiting_since = None
        queue, now = await self.registry.upkeep.queue(), self.registry.now()
        if not queue.due or queue.worked_at != self._worked_at or self._waiting_since is None:
            self._waiting_since = now
            self._worked_at = queue.worked_at
            if self._said:
                log.info("event=work_goes_on")
            self._said = False
        watch = Watch(now)
        if queue.due and now - self._waiting_since >= self.patience_s:
            watch = Watch(now, self._waiting_since, *await self._what_is_away(queue))
            if not self._said:
                log.warning(
                    "event=no_progress minutes=%.0f due=%d waits_for=%r",
                    (now - self._waiting_since) / 60,
                    queue.due,
                    watch.waits_for,
                )
            self._said = True
        await self.registry.set_setting(_SETTING, json.dumps(asdict(watch)))
        return watch

    async def _what_is_away(self, queue: Queue) -> tuple[str, str]:
        """What is waited for, and what to do about it."""
        for name, answers in self.parts.items():
            try:
                await answers()
            except SemanticSearchError as error:
                return f"{name}: {error}", f"see that {name} runs and answers this machine; all goes on by itself then"
        if queue.at_work:
            some = ", ".join(map(str, queue.at_work[:3]))
            return f"{some}, in work all the time", "restart the app; if they hang again, `erase` leaves them out"
        return "nothing that is known: every part answers", "look for an earlier error in the app's log"


async def condition(registry: Registry) -> Condition:
    """How indexing is, while the app is enabled."""
    watch = await last_watch(registry)
    if watch is None:
        return _NOT_RUNNING
    if watch.since is not None:
        return Condition(State.STALLED, watch.since, watch.waits_for, watch.to_do)
    return Condition(State.WORKING if (await registry.upkeep.queue()).due else State.DONE)


async def last_watch(registry: Registry) -> Watch | None:
    """What the watchdog saw last; None when nobody has looked for a while: the worker is not running."""
    watch = await _noted(registry)
    return watch if watch and registry.now() - watch.looked_at < _UNWATCHED_S else None


async def _noted(registry: Registry) -> Watch | None:
    said = await registry.get_setting(_SETTING)
    return Watch(**json.loads(said)) if said else None

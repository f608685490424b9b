# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Who may touch the embedded engine's shards, and when: searches first, then writes, then tidying."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from ex_app.store.edge_shards import Shards

# Against a power cut; Qdrant's own server flushes every 5 s.
FLUSH_AFTER_S = 1.0
# How far a job yields to searches that arrive after it. Bounded, so that steady searching cannot starve the others.
WRITE_YIELDS_S = 0.25
TIDYING_YIELDS_S = 1.0
MAX_WAITING = 512

# How long deleted content may stay in the files; an erasure request does not wait for it.
COMPACT_AFTER_S = 24 * 3600.0
TIDY_EVERY_S = 3600.0

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Overloaded(Exception):
    """Too many requests wait for the shards."""


class Desk:
    """The only thread that touches the shards, because the engine blocks its process while it works."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._waiting: queue.PriorityQueue[tuple[float, int, Callable[[Shards], object] | None, Future[object]]]
        self._waiting = queue.PriorityQueue()
        self._tickets = itertools.count()
        self._flushed = time.monotonic()
        self._thread = threading.Thread(target=self._serve, name="shards", daemon=True)
        self._thread.start()

    async def read(self, job: Callable[[Shards], _T]) -> _T:
        """Run a job that changes nothing."""
        return await self._submit(job, after=0.0)

    async def write(self, job: Callable[[Shards], _T]) -> _T:
        """Run a job that changes something; reads of the next moments may go first."""
        return await self._submit(job, after=WRITE_YIELDS_S)

    async def tidy(self, job: Callable[[Shards], _T]) -> _T:
        """Run a job that nobody waits for."""
        return await self._submit(job, after=TIDYING_YIELDS_S)

    def close(self) -> None:
        """Finish what waits, then flush and close the shards."""
        self._waiting.put((float("inf"), next(self._tickets), None, Future()))
        self._thread.join()

    async def _submit(self, job: Callable[[Shards], _T], *, after: float) -> _T:
        if self._waiting.qsize() >= MAX_WAITING:
            raise Overloaded
        done: Future[_T] = Future()
        self._waiting.put((time.monotonic() + after, next(self._tickets), job, done))  # type: ignore[arg-type]
        return await asyncio.wrap_future(done)

    def _serve(self) -> None:
        while True:
            try:
                _, _, job, done = self._waiting.get(timeout=FLUSH_AFTER_S if self._shards.dirty else None)
            except queue.Empty:
                self._flush()
                continue
            if job is None:
                self._shards.close()
                return
            if done.set_running_or_notify_cancel():
                self._run(job, done)
            if self._shards.dirty and time.monotonic() - self._flushed > FLUSH_AFTER_S:
                self._flush()

    def _run(self, job: Callable[[Shards], object], done: Future[object]) -> None:
        try:
            done.set_result(job(self._shards))
        except Exception as fault:  # noqa: BLE001 - the engine raises bare Exception; whoever asked is told
            done.set_exception(fault)
        except BaseException:  # noqa: BLE001 - likewise
            # A panic inside the engine leaves the shard in an unknown state: a fresh process reads the log again.
            _log.critical("engine_panic", exc_info=True)
            os._exit(70)

    def _flush(self) -> None:
        try:
            self._shards.flush()
        except Exception:  # noqa: BLE001 - as above: bare Exception, and nobody to tell
            _log.critical("engine_flush_failed", exc_info=True)
            os._exit(74)
        self._flushed = time.monotonic()


class Housekeeping:
    """Erases what was deleted, one collection at a time."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._one = asyncio.Lock()

    async def compact(self, name: str) -> None:
        """Return when everything that was deleted from the collection before this call is gone from its files."""
        started = time.monotonic()
        async with self._one:
            await self._desk.tidy(lambda shards: shards.begin_compaction(name))
            try:
                while await self._desk.tidy(lambda shards: shards.copy_some(name)):
                    pass
            except Exception:
                await self._desk.write(lambda shards: shards.abandon(name))
                raise
        _log.info("compacted collection=%s seconds=%.1f", name, time.monotonic() - started)

    async def keep(self) -> None:
        """Compact for ever what has been due for a day."""
        while True:
            try:
                for name in await self._desk.tidy(lambda shards: shards.soiled_before(time.time() - COMPACT_AFTER_S)):
                    await self.compact(name)
            except Exception:  # noqa: BLE001 - the engine raises bare Exception; the next round tries again
                _log.exception("compaction_failed")
            await asyncio.sleep(TIDY_EVERY_S)

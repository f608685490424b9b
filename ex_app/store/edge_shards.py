# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The embedded engine's collections on disk, and the one thread that touches them.

An update is written to the shard's write-ahead log before it returns, so a killed process loses nothing that was
acknowledged. Against a power cut the shard is also flushed within FLUSH_AFTER_S of a write (Qdrant's server: 5 s).
"""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import logging
import os
import queue
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import qdrant_edge as edge
from qdrant_client.http import models

from ex_app.store.edge_convert import shard_config

FLUSH_AFTER_S = 1.0
# How far a write yields to reads that arrive after it. Bounded, so that steady searching cannot starve indexing.
WRITE_YIELDS_S = 0.25
MAX_WAITING = 512

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,126}")
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class InUse(Exception):
    """Another process owns the folder."""


class NoCollection(Exception):
    """There is no collection of that name."""


class CollectionExists(Exception):
    """There already is a collection of that name."""


class Overloaded(Exception):
    """Too many requests wait for the shard."""


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Own the folder while the process lives; raises InUse. The kernel releases it however the process ends."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise InUse(f"{folder} is in use by another engine process (pid {lock.read().strip() or '?'})") from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


class Shards:
    """All collections of a folder, each `collections/<name>/` with `collection.json` and `shard/`. Not thread-safe.

    Half-made and half-deleted collections carry a leading dot and are swept at the next start.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "collections"
        self._open: dict[str, edge.EdgeShard] = {}
        self._dirty: set[str] = set()
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._folder.iterdir()):
            if path.name.startswith("."):
                shutil.rmtree(path)
            else:
                self._open[path.name] = edge.EdgeShard.load(str(path / "shard"))

    def names(self) -> list[str]:
        """Every collection, sorted."""
        return sorted(self._open)

    def get(self, name: str) -> edge.EdgeShard:
        """The collection's shard; raises NoCollection."""
        if name not in self._open:
            raise NoCollection(name)
        return self._open[name]

    def request_of(self, name: str) -> models.CreateCollection:
        """The request that created the collection."""
        self.get(name)
        return models.CreateCollection.model_validate_json((self._folder / name / "collection.json").read_bytes())

    def create(self, name: str, request: models.CreateCollection) -> None:
        """Make an empty collection, whole or not at all; raises CollectionExists, ValueError for a bad name."""
        if not _NAME.fullmatch(name):
            raise ValueError("a collection's name is 1 to 127 letters, digits, '_', '-' or '.'")
        if name in self._open:
            raise CollectionExists(name)
        draft = self._folder / f".new-{name}"
        shutil.rmtree(draft, ignore_errors=True)
        (draft / "shard").mkdir(parents=True)
        edge.EdgeShard.create(str(draft / "shard"), shard_config(request)).close()
        (draft / "collection.json").write_text(request.model_dump_json(exclude_unset=True), encoding="utf-8")
        draft.rename(self._folder / name)
        self._open[name] = edge.EdgeShard.load(str(self._folder / name / "shard"))

    def delete(self, name: str) -> bool:
        """Remove the collection and its files; False when there is none."""
        shard = self._open.pop(name, None)
        if shard is None:
            return False
        self._dirty.discard(name)
        shard.close()
        doomed = self._folder / f".old-{name}"
        (self._folder / name).rename(doomed)
        shutil.rmtree(doomed)
        return True

    def update(self, name: str, operation: edge.UpdateOperation) -> None:
        """Apply a change; it survives the death of the process once this returns."""
        self.get(name).update(operation)
        self._dirty.add(name)

    @property
    def dirty(self) -> bool:
        """Whether something would be lost by a power cut."""
        return bool(self._dirty)

    def flush(self) -> None:
        """Bring every change to the disk."""
        while self._dirty:
            self._open[self._dirty.pop()].flush()

    def close(self) -> None:
        """Flush and close all shards."""
        self.flush()
        while self._open:
            self._open.popitem()[1].close()


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

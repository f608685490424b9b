# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The embedded engine's collections on disk.

An update is written to the shard's write-ahead log before it returns, so a killed process loses nothing that was
acknowledged; `flush` guards against a power cut. Deleting does not erase: a compaction copies the living points into a
second shard beside the serving one, which then takes over, and removes the old files.
"""

from __future__ import annotations

import logging
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import qdrant_edge as edge
from qdrant_client.http import models

from ex_app.store.edge_convert import shard_config

COPY_BATCH = 100  # points a step of a compaction copies; searches wait while it does

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,126}")
_log = logging.getLogger(__name__)


class NoCollection(Exception):
    """There is no collection of that name."""


class CollectionExists(Exception):
    """There already is a collection of that name."""


class Unreadable(Exception):
    """A collection's files cannot be opened."""


class Abandoned(Exception):
    """A compaction was given up."""


@dataclass(slots=True)
class _Rebuild:
    """A fresh shard that takes over once it holds every living point. offset: the next point to copy."""

    shard: edge.EdgeShard
    offset: edge.PointId | None = None
    soiled: bool = False


class Shards:
    """All collections of a folder. Not thread-safe.

    `collections/<name>/` holds `collection.json` (the request that made it), `shard-<n>/` (the highest n is valid) and,
    since the first deletion after the last compaction, an empty file `garbage`. Names with a leading dot are unfinished
    or unwanted and are swept at the next start.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "collections"
        self._open: dict[str, edge.EdgeShard] = {}
        self._dirty: set[str] = set()
        self._rebuilds: dict[str, _Rebuild] = {}
        self._folder.mkdir(parents=True, exist_ok=True)
        _sweep(self._folder)
        for path in self._folder.iterdir():
            self._open[path.name] = _opened(path)

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
        draft.mkdir()
        _empty_shard(draft / "shard-1", request).close()
        (draft / "collection.json").write_text(request.model_dump_json(exclude_unset=True), encoding="utf-8")
        draft.rename(self._folder / name)
        self._open[name] = edge.EdgeShard.load(str(self._folder / name / "shard-1"))

    def delete(self, name: str) -> bool:
        """Remove the collection and its files; False when there is none."""
        shard = self._open.pop(name, None)
        if shard is None:
            return False
        self.abandon(name)
        self._dirty.discard(name)
        shard.close()
        doomed = self._folder / f".old-{name}"
        (self._folder / name).rename(doomed)
        shutil.rmtree(doomed)
        return True

    def add(self, name: str, operation: edge.UpdateOperation) -> None:
        """Apply a change that only adds; it survives the death of the process once this returns."""
        self.get(name).update(operation)
        self._dirty.add(name)
        if rebuild := self._rebuilds.get(name):
            try:
                rebuild.shard.update(operation)
            except Exception:  # noqa: BLE001 - the engine raises bare Exception; the serving shard has the change
                _log.exception("compaction_abandoned")
                self.abandon(name)

    def replace(self, name: str, operation: edge.UpdateOperation) -> None:
        """Apply a change that removes or overwrites: what it removes stays in the files until the next compaction."""
        garbage = self._folder / name / "garbage"
        if name in self._open and not garbage.exists():
            garbage.touch()
        self.add(name, operation)
        if rebuild := self._rebuilds.get(name):
            rebuild.soiled = True

    def soiled_before(self, moment: float) -> list[str]:
        """Collections whose files have held deleted content since before this moment (seconds since the epoch)."""
        garbage = {name: self._folder / name / "garbage" for name in self._open}
        return [name for name, path in garbage.items() if path.exists() and path.stat().st_mtime < moment]

    def begin_compaction(self, name: str) -> None:
        """Start building a second shard beside the serving one, afresh even when that was under way."""
        self.abandon(name)
        draft = self._draft(name)
        shutil.rmtree(draft, ignore_errors=True)
        fresh = _empty_shard(draft, self.request_of(name))
        for field, index in self.get(name).info().payload_schema.items():
            fresh.update(edge.UpdateOperation.create_field_index(field, index.data_type))
        self._rebuilds[name] = _Rebuild(fresh)

    def copy_some(self, name: str) -> bool:
        """Copy the next points; False when the new shard has taken over. Raises Abandoned when none is being built."""
        rebuild = self._rebuilds.get(name)
        if rebuild is None:
            raise Abandoned(name)
        page = edge.ScrollRequest(offset=rebuild.offset, limit=COPY_BATCH, with_payload=True, with_vector=True)
        records, rebuild.offset = self.get(name).scroll(page)
        points = [edge.Point(id=record.id, vector=record.vector or {}, payload=record.payload) for record in records]
        rebuild.shard.update(edge.UpdateOperation.upsert_points(points))
        if rebuild.offset is None:
            self._take_over(name, rebuild)
        return rebuild.offset is not None

    def abandon(self, name: str) -> None:
        """Give up a compaction; the serving shard is untouched."""
        rebuild = self._rebuilds.pop(name, None)
        if rebuild is not None:
            rebuild.shard.close()
            shutil.rmtree(self._draft(name), ignore_errors=True)

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
        for name in list(self._rebuilds):
            self.abandon(name)
        self.flush()
        while self._open:
            self._open.popitem()[1].close()

    def _draft(self, name: str) -> Path:
        return self._folder / name / ".draft"

    def _take_over(self, name: str, rebuild: _Rebuild) -> None:
        rebuild.shard.flush()
        rebuild.shard.close()
        home = self._folder / name
        outdated = max(home.glob("shard-*"), key=_number)
        valid = home / f"shard-{_number(outdated) + 1}"
        self._draft(name).rename(valid)
        del self._rebuilds[name]
        old, self._open[name] = self._open[name], edge.EdgeShard.load(str(valid))
        self._dirty.discard(name)
        old.close()
        shutil.rmtree(outdated)
        garbage = home / "garbage"
        garbage.touch() if rebuild.soiled else garbage.unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    for unfinished in folder.glob(".*"):
        shutil.rmtree(unfinished)


def _opened(home: Path) -> edge.EdgeShard:
    """The valid shard of a collection; sweeps what a compaction left behind. Raises Unreadable."""
    _sweep(home)
    try:
        *older, valid = sorted(home.glob("shard-*"), key=_number)
        shard = edge.EdgeShard.load(str(valid))
    except Exception as fault:
        raise Unreadable(f"the vector index {home} cannot be opened: {fault}") from fault
    for outdated in older:
        shutil.rmtree(outdated)
    return shard


def _number(shard: Path) -> int:
    return int(shard.name.rpartition("-")[2])


def _empty_shard(path: Path, request: models.CreateCollection) -> edge.EdgeShard:
    path.mkdir()
    return edge.EdgeShard.create(str(path), shard_config(request))

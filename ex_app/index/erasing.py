# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""A person's request: documents are gone from the next search on, and their words from every file of ours at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from ex_app.domain import DocumentKey
from ex_app.store.engine import Connection
from ex_app.store.registry import Registry
from ex_app.store.vectors import Vectors

log = logging.getLogger(__name__)

# How long somebody may take who is reading one of them right now; afterwards he cleans up himself; seconds.
_PATIENCE_S = 60.0
_POLL_S = 0.2

# How often the database's log is asked to be emptied: somebody may be reading in it.
_SCRUBS = 25


@dataclass(frozen=True, slots=True)
class Cleared:
    """From whose files the words are gone: the vector engine's, the database's."""

    engine: bool
    database: bool


async def erase(
    keys: Collection[DocumentKey], *, registry: Registry, vectors: Vectors, compact: Callable[[], Awaitable[bool]]
) -> Cleared:
    """Erase these for good. compact: rewrites the engine's files, False when they are not ours.

    Raises NotAvailable when a part is away: then they are gone from searches, and a second call clears the files.
    """
    for key in keys:
        await registry.erase(key)
    for _ in range(int(_PATIENCE_S / _POLL_S)):
        if not await registry.upkeep.at_work(keys):
            break
        await asyncio.sleep(_POLL_S)
    for key in keys:
        await vectors.drop(key)
    return await clear(registry=registry, compact=compact)


async def clear(*, registry: Registry, compact: Callable[[], Awaitable[bool]]) -> Cleared:
    """Rewrite all files that hold words of what was deleted or erased."""
    engine = await compact()
    for _ in range(_SCRUBS):
        if await registry.scrub():
            return Cleared(engine, database=True)
        await asyncio.sleep(_POLL_S)
    return Cleared(engine, database=False)


async def give_up_former_index(registry: Registry, engine: Connection, *, served: str) -> None:
    """Delete the index that was served before this one: nothing would delete from it what is deleted in Nextcloud."""
    former = await registry.index()
    if former is not None and former != served:
        await Vectors(engine, collection=former, dimensions=0).destroy()
        log.info("event=former_index_gone name=%s", former)

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What those ask of the registry who look after it: an admin's commands, the drift scan, the watchdog."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Executable, Select, Table, func, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from ex_app.domain import DocumentKey, Reason, ScopeId, Work
from ex_app.store import clock, facts, walks
from ex_app.store import work as work_rows
from ex_app.store.database import Database
from ex_app.store.documents import DocumentRow, Status, as_document, batches
from ex_app.store.tables import documents, work

Clock = Callable[[], float]

# The registry's setting that says when work last came to its end; written once in so many seconds at most.
_WORKED_AT = "worked_at"
_NOTED_EVERY_S = 5.0

# Work that is put off for less than this is as good as due: Nextcloud is asked again, a save settles; seconds.
_SOON_S = 60.0

# The pace of indexing is taken over so long; seconds.
_PACE_S = 600.0


@dataclass(frozen=True, slots=True)
class Queue:
    """How work goes on. due: documents that could be in work now, or are; the rest waits for a moment to come.

    oldest: since when the one that waits longest is wanted; worked_at: when one was last done; seconds since the epoch.
    pace: documents a second that were indexed in the last ten minutes; at_work: those that a worker has right now.
    """

    due: int
    oldest: float | None
    worked_at: float | None
    pace: float
    at_work: tuple[DocumentKey, ...]


async def finish(connection: AsyncConnection, item: Work, *, now: float) -> bool:
    """As work.finish; also notes that something was done."""
    done = await work_rows.finish(connection, item, now=now)
    if done:
        await facts.note_moment(connection, _WORKED_AT, now, every=_NOTED_EVERY_S)
    return done


class Upkeep:
    """Looks at many documents at once, page by page. All raise NotAvailable when the database does not answer."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def page(self, after: DocumentKey | None, limit: int) -> list[DocumentRow]:
        """The next documents in the order of their keys, hidden and erased ones too; none at the end."""
        c = documents.c
        further = [] if after is None else [tuple_(c.source, c.id) > (after.source, after.id)]
        statement = select(documents).where(*further).order_by(c.source, c.id).limit(limit)
        return await self._database.read(partial(_rows, statement=statement))

    async def rows(self, keys: Collection[DocumentKey]) -> dict[DocumentKey, DocumentRow]:
        """What is known of these, as far as we ever met them."""
        found: dict[DocumentKey, DocumentRow] = {}
        for some in batches(sorted(keys)):
            statement = select(documents).where(_among(documents, some))
            rows = await self._database.read(partial(_rows, statement=statement))
            found.update((row.key, row) for row in rows)
        return found

    async def expected(self, keys: Collection[DocumentKey]) -> frozenset[DocumentKey]:
        """Those of these that somebody works on, is to work on, or has given up with a reason."""
        found: set[DocumentKey] = set()
        for some in batches(sorted(keys)):
            statement = select(work.c.source, work.c.id).where(_among(work, some))
            found |= set(await self._database.read(partial(_keys, statement=statement)))
        return frozenset(found)

    async def at_work(self, keys: Collection[DocumentKey]) -> bool:
        """Whether a worker has any of these right now."""
        for some in batches(sorted(keys)):
            leased = work.c.token.is_not(None) & (work.c.due > self._clock())
            statement = select(work.c.source, work.c.id).where(_among(work, some), leased).limit(1)
            if await self._database.read(partial(_keys, statement=statement)):
                return True
        return False

    async def doubt(self, keys: Collection[DocumentKey]) -> None:
        """Let the next look at these write all their passages again, though their bytes are what they were."""
        for some in batches(sorted(keys)):
            statement = update(documents).where(_among(documents, some)).values(content_hash="")
            await self._database.write(partial(_execute, statement=statement))

    async def look_closely(self) -> None:
        """Let everybody's next walk list every folder and board, whatever was remembered of them."""
        await self._database.write(walks.look_closely)

    async def look_into(self, source: str, scope: ScopeId) -> None:
        """Let the next walk list this folder or board."""
        await self._database.write(partial(walks.look_into, source=source, scope=scope))

    async def walked(self, duty: str, source: str) -> tuple[int, int]:
        """How many have a duty of this kind, and how many containers of a source they remember, all together."""
        return await self._database.read(partial(walks.walked, duty=duty, source=source))

    async def highest(self, source: str) -> int:
        """The highest id among the current documents of a source, 0 without any."""
        c = documents.c
        statement = select(func.max(c.id)).where(c.source == source, c.status == Status.CURRENT)
        return await self._database.read(lambda connection: connection.scalar(statement)) or 0

    async def revive(self, keys: Collection[DocumentKey] | None = None) -> int:
        """Try quarantined documents again, these or all; returns how many."""
        asleep: list[ColumnElement[bool]] = [work.c.quarantined.is_not(None)]
        if keys is not None:
            asleep.append(_among(work, sorted(keys)))
        now = self._clock()
        statement = (
            update(work).where(*asleep).values(quarantined=None, token=None, attempts=0, due=now, enqueued_at=now)
        )
        return await self._database.write(partial(_execute, statement=statement))

    async def without_text(self, reason: Reason) -> list[DocumentRow]:
        """The documents that have no text in the index for this reason, given up or not, in the order of their keys."""
        c = documents.c
        statement = select(documents).where(c.status == Status.CURRENT, c.reason == reason).order_by(c.source, c.id)
        return await self._database.read(partial(_rows, statement=statement))

    async def set_clock_right(self, seen: float) -> bool:
        """Let nothing wait for moments of a clock that was ahead; True if it was. seen: what it showed somebody."""
        now = self._clock()
        if not await self._database.read(partial(clock.was_ahead, now=now, seen=seen)):
            return False
        await self._database.write(partial(clock.set_right, now=now))
        return True

    async def queue(self) -> Queue:
        """How work goes on."""
        return await self._database.read(lambda connection: _queue(connection, now=self._clock()))


async def _queue(connection: AsyncConnection, *, now: float) -> Queue:
    c = work.c
    could_be_done = c.quarantined.is_(None) & or_(c.token.is_not(None), c.due <= now + _SOON_S)
    due = (await connection.execute(select(func.count(), func.min(c.enqueued_at)).where(could_be_done))).one()
    indexed = select(func.count()).select_from(documents).where(documents.c.indexed_at > now - _PACE_S)
    at_work = select(c.source, c.id).where(c.token.is_not(None)).order_by(c.due)
    worked_at = await facts.get_setting(connection, _WORKED_AT)
    return Queue(
        due=due[0],
        oldest=due[1],
        worked_at=float(worked_at) if worked_at else None,
        pace=(await connection.scalar(indexed) or 0) / _PACE_S,
        at_work=tuple(await _keys(connection, statement=at_work)),
    )


async def _execute(connection: AsyncConnection, *, statement: Executable) -> int:
    """How many rows it changed."""
    return (await connection.execute(statement)).rowcount


async def _rows(connection: AsyncConnection, *, statement: Select[Any]) -> list[DocumentRow]:
    return [as_document(row) for row in await connection.execute(statement)]


async def _keys(connection: AsyncConnection, *, statement: Select[Any]) -> list[DocumentKey]:
    return [DocumentKey(row.source, row.id) for row in await connection.execute(statement)]


def _among(table: Table, keys: Iterable[DocumentKey]) -> ColumnElement[bool]:
    return tuple_(table.c.source, table.c.id).in_([(key.source, key.id) for key in keys])

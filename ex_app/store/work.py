# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The work table: what is to be done, once a document, in lanes, fairly, under leases.

Every function takes an open write transaction. Locks are taken in the order work, documents, lanes.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    ColumnElement,
    and_,
    bindparam,
    case,
    delete,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from ex_app.domain import DocumentKey, Lane, Reason, Version, Work
from ex_app.store.database import insert
from ex_app.store.tables import documents, lanes, work

# Backoff after the first failure, doubled with each further one up to the ceiling; seconds.
BACKOFF_S = 5.0
BACKOFF_MAX_S = 3600.0

# Nothing is ever put off so far: a row that is due later was written when the clock was wrong.
FARTHEST_S = 24 * 3600.0

# Errors are kept short: they are read by an admin, and some libraries quote whole documents.
ERROR_LENGTH = 300

_RANKS = {lane: rank for rank, lane in enumerate(Lane)}
_LANES = tuple(Lane)

# Made once: a statement that is put together anew each time is also compiled anew, while everybody waits for our lock.
_TURNS = select(
    select(lanes.c.turn).where(lanes.c.lane == bindparam("rank")).scalar_subquery().label("served"),
    select(func.max(work.c.turn))
    .where(work.c.lane == bindparam("rank"), work.c.reader == bindparam("reader"))
    .scalar_subquery()
    .label("last"),
)

_DISARMED = {"rearm_lane": None, "rearm_at": None, "rearm_news": False}


@dataclass(frozen=True, slots=True)
class Due:
    """A wish that a document be brought up to date as `reader`, not before a moment (seconds since the epoch).

    place_only: whatever the lane, only its place is in question.
    """

    key: DocumentKey
    lane: Lane
    reader: str
    not_before: float | None = None
    place_only: bool = False

    @property
    def reads(self) -> bool:
        """Whether its text is to be read, whatever its version says."""
        return self.lane is not Lane.ACCESS and not self.place_only


@dataclass(frozen=True, slots=True)
class Failure:
    """A quarantined document: what an admin reads."""

    key: DocumentKey
    reason: Reason
    detail: str
    attempts: int
    failed_at: float


def backoff(attempts: int) -> float:
    """Seconds until the next try: exponential, and jittered so that many failures of one cause don't return as one."""
    ceiling = min(BACKOFF_MAX_S, BACKOFF_S * 2.0 ** (attempts - 1))
    return random.uniform(ceiling / 2, ceiling)  # noqa: S311 (spreads load, guards nothing)


async def enqueue(connection: AsyncConnection, dues: Iterable[Due], *, now: float) -> None:
    """Merge wishes into the table: one row a document, the most urgent lane and the earliest moment win.

    What was asked for because of its place and otherwise as well is to be read: `reads` remembers that.

    A row in work is armed again instead. A change starts a quarantined or failing document afresh; a reader's wish for
    fresh text (lane REFRESH) brings no news, so it does not.
    """
    dues = list(dues)
    wishes = _merged(dues)
    if not wishes:
        return
    to_read = {due.key for due in dues if due.reads}
    turns = await _next_turns(connection, {(_RANKS[wish.lane], wish.reader) for wish in wishes})
    rows = []
    for wish in wishes:
        line = (_RANKS[wish.lane], wish.reader)
        rows.append(
            {
                "source": wish.key.source,
                "id": wish.key.id,
                "lane": line[0],
                "turn": turns[line],
                "reader": wish.reader,
                "reads": wish.key in to_read,
                "due": now if wish.not_before is None else wish.not_before,
                "enqueued_at": now,
            }
        )
        turns[line] += 1
    statement = insert(connection, work)
    new = statement.excluded
    await connection.execute(
        statement.on_conflict_do_update(
            index_elements=["source", "id"],
            set_=_merge_into_row(new),
            where=_may_wake(new),
        ),
        rows,
    )


def _merge_into_row(new: Any) -> dict[str, Any]:
    """What ON CONFLICT sets: `work` is the row that is there, `new` the wish."""
    leased = work.c.token.is_not(None)
    asleep = work.c.quarantined.is_not(None)
    wish_only = and_(~asleep, work.c.attempts > 0, new.lane == _RANKS[Lane.REFRESH])
    return {
        "lane": case((leased, work.c.lane), (asleep, new.lane), else_=_least(work.c.lane, new.lane)),
        "turn": case((and_(~asleep, _returns_to() <= new.lane), work.c.turn), else_=new.turn),
        "reader": new.reader,
        "reads": or_(work.c.reads, new.reads),
        "due": case((or_(leased, wish_only), work.c.due), (asleep, new.due), else_=_least(work.c.due, new.due)),
        "attempts": case((or_(leased, wish_only), work.c.attempts), else_=0),
        "rearm_lane": case((leased, _least(func.coalesce(work.c.rearm_lane, new.lane), new.lane))),
        "rearm_at": case((leased, _least(func.coalesce(work.c.rearm_at, new.due), new.due))),
        "rearm_news": and_(leased, or_(work.c.rearm_news, new.lane != _RANKS[Lane.REFRESH])),
        "quarantined": None,
        "enqueued_at": case((asleep, new.enqueued_at), else_=work.c.enqueued_at),
    }


def _may_wake(new: Any) -> ColumnElement[bool]:
    """A quarantined row is woken by a change, or by a reader when a reader was all that it lacked."""
    return or_(
        work.c.quarantined.is_(None),
        work.c.quarantined == Reason.NO_READER.value,
        new.lane != _RANKS[Lane.REFRESH],
    )


async def claim(
    connection: AsyncConnection, *, now: float, limit: int, lease_s: float, max_attempts: int
) -> list[Work]:
    """Lease up to `limit` due documents, most urgent and least served first, and draw a generation for each."""
    rows = (
        await connection.execute(
            select(work)
            .where(work.c.quarantined.is_(None), or_(work.c.due <= now, work.c.due > now + FARTHEST_S))
            .order_by(work.c.lane, work.c.turn)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
    ).all()
    exhausted = [row for row in rows if _is_exhausted(row, max_attempts)]
    await _give_up(connection, exhausted, now=now)
    rows = [row for row in rows if not _is_exhausted(row, max_attempts)]
    if not rows:
        return []
    batch = uuid.uuid4().hex
    generations = await _draw(connection, sorted(DocumentKey(row.source, row.id) for row in rows), now=now)
    claimed = [
        Work(
            key=(key := DocumentKey(row.source, row.id)),
            lane=_LANES[row.lane],
            reads=row.reads,
            reader=row.reader,
            token=f"{batch}:{key}",
            generation=generations[key],
            # A change that came after the last claim is news: the count begins again.
            attempts=1 if row.rearm_news else row.attempts + 1,
        )
        for row in rows
    ]
    await _lease(connection, claimed, until=now + lease_s)
    for rank in sorted({row.lane for row in rows}):
        served = max(row.turn for row in rows if row.lane == rank)
        await connection.execute(update(lanes).where(lanes.c.lane == rank, lanes.c.turn < served).values(turn=served))
    return claimed


async def heartbeat(connection: AsyncConnection, token: str, *, now: float, lease_s: float) -> bool:
    """Prolong a lease; False when it is no longer ours."""
    done = await connection.execute(update(work).where(work.c.token == token).values(due=now + lease_s))
    return done.rowcount > 0


async def finish(connection: AsyncConnection, item: Work, *, now: float) -> bool:
    """Done: the row goes, or becomes due again when a change arrived meanwhile. False when the lease was lost."""
    done = await connection.execute(delete(work).where(holds(item), work.c.rearm_lane.is_(None)))
    return done.rowcount > 0 or await _rearm(connection, item, now=now)


async def retry(connection: AsyncConnection, item: Work, error: str, *, now: float, delay: float) -> bool:
    """Failed: due again after `delay` seconds, earlier if a change came meanwhile. False when the lease was lost."""
    done = await connection.execute(
        update(work)
        .where(holds(item), ~work.c.rearm_news)
        .values(token=None, due=now + delay, last_error=error[:ERROR_LENGTH], failed_at=now, **_DISARMED)
    )
    return done.rowcount > 0 or await _rearm(connection, item, now=now)


async def quarantine(
    connection: AsyncConnection, item: Work, reason: Reason, detail: str, *, now: float, version: Version
) -> bool:
    """Failed for good: never claimed until a change, unless one arrived meanwhile. False when the lease was lost."""
    done = await connection.execute(
        update(work)
        .where(holds(item), ~work.c.rearm_news)
        .values(token=None, quarantined=reason.value, last_error=detail[:ERROR_LENGTH], failed_at=now, **_DISARMED)
    )
    if done.rowcount == 0:
        return await _rearm(connection, item, now=now)
    await _note_failure(connection, item.key, reason, version)
    return True


async def release(connection: AsyncConnection, tokens: Iterable[str], *, now: float, delay: float) -> None:
    """Give leases back as if never taken: due after `delay` seconds, the try is not counted."""
    await connection.execute(
        update(work)
        .where(work.c.token.in_(list(tokens)))
        .values(
            token=None,
            due=now + delay,
            attempts=work.c.attempts - 1,
            lane=_returns_to(),
            **_DISARMED,
        )
    )


async def failures(connection: AsyncConnection, limit: int) -> list[Failure]:
    """The quarantined documents, latest first."""
    rows = await connection.execute(
        select(work)
        .where(work.c.quarantined.is_not(None), work.c.failed_at.is_not(None))
        .order_by(work.c.failed_at.desc())
        .limit(limit)
    )
    return [
        Failure(DocumentKey(row.source, row.id), Reason(row.quarantined), row.last_error, row.attempts, row.failed_at)
        for row in rows
    ]


def holds(item: Work) -> ColumnElement[bool]:
    """True for the row of `item` while its lease is the holder's."""
    return and_(work.c.source == item.key.source, work.c.id == item.key.id, work.c.token == item.token)


async def _rearm(connection: AsyncConnection, item: Work, *, now: float) -> bool:
    """Due again in the lane that was asked for meanwhile, in which it stands in line as if it came just now."""
    armed = select(work.c.rearm_lane, work.c.rearm_at, work.c.reader).where(holds(item), work.c.rearm_lane.is_not(None))
    row = (await connection.execute(armed.with_for_update())).one_or_none()
    if row is None:
        return False
    line = (row.rearm_lane, row.reader)
    turns = await _next_turns(connection, {line})
    await connection.execute(
        update(work)
        .where(holds(item))
        .values(
            lane=row.rearm_lane,
            turn=turns[line],
            due=row.rearm_at,
            token=None,
            attempts=0,
            enqueued_at=now,
            **_DISARMED,
        )
    )
    return True


async def _lease(connection: AsyncConnection, claimed: Sequence[Work], *, until: float) -> None:
    await connection.execute(
        update(work)
        .where(work.c.source == bindparam("its_source"), work.c.id == bindparam("its_id"))
        .values(token=bindparam("its_token"), attempts=bindparam("its_attempts"), due=until, **_DISARMED),
        [
            {
                "its_source": item.key.source,
                "its_id": item.key.id,
                "its_token": item.token,
                "its_attempts": item.attempts,
            }
            for item in claimed
        ],
    )


def _is_exhausted(row: Any, max_attempts: int) -> bool:
    """Claimed that often without a word from its worker: it takes whoever touches it down."""
    return row.token is not None and row.attempts >= max_attempts and not row.rearm_news


async def _give_up(connection: AsyncConnection, rows: Sequence[Any], *, now: float) -> None:
    for row in rows:
        detail = f"the worker stopped {row.attempts} times while it had this document"
        await connection.execute(
            update(work)
            .where(work.c.source == row.source, work.c.id == row.id)
            .values(token=None, quarantined=Reason.FAILED.value, last_error=detail, failed_at=now)
        )
        await _note_failure(connection, DocumentKey(row.source, row.id), Reason.FAILED, Version(""))


async def _note_failure(connection: AsyncConnection, key: DocumentKey, reason: Reason, version: Version) -> None:
    await connection.execute(
        update(documents)
        .where(documents.c.source == key.source, documents.c.id == key.id)
        .values(reason=reason.value, failed_version=version)
    )


async def _draw(connection: AsyncConnection, keys: Sequence[DocumentKey], *, now: float) -> dict[DocumentKey, int]:
    """Draw each document's next generation, making the documents that we meet for the first time.

    The clock is the floor: a registry restored from a backup must not draw a generation that points already carry.
    """
    statement = insert(connection, documents)
    next_one = documents.c.next_generation + 1
    floor = statement.excluded.next_generation
    new = [{"source": key.source, "id": key.id, "next_generation": int(now)} for key in keys]
    rows = await connection.execute(
        statement.values(new[0] if len(new) == 1 else new)  # of one the statement is compiled once for ever
        .on_conflict_do_update(
            index_elements=["source", "id"], set_={"next_generation": case((next_one > floor, next_one), else_=floor)}
        )
        .returning(documents.c.source, documents.c.id, documents.c.next_generation)
    )
    return {DocumentKey(row.source, row.id): row.next_generation for row in rows}


def _merged(dues: Iterable[Due]) -> list[Due]:
    """One wish a document, in key order: concurrent batches then lock rows in the same order."""
    merged: dict[DocumentKey, Due] = {}
    for due in dues:
        known = merged.get(due.key)
        if known is None:
            merged[due.key] = due
            continue
        moments = (known.not_before, due.not_before)
        merged[due.key] = replace(
            due,
            lane=min(known.lane, due.lane, key=_RANKS.__getitem__),
            not_before=None if None in moments else min(m for m in moments if m is not None),
        )
    return [merged[key] for key in sorted(merged)]


async def _next_turns(connection: AsyncConnection, lines: Iterable[tuple[int, str]]) -> dict[tuple[int, str], int]:
    """Per lane and reader the turn after the reader's last one, at least the turn being served now."""
    found = {}
    for rank, reader in sorted(lines):
        row = (await connection.execute(_TURNS, {"rank": rank, "reader": reader})).one()
        served = row.served or 0
        found[rank, reader] = max(served, 0 if row.last is None else row.last + 1)
    return found


def _returns_to() -> ColumnElement[int]:
    """The lane of a row once nobody works on it any more and nothing was done."""
    return _least(work.c.lane, func.coalesce(work.c.rearm_lane, work.c.lane))


def _least(left: ColumnElement[Any], right: ColumnElement[Any]) -> ColumnElement[Any]:
    """The smaller of two, in both dialects."""
    return case((left < right, left), else_=right)

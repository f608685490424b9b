# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What the registry knows of documents, and how far indexing is.

Every function takes an open transaction. Those that write return whether they did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Row, and_, bindparam, delete, exists, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from ex_app.domain import Container, DocumentKey, Reason, ScopeId, Sighting, Version, Work
from ex_app.store.database import insert
from ex_app.store.tables import documents, work
from ex_app.store.work import holds

# Values in one IN list: far below any database's limit, few enough to keep statements quick to plan.
BATCH = 500

T = TypeVar("T")


class Status(StrEnum):
    """current: may be shown. hidden: gone at the source until seen again. erased: a person asked; an admin may lift."""

    CURRENT = "current"
    HIDDEN = "hidden"
    ERASED = "erased"


@dataclass(frozen=True, slots=True)
class LiveRow:
    """What search needs to know of a candidate. generation: whose points count, 0 when none do.

    failed_version: the version that could not be indexed, empty when the last try went well.
    """

    generation: int
    version: Version
    settled: bool
    status: Status
    content_hash: str
    chunks: int
    failed_version: Version


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """Everything known of a document. live: generation whose points count, 0 for none; reason: why it has no text.

    listed: the finer version that its last listing gave, empty when there was none.
    """

    key: DocumentKey
    version: Version
    listed: str
    settled: bool
    status: Status
    live: int
    parent: ScopeId
    scopes: tuple[ScopeId, ...]
    title: str
    path: str
    owner: str
    reader: str
    mtime: int
    mime: str
    size: int
    content_hash: str
    chunks: int
    truncated: bool
    reason: Reason | None
    failed_version: Version
    indexed_at: float | None
    seen_at: float | None


# What a document leaves behind when it is hidden or erased: ids and places in the tree, no words of people.
_WIPED: Mapping[str, Any] = {
    "version": "",
    "listed": "",
    "settled": False,
    "live": 0,
    "title": "",
    "path": "",
    "mtime": 0,
    "mime": "",
    "size": 0,
    "content_hash": "",
    "chunks": 0,
    "truncated": False,
    "reason": None,
    "failed_version": "",
    "indexed_at": None,
}


async def publish(
    connection: AsyncConnection,
    item: Work,
    sighting: Sighting,
    *,
    now: float,
    content_hash: str,
    chunks: int,
    settled: bool,
    truncated: bool,
    reason: Reason | None,
) -> bool:
    """Make the generation of `item` the live one. False when the lease was lost or the document erased."""
    done = await connection.execute(
        update(documents)
        .where(
            _is(item.key),
            _leased(item),
            documents.c.status != Status.ERASED,
        )
        .values(
            **_seen(sighting, now=now),
            version=sighting.version,
            mime=sighting.mime,
            size=sighting.size,
            settled=settled,
            status=Status.CURRENT.value,
            live=item.generation,
            reader=item.reader,
            content_hash=content_hash,
            chunks=chunks,
            truncated=truncated,
            reason=reason and reason.value,
            failed_version="",
            indexed_at=now,
        )
    )
    return done.rowcount > 0


async def confirm(connection: AsyncConnection, item: Work, sighting: Sighting, *, now: float, settled: bool) -> bool:
    """Its content is still what is live: note version and place. False when the lease was lost or nothing is live."""
    done = await connection.execute(
        update(documents)
        .where(_is(item.key), _leased(item), documents.c.status == Status.CURRENT, documents.c.live > 0)
        .values(
            **_seen(sighting, now=now),
            version=sighting.version,
            mime=sighting.mime,
            size=sighting.size,
            settled=settled,
            reader=item.reader,
            failed_version="",
        )
    )
    return done.rowcount > 0


async def meet(connection: AsyncConnection, sightings: Sequence[Sighting], *, now: float) -> None:
    """Know of documents from their first sighting on; known ones stay as they are."""
    if not sightings:
        return
    rows = [
        {
            "source": sighting.key.source,
            "id": sighting.key.id,
            **_seen(sighting, now=now),
            "listed": sighting.listed,
            "mime": sighting.mime,
            "size": sighting.size,
        }
        for sighting in sorted(sightings, key=lambda sighting: sighting.key)
    ]
    await connection.execute(insert(connection, documents).on_conflict_do_nothing(), rows)


async def any_live(connection: AsyncConnection) -> bool:
    """Whether the registry believes that anything is in the index."""
    return bool(await connection.scalar(select(exists().where(documents.c.live > 0))))


async def reset(connection: AsyncConnection) -> None:
    """Forget what is in the index, not what is known: every document is to be indexed again, erased ones never."""
    await connection.execute(
        update(documents)
        .where(documents.c.status != Status.ERASED)
        .values(live=0, version="", content_hash="", settled=False, failed_version="", reason=None)
    )


async def place(connection: AsyncConnection, sighting: Sighting, *, now: float, item: Work | None) -> bool:
    """Note where a document lies and what it is called; its version and text stay. False when it isn't current."""
    done = await connection.execute(
        update(documents)
        .where(_is(sighting.key), documents.c.status == Status.CURRENT, *_leases(item))
        .values(**_seen(sighting, now=now))
    )
    return done.rowcount > 0


async def place_many(connection: AsyncConnection, sightings: Sequence[Sighting], *, now: float) -> None:
    """As place, for a whole listing."""
    for sighting in sorted(sightings, key=lambda sighting: sighting.key):
        await place(connection, sighting, now=now, item=None)


async def hide(connection: AsyncConnection, key: DocumentKey, *, item: Work | None) -> bool:
    """Gone at the source: no generation is live, its words are wiped. Lifted by the next publish."""
    done = await connection.execute(
        update(documents)
        .where(_is(key), documents.c.status == Status.CURRENT, *_leases(item))
        .values(**_WIPED, status=Status.HIDDEN.value)
    )
    return done.rowcount > 0


async def erase(connection: AsyncConnection, key: DocumentKey) -> None:
    """A person asked: as hidden, for good, and also when we never met it."""
    gone = {**_WIPED, "owner": "", "reader": "", "status": Status.ERASED.value}
    statement = insert(connection, documents).values(source=key.source, id=key.id, **gone)
    await connection.execute(statement.on_conflict_do_update(index_elements=["source", "id"], set_=gone))


async def lift(connection: AsyncConnection, key: DocumentKey) -> bool:
    """An admin takes an erasure back: the next sighting may index it again. False when it wasn't erased."""
    done = await connection.execute(
        update(documents).where(_is(key), documents.c.status == Status.ERASED).values(status=Status.HIDDEN.value)
    )
    return done.rowcount > 0


async def hidden_before(connection: AsyncConnection, moment: float, limit: int) -> list[DocumentKey]:
    """Hidden documents last seen before `moment` that no work is due for."""
    rows = await connection.execute(
        select(documents.c.source, documents.c.id)
        .where(documents.c.status == Status.HIDDEN, func.coalesce(documents.c.seen_at, 0) < moment, ~_has_work())
        .limit(limit)
    )
    return [DocumentKey(row.source, row.id) for row in rows]


async def forget(connection: AsyncConnection, keys: Iterable[DocumentKey]) -> int:
    """Drop the rows of those that are still hidden and idle; returns how many."""
    gone = 0
    for source, ids in _by_source(keys):
        done = await connection.execute(
            delete(documents).where(
                documents.c.source == source,
                documents.c.id.in_(ids),
                documents.c.status == Status.HIDDEN,
                ~_has_work(),
            )
        )
        gone += done.rowcount
    return gone


async def live(connection: AsyncConnection, keys: Iterable[DocumentKey]) -> dict[DocumentKey, LiveRow]:
    """What is live of these documents; unknown ones are absent."""
    c = documents.c
    found: dict[DocumentKey, LiveRow] = {}
    for source, ids in _by_source(keys):
        rows = await connection.execute(
            select(c.id, c.live, c.version, c.settled, c.status, c.content_hash, c.chunks, c.failed_version).where(
                c.source == source, c.id.in_(ids)
            )
        )
        for row in rows:
            found[DocumentKey(source, row.id)] = LiveRow(
                generation=row.live,
                version=Version(row.version),
                settled=row.settled,
                status=Status(row.status),
                content_hash=row.content_hash,
                chunks=row.chunks,
                failed_version=Version(row.failed_version),
            )
    return found


async def document(connection: AsyncConnection, key: DocumentKey) -> DocumentRow | None:
    """One document, or None when we never met it."""
    row = (await connection.execute(select(documents).where(_is(key)))).one_or_none()
    return None if row is None else as_document(row)


async def by_parent(connection: AsyncConnection, source: str, parents: Sequence[ScopeId]) -> list[DocumentRow]:
    """The documents that lie directly in these containers, hidden and erased ones too."""
    found: list[DocumentRow] = []
    for some in batches(parents):
        rows = await connection.execute(
            select(documents).where(documents.c.source == source, documents.c.parent.in_(some))
        )
        found.extend(as_document(row) for row in rows)
    return found


async def rescope(connection: AsyncConnection, source: str, container: Container) -> list[DocumentKey]:
    """A container moved: give the documents directly in it its scopes and path; returns which."""
    rows = (
        await connection.execute(
            select(documents.c.id, documents.c.path)
            .where(documents.c.source == source, documents.c.parent == container.scope)
            .where(documents.c.status == Status.CURRENT)
            .order_by(documents.c.id)
            .with_for_update()
        )
    ).all()
    if not rows:
        return []
    stem = container.path.rstrip("/")
    await connection.execute(
        update(documents)
        .where(documents.c.source == source, documents.c.id == bindparam("its_id"))
        .values(scopes=list(container.scopes), path=bindparam("its_path")),
        [{"its_id": row.id, "its_path": f"{stem}/{row.path.rpartition('/')[2]}"} for row in rows],
    )
    return [DocumentKey(source, row.id) for row in rows]


def batches(items: Iterable[T]) -> list[list[T]]:
    """Lists of at most BATCH items."""
    every = list(items)
    return [every[at : at + BATCH] for at in range(0, len(every), BATCH)]


def _by_source(keys: Iterable[DocumentKey]) -> list[tuple[str, list[int]]]:
    ordered = sorted(set(keys))
    return [
        (source, ids)
        for source, group in groupby(ordered, key=lambda key: key.source)
        for ids in batches(key.id for key in group)
    ]


def _is(key: DocumentKey) -> ColumnElement[bool]:
    return and_(documents.c.source == key.source, documents.c.id == key.id)


def _leased(item: Work) -> ColumnElement[bool]:
    """The lease is its holder's, and so its generation the newest: none that was drawn later is or will be live.

    Whoever claims draws a generation, so the document's own row tells of a claim that is being made right now.
    """
    return and_(documents.c.next_generation == item.generation, exists().where(holds(item)))


def _leases(item: Work | None) -> list[ColumnElement[bool]]:
    return [] if item is None else [_leased(item)]


def _has_work() -> ColumnElement[bool]:
    return exists().where(work.c.source == documents.c.source, work.c.id == documents.c.id)


def _seen(sighting: Sighting, *, now: float) -> dict[str, Any]:
    """What any sighting tells, whether or not the content was read."""
    finer = {"listed": sighting.listed} if sighting.listed else {}
    return {
        **finer,
        "parent": sighting.parent,
        "scopes": list(sighting.scopes),
        "title": sighting.title,
        "path": sighting.path,
        "mtime": sighting.mtime,
        "owner": sighting.owner,
        "seen_at": now,
    }


def as_document(row: Row[Any]) -> DocumentRow:
    """A row of the table in our words."""
    return DocumentRow(
        key=DocumentKey(row.source, row.id),
        version=Version(row.version),
        listed=row.listed,
        settled=row.settled,
        status=Status(row.status),
        live=row.live,
        parent=ScopeId(row.parent),
        scopes=tuple(ScopeId(scope) for scope in row.scopes),
        title=row.title,
        path=row.path,
        owner=row.owner,
        reader=row.reader,
        mtime=row.mtime,
        mime=row.mime,
        size=row.size,
        content_hash=row.content_hash,
        chunks=row.chunks,
        truncated=row.truncated,
        reason=Reason(row.reason) if row.reason else None,
        failed_version=Version(row.failed_version),
        indexed_at=row.indexed_at,
        seen_at=row.seen_at,
    )

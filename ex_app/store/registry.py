# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The registry: what is known, what is live and what is to be done, shared by every process of one installation.

Each method is one short transaction (bulk ones: one per few hundred rows). All raise NotAvailable when the database
does not answer. On SQLite writers take turns; readers never wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Integer, Text, cast, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from ex_app.domain import (
    Container,
    DocumentKey,
    Lane,
    Progress,
    Reason,
    ScopeId,
    SemanticSearchError,
    Sighting,
    Version,
    Work,
)
from ex_app.settings import Settings
from ex_app.store import documents, work
from ex_app.store.database import Database, insert, open_database
from ex_app.store.documents import DocumentRow, LiveRow, Status, batches
from ex_app.store.tables import containers, meta, pulses
from ex_app.store.work import Due, Failure, backoff

__all__ = ["DocumentRow", "Due", "Failure", "LiveRow", "Pulse", "Registry", "Status", "open_registry"]

Clock = Callable[[], float]

_INSTANCE = "instance"
_EPOCH = "reach_epoch"
_SETTING = "setting:"


@dataclass(frozen=True, slots=True)
class Pulse:
    """What told at the last walk whether anything of a user's changed, and when that walk ended."""

    value: str
    walked_at: float


async def open_registry(settings: Settings, *, clock: Clock = time.time) -> Registry:
    """Open the registry and bring its schema up to date; safe when several processes start at once.

    Raises SemanticSearchError with what to do when its place does not fit or its data is newer than this version.
    """
    return Registry(await open_database(settings), max_attempts=settings.max_attempts, clock=clock)


class Registry:
    """One process's door to the registry. Close it."""

    def __init__(self, database: Database, *, max_attempts: int, clock: Clock = time.time) -> None:
        self._database = database
        self._max_attempts = max_attempts
        self._clock = clock

    async def close(self) -> None:
        """Give the connections back."""
        await self._database.close()

    async def scrub(self) -> bool:
        """Clear deleted words from the database's log; False when somebody was in the way: ask again later."""
        return await self._database.scrub()

    # --- Whose registry, and what is agreed upon

    async def bind(self, instance_id: str) -> None:
        """Make this the registry of one Nextcloud instance. Raises SemanticSearchError when it is another's already."""
        async with self._database.writing() as connection:
            statement = insert(connection, meta).values(key=_INSTANCE, value=instance_id)
            await connection.execute(statement.on_conflict_do_nothing())
            bound = await _fact(connection, _INSTANCE)
        if bound != instance_id:
            raise SemanticSearchError(
                f"This registry belongs to the Nextcloud instance {bound!r}, not to {instance_id!r}. Give each "
                "instance a storage (or DATABASE_URL) of its own; to reuse this one, empty it first and index again."
            )

    async def get_setting(self, key: str) -> str | None:
        """A setting that all processes share; None when never set."""
        async with self._database.reading() as connection:
            return await _fact(connection, _SETTING + key)

    async def set_setting(self, key: str, value: str) -> None:
        """Set it, for all processes."""
        async with self._database.writing() as connection:
            statement = insert(connection, meta).values(key=_SETTING + key, value=value)
            await connection.execute(
                statement.on_conflict_do_update(index_elements=["key"], set_={"value": statement.excluded.value})
            )

    async def epoch(self) -> int:
        """The reach epoch: a cached reach of another epoch is no longer believed."""
        async with self._database.reading() as connection:
            return int(await _fact(connection, _EPOCH) or 0)

    async def bump_epoch(self) -> int:
        """Begin a new reach epoch, and return it."""
        later = cast(cast(meta.c.value, Integer) + 1, Text)
        async with self._database.writing() as connection:
            statement = insert(connection, meta).values(key=_EPOCH, value="1")
            value = await connection.scalar(
                statement.on_conflict_do_update(index_elements=["key"], set_={"value": later}).returning(meta.c.value)
            )
        return int(value)

    # --- Work

    async def enqueue(self, key: DocumentKey, lane: Lane, reader: str, *, not_before: float | None = None) -> None:
        """Ask for a document to be brought up to date as `reader`; see enqueue_many."""
        await self.enqueue_many([Due(key, lane, reader, not_before)])

    async def enqueue_many(self, dues: Iterable[Due]) -> None:
        """Make work due, once a document: the most urgent lane, the earliest moment and the newest reader win.

        A document in work is done again afterwards. Any lane but REFRESH revives a quarantined document and forgets its
        failed tries. Durable on return; a large batch may be interrupted between its parts, so acknowledge after it.
        """
        for some in batches(dues):
            async with self._database.writing() as connection:
                await work.enqueue(connection, some, now=self._clock())

    async def claim(self, limit: int, lease_s: float) -> list[Work]:
        """Lease up to `limit` documents for `lease_s` seconds, most urgent first; each with a generation of its own.

        Within a lane readers take turns. `attempts` is 1 at the first try. A document claimed max_attempts times
        without a word from its worker is quarantined instead. An erased document comes too, to be cleaned up after:
        look at its status before fetching.
        """
        async with self._database.writing() as connection:
            return await work.claim(
                connection, now=self._clock(), limit=limit, lease_s=lease_s, max_attempts=self._max_attempts
            )

    async def heartbeat(self, token: str, lease_s: float) -> bool:
        """Prolong a lease to `lease_s` seconds from now; False when it was lost: stop and drop what was made."""
        async with self._database.writing() as connection:
            return await work.heartbeat(connection, token, now=self._clock(), lease_s=lease_s)

    async def finish(self, item: Work) -> bool:
        """Done, unless a change arrived meanwhile: then it is due again. False when the lease was lost."""
        async with self._database.writing() as connection:
            return await work.finish(connection, item, now=self._clock())

    async def retry(self, item: Work, error: str, *, delay: float | None = None) -> bool:
        """Failed for now: again after `delay` seconds (default: exponential, jittered). False when the lease was lost.

        `error` is what an admin reads: no document text, no secret.
        """
        wait = backoff(item.attempts) if delay is None else delay
        async with self._database.writing() as connection:
            return await work.retry(connection, item, error, now=self._clock(), delay=wait)

    async def quarantine(self, item: Work, reason: Reason, detail: str = "", *, version: Version | None = None) -> bool:
        """Failed for good, until a change; `version`: the one that failed, if known. False when the lease was lost."""
        async with self._database.writing() as connection:
            return await work.quarantine(
                connection, item, reason, detail, now=self._clock(), version=version or Version("")
            )

    async def release(self, tokens: Iterable[str], *, delay: float = 0.0) -> None:
        """Give leases back uncounted, due after `delay` seconds: at shutdown, or when the fault was Nextcloud's."""
        for some in batches(tokens):
            async with self._database.writing() as connection:
                await work.release(connection, some, now=self._clock(), delay=delay)

    async def failures(self, limit: int = 100) -> list[Failure]:
        """Quarantined documents, latest first."""
        async with self._database.reading() as connection:
            return await work.failures(connection, limit)

    # --- Documents

    async def publish(
        self,
        item: Work,
        sighting: Sighting,
        *,
        content_hash: str,
        chunks: int,
        settled: bool,
        truncated: bool,
        reason: Reason | None = None,
    ) -> bool:
        """Make the generation of `item` live, in one conditional UPDATE; also brings a hidden document back.

        reason: why it has no text (chunks 0). False when the lease was lost or the document erased: drop the points.
        """
        async with self._database.writing() as connection:
            return await documents.publish(
                connection,
                item,
                sighting,
                now=self._clock(),
                content_hash=content_hash,
                chunks=chunks,
                settled=settled,
                truncated=truncated,
                reason=reason,
            )

    async def confirm(self, item: Work, sighting: Sighting, *, settled: bool) -> bool:
        """Its content hash is still the live one: note version and place. False without lease or live generation."""
        async with self._database.writing() as connection:
            return await documents.confirm(connection, item, sighting, now=self._clock(), settled=settled)

    async def place(self, sighting: Sighting, *, item: Work | None = None) -> bool:
        """Note title, path, parent, scopes, mtime, owner; version and text stay. With `item` only under its lease."""
        async with self._database.writing() as connection:
            return await documents.place(connection, sighting, now=self._clock(), item=item)

    async def rescope(self, source: str, moved: Iterable[Container]) -> list[DocumentKey]:
        """Give the documents directly in each container its scopes and path; returns which."""
        keys: list[DocumentKey] = []
        for container in moved:
            async with self._database.writing() as connection:
                keys += await documents.rescope(connection, source, container)
        return keys

    async def hide(self, key: DocumentKey, *, item: Work | None = None) -> bool:
        """Gone at the source: nothing of it is live, its title and path are wiped. With `item` only under its lease."""
        async with self._database.writing() as connection:
            return await documents.hide(connection, key, item=item)

    async def erase(self, key: DocumentKey) -> None:
        """A person asked: gone from the next query on, never indexed again, work due to remove its points."""
        async with self._database.writing() as connection:
            await work.enqueue(connection, [Due(key, Lane.ACCESS, "")], now=self._clock())
            await documents.erase(connection, key)
        await self.scrub()

    async def lift(self, key: DocumentKey) -> bool:
        """Take an erasure back: the next sighting may index it again. False when it wasn't erased."""
        async with self._database.writing() as connection:
            return await documents.lift(connection, key)

    async def forget_hidden(self, before: float) -> int:
        """Drop what is left of documents hidden and last seen before a moment; returns how many."""
        gone = 0
        while True:
            async with self._database.reading() as connection:
                keys = await documents.hidden_before(connection, before, documents.BATCH)
            if not keys:
                return gone
            async with self._database.writing() as connection:
                gone += await documents.forget(connection, keys)

    async def live(self, keys: Iterable[DocumentKey]) -> Mapping[DocumentKey, LiveRow]:
        """Which generation counts, for each of these documents that we know."""
        async with self._database.reading() as connection:
            return await documents.live(connection, keys)

    async def document(self, key: DocumentKey) -> DocumentRow | None:
        """Everything known of a document; None when we never met it."""
        async with self._database.reading() as connection:
            return await documents.document(connection, key)

    async def by_parent(self, source: str, parents: Iterable[ScopeId]) -> list[DocumentRow]:
        """The documents directly in these containers, hidden and erased ones too."""
        async with self._database.reading() as connection:
            return await documents.by_parent(connection, source, list(parents))

    # --- What walkers remember

    async def containers(self, source: str, walker: str) -> Mapping[ScopeId, Container]:
        """The containers as this walker saw them last."""
        async with self._database.reading() as connection:
            rows = await connection.execute(
                select(containers).where(containers.c.source == source, containers.c.walker == walker)
            )
            return {
                ScopeId(row.scope): Container(
                    ScopeId(row.scope), row.etag, row.path, tuple(ScopeId(scope) for scope in row.ancestors)
                )
                for row in rows
            }

    async def save_containers(self, source: str, walker: str, seen: Iterable[Container]) -> None:
        """Remember containers; save them after the work that their listing gave is enqueued."""
        for some in batches(sorted(seen, key=lambda container: container.scope)):
            rows = [
                {
                    "source": source,
                    "walker": walker,
                    "scope": container.scope,
                    "etag": container.etag,
                    "path": container.path,
                    "ancestors": list(container.ancestors),
                }
                for container in some
            ]
            async with self._database.writing() as connection:
                statement = insert(connection, containers)
                new = statement.excluded
                await connection.execute(
                    statement.on_conflict_do_update(
                        index_elements=["source", "walker", "scope"],
                        set_={"etag": new.etag, "path": new.path, "ancestors": new.ancestors},
                    ),
                    rows,
                )

    async def drop_containers(self, source: str, walker: str, scopes: Iterable[ScopeId]) -> None:
        """Forget containers that this walker no longer sees."""
        for some in batches(scopes):
            async with self._database.writing() as connection:
                await connection.execute(
                    delete(containers).where(
                        containers.c.source == source, containers.c.walker == walker, containers.c.scope.in_(some)
                    )
                )

    async def pulse(self, source: str, user: str) -> Pulse | None:
        """The pulse at the last walk as `user`; None before the first."""
        async with self._database.reading() as connection:
            row = (
                await connection.execute(
                    select(pulses.c.pulse, pulses.c.walked_at).where(pulses.c.source == source, pulses.c.user == user)
                )
            ).one_or_none()
        return row and Pulse(row.pulse, row.walked_at)

    async def set_pulse(self, source: str, user: str, value: str) -> None:
        """Note a finished walk: its pulse, and that it ended now."""
        async with self._database.writing() as connection:
            statement = insert(connection, pulses).values(
                source=source, user=user, pulse=value, walked_at=self._clock()
            )
            new = statement.excluded
            await connection.execute(
                statement.on_conflict_do_update(
                    index_elements=["source", "user"], set_={"pulse": new.pulse, "walked_at": new.walked_at}
                )
            )

    # --- How far we are

    async def progress(self) -> Progress:
        """Over all documents."""
        async with self._database.reading() as connection:
            return await documents.progress(connection, None)

    async def progress_for(self, owner: str) -> Progress:
        """Over the documents that `owner` owns."""
        async with self._database.reading() as connection:
            return await documents.progress(connection, owner)


async def _fact(connection: AsyncConnection, key: str) -> str | None:
    return await connection.scalar(select(meta.c.value).where(meta.c.key == key))

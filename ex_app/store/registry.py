# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The registry: what is known, what is live and what is to be done, shared by every process of one installation.

Each method is one short transaction (bulk ones: one per few hundred rows). All raise NotAvailable when the database
does not answer. On SQLite writers take turns; readers never wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection

from ex_app.domain import (
    Container,
    DocumentKey,
    Lane,
    NotAvailable,
    Progress,
    Reason,
    ScopeId,
    SemanticSearchError,
    Sighting,
    Version,
    Work,
)
from ex_app.settings import Settings
from ex_app.store import documents, facts, progress, upkeep, walks, work
from ex_app.store.database import Database, open_database
from ex_app.store.documents import DocumentRow, LiveRow, Status, batches
from ex_app.store.opt_out import OptOuts
from ex_app.store.walks import Pulse
from ex_app.store.wishes import Wishes
from ex_app.store.work import Due, Failure, backoff

_INDEX = "index"

__all__ = ["DocumentRow", "Due", "Failure", "LiveRow", "Pulse", "Registry", "Status", "open_registry"]

Clock = Callable[[], float]


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
        self.opt_outs = OptOuts(database, clock)
        self.wishes = Wishes(database, clock)
        self.upkeep = upkeep.Upkeep(database, clock)

    def now(self) -> float:
        """Seconds since the epoch, by the clock that decides what is due."""
        return self._clock()

    async def close(self) -> None:
        """Give the connections back."""
        await self._database.close()

    async def scrub(self) -> bool:
        """Clear deleted words from the database's log; False when somebody was in the way: ask again later."""
        return await self._database.scrub()

    # --- Whose registry, and what is agreed upon

    async def bind(self, instance_id: str) -> None:
        """Make this the registry of one Nextcloud instance. Raises SemanticSearchError when it is another's already."""
        bound = await self._database.write(lambda connection: facts.bind(connection, instance_id))
        if bound != instance_id:
            raise SemanticSearchError(
                f"This registry belongs to the Nextcloud instance {bound!r}, not to {instance_id!r}. Give each "
                "instance a storage (or DATABASE_URL) of its own; to reuse this one, empty it first and index again."
            )

    async def instance(self) -> str | None:
        """The Nextcloud instance that this registry is bound to; None before the first."""
        return await self._database.read(facts.instance)

    async def index(self) -> str | None:
        """The name of the index that is served; None before the first."""
        return await self.get_setting(_INDEX)

    async def adopt_index(self, name: str, *, points: int) -> bool:
        """Serve from the index of this name, which holds so many points.

        True when it is another than before, or lost what it held: then all is to be indexed again.
        """

        async def job(connection: AsyncConnection) -> bool:
            same = await facts.get_setting(connection, _INDEX) == name
            if same and (points or not await documents.any_live(connection)):
                return False
            await facts.set_setting(connection, _INDEX, name)
            await documents.reset(connection)
            await walks.look_closely(connection)
            return True

        return await self._database.write(job)

    async def get_setting(self, key: str) -> str | None:
        """A setting that all processes share; None when never set."""
        return await self._database.read(lambda connection: facts.get_setting(connection, key))

    async def set_setting(self, key: str, value: str) -> None:
        """Set it, for all processes."""
        await self._database.write(lambda connection: facts.set_setting(connection, key, value))

    async def epoch(self) -> int:
        """The reach epoch: a cached reach of another epoch is no longer believed."""
        return await self._database.read(facts.epoch)

    async def bump_epoch(self) -> int:
        """Begin a new reach epoch, and return it."""
        return await self._database.write(facts.bump_epoch)

    # --- Work

    async def enqueue(
        self,
        key: DocumentKey,
        lane: Lane,
        reader: str,
        *,
        not_before: float | None = None,
        place_only: bool = False,
    ) -> None:
        """Ask for a document to be brought up to date as `reader`; see Due and enqueue_many."""
        await self.enqueue_many([Due(key, lane, reader, not_before, place_only)])

    async def enqueue_many(self, dues: Iterable[Due]) -> None:
        """Make work due, once a document: the most urgent lane, the earliest moment and the newest reader win.

        A document in work is done again afterwards. Any lane but REFRESH revives a quarantined document and forgets its
        failed tries. Durable on return; a large batch may be interrupted between its parts, so acknowledge after it.
        """
        for some in batches(dues):
            await self._database.write(partial(work.enqueue, dues=some, now=self._clock()))

    async def claim(self, limit: int, lease_s: float) -> list[Work]:
        """Lease up to `limit` documents for `lease_s` seconds, most urgent first; each with a generation of its own.

        Within a lane readers take turns. `attempts` is 1 at the first try. A document claimed max_attempts times
        without a word from its worker is quarantined instead. An erased document comes too, to be cleaned up after:
        look at its status before fetching.
        """
        claiming = asyncio.ensure_future(
            self._database.write(
                lambda connection: work.claim(
                    connection, now=self._clock(), limit=limit, lease_s=lease_s, max_attempts=self._max_attempts
                )
            )
        )
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            # Nobody would work on it until the lease ends.
            with suppress(NotAvailable):
                await self.release([item.token for item in await claiming])
            raise

    async def heartbeat(self, token: str, lease_s: float) -> bool:
        """Prolong a lease to `lease_s` seconds from now; False when it was lost: stop and drop what was made."""
        return await self._database.write(
            lambda connection: work.heartbeat(connection, token, now=self._clock(), lease_s=lease_s)
        )

    async def finish(self, item: Work) -> bool:
        """Done, unless a change arrived meanwhile: then it is due again. False when the lease was lost."""
        return await self._database.write(lambda connection: upkeep.finish(connection, item, now=self._clock()))

    async def retry(
        self, item: Work, error: str, *, delay: float | None = None, reason: Reason = Reason.FAILED
    ) -> bool:
        """Failed for now: again after `delay` seconds (default: exponential, jittered). False when the lease was lost.

        The last of max_attempts tries quarantines instead, for `reason`. `error` is what an admin reads: no document
        text, no secret.
        """
        if item.attempts >= self._max_attempts:
            return await self.quarantine(item, reason, error)
        wait = backoff(item.attempts) if delay is None else delay
        return await self._database.write(
            lambda connection: work.retry(connection, item, error, now=self._clock(), delay=wait)
        )

    async def quarantine(self, item: Work, reason: Reason, detail: str = "", *, version: Version | None = None) -> bool:
        """Failed for good, until a change; `version`: the one that failed, if known. False when the lease was lost."""
        return await self._database.write(
            lambda connection: work.quarantine(
                connection, item, reason, detail, now=self._clock(), version=version or Version("")
            )
        )

    async def release(self, tokens: Iterable[str], *, delay: float = 0.0) -> None:
        """Give leases back uncounted, due after `delay` seconds: at shutdown, or when the fault was Nextcloud's."""
        for some in batches(tokens):
            await self._database.write(partial(work.release, tokens=some, now=self._clock(), delay=delay))

    async def failures(self, limit: int = 100) -> list[Failure]:
        """Quarantined documents, latest first."""
        return await self._database.read(lambda connection: work.failures(connection, limit))

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

        reason: why it has no text but its title. False when the lease was lost or the document erased: drop the points.
        """
        return await self._database.write(
            lambda connection: documents.publish(
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
        )

    async def confirm(self, item: Work, sighting: Sighting, *, settled: bool) -> bool:
        """Its content hash is still the live one: note version and place. False without lease or live generation."""
        return await self._database.write(
            lambda connection: documents.confirm(connection, item, sighting, now=self._clock(), settled=settled)
        )

    async def place(self, sighting: Sighting, *, item: Work | None = None) -> bool:
        """Note title, path, parent, scopes, mtime, owner; version and text stay. With `item` only under its lease."""
        return await self._database.write(
            lambda connection: documents.place(connection, sighting, now=self._clock(), item=item)
        )

    async def place_many(self, sightings: Iterable[Sighting]) -> None:
        """As place, for a whole listing at once."""
        for some in batches(sightings):
            await self._database.write(partial(documents.place_many, sightings=some, now=self._clock()))

    async def rescope(self, source: str, moved: Iterable[Container]) -> list[DocumentKey]:
        """Give the documents directly in each container its scopes and path; returns which."""
        keys: list[DocumentKey] = []
        for container in moved:
            keys += await self._database.write(partial(documents.rescope, source=source, container=container))
        return keys

    async def hide(self, key: DocumentKey, *, item: Work | None = None) -> bool:
        """Gone at the source: nothing of it is live, its title and path are wiped. With `item` only under its lease."""
        return await self._database.write(lambda connection: documents.hide(connection, key, item=item))

    async def erase(self, key: DocumentKey) -> None:
        """A person asked: gone from the next query on, never indexed again, work due to remove its points."""

        async def job(connection: AsyncConnection) -> None:
            await work.enqueue(connection, [Due(key, Lane.ACCESS, "")], now=self._clock())
            await documents.erase(connection, key)

        await self._database.write(job)
        await self.scrub()

    async def lift(self, key: DocumentKey) -> bool:
        """Take an erasure back: the next sighting may index it again. False when it wasn't erased."""
        return await self._database.write(lambda connection: documents.lift(connection, key))

    async def forget_hidden(self, before: float) -> int:
        """Drop what is left of documents hidden and last seen before a moment; returns how many."""
        gone = 0
        while True:
            keys = await self._database.read(partial(documents.hidden_before, moment=before, limit=documents.BATCH))
            if not keys:
                return gone
            gone += await self._database.write(partial(documents.forget, keys=keys))

    async def meet(self, sightings: Iterable[Sighting]) -> None:
        """Know of documents from their first sighting on, before anything of them is indexed."""
        for some in batches(sightings):
            await self._database.write(partial(documents.meet, sightings=some, now=self._clock()))

    async def live(self, keys: Iterable[DocumentKey]) -> Mapping[DocumentKey, LiveRow]:
        """Which generation counts, for each of these documents that we know."""
        return await self._database.read(lambda connection: documents.live(connection, keys))

    async def document(self, key: DocumentKey) -> DocumentRow | None:
        """Everything known of a document; None when we never met it."""
        return await self._database.read(lambda connection: documents.document(connection, key))

    async def by_parent(self, source: str, parents: Iterable[ScopeId]) -> list[DocumentRow]:
        """The documents directly in these containers, hidden and erased ones too."""
        return await self._database.read(lambda connection: documents.by_parent(connection, source, list(parents)))

    # --- What walkers remember

    async def containers(self, source: str, walker: str) -> Mapping[ScopeId, Container]:
        """The containers as this walker saw them last."""
        return await self._database.read(lambda connection: walks.containers(connection, source, walker))

    async def save_containers(self, source: str, walker: str, seen: Iterable[Container]) -> None:
        """Remember containers; save them after the work that their listing gave is enqueued."""
        for some in batches(sorted(seen, key=lambda container: container.scope)):
            await self._database.write(partial(walks.save_containers, source=source, walker=walker, seen=some))

    async def drop_containers(self, source: str, walker: str, scopes: Iterable[ScopeId]) -> None:
        """Forget containers that this walker no longer sees."""
        for some in batches(scopes):
            await self._database.write(partial(walks.drop_containers, source=source, walker=walker, scopes=some))

    async def taken(self, source: str, walker: str) -> frozenset[ScopeId]:
        """The containers that others walk."""
        return await self._database.read(lambda connection: walks.taken(connection, source, walker))

    async def walkers(self, source: str, scope: ScopeId) -> list[str]:
        """Who walks a container."""
        return await self._database.read(lambda connection: walks.walkers(connection, source, scope))

    async def everybody(self) -> frozenset[str]:
        """Whoever was ever walked to the end, and not forgotten since."""
        return await self._database.read(walks.everybody)

    async def owned(self, owner: str) -> list[DocumentKey]:
        """The current documents that a user owns."""
        return await self._database.read(lambda connection: walks.owned(connection, owner))

    async def forget_walker(self, source: str, walker: str) -> None:
        """As if this user had never walked."""
        await self._database.write(lambda connection: walks.forget_walker(connection, source, walker))

    async def unwalked(self, source: str) -> list[DocumentRow]:
        """The documents of a source whose container nobody walks any more."""
        return await self._database.read(lambda connection: walks.unwalked(connection, source))

    async def forget_pulses(self, source: str) -> None:
        """Let everybody's next walk of a source look closely, whatever its pulse."""
        await self._database.write(lambda connection: walks.forget_pulses(connection, source))

    async def pulse(self, source: str, user: str) -> Pulse | None:
        """The pulse at the last walk as `user`; None before the first."""
        return await self._database.read(lambda connection: walks.pulse(connection, source, user))

    async def set_pulse(self, source: str, user: str, value: str) -> None:
        """Note a finished walk: its pulse, and that it ended now."""
        now = self._clock()
        await self._database.write(lambda connection: walks.set_pulse(connection, source, user, value=value, now=now))

    # --- How far we are

    async def progress(self) -> Progress:
        """Over all documents."""
        return await self._database.read(lambda connection: progress.progress(connection, None))

    async def progress_for(self, owner: str) -> Progress:
        """Over the documents that `owner` owns."""
        return await self._database.read(lambda connection: progress.progress(connection, owner))

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The write path of one document: fetch, extract, chunk, embed, write, publish, clean.

Whatever line a crash hits, the work row is still there and its lease ends: the next try finds either nothing published,
or everything published and only leftovers to clean.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import extract_tb
from typing import Protocol

from ex_app.domain import (
    Fetched,
    Lane,
    LeftOut,
    Missing,
    NextcloudUnavailable,
    NotAvailable,
    NotPermitted,
    Parsed,
    Passage,
    Point,
    Reason,
    SemanticSearchError,
    Sighting,
    Unindexable,
    Work,
)
from ex_app.index.points import (
    EmbedsDocuments,
    EncodesDocuments,
    body_hash,
    body_hash_in,
    content_hash,
    known_in,
    make_points,
    renamed,
    title_only,
)
from ex_app.index.reading import Read, Reading
from ex_app.index.strangers import HEARD, is_stranger, turn_away
from ex_app.nextcloud import ocs
from ex_app.nextcloud.session import Nextcloud
from ex_app.settings import Settings
from ex_app.sources import Source
from ex_app.store.documents import DocumentRow, Status
from ex_app.store.registry import Registry
from ex_app.store.vectors import Vectors

log = logging.getLogger(__name__)

# An unsettled version is read again once it is old enough to be told apart; seconds. One that is still not settled,
# because its size in Nextcloud is wrong or somebody on the way rewrites answers, is read ever more rarely.
_RESETTLE_S = 2.5
_RESETTLE_SHARE = 0.1
_RESETTLE_MOST_S = 3600.0

# How long work waits when the fault is not its own; seconds.
_NEXTCLOUD_PAUSE_S = 15.0
_OWN_PAUSE_S = 1.0

# After this Nextcloud is asked again for a document that it alone cannot hand out, doubled with each try; seconds.
_BROKEN_S = 60.0
# A locked file is asked for again after this; somebody edits it, and locks end without another version. Seconds.
_LOCKED, _LOCKED_S = 423, 300.0

_IDLE_S = 1.0

# A change that we were told of and cannot find is looked for once more; seconds.
_SECOND_LOOK_S = 5.0


class Extracts(Protocol):
    """What the write path needs of extraction."""

    async def extract(self, body: bytes, *, title: str, name: str, mime: str) -> Parsed:
        """Bytes to text and chunks; raises Unindexable."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Everything that one document needs on its way into the index."""

    settings: Settings
    nextcloud: Nextcloud
    sources: Mapping[str, Source]
    registry: Registry
    vectors: Vectors
    embedder: EmbedsDocuments
    encoder: EncodesDocuments
    extractor: Extracts

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop; waits where there is nothing to do or something is away."""
        while not stop.is_set():
            pause = await self._next()
            if pause:
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), pause)

    async def _next(self) -> float:
        """Do one document; returns seconds to wait before the next."""
        try:
            claimed = await self.registry.claim(1, self.settings.lease_s)
            return await self.attempt(claimed[0]) if claimed else _IDLE_S
        except NotAvailable as error:
            # The registry's. A document that was in work comes back when its lease ends.
            log.warning("event=registry_away error=%s", error)
            return _OWN_PAUSE_S

    async def attempt(self, item: Work) -> float:
        """One try at one claimed document under a kept lease; returns seconds to wait before the next document."""
        keeper = asyncio.create_task(self._keep(item))
        try:
            await self.bring_up_to_date(item)
        except NextcloudUnavailable as error:
            return await self._nextcloud_failed(item, error)
        except NotAvailable as error:
            log.warning("event=part_away document=%s error=%s", item.key, error)
            with suppress(NotAvailable):
                await self.registry.release([item.token], delay=_OWN_PAUSE_S)
            return _OWN_PAUSE_S
        except NotPermitted as error:
            await self.registry.retry(item, str(error), reason=Reason.NO_READER)
        except asyncio.CancelledError:
            with suppress(NotAvailable):
                await self.registry.release([item.token])
            raise
        except Exception as error:  # noqa: BLE001
            # One document that breaks our code must not stop the others. What and where, but no message: it may quote.
            where = " ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in extract_tb(error.__traceback__))
            log.error("event=document_failed document=%s error=%s at=%s", item.key, type(error).__name__, where)  # noqa: TRY400
            await self.registry.retry(item, type(error).__name__)
        finally:
            keeper.cancel()
        return 0.0

    async def _nextcloud_failed(self, item: Work, error: NextcloudUnavailable) -> float:
        """A server in trouble is left alone; one that fails at this document only goes on with the others."""
        if error.status == _LOCKED and error.retry_after is None:
            await self.registry.release([item.token], delay=_LOCKED_S)
            return 0.0
        if error.retry_after is None and await self._nextcloud_answers():
            log.warning("event=not_handed_out document=%s error=%s", item.key, error)
            await self.registry.retry(item, str(error), delay=_BROKEN_S * 2.0 ** (item.attempts - 1))
            return 0.0
        pause = error.retry_after or _NEXTCLOUD_PAUSE_S
        log.warning("event=nextcloud_away document=%s pause_s=%.0f error=%s", item.key, pause, error)
        await self.registry.release([item.token], delay=pause)
        return min(pause, _NEXTCLOUD_PAUSE_S)

    async def _nextcloud_answers(self) -> bool:
        try:
            await ocs.user_ids(self.nextcloud.as_user(""))
        except SemanticSearchError:
            return False
        return True

    async def bring_up_to_date(self, item: Work) -> None:
        """Make the index say of this document what Nextcloud says now."""
        row = await self.registry.document(item.key)
        if row is not None and row.status is Status.ERASED:
            await self.vectors.drop(item.key)
            await self.registry.finish(item)
            return
        source = self.sources[item.key.source]
        try:
            if await is_stranger(item, row, source=source, registry=self.registry) and await turn_away(
                item, row, source=source, nextcloud=self.nextcloud, registry=self.registry
            ):
                return
            read = await self._reading.read(item, row, source)
        except (Missing, LeftOut):
            await self._gone(item)
            return
        if read.fault is None:
            await self._index(item, row, read, source)
        else:
            await self._publish_title(item, row, read, source, read.fault)

    async def _index(self, item: Work, row: DocumentRow | None, read: Read, source: Source) -> None:
        fetched = read.fetched
        body = body_hash_in(row.content_hash) if row and read.unopened else body_hash(fetched.body)
        content = content_hash(body, fetched.sighting, row.reason if row else None)
        if row is not None and row.live and row.content_hash == content:
            await self._confirm(item, row, fetched)
            return
        held = await self._held(row)
        parsed, reason = renamed(row, content, held), None
        if parsed is None and read.unopened:
            # More than its place and name is to be written: that takes its text.
            await self.registry.enqueue(item.key, Lane.CONTENT, item.reader)
            await self.registry.finish(item)
            return
        if parsed is None:
            try:
                parsed = await self._parse(fetched)
            except Unindexable as error:
                parsed, reason = title_only(fetched.sighting), error.reason
        points = await make_points(
            fetched.sighting,
            parsed,
            generation=item.generation,
            known=known_in(held),
            embedder=self.embedder,
            encoder=self.encoder,
        )
        content = content_hash(body, fetched.sighting, reason)
        await self._publish(item, read, points, source, content=content, truncated=parsed.truncated, reason=reason)

    async def _publish(
        self,
        item: Work,
        read: Read,
        points: Sequence[Point],
        source: Source,
        *,
        content: str,
        truncated: bool,
        reason: Reason | None,
    ) -> None:
        """Write, look again, make it live, clean up. content: its hash; reason: why it has no text."""
        await self.vectors.write(points)
        fetched = read.fetched
        try:
            now = await self._reading.look_again(source, read.session, fetched.sighting)
        except LeftOut:
            await self.vectors.drop_generation(item.key, item.generation)
            await self._gone(item)
            return
        if now.scopes != fetched.sighting.scopes or now.path != fetched.sighting.path:
            await self._set_place(now)
        settled = fetched.settled and _is_still(fetched.sighting, now, reason)
        published = await self.registry.publish(
            item,
            replace(now, version=fetched.sighting.version),
            content_hash=content,
            chunks=len(points),
            settled=settled,
            truncated=truncated,
            reason=reason,
        )
        await self._clean(item, published=published)
        await self._settle(item, now, settled=settled)

    async def _confirm(self, item: Work, row: DocumentRow, fetched: Fetched) -> None:
        """Nothing was written but its time or place."""
        await self._set_place(fetched.sighting)
        if await self.registry.confirm(item, fetched.sighting, settled=fetched.settled):
            await self.vectors.keep_only(item.key, row.live, below=item.generation)
        if item.lane in HEARD and row.settled and _is_as_it_was(row, fetched.sighting):
            # Perhaps we heard of the change before it was made. In a lane in which nobody looks a third time.
            later = self.registry.now() + _SECOND_LOOK_S
            await self.registry.enqueue(
                item.key, Lane.BACKFILL, item.reader, not_before=later, place_only=not item.reads
            )
        await self._settle(item, fetched.sighting, settled=fetched.settled)

    async def _held(self, row: DocumentRow | None) -> list[Passage]:
        return await self.vectors.passages_of(row.key, row.live) if row is not None and row.live else []

    async def _publish_title(
        self, item: Work, row: DocumentRow | None, read: Read, source: Source, error: Unindexable
    ) -> None:
        points = await make_points(
            read.fetched.sighting,
            title_only(read.fetched.sighting),
            generation=item.generation,
            known=known_in(await self._held(row)),
            embedder=self.embedder,
            encoder=self.encoder,
        )
        await self._publish(item, read, points, source, content="", truncated=False, reason=error.reason)

    async def _clean(self, item: Work, *, published: bool) -> None:
        """Our generation alone is left, or it is dropped because somebody else's won."""
        if published:
            await self.vectors.keep_only(item.key, item.generation)
        else:
            log.info("event=lease_lost document=%s", item.key)
            await self.vectors.drop_generation(item.key, item.generation)

    async def _settle(self, item: Work, sighting: Sighting, *, settled: bool) -> None:
        """Look again at what is unsettled; the longer it has been left alone the later, as some never settle."""
        if not settled:
            now = self.registry.now()
            wait = min(_RESETTLE_MOST_S, max(_RESETTLE_S, (now - sighting.mtime) * _RESETTLE_SHARE))
            await self.registry.enqueue(item.key, Lane.CONTENT, item.reader, not_before=now + wait)
        await self.registry.finish(item)

    async def _gone(self, item: Work) -> None:
        """Its owner (or the reader who used to find it) has it no more, or wants it left out.

        A fresh sighting brings it back.
        """
        await self.registry.hide(item.key, item=item)
        row = await self.registry.document(item.key)
        if row is None or not row.live:  # else our lease was lost, and whoever took over found it
            await self.vectors.keep_only(item.key, 0, below=item.generation + 1)
        await self.registry.finish(item)

    async def _set_place(self, sighting: Sighting) -> None:
        await self.vectors.set_place(
            sighting.key,
            scopes=sighting.scopes,
            title=sighting.title,
            path=sighting.path,
            mtime=sighting.mtime,
            owner=sighting.owner,
        )

    async def _parse(self, fetched: Fetched) -> Parsed:
        sighting = fetched.sighting
        return await self.extractor.extract(fetched.body, title=sighting.title, name=sighting.title, mime=sighting.mime)

    async def _keep(self, item: Work) -> None:
        """Prolong the lease for as long as the work lasts."""
        while True:
            await asyncio.sleep(self.settings.lease_s / 3)
            with suppress(NotAvailable):
                await self.registry.heartbeat(item.token, self.settings.lease_s)

    @property
    def _reading(self) -> Reading:
        return Reading(self.nextcloud, self.registry, self.settings.max_file_mb * 1024 * 1024)


def _is_still(read: Sighting, now: Sighting, reason: Reason | None) -> bool:
    """Whether what was written is what it says now. reason: why it has no text; its place was written then."""
    names = read.title == now.title and (reason is None or read.path == now.path)
    return names and (read.version, read.owner) == (now.version, now.owner)


def _is_as_it_was(row: DocumentRow, now: Sighting) -> bool:
    return (row.version, row.path, row.scopes) == (now.version, now.path, now.scopes)

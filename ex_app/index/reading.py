# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""As whom a document is read, and how much of it has to be: its text, or only where it lies now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from ex_app.domain import Fetched, LeftOut, Missing, NotPermitted, Sighting, Unindexable, Version, Work
from ex_app.nextcloud.session import Nextcloud, Session
from ex_app.sources import Source
from ex_app.store.documents import DocumentRow, Status
from ex_app.store.registry import Registry


@dataclass(frozen=True, slots=True)
class Read:
    """What a reader was given. fault: why there is no text; unopened: it was only located, so that it has no body."""

    session: Session
    fetched: Fetched
    fault: Unindexable | None = None
    unopened: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """Reads one document at a time. limit: bytes; larger ones are not asked for.

    Both ways of reading try the first who may tell; others count who have it as their own. So a file that was taken
    from one home into another is not lost when the old owner's loss is noticed first. Both raise Missing, NotPermitted
    and LeftOut.
    """

    nextcloud: Nextcloud
    registry: Registry
    limit: int

    async def read(self, item: Work, row: DocumentRow | None, source: Source) -> Read:
        """What it says and where it lies; for a move or rename one request tells that it says what it did."""
        if row is not None and not item.reads and _is_known_well(row):
            located = await self._first(item, row, source, self._locate)
            if located.fetched.sighting.version == row.version:
                return located
        return await self._first(item, row, source, self._fetch)

    async def look_again(self, source: Source, session: Session, before: Sighting) -> Sighting:
        """Where it lies now that its points are written: a move in between must not leave old scopes behind."""
        try:
            now = await source.locate(session, before.key, before.scopes)
        except Missing:
            # Deleted meanwhile: unlike what was read, so that it is looked at again. No walk might ever miss it.
            now = replace(before, version=Version(""))
        await self._demand_is_in(now, source)
        return now

    async def _first(self, item: Work, row: DocumentRow | None, source: Source, read_as: _ReadAs) -> Read:
        walkers = await self.registry.walkers(source.name, row.parent) if row and not row.owner else []
        readers = [self.nextcloud.as_user(reader) for reader in _readers(item, row, walkers)]
        if not readers:
            raise Missing("nobody is known who could read it")
        try:
            return await self._as_owner(await read_as(readers[0], item, row, source), item, row, source, read_as)
        except (Missing, NotPermitted):
            for session in readers[1:]:
                with suppress(Missing, NotPermitted):
                    read = await read_as(session, item, row, source)
                    if read.fetched.sighting.owner in ("", session.user):
                        return read
            raise

    async def _as_owner(
        self, read: Read, item: Work, row: DocumentRow | None, source: Source, read_as: _ReadAs
    ) -> Read:
        """A former owner may have it as a share still, but sees none of the folders above: then the owner reads it."""
        owner = read.fetched.sighting.owner
        if owner in ("", read.session.user):
            return read
        with suppress(Missing, NotPermitted):
            return await read_as(self.nextcloud.as_user(owner), item, row, source)
        return read

    async def _locate(self, session: Session, item: Work, row: DocumentRow | None, source: Source) -> Read:
        sighting = await source.locate(session, item.key, row.scopes if row else ())
        await self._demand_is_in(sighting, source)
        return Read(session, Fetched(sighting, b"", settled=True), unopened=True)

    async def _fetch(self, session: Session, item: Work, row: DocumentRow | None, source: Source) -> Read:
        """Raises LeftOut, before its text is read where possible, when it lies with somebody who opted out."""
        known = row.scopes if row else ()
        if row is not None and await self._is_left_out(row.owner, source):
            # It may have been taken into another home meanwhile.
            await self._demand_is_in(await source.locate(session, item.key, known), source)
        try:
            read = Read(session, await source.fetch(session, item.key, known, limit=self.limit))
        except Unindexable as fault:
            sighting = await source.locate(session, item.key, known)
            read = Read(session, Fetched(sighting, b"", settled=True), fault)
        await self._demand_is_in(read.fetched.sighting, source)
        return read

    async def _demand_is_in(self, sighting: Sighting, source: Source) -> None:
        if await self._is_left_out(sighting.owner, source):
            raise LeftOut("its owner wants it left out")

    async def _is_left_out(self, owner: str, source: Source) -> bool:
        """Of what is walked for all members nobody's wish decides alone."""
        return bool(owner) and not source.shared_walks and bool(await self.registry.opt_outs.among([owner]))


_ReadAs = Callable[[Session, Work, DocumentRow | None, Source], Awaitable[Read]]


def _is_known_well(row: DocumentRow) -> bool:
    """Whether the version in the registry tells that what is in the index is what a reader would get now."""
    return row.status is Status.CURRENT and bool(row.live) and row.settled and bool(row.content_hash)


def _readers(item: Work, row: DocumentRow | None, walkers: Iterable[str]) -> list[str]:
    """As whom to read, in this order.

    The owner first, who sees every folder above. Of what nobody owns, one reader's loss is not everybody's, so that
    whoever noticed the change, whoever read it last and whoever walks its container are asked.
    """
    known = (row.owner, item.reader, row.reader, *walkers) if row else (item.reader,)
    return list(dict.fromkeys(reader for reader in known if reader))

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Compares registry, index and Nextcloud, page by page, and names every difference that nobody is about to mend."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from ex_app.domain import Container, DocumentKey, Lane, LeftOut, Missing, NotPermitted, ScopeId, Sighting, StorageAway
from ex_app.index.reconcile import difference_of, moved_alone
from ex_app.nextcloud import ocs
from ex_app.nextcloud.session import Nextcloud, Session
from ex_app.sources import Source
from ex_app.store.documents import DocumentRow, Status
from ex_app.store.registry import Registry
from ex_app.store.vectors import Vectors

log = logging.getLogger(__name__)

# Documents that are compared at once.
_PAGE = 200


class Kind(StrEnum):
    """What is wrong with a document."""

    POINTS_MISSING = "points_missing"  # live in the registry, but not all its passages are in the index
    POINTS_LEFT_OVER = "points_left_over"  # passages of a generation that is not the live one
    POINTS_ORPHANED = "points_orphaned"  # passages of a document that is not live, or not known
    SCOPES_DIFFER = "scopes_differ"  # the index has it in other folders or boards than the registry
    NOT_KNOWN = "not_known"  # Nextcloud shows it, the registry lacks it
    NOT_THERE = "not_there"  # the registry has it, Nextcloud does not
    VERSION_DIFFERS = "version_differs"  # Nextcloud has another version or name
    PLACE_DIFFERS = "place_differs"  # Nextcloud has it elsewhere


class Difference(NamedTuple):
    """One thing that is wrong with one document. sighting: how `reader` saw it, where Nextcloud shows it otherwise."""

    kind: Kind
    key: DocumentKey
    reader: str = ""
    sighting: Sighting | None = None


@dataclass(frozen=True, slots=True)
class _Held:
    """What the index holds of a generation of a document."""

    ordinals: set[int] = field(default_factory=set)
    scopes: set[frozenset[ScopeId]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Drift:
    """One comparison. Errors of Nextcloud, registry and engine are the caller's."""

    nextcloud: Nextcloud
    sources: Mapping[str, Source]
    registry: Registry
    vectors: Vectors

    async def differences(self) -> AsyncIterator[Difference]:
        """All of them. What a worker has, is to do or has given up with a reason is none."""
        listed: set[tuple[str, ScopeId]] = set()
        for user in await ocs.user_ids(self.nextcloud.as_user("")):
            async for difference in self._of_user(user, listed):
                yield difference
        after: DocumentKey | None = None
        while rows := await self.registry.upkeep.page(after, _PAGE):
            after = rows[-1].key
            elsewhere = [row for row in rows if (row.key.source, row.parent) not in listed]
            for difference in [*await self._gone(elsewhere), *await self._in_index([row.key for row in rows])]:
                yield difference
        async for difference in self._strangers():
            yield difference

    async def mend(self, difference: Difference) -> None:
        """Make it due, or set it right where nothing has to be read for it."""
        key, lane = difference.key, Lane.CONTENT
        row = await self.registry.document(key)
        match difference.kind:
            case Kind.POINTS_LEFT_OVER | Kind.POINTS_ORPHANED:
                await self._drop_left_over(key)
                return
            case Kind.SCOPES_DIFFER:
                if row is not None:
                    await self.vectors.set_place(key, scopes=row.scopes, title=row.title, path=row.path)
                return
            case Kind.POINTS_MISSING:
                await self.registry.upkeep.doubt([key])
            case Kind.NOT_KNOWN:
                lane = Lane.BACKFILL
        known = row.owner or row.reader if row else ""
        seen = [] if difference.sighting is None else [difference.sighting]
        await self.registry.meet(seen)
        await self.registry.enqueue(key, lane, difference.reader or known)
        await self.registry.place_many(seen)

    async def _drop_left_over(self, key: DocumentKey) -> None:
        """Looked at in this order: what a worker wrote that is not yet live is his, and he cleans up after himself."""
        held = {imprint.generation async for imprint in self.vectors.digest([key])}
        if await self.registry.upkeep.expected([key]):
            return
        row = await self.registry.document(key)
        for generation in held - {row.live if row else 0}:
            await self.vectors.drop_generation(key, generation)

    # --- The registry and the index

    async def _in_index(self, keys: Sequence[DocumentKey]) -> list[Difference]:
        """Looked at twice: a worker may have come by between the look at the one and the look at the other."""
        first = await self._at_a_glance(keys)
        if not first:
            return []
        again = set(await self._at_a_glance({difference.key for difference in first}))
        return [difference for difference in first if difference in again]

    async def _at_a_glance(self, keys: Collection[DocumentKey]) -> list[Difference]:
        held: dict[DocumentKey, dict[int, _Held]] = {}
        async for imprint in self.vectors.digest(keys):
            generation = held.setdefault(imprint.document, {}).setdefault(imprint.generation, _Held())
            generation.ordinals.add(imprint.ordinal)
            generation.scopes.add(imprint.scopes)
        rows = await self.registry.upkeep.rows(keys)
        expected = await self.registry.upkeep.expected(keys)
        return [
            Difference(kind, key)
            for key in sorted(keys)
            if key not in expected
            for kind in _wrong(rows.get(key), held.get(key, {}))
        ]

    async def _strangers(self) -> AsyncIterator[Difference]:
        """Points of documents that the registry never met."""
        told: set[DocumentKey] = set()
        some: set[DocumentKey] = set()
        async for imprint in self.vectors.digest():
            some.add(imprint.document)
            if len(some) >= _PAGE:
                for difference in await self._unmet(some - told):
                    yield difference
                    told.add(difference.key)
                some.clear()
        for difference in await self._unmet(some - told):
            yield difference

    async def _unmet(self, keys: Collection[DocumentKey]) -> list[Difference]:
        return await self._in_index(sorted(keys - (await self.registry.live(keys)).keys()))

    # --- The registry and Nextcloud

    async def _of_user(self, user: str, listed: set[tuple[str, ScopeId]]) -> AsyncIterator[Difference]:
        session = self.nextcloud.as_user(user)
        is_left_out = bool(await self.registry.opt_outs.among([user]))
        try:
            if not await ocs.has_content(session):
                return
            for source in self.sources.values():
                if is_left_out and not source.shared_walks:
                    continue
                known = await self.registry.containers(source.name, user)
                for container in await source.containers(session):
                    if container.left_out or container.away or not await self._is_his(source, container, known, listed):
                        continue
                    listed.add((source.name, container.scope))
                    for difference in await self._in_container(source, session, container):
                        yield difference
        except (NotPermitted, Missing) as error:
            log.warning("event=not_compared user=%s error=%s", user, error)

    async def _is_his(
        self,
        source: Source,
        container: Container,
        known: Mapping[ScopeId, Container],
        listed: Collection[tuple[str, ScopeId]],
    ) -> bool:
        """Of what has several members those count who walk it; before the first walk any one of them."""
        if not (source.shared_walks or container.common) or container.scope in known:
            return True
        return (source.name, container.scope) not in listed and not await self.registry.walkers(
            source.name, container.scope
        )

    async def _in_container(self, source: Source, session: Session, container: Container) -> list[Difference]:
        try:
            sightings = await source.listing(session, container)
        except Missing:
            return []  # it moved while we looked
        rows = await self.registry.upkeep.rows([sighting.key for sighting in sightings])
        wrong = [
            Difference(kind, sighting.key, session.user, sighting)
            for sighting in sightings
            if (kind := _differs(sighting, rows.get(sighting.key))) is not None
        ]
        expected = await self.registry.upkeep.expected([difference.key for difference in wrong])
        there = {sighting.key for sighting in sightings}
        unseen = await self.registry.by_parent(source.name, [container.scope])
        return [
            *(difference for difference in wrong if difference.key not in expected),
            *await self._gone(row for row in unseen if row.key not in there),
        ]

    async def _gone(self, rows: Iterable[DocumentRow]) -> list[Difference]:
        """Those that were not seen where the registry has them, and that nobody finds who should."""
        current = [row for row in rows if row.status is Status.CURRENT]
        expected = await self.registry.upkeep.expected([row.key for row in current])
        return [
            Difference(Kind.NOT_THERE, row.key)
            for row in current
            if row.key not in expected and await self._is_gone(row)
        ]

    async def _is_gone(self, row: DocumentRow) -> bool:
        source = self.sources.get(row.key.source)
        if source is None:
            return False
        walkers = [] if row.owner else await self.registry.walkers(source.name, row.parent)
        readers = dict.fromkeys(reader for reader in (row.owner, row.reader, *walkers) if reader)
        for reader in readers:
            try:
                await source.locate(self.nextcloud.as_user(reader), row.key, row.scopes)
            except (Missing, LeftOut):
                continue
            except (NotPermitted, StorageAway):
                return False  # a disabled user, an external storage that does not answer: what is there stays
            else:
                return False
        return True


def _wrong(row: DocumentRow | None, held: Mapping[int, _Held]) -> list[Kind]:
    """How registry and index differ about a document."""
    if row is None or row.status is not Status.CURRENT or not row.live:
        return [Kind.POINTS_ORPHANED] if held else []
    live = held.get(row.live, _Held())
    wrong: list[Kind] = []
    if live.ordinals != {*range(row.chunks)}:
        wrong.append(Kind.POINTS_MISSING)
    if held.keys() - {row.live}:
        wrong.append(Kind.POINTS_LEFT_OVER)
    if live.scopes - {frozenset(row.scopes)}:
        wrong.append(Kind.SCOPES_DIFFER)
    return wrong


def _differs(sighting: Sighting, row: DocumentRow | None) -> Kind | None:
    """How registry and Nextcloud differ about a document that Nextcloud shows."""
    if row is None or row.status is Status.HIDDEN:
        return Kind.NOT_KNOWN
    if difference_of(sighting, row) is not None:
        return Kind.VERSION_DIFFERS
    return Kind.PLACE_DIFFERS if moved_alone(sighting, row) else None

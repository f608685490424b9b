# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Compare what a user's folders and boards show with what the registry knows; every difference becomes work.

An unchanged tree costs one request per source, a change one or two more and a listing per changed folder.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ex_app.domain import Container, DocumentKey, Lane, Missing, ScopeId, Sighting
from ex_app.nextcloud.session import Nextcloud, Session
from ex_app.sources import Source
from ex_app.store.documents import DocumentRow, Status
from ex_app.store.registry import Due, Registry

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reconciler:
    """Walks one user's content. Errors of Nextcloud are the caller's: nothing is concluded from a walk that broke."""

    nextcloud: Nextcloud
    sources: Mapping[str, Source]
    registry: Registry

    async def walk(self, user: str) -> None:
        """Bring the registry's work up to what the user's tree shows now."""
        session = self.nextcloud.as_user(user)
        for source in self.sources.values():
            await self._walk(source, session)

    async def _walk(self, source: Source, session: Session) -> None:
        pulse = await source.pulse(session)
        last = await self.registry.pulse(source.name, session.user)
        if last is not None and last.value == pulse:
            return
        known = await self.registry.containers(source.name, session.user)
        taken = await self.registry.walked_by_others(source.name, session.user)
        shown = {c.scope: c for c in await source.containers(session) if c.scope not in taken}
        missing = await self._moves_and_removals(source, session, known, shown)
        found: set[DocumentKey] = set()
        for container in shown.values():
            before = known.get(container.scope)
            if before is not None and before.etag == container.etag:
                continue
            await self._compare(source, session, container, found=found, missing=missing)
        await self._check(source, session, missing - found)
        # Last, so that a crash anywhere above walks again.
        await self.registry.set_pulse(source.name, session.user, pulse)

    async def _moves_and_removals(
        self,
        source: Source,
        session: Session,
        known: Mapping[ScopeId, Container],
        shown: Mapping[ScopeId, Container],
    ) -> set[DocumentKey]:
        """Tell the index where moved containers' documents lie now; returns the documents of vanished ones."""
        moved = [
            container
            for scope, container in shown.items()
            if scope in known and (known[scope].path, known[scope].ancestors) != (container.path, container.ancestors)
        ]
        if moved:
            keys = await self.registry.rescope(source.name, moved)
            await self._enqueue(keys, Lane.ACCESS, session.user)
            await self.registry.save_containers(
                source.name, session.user, [_moved(known[container.scope], container) for container in moved]
            )
        vanished = known.keys() - shown.keys()
        if not vanished:
            return set()
        rows = await self.registry.by_parent(source.name, vanished)
        await self.registry.drop_containers(source.name, session.user, vanished)
        return {row.key for row in rows if row.status is Status.CURRENT}

    async def _compare(
        self,
        source: Source,
        session: Session,
        container: Container,
        *,
        found: set[DocumentKey],
        missing: set[DocumentKey],
    ) -> None:
        """One changed container: list it, queue every difference, then remember its ETag."""
        try:
            sightings = await source.listing(session, container)
        except Missing:
            return  # it moved while we walked; its new place changes the pulse again
        rows = {row.key: row for row in await self.registry.by_parent(source.name, [container.scope])}
        await self.registry.meet(sightings)
        dues: list[Due] = []
        for sighting in sightings:
            row = rows.get(sighting.key) or await self.registry.document(sighting.key)
            lane = _difference(sighting, row)
            if lane is not None:
                dues.append(Due(sighting.key, lane, session.user))
        await self.registry.enqueue_many(dues)
        for sighting in sightings:
            await self.registry.place(sighting)
        found.update(sighting.key for sighting in sightings)
        missing.update(key for key, row in rows.items() if row.status is Status.CURRENT)
        await self.registry.save_containers(source.name, session.user, [container])

    async def _check(self, source: Source, session: Session, keys: Iterable[DocumentKey]) -> None:
        """Documents that were not seen where they were: the worker asks their owner whether they are gone."""
        await self._enqueue(keys, Lane.CONTENT, session.user)

    async def _enqueue(self, keys: Iterable[DocumentKey], lane: Lane, reader: str) -> None:
        await self.registry.enqueue_many([Due(key, lane, reader) for key in keys])


def _difference(sighting: Sighting, row: DocumentRow | None) -> Lane | None:
    """The work that a sighting asks for; None when the registry agrees with it."""
    if row is None or row.status is Status.HIDDEN:
        return Lane.BACKFILL
    if row.status is Status.ERASED:
        return None
    same_version = sighting.version in (row.version, row.failed_version)
    overwritten = bool(sighting.listed) and bool(row.listed) and sighting.listed != row.listed
    if not same_version or overwritten:
        return Lane.CONTENT if row.live else Lane.BACKFILL
    if not row.settled or row.title != sighting.title:
        return Lane.CONTENT
    if (row.path, row.parent, row.scopes) != (sighting.path, sighting.parent, sighting.scopes):
        return Lane.ACCESS
    return None


def _moved(before: Container, now: Container) -> Container:
    """Where it lies now, but still to be listed if its content changed too."""
    return Container(now.scope, before.etag, now.path, now.ancestors)

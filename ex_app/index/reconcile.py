# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Compare what a user's folders and boards show with what the registry knows; every difference becomes work.

An unchanged tree costs one request per source, a change one or two more and a listing per changed folder.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from ex_app.domain import (
    Container,
    DocumentKey,
    Lane,
    Missing,
    NextcloudUnavailable,
    NotAvailable,
    NotPermitted,
    ScopeId,
    Sighting,
)
from ex_app.index import group_folders, high_water, pace
from ex_app.index.excluded import take_out
from ex_app.index.group_folders import Part, take_part
from ex_app.index.strangers import look_for_strays
from ex_app.index.wishes import attend
from ex_app.nextcloud import dav, ocs
from ex_app.nextcloud.session import Nextcloud, Session
from ex_app.sources import Source
from ex_app.store.documents import DocumentRow, Status
from ex_app.store.registry import Due, Registry
from ex_app.store.vectors import Vectors

log = logging.getLogger(__name__)

# The registry's setting that says when a sweep last reached its end.
SWEPT_AT = "swept_at"

# What is gone at its source is remembered for so long after it was last seen, then not even its id; seconds.
_REMEMBERED_S = 7 * 24 * 3600.0

# After so many users in a row whose content cannot be walked Nextcloud is asked whether it is their misfortune or its
# own: somebody with a broken home must not keep everybody after him from being walked.
_TROUBLE = 3


@dataclass(frozen=True, slots=True)
class Reconciler:
    """Walks one user's content. Errors of Nextcloud are the caller's: nothing is concluded from a walk that broke."""

    nextcloud: Nextcloud
    sources: Mapping[str, Source]
    registry: Registry
    vectors: Vectors

    async def run(self, stop: asyncio.Event, *, interval: float, tags: int = 0) -> None:
        """Sweep over all users again and again until told to stop; slower the more there is to look at.

        interval: seconds at least; tags: how many are excluded.
        """
        while not stop.is_set():
            pause, rest = interval, 0.0
            try:
                users = await ocs.user_ids(self.nextcloud.as_user(""))
                pause = await pace.pause(self.registry, users=len(users), tags=tags, shortest=interval)
                await self.sweep(users, stop)
                if not stop.is_set():
                    await self.registry.set_setting(SWEPT_AT, str(self.registry.now()))
            except NotAvailable as error:
                # A server in trouble is left alone until the next round.
                pause = rest = max(pause, getattr(error, "retry_after", None) or 0)
                log.warning("event=sweep_stopped error=%s", error)
            except (NotPermitted, Missing) as error:
                # Nextcloud refuses our signature, or AppAPI is off: asking for more would lock our address out.
                rest = pause
                log.error("event=sweep_refused error=%s", error)  # noqa: TRY400
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), rest)
            await attend(self.registry, self.visit, stop, seconds=pause - rest)

    async def visit(self, user: str) -> None:
        """Walk somebody out of turn; not who is disabled or has nothing yet: the next sweep knows what to do."""
        account = await ocs.account(self.nextcloud.as_user(user))
        if account.has_content:
            await self.walk(user, groups=account.groups)

    async def sweep(self, users: Collection[str], stop: asyncio.Event) -> None:
        """Walk every user who has content, once. Whose content cannot be walked is left out until the next sweep.

        users: all that there are; of others who were walked once Nextcloud is asked whether they still exist.

        Raises NextcloudUnavailable, NotPermitted or Missing when it is not the user but the server that is in trouble.
        """
        for user in await self.registry.opt_outs.everybody():
            await self._leave_out(user)
        for user in await self.registry.opt_outs.returned():
            await self._forget_own_walks(user)
            await self.registry.opt_outs.welcome(user)
        for user in await self.registry.everybody() - set(users):
            await self._see_off(user)
        walked: list[str] = []
        failed: list[str] = []
        failed_in_a_row = 0
        offered = await group_folders.vacant(self.registry)
        for user in users:
            if stop.is_set():
                return
            try:
                account = await ocs.account(self.nextcloud.as_user(user))
                if account.has_content:
                    closely = bool(offered) and await group_folders.is_needed(self.registry, account.groups)
                    await self.walk(user, groups=account.groups, closely=closely)
                    walked.append(user)
                else:
                    await group_folders.resign(self.registry, user)
                    await self._leave_boards_to_others(user)
                failed_in_a_row = 0
            except (NextcloudUnavailable, NotPermitted, Missing) as error:
                if getattr(error, "retry_after", None) is not None:
                    raise
                log.warning("event=walk_failed user=%s error=%s", user, error)
                failed.append(user)
                failed_in_a_row += 1
                if failed_in_a_row == _TROUBLE:
                    await ocs.user_ids(self.nextcloud.as_user(""))
                    failed_in_a_row = 0
            except NotAvailable:
                raise
            except Exception as error:  # noqa: BLE001
                # One home that breaks our code must not stop the others; the type alone, as messages may quote.
                log.error("event=walk_broke user=%s error=%s", user, type(error).__name__)  # noqa: TRY400
                failed.append(user)
        await self._find_new_walkers(walked)
        for source in self.sources.values():
            if not source.shared_walks:
                await look_for_strays(self.registry, source, walked)
        await group_folders.conclude(self.registry, () if failed else offered)
        await self.registry.forget_hidden(self.registry.now() - _REMEMBERED_S)
        await high_water.judge(self.registry, self.nextcloud, self.sources)

    async def walk(self, user: str, *, groups: Collection[str], closely: bool = False) -> None:
        """Bring the registry's work up to what the user's tree shows now; who opted out is walked for others alone.

        groups: whose member he is; closely: whatever the pulse says.
        """
        session = self.nextcloud.as_user(user)
        is_left_out = bool(await self.registry.opt_outs.among([user]))
        for source in self.sources.values():
            if source.shared_walks:
                await self._walk(source, session)
            elif not is_left_out:
                await self._walk(source, session, groups=groups, closely=closely)

    async def _leave_out(self, user: str) -> None:
        """Who opted out: nothing that lies in his own storage stays in the index, nor the names of his folders.

        Points go before their documents are hidden: a crash in between is made good by the next sweep.
        """
        own = {source.name for source in self.sources.values() if not source.shared_walks}
        for key in await self.registry.owned(user):
            if key.source in own:
                await self.vectors.drop(key)
                await self.registry.hide(key)
        await self._forget_own_walks(user)

    async def _forget_own_walks(self, user: str) -> None:
        await group_folders.resign(self.registry, user)
        for source in self.sources.values():
            if not source.shared_walks:
                await self.registry.forget_walker(source.name, user)

    async def _see_off(self, user: str) -> None:
        """An account that was deleted: what it owned goes, and others walk what it walked for them."""
        try:
            await dav.propfind(self.nextcloud.as_user(user), "", depth=0)
        except NotPermitted:
            log.info("event=user_left user=%s", user)
        except (NextcloudUnavailable, Missing):
            return  # a directory of users that is away for a moment
        else:
            return
        await group_folders.resign(self.registry, user)
        for row in await self.registry.owned(user):
            await self.registry.hide(row)
            await self.vectors.drop(row)
        for source in self.sources.values():
            await self.registry.forget_walker(source.name, user)
            if source.shared_walks:
                await self.registry.forget_pulses(source.name)

    async def _leave_boards_to_others(self, user: str) -> None:
        """Who is disabled sees no change of what he walked for all members: somebody else does it from now on."""
        for source in self.sources.values():
            if source.shared_walks and await self.registry.containers(source.name, user):
                await self.registry.forget_walker(source.name, user)
                await self.registry.forget_pulses(source.name)

    async def _find_new_walkers(self, users: Collection[str]) -> None:
        """Containers that their walker lost: others may still see them; the documents of those that nobody sees go."""
        for source in self.sources.values():
            if not source.shared_walks or not await self.registry.unwalked(source.name):
                continue
            for user in users:
                await self._walk(source, self.nextcloud.as_user(user))
            rows = await self.registry.unwalked(source.name)
            # Only readers who were walked just now: the others cannot say whether anything is gone.
            asked = [row for row in rows if row.reader in users]
            await self.registry.enqueue_many([Due(row.key, Lane.CONTENT, row.reader) for row in asked])

    async def _walk(
        self, source: Source, session: Session, *, groups: Collection[str] = (), closely: bool = False
    ) -> None:
        pulse = await source.pulse(session)
        if not closely and await self._is_unchanged(source, session.user, pulse):
            return
        known = await self.registry.containers(source.name, session.user)
        taken = await self.registry.taken(source.name, session.user) if source.shared_walks else frozenset()
        seen = group_folders.remembered(await source.containers(session), known)
        part = Part() if source.shared_walks else await take_part(self.registry, session.user, seen, groups)
        out = known.keys() & {container.scope for container in seen if container.left_out}
        if out:
            await take_out(self.registry, self.vectors, source.name, out)
            await self.registry.drop_containers(source.name, session.user, out)
        known = {scope: container for scope, container in known.items() if scope not in out}
        shown = {c.scope: c for c in seen if not c.left_out and c.scope not in taken and part.covers(c)}
        missing = await self._moves_and_removals(source, session, known, shown, part=part)
        found: set[DocumentKey] = set()
        for container in shown.values():
            before = known.get(container.scope)
            relist = container.common and part.fully and not container.away
            if before is not None and before.etag == container.etag and not relist:
                continue
            await self._compare(source, session, container, found=found, missing=missing)
        await self._check(session, missing - found)
        if part.fully:
            await group_folders.looked(self.registry, session.user)
        # Last, so that a crash anywhere above walks again.
        await self.registry.set_pulse(source.name, session.user, pulse)

    async def _is_unchanged(self, source: Source, user: str, pulse: str) -> bool:
        """As far as the pulse tells; of what it does not tell it is believed for a while only."""
        last = await self.registry.pulse(source.name, user)
        if last is None or last.value != pulse:
            return False
        if source.shared_walks or self.registry.now() - last.walked_at < group_folders.LOOK_AGAIN_S:
            return True
        return not source.unnoticed and not await group_folders.walks_any(self.registry, user)

    async def _moves_and_removals(
        self,
        source: Source,
        session: Session,
        known: Mapping[ScopeId, Container],
        shown: Mapping[ScopeId, Container],
        *,
        part: Part,
    ) -> set[DocumentKey]:
        """Tell the index where moved containers' documents lie now; returns the documents of vanished ones."""
        for scope, container in shown.items():
            before = known.get(scope)
            if before is None or (before.path, before.ancestors) == (container.path, container.ancestors):
                continue
            await self.registry.rescope(source.name, [container])
            for row in await self.registry.by_parent(source.name, [scope]):
                await self._set_place(row)
            await self.registry.bump_epoch()  # it may lie within another share now
            # Remembered only now, so that a crash above does it again.
            await self.registry.save_containers(source.name, session.user, [_moved(before, container)])
        vanished = known.keys() - shown.keys()
        if not vanished:
            return set()
        if source.shared_walks:
            # Perhaps only this walker lost them: before anything is concluded the other members look.
            await self.registry.drop_containers(source.name, session.user, vanished)
            await self.registry.forget_pulses(source.name)
            return set()
        common = {scope for scope in vanished if known[scope].scopes[0] in part.before}
        await group_folders.lose(self.registry, session.user, common)
        vanished -= common
        rows = await self.registry.by_parent(source.name, vanished)
        gone = {row.key for row in rows if row.status is Status.CURRENT}
        await self._check(session, gone)
        await self.registry.drop_containers(source.name, session.user, vanished)
        return gone

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
        await high_water.note(self.registry, sightings)
        await self.registry.meet(sightings)
        dues: list[Due] = []
        for sighting in sightings:
            row = rows.get(sighting.key) or await self.registry.document(sighting.key)
            lane = difference_of(sighting, row)
            if lane is not None:
                dues.append(Due(sighting.key, lane, session.user))
            elif row is not None and moved_alone(sighting, row):
                await self._set_place(_placed(row, sighting))
        await self.registry.enqueue_many(dues)
        await self.registry.place_many(sightings)
        found.update(sighting.key for sighting in sightings)
        missing.update(key for key, row in rows.items() if row.status is Status.CURRENT)
        await self.registry.save_containers(source.name, session.user, [container])

    async def _check(self, session: Session, keys: Iterable[DocumentKey]) -> None:
        """Documents that were not seen where they were: the worker asks their owner whether they are gone."""
        await self.registry.enqueue_many([Due(key, Lane.CONTENT, session.user) for key in keys])

    async def _set_place(self, row: DocumentRow) -> None:
        """A payload update: nothing is embedded again. What has no text is found by its place: that is written anew."""
        if row.live:
            await self.vectors.set_place(
                row.key, scopes=row.scopes, title=row.title, path=row.path, mtime=row.mtime, owner=row.owner
            )
        if row.live and row.reason:
            await self.registry.enqueue(row.key, Lane.BACKFILL, row.reader or row.owner)


def difference_of(sighting: Sighting, row: DocumentRow | None) -> Lane | None:
    """The work that a sighting asks for; None when the registry agrees with it."""
    if row is None or row.status is Status.HIDDEN:
        return Lane.BACKFILL
    if row.status is Status.ERASED:
        return None
    same_version = sighting.version in (row.version, row.failed_version)
    overwritten = bool(sighting.listed) and sighting.listed != row.listed
    if not same_version or overwritten:
        return Lane.CONTENT if row.live else Lane.BACKFILL
    if (sighting.version == row.version and not row.settled) or row.title != sighting.title:
        return Lane.CONTENT
    return None


def moved_alone(sighting: Sighting, row: DocumentRow) -> bool:
    """Whether a document of which nothing else changed lies elsewhere than the registry says."""
    return row.status is Status.CURRENT and (row.path, row.scopes) != (sighting.path, sighting.scopes)


def _placed(row: DocumentRow, sighting: Sighting) -> DocumentRow:
    return replace(row, scopes=sighting.scopes, path=sighting.path, mtime=sighting.mtime, owner=sighting.owner)


def _moved(before: Container, now: Container) -> Container:
    """Where it lies now, but still to be listed if its content changed too."""
    return Container(now.scope, before.etag, now.path, now.ancestors)

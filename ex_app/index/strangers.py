# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Documents that we heard of before any walk saw them.

Whether something belongs into the index is decided where containers are listed: not what lies on external storages, in
folders that are left out, with people who opted out. So a stranger is taken in only where somebody walks.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from ex_app.domain import IsContainer, Lane, Missing, NotPermitted, Sighting, Work
from ex_app.nextcloud.session import Nextcloud
from ex_app.sources import Source
from ex_app.store.documents import DocumentRow, Status
from ex_app.store.registry import Due, Registry

# A folder that is being walked for the first time is known a little later; seconds.
_LATER_S = 5.0

# What changes are told in. What a walk found anew, or again, comes in another.
HEARD = frozenset({Lane.ACCESS, Lane.CONTENT})


async def is_stranger(item: Work, row: DocumentRow | None, *, source: Source, registry: Registry) -> bool:
    """Whether this was heard of and no walk vouches for it: it was never seen, has been gone, or is a stray."""
    if item.lane not in HEARD or not item.reader:
        return False
    if row is None or not row.parent or row.status is Status.HIDDEN:
        return True
    return bool(row.owner) and not source.shared_walks and not await registry.walkers(source.name, row.parent)


async def look_for_strays(registry: Registry, source: Source, walked: Collection[str]) -> None:
    """Documents that were read where no walk came by: their folder is new, left out, or gone again by now.

    walked: users whose walks have just ended well. What they own is asked for in its container, or is gone.
    """
    rows = [row for row in await registry.unwalked(source.name) if row.owner in walked]
    await registry.enqueue_many([Due(row.key, Lane.CONTENT, row.owner) for row in rows])


async def turn_away(
    item: Work, row: DocumentRow | None, *, source: Source, nextcloud: Nextcloud, registry: Registry
) -> bool:
    """True when it is not to be taken in now: a folder, or in one that nobody walks. Then its owner is to be walked.

    Raises Missing when there is no such thing for whoever made it, or still nobody walks its folder.
    """
    reader = nextcloud.as_user(item.reader)
    try:
        seen = await source.locate(reader, item.key, row.scopes if row else ())
        sighting = await _as_owner(seen, item, source, nextcloud)
    except IsContainer as folder:
        await registry.wishes.add({item.reader, folder.owner} - {""})
        await registry.finish(item)
        return True
    if await registry.walkers(source.name, sighting.parent):
        return False
    await registry.wishes.add({item.reader, sighting.owner} - {""})
    if item.attempts > 1:
        raise Missing("nobody walks its folder")
    await registry.retry(item, "nobody walks its folder yet", delay=_LATER_S)
    return True


async def _as_owner(seen: Sighting, item: Work, source: Source, nextcloud: Nextcloud) -> Sighting:
    """The owner sees the folder that a single shared file lies in; whoever received it has it in one of his own."""
    owner = nextcloud.as_user(seen.owner)
    if seen.owner not in ("", item.reader):
        with suppress(Missing, NotPermitted):
            return await source.locate(owner, item.key, seen.scopes)
    return seen

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Documents that we heard of before any walk saw them.

Whether something belongs into the index is decided where containers are listed: not what lies on external storages, in
folders that are left out, with people who opted out. So a stranger is taken in only where somebody walks.
"""

from __future__ import annotations

from contextlib import suppress

from ex_app.domain import IsContainer, Lane, Missing, NotPermitted, Sighting, Work
from ex_app.nextcloud.session import Nextcloud
from ex_app.sources import Source
from ex_app.store.documents import DocumentRow, Status
from ex_app.store.registry import Registry

# A folder that is being walked for the first time is known a little later; seconds.
_LATER_S = 5.0

# What changes are told in. What a walk found anew, or again, comes in another.
HEARD = frozenset({Lane.ACCESS, Lane.CONTENT})


def is_stranger(item: Work, row: DocumentRow | None) -> bool:
    """Whether this was heard of and no walk vouches for it: it was never seen, or has been gone."""
    return item.lane in HEARD and bool(item.reader) and (row is None or not row.parent or row.status is Status.HIDDEN)


async def turn_away(
    item: Work, row: DocumentRow | None, *, source: Source, nextcloud: Nextcloud, registry: Registry
) -> bool:
    """True when it is not to be taken in now: a folder, or in one that nobody walks. Then its owner is to be walked.

    Raises Missing when there is no such thing for whoever made it.
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
        await registry.hide(item.key, item=item)
        await registry.finish(item)
    else:
        await registry.retry(item, "nobody walks its folder yet", delay=_LATER_S)
    return True


async def _as_owner(seen: Sighting, item: Work, source: Source, nextcloud: Nextcloud) -> Sighting:
    """The owner sees the folder that a single shared file lies in; whoever received it has it in one of his own."""
    owner = nextcloud.as_user(seen.owner)
    if seen.owner not in ("", item.reader):
        with suppress(Missing, NotPermitted):
            return await source.locate(owner, item.key, seen.scopes)
    return seen

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Notices that Nextcloud was restored from a backup: it then gives ids again that other files had before.

Two things come together then and hardly ever otherwise: a file appears that is new, or another one than before, though
its id is not above the highest that was ever seen; and the file with that highest id is gone. When they do by chance,
all folders are listed once in vain.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress

from ex_app.domain import DocumentKey, LeftOut, Missing, NotPermitted, Sighting, StorageAway
from ex_app.nextcloud.session import Nextcloud
from ex_app.sources import Source
from ex_app.store.documents import DocumentRow, Status
from ex_app.store.registry import Registry

log = logging.getLogger(__name__)

# Files alone: their ids grow with each file, and whatever else is restored is restored with them.
_SOURCE = "file"

# The registry's settings: the highest id that was seen up to the end of a sweep, and which one came again since.
_MARK = "highest_file"
_SUSPECT = "file_that_came_again"


async def note(registry: Registry, sightings: Iterable[Sighting]) -> None:
    """What a listing shows, before the registry learns of it: is anything new among it that should be old?"""
    mark = await _mark(registry)
    old = {
        sighting.key: sighting for sighting in sightings if sighting.key.source == _SOURCE and sighting.key.id <= mark
    }
    known = await registry.upkeep.rows(old)
    again = [key.id for key, sighting in old.items() if _is_another(sighting, known.get(key))]
    if again:
        await registry.set_setting(_SUSPECT, str(max(again)))


def _is_another(sighting: Sighting, row: DocumentRow | None) -> bool:
    """Nothing is known of it, or nothing of that is left. What comes back to its owner came out of the trash."""
    if row is None:
        return True
    if row.status is Status.HIDDEN:
        return row.owner != sighting.owner
    if not row.live or row.version == sighting.version:
        return False
    return row.owner != sighting.owner or (row.parent != sighting.parent and row.title != sighting.title)


async def judge(registry: Registry, nextcloud: Nextcloud, sources: Mapping[str, Source]) -> bool:
    """At the end of a sweep: whether everything is to be compared anew. Only a suspicion costs Nextcloud a request."""
    mark, suspect = await _mark(registry), int(await registry.get_setting(_SUSPECT) or 0)
    restored = bool(suspect) and (suspect == mark or await _is_gone(registry, nextcloud, sources[_SOURCE], mark))
    if restored:
        log.warning("event=ids_came_again advice='was Nextcloud restored from a backup? everything is compared anew'")
        await registry.upkeep.look_closely()
        await registry.bump_epoch()
    # What is no longer there is still in the registry for a moment: the next sweep finds the new mark.
    later = 0 if restored else max(mark, await registry.upkeep.highest(_SOURCE))
    if later != mark:
        await registry.set_setting(_MARK, str(later))
    if suspect:
        await registry.set_setting(_SUSPECT, "")
    return restored


async def _mark(registry: Registry) -> int:
    return int(await registry.get_setting(_MARK) or 0)


async def _is_gone(registry: Registry, nextcloud: Nextcloud, source: Source, mark: int) -> bool:
    row = await registry.document(DocumentKey(_SOURCE, mark))
    if row is None or row.status is not Status.CURRENT:
        return True
    if not (row.owner or row.reader):
        return False  # nobody is known who could say
    with suppress(LeftOut, StorageAway):
        try:
            await source.locate(nextcloud.as_user(row.owner or row.reader), row.key, row.scopes)
        except (Missing, NotPermitted):
            return True
    return False

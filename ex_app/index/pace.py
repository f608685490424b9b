# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""How often everybody's content is compared: as often as keeps Nextcloud's part of it below 5 % of one core.

Counted is what comparing costs while nothing changes:

- each sweep three requests per user: the account, the pulse of the files, that of the cards;
- every quarter of an hour what no ETag tells: two requests for whoever walks a group folder or an external storage,
  with excluded tags three and one per tag for everybody;
- every six hours one per folder of those walkers.

What did change costs more, and is owed to whoever changed it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ex_app.index.group_folders import DUTY, LOOK_AGAIN_S, LOOK_FULLY_S
from ex_app.sources.file import NAME
from ex_app.store.registry import Registry

# The share of one core, and what one of these requests takes of it: an unchanged user's three take about 50 ms.
_SHARE = 0.05
_REQUEST_S = 0.05 / 3

_PER_USER, _PER_WALKER, _PER_TAGGED_USER = 3, 2, 3

# However much there is to look at, half of the share is left for noticing changes.
_MOST_FOR_FOLDERS = _SHARE / 2


@dataclass(frozen=True, slots=True)
class Load:
    """What there is to compare. walkers: of group folders and external storages; folders: all that these walk."""

    users: int
    tags: int = 0
    walkers: int = 0
    folders: int = 0


def seconds_between(load: Load, *, shortest: float) -> float:
    """From the start of one sweep's rest to the next sweep."""
    sweep = load.users * _PER_USER * _REQUEST_S
    looks = load.walkers * _PER_WALKER + (load.users * (_PER_TAGGED_USER + load.tags) if load.tags else 0)
    look = looks * _REQUEST_S
    share = _SHARE - min(_MOST_FOR_FOLDERS, load.folders * _REQUEST_S / LOOK_FULLY_S)
    pause = (sweep + look) / share
    if pause < LOOK_AGAIN_S:
        # Several sweeps to one look.
        pause = sweep / (share - look / LOOK_AGAIN_S)
    return max(shortest, pause)


async def pause(registry: Registry, *, users: int, tags: int, shortest: float) -> float:
    """As seconds_between, with what the registry knows of walkers."""
    walkers, folders = await registry.upkeep.walked(DUTY, NAME)
    return seconds_between(Load(users, tags, walkers, folders), shortest=shortest)

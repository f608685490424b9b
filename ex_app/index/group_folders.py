# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Who walks group folders and external storages: for each of them one member of every group whose members see it.

Access rules may show a folder or a file to one group and hide it from another, so one walker is not enough; but all
members of a group see the same, so one for each is. This duty is remembered as a container of its own kind. Whoever
loses it leaves it vacant; with the next sweep somebody else of the group takes it. What a walker does not see is not
gone: that is concluded after a sweep, of what lies in no folder that any walker sees, or by asking all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from ex_app.domain import Container, Lane, ScopeId
from ex_app.sources.file import NAME
from ex_app.store.registry import Due, Registry

# The kind of container as which the registry remembers duties, and who holds those that are vacant.
DUTY = "group_folder"
_NOBODY = ""

# Rules change no ETag. A walker looks at all folders anew so often, and at all files in them so often; seconds.
LOOK_AGAIN_S = 15 * 60.0
LOOK_FULLY_S = 6 * 3600.0

# The registry's setting that says that a folder went out of some walker's sight.
_LOST = "group_folders_lost"


@dataclass(frozen=True, slots=True)
class Part:
    """The group folders that somebody walks now, and those that he walked before.

    fully: their folders are to be listed whatever their ETags say.
    """

    now: frozenset[ScopeId] = frozenset()
    before: frozenset[ScopeId] = frozenset()
    fully: bool = False

    def covers(self, container: Container) -> bool:
        """Whether he walks it; everybody walks what is his own."""
        return not container.common or container.scopes[0] in self.now


def remembered(seen: Iterable[Container], known: Mapping[ScopeId, Container]) -> list[Container]:
    """What a walk saw; in place of each storage that is away, what was known of it: blindness is no deletion."""
    seen = list(seen)
    away = {container.path for container in seen if container.away}
    roots = {scope for scope, container in known.items() if not container.ancestors and container.path in away}
    there = [container for container in seen if not container.away]
    kept = [replace(c, common=True, away=True) for c in known.values() if c.scopes[0] in roots]
    return [*there, *kept]


async def take_part(registry: Registry, user: str, shown: Iterable[Container], groups: Collection[str]) -> Part:
    """Take the duties that nobody has, leave those that are lost. shown: all folders that the user sees."""
    roots = {container.scopes[0] for container in shown if container.common}
    mine = await registry.containers(DUTY, user)
    if not roots and not mine:
        return Part()
    wanted = {duty.scope: duty for root in roots for duty in _duties(root, groups)}
    vacant = await registry.containers(DUTY, _NOBODY)
    await _leave(registry, user, {scope: duty for scope, duty in mine.items() if scope not in wanted})
    others = await registry.taken(DUTY, user) - vacant.keys()
    held = {scope: duty for scope, duty in wanted.items() if scope not in others}
    await registry.save_containers(DUTY, user, [duty for scope, duty in held.items() if scope not in mine])
    await registry.drop_containers(DUTY, _NOBODY, vacant.keys() & held.keys())
    return Part(_roots(held), _roots(mine), bool(held) and await _is_due(registry, user))


async def looked(registry: Registry, user: str) -> None:
    """All files of the group folders that he walks were listed."""
    await registry.set_pulse(DUTY, user, "")


async def walks_any(registry: Registry, user: str) -> bool:
    """Whether somebody walks a group folder."""
    return bool(await registry.containers(DUTY, user))


async def resign(registry: Registry, user: str) -> None:
    """Whoever is away, or left out, leaves his duties to others."""
    mine = await registry.containers(DUTY, user)
    if not mine:
        return
    await _leave(registry, user, mine)
    roots = _roots(mine)
    seen = await registry.containers(NAME, user)
    await lose(registry, user, [scope for scope, container in seen.items() if container.scopes[0] in roots])
    await registry.forget_walker(DUTY, user)


async def lose(registry: Registry, user: str, scopes: Collection[ScopeId]) -> None:
    """These folders are out of a walker's sight: others may see them still."""
    if scopes:
        await registry.set_setting(_LOST, "1")
        await registry.drop_containers(NAME, user, scopes)


async def vacant(registry: Registry) -> frozenset[ScopeId]:
    """The duties that nobody has at the moment."""
    return frozenset(await registry.containers(DUTY, _NOBODY))


async def is_needed(registry: Registry, groups: Collection[str]) -> bool:
    """Whether a member of these groups may take a vacant duty."""
    duties = await registry.containers(DUTY, _NOBODY)
    return any(duty.path in _audiences(groups) for duty in duties.values())


async def conclude(registry: Registry, offered: Collection[ScopeId]) -> None:
    """After a sweep: duties that were offered to everybody in vain are dropped, and what nobody sees is asked for.

    A walker whose walk failed is still known to see what he saw.
    """
    await registry.drop_containers(DUTY, _NOBODY, await vacant(registry) & set(offered))
    if await registry.get_setting(_LOST) != "1" or await vacant(registry):
        return
    rows = [row for row in await registry.unwalked(NAME) if not row.owner]
    await registry.enqueue_many([Due(row.key, Lane.CONTENT, row.reader) for row in rows])
    await registry.set_setting(_LOST, "")


async def _leave(registry: Registry, user: str, duties: Mapping[ScopeId, Container]) -> None:
    await registry.save_containers(DUTY, _NOBODY, duties.values())
    await registry.drop_containers(DUTY, user, duties)


async def _is_due(registry: Registry, user: str) -> bool:
    last = await registry.pulse(DUTY, user)
    return last is None or registry.now() - last.walked_at >= LOOK_FULLY_S


def _duties(root: ScopeId, groups: Collection[str]) -> list[Container]:
    return [Container(ScopeId(f"{root}@{group}"), "", group, (root,)) for group in _audiences(groups)]


def _audiences(groups: Collection[str]) -> Collection[str]:
    """Groups; who is in none may still see a folder, by a team."""
    return groups or ("",)


def _roots(duties: Mapping[ScopeId, Container]) -> frozenset[ScopeId]:
    return frozenset(duty.ancestors[0] for duty in duties.values())

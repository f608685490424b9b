# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What walkers remember of their last walk, so that an unchanged tree costs one request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from ex_app.domain import Container, DocumentKey, ScopeId
from ex_app.store import tables
from ex_app.store.database import insert
from ex_app.store.documents import DocumentRow, Status, as_document


@dataclass(frozen=True, slots=True)
class Pulse:
    """What told at the last walk whether anything of a user's changed, and when that walk ended."""

    value: str
    walked_at: float


async def containers(connection: AsyncConnection, source: str, walker: str) -> dict[ScopeId, Container]:
    """The containers as this walker saw them last."""
    c = tables.containers.c
    rows = await connection.execute(select(tables.containers).where(c.source == source, c.walker == walker))
    return {
        ScopeId(row.scope): Container(
            ScopeId(row.scope), row.etag, row.path, tuple(ScopeId(scope) for scope in row.ancestors)
        )
        for row in rows
    }


async def save_containers(connection: AsyncConnection, source: str, walker: str, *, seen: Sequence[Container]) -> None:
    """Remember containers, new ones and changed ones."""
    statement = insert(connection, tables.containers)
    new = statement.excluded
    await connection.execute(
        statement.on_conflict_do_update(
            index_elements=["source", "walker", "scope"],
            set_={"etag": new.etag, "path": new.path, "ancestors": new.ancestors},
        ),
        [
            {
                "source": source,
                "walker": walker,
                "scope": container.scope,
                "etag": container.etag,
                "path": container.path,
                "ancestors": list(container.ancestors),
            }
            for container in seen
        ],
    )


async def drop_containers(connection: AsyncConnection, source: str, walker: str, *, scopes: Sequence[ScopeId]) -> None:
    """Forget containers."""
    c = tables.containers.c
    await connection.execute(
        delete(tables.containers).where(c.source == source, c.walker == walker, c.scope.in_(scopes))
    )


async def taken(connection: AsyncConnection, source: str, walker: str) -> frozenset[ScopeId]:
    """The containers that others walk."""
    c = tables.containers.c
    rows = await connection.scalars(select(c.scope).where(c.source == source, c.walker != walker))
    return frozenset(ScopeId(scope) for scope in rows)


async def walkers(connection: AsyncConnection, source: str, scope: ScopeId) -> list[str]:
    """Who walks a container."""
    c = tables.containers.c
    return list(await connection.scalars(select(c.walker).where(c.source == source, c.scope == scope)))


async def everybody(connection: AsyncConnection) -> frozenset[str]:
    """Whoever was ever walked to the end, and not forgotten since."""
    return frozenset(await connection.scalars(select(tables.pulses.c.user).distinct()))


async def owned(connection: AsyncConnection, owner: str) -> list[DocumentKey]:
    """The current documents that a user owns."""
    c = tables.documents.c
    rows = await connection.execute(select(c.source, c.id).where(c.owner == owner, c.status == Status.CURRENT))
    return [DocumentKey(row.source, row.id) for row in rows]


async def forget_walker(connection: AsyncConnection, source: str, walker: str) -> None:
    """As if this user had never walked."""
    c, p = tables.containers.c, tables.pulses.c
    await connection.execute(delete(tables.containers).where(c.source == source, c.walker == walker))
    await connection.execute(delete(tables.pulses).where(p.source == source, p.user == walker))


async def unwalked(connection: AsyncConnection, source: str) -> list[DocumentRow]:
    """The current documents of a source whose container no walker remembers."""
    c = tables.documents.c
    walked = select(tables.containers.c.scope).where(tables.containers.c.source == source)
    rows = await connection.execute(
        select(tables.documents).where(
            c.source == source, c.status == Status.CURRENT, c.parent != "", c.parent.not_in(walked)
        )
    )
    return [as_document(row) for row in rows]


async def forget_pulses(connection: AsyncConnection, source: str) -> None:
    """Let everybody's next walk of a source look closely."""
    await connection.execute(delete(tables.pulses).where(tables.pulses.c.source == source))


async def look_closely(connection: AsyncConnection) -> None:
    """Let everybody's next walk list everything; containers stay known, so that it is noticed which are gone."""
    await connection.execute(update(tables.containers).values(etag=""))
    await connection.execute(delete(tables.pulses))


async def look_into(connection: AsyncConnection, source: str, scope: ScopeId) -> None:
    """Let the next walk of whoever walks this container list it."""
    c, p = tables.containers.c, tables.pulses.c
    here = (c.source == source, c.scope == scope)
    walking = select(c.walker).where(*here)
    await connection.execute(delete(tables.pulses).where(p.source == source, p.user.in_(walking)))
    await connection.execute(update(tables.containers).where(*here).values(etag=""))


async def pulse(connection: AsyncConnection, source: str, user: str) -> Pulse | None:
    """The pulse at the last walk as `user`, or None before the first."""
    c = tables.pulses.c
    rows = await connection.execute(select(c.pulse, c.walked_at).where(c.source == source, c.user == user))
    row = rows.one_or_none()
    return None if row is None else Pulse(row.pulse, row.walked_at)


async def set_pulse(connection: AsyncConnection, source: str, user: str, *, value: str, now: float) -> None:
    """Note a walk that ended now."""
    statement = insert(connection, tables.pulses).values(source=source, user=user, pulse=value, walked_at=now)
    await connection.execute(
        statement.on_conflict_do_update(index_elements=["source", "user"], set_={"pulse": value, "walked_at": now})
    )


async def walked(connection: AsyncConnection, *, duty: str, source: str) -> tuple[int, int]:
    """How many have a duty, and how many containers of a source they remember. Nobody's name is empty."""
    c = tables.containers.c
    walkers = select(c.walker).where(c.source == duty, c.walker != "").distinct()
    number = await connection.scalar(select(func.count()).select_from(walkers.subquery()))
    seen = await connection.scalar(select(func.count()).where(c.source == source, c.walker.in_(walkers)))
    return number or 0, seen or 0

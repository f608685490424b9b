# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Wishes to walk: whose content is to be looked at before the next sweep comes to it.

One row a user, so there are never more than users, however many changes asked for the same walk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from sqlalchemy import delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from ex_app.store.database import Database, insert
from ex_app.store.tables import walk_wishes
from ex_app.store.work import FARTHEST_S


@dataclass(frozen=True, slots=True)
class Wish:
    """A walk that was asked for; asked: how often, so that a wish that comes during the walk outlives it."""

    user: str
    asked: int


async def add(connection: AsyncConnection, users: Collection[str], *, now: float) -> None:
    """Wish that these be walked. One that waits for Nextcloud to recover goes on waiting."""
    statement = insert(connection, walk_wishes)
    await connection.execute(
        statement.on_conflict_do_update(index_elements=["user"], set_={"asked": walk_wishes.c.asked + 1}),
        [{"user": user, "asked": 1, "due": now} for user in sorted(users)],
    )


async def due(connection: AsyncConnection, *, now: float) -> list[Wish]:
    """Those whose time has come, the longest waiting first."""
    c = walk_wishes.c
    rows = await connection.execute(
        select(c.user, c.asked).where(or_(c.due <= now, c.due > now + FARTHEST_S)).order_by(c.due, c.user)
    )
    return [Wish(row.user, row.asked) for row in rows]


async def grant(connection: AsyncConnection, wish: Wish) -> None:
    """It was walked, or never can be; asked for again meanwhile, it stays."""
    c = walk_wishes.c
    await connection.execute(delete(walk_wishes).where(c.user == wish.user, c.asked == wish.asked))


async def put_off(connection: AsyncConnection, wish: Wish, *, until: float) -> None:
    """Not before that moment."""
    await connection.execute(update(walk_wishes).where(walk_wishes.c.user == wish.user).values(due=until))


class Wishes:
    """One process's door to the wishes. All raise NotAvailable when the database does not answer."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    async def add(self, users: Collection[str]) -> None:
        """Wish that these users be walked soon; durable on return."""
        now = self._clock()
        if users:
            await self._database.write(lambda connection: add(connection, users, now=now))

    async def due(self) -> list[Wish]:
        """Whose walk is due, the longest waiting first."""
        now = self._clock()
        return await self._database.read(lambda connection: due(connection, now=now))

    async def grant(self, wish: Wish) -> None:
        """Done; a wish that came during the walk stays."""
        await self._database.write(lambda connection: grant(connection, wish))

    async def put_off(self, wish: Wish, delay: float) -> None:
        """Again after `delay` seconds."""
        until = self._clock() + delay
        await self._database.write(lambda connection: put_off(connection, wish, until=until))

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Who wants what lies in his own storage left out of the search.

A row is there from the wish on. Who takes it back is marked as returned until a sweep has forgotten what was walked
of his: only then is everything of his looked at anew, whatever was hidden meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from ex_app.store.database import Database, insert
from ex_app.store.tables import opted_out


async def leave(connection: AsyncConnection, user: str, *, now: float) -> None:
    """Left out from now on; the moment of an earlier wish that still holds stays."""
    statement = insert(connection, opted_out).values(user=user, since=now, returned=False)
    await connection.execute(
        statement.on_conflict_do_update(
            index_elements=["user"], set_={"since": now, "returned": False}, where=opted_out.c.returned
        )
    )


async def come_back(connection: AsyncConnection, user: str) -> None:
    """No longer left out, and to be walked anew; nothing happens to who never left."""
    await connection.execute(update(opted_out).where(opted_out.c.user == user).values(returned=True))


async def among(connection: AsyncConnection, users: Sequence[str]) -> frozenset[str]:
    """Those of these users who are left out."""
    c = opted_out.c
    return frozenset(await connection.scalars(select(c.user).where(c.user.in_(users), ~c.returned)))


async def everybody(connection: AsyncConnection) -> frozenset[str]:
    """All who are left out."""
    return frozenset(await connection.scalars(select(opted_out.c.user).where(~opted_out.c.returned)))


async def returned(connection: AsyncConnection) -> frozenset[str]:
    """Who came back and was not welcomed yet."""
    return frozenset(await connection.scalars(select(opted_out.c.user).where(opted_out.c.returned)))


async def welcome(connection: AsyncConnection, user: str) -> None:
    """Forget that somebody who came back was ever away."""
    await connection.execute(delete(opted_out).where(opted_out.c.user == user, opted_out.c.returned))


class OptOuts:
    """One process's door to these. All raise NotAvailable when the database does not answer."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    async def leave(self, user: str) -> None:
        """What lies in this user's own storage is shown to nobody from the next search on."""
        now = self._clock()
        await self._database.write(lambda connection: leave(connection, user, now=now))

    async def come_back(self, user: str) -> None:
        """Take that back: the next sweep looks at everything of this user anew."""
        await self._database.write(lambda connection: come_back(connection, user))

    async def among(self, users: Collection[str]) -> frozenset[str]:
        """Those of these users who are left out."""
        return await self._database.read(lambda connection: among(connection, list(users)))

    async def everybody(self) -> frozenset[str]:
        """All who are left out."""
        return await self._database.read(everybody)

    async def returned(self) -> frozenset[str]:
        """Who is no longer left out, and was not welcomed yet."""
        return await self._database.read(returned)

    async def welcome(self, user: str) -> None:
        """Forget that who returned was ever left out, once nothing is remembered of earlier walks."""
        await self._database.write(lambda connection: welcome(connection, user))

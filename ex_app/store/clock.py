# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The clock was ahead and has been set right: what was put off by it would wait until it gets there again."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, ColumnElement, case, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from ex_app.store.tables import pulses, walk_wishes, work

# Less is no matter: clocks are set by fractions of a second all the time, and a minute can be waited for; seconds.
_TOLERATED_S = 60.0

# What a worker has, at most: whoever is alive prolongs his lease long before; seconds.
_LEASE_S = 600.0

# Where it is written down when something happened.
_HAPPENED = (work.c.enqueued_at, work.c.failed_at, pulses.c.walked_at)


async def was_ahead(connection: AsyncConnection, *, now: float, seen: float) -> bool:
    """Whether something happened later than now. seen: a moment at which somebody looked at the clock."""
    moments = [await connection.scalar(select(func.max(column))) or 0.0 for column in _HAPPENED]
    return max(seen, *moments) > now + _TOLERATED_S


async def set_right(connection: AsyncConnection, *, now: float) -> None:
    """Let all that is put off be due, and have happened now what happens later.

    What was put off by the right clock comes too early by this, and is tried once more than it had to be. Generations
    are left alone: they only ever rise.
    """
    latest = case((work.c.token.is_(None), now), else_=now + _LEASE_S)
    moments = {"due": _at_most(work.c.due, latest), "rearm_at": _at_most(work.c.rearm_at, now)}
    await connection.execute(update(work).values(moments))
    await connection.execute(update(walk_wishes).values(due=_at_most(walk_wishes.c.due, now)))
    for column in _HAPPENED:
        await connection.execute(update(column.table).where(column > now).values({column: now}))


def _at_most(column: Column[Any], latest: ColumnElement[float] | float) -> ColumnElement[float]:
    return case((column > latest, latest), else_=column)

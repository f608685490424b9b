# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What all processes agree upon: whose registry this is, settings, the reach epoch."""

from __future__ import annotations

from sqlalchemy import Float, Integer, Text, cast, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from ex_app.store.database import insert
from ex_app.store.tables import meta

_INSTANCE = "instance"
_EPOCH = "reach_epoch"
_SETTING = "setting:"


async def bind(connection: AsyncConnection, instance_id: str) -> str:
    """Bind a registry that is nobody's yet; returns whose it is."""
    statement = insert(connection, meta).values(key=_INSTANCE, value=instance_id)
    await connection.execute(statement.on_conflict_do_nothing())
    return await _fact(connection, _INSTANCE) or ""


async def instance(connection: AsyncConnection) -> str | None:
    """Whose registry this is, or None when nobody's yet."""
    return await _fact(connection, _INSTANCE)


async def get_setting(connection: AsyncConnection, key: str) -> str | None:
    """A setting, or None when never set."""
    return await _fact(connection, _SETTING + key)


async def set_setting(connection: AsyncConnection, key: str, value: str) -> None:
    """Set it."""
    statement = insert(connection, meta).values(key=_SETTING + key, value=value)
    await connection.execute(statement.on_conflict_do_update(index_elements=["key"], set_={"value": value}))


async def note_moment(connection: AsyncConnection, key: str, now: float, *, every: float) -> None:
    """Set it to now, seconds since the epoch, unless that was done `every` seconds ago or later."""
    statement = insert(connection, meta).values(key=_SETTING + key, value=str(now))
    noted = cast(meta.c.value, Float(53))
    # Later than now: the clock was wrong when it was noted.
    outdated = or_(noted <= now - every, noted > now)
    await connection.execute(
        statement.on_conflict_do_update(index_elements=["key"], set_={"value": str(now)}, where=outdated)
    )


async def epoch(connection: AsyncConnection) -> int:
    """The reach epoch, 0 at first."""
    return int(await _fact(connection, _EPOCH) or 0)


async def bump_epoch(connection: AsyncConnection) -> int:
    """Begin the next reach epoch; returns it."""
    later = cast(cast(meta.c.value, Integer) + 1, Text)
    statement = insert(connection, meta).values(key=_EPOCH, value="1")
    value = await connection.scalar(
        statement.on_conflict_do_update(index_elements=["key"], set_={"value": later}).returning(meta.c.value)
    )
    return int(value)


async def _fact(connection: AsyncConnection, key: str) -> str | None:
    return await connection.scalar(select(meta.c.value).where(meta.c.key == key))

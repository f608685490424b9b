# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Registries for tests: on SQLite always, on PostgreSQL too where TEST_DATABASE_URL names a server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from ex_app.domain import DocumentKey, ScopeId, Sighting, Version
from ex_app.settings import Settings

POSTGRESQL = os.environ.get("TEST_DATABASE_URL", "")
DATABASES = ["sqlite", "postgresql"] if POSTGRESQL else ["sqlite"]

# On what the towns keep their registries: whoever changes statements lets the stories run on PostgreSQL, too.
STORIES_ON = os.environ.get("TEST_STORIES_ON", "sqlite")


class Clock:
    """A clock that tests turn by hand, in seconds."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += seconds


@contextlib.contextmanager
def fresh(database: str, folder: Path) -> Iterator[Settings]:
    """Settings of an installation whose registry does not exist yet."""
    if database == "sqlite":
        yield Settings(app_secret="unused", app_persistent_storage=folder, database_url="")
        return
    name = f"registry_test_{uuid.uuid4().hex}"
    asyncio.run(_on_the_server(f"CREATE DATABASE {name}"))
    try:
        url = make_url(POSTGRESQL).set(database=name).render_as_string(hide_password=False)
        yield Settings(app_secret="unused", app_persistent_storage=folder, database_url=url)
    finally:
        asyncio.run(_on_the_server(f"DROP DATABASE {name} WITH (FORCE)"))


def file(number: int) -> DocumentKey:
    return DocumentKey("file", number)


def seen(
    key: DocumentKey,
    *,
    version: str = "etag-1",
    parent: str = "f:10",
    title: str = "Travel policy.md",
    owner: str = "alice",
    listed: str = "",
) -> Sighting:
    """A document as its folder's listing shows it."""
    return Sighting(
        key=key,
        version=Version(version),
        parent=ScopeId(parent),
        scopes=(ScopeId("f:1"), ScopeId(parent)),
        title=title,
        path=f"/Policies/{title}",
        mtime=1_000,
        owner=owner,
        mime="text/markdown",
        size=64,
        listed=listed,
    )


async def _on_the_server(statement: str) -> None:
    url = make_url(POSTGRESQL).set(drivername="postgresql+asyncpg")
    engine = create_async_engine(url, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(statement))
    await engine.dispose()

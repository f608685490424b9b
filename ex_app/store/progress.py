# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""How far indexing is."""

from __future__ import annotations

from sqlalchemy import exists, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from ex_app.domain import Progress
from ex_app.store.documents import Status
from ex_app.store.tables import documents, work


async def progress(connection: AsyncConnection, owner: str | None) -> Progress:
    """Counts over all documents, or over those that `owner` owns (their work: what is fetched as them)."""
    c = documents.c
    mine = [] if owner is None else [c.owner == owner]
    theirs = [] if owner is None else [work.c.reader == owner]
    has_text = c.live > 0
    counted = (
        await connection.execute(
            select(c.reason, has_text.label("has_text"), func.count().label("number"))
            .where(c.status == Status.CURRENT, *mine)
            .group_by(c.reason, has_text)
        )
    ).all()
    due = work.c.quarantined.is_(None)
    pending = await connection.scalar(select(func.count()).select_from(work).where(due, *theirs))
    unknown = await connection.scalar(
        select(func.count())
        .select_from(work)
        .where(due, *theirs, ~exists().where(c.source == work.c.source, c.id == work.c.id))
    )
    last_error = await connection.scalar(
        select(work.c.last_error)
        .where(work.c.failed_at.is_not(None), *theirs)
        .order_by(work.c.failed_at.desc())
        .limit(1)
    )
    reasons: dict[str, int] = {}
    for row in counted:
        if row.reason is not None:
            reasons[row.reason] = reasons.get(row.reason, 0) + row.number
    return Progress(
        total=sum(row.number for row in counted) + (unknown or 0),
        indexed=sum(row.number for row in counted if row.has_text and row.reason is None),
        pending=pending or 0,
        failed=sum(reasons.values()),
        last_error=last_error or "",
        reasons=reasons,
    )

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The JSON search route: GET /api/search, GET /api/status."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from ex_app.domain import Answer, Filters, Hit, Progress
from ex_app.doors.admission import Admission
from ex_app.search.question import Caller, Question
from ex_app.search.service import Search

OpensSearch = Callable[[], Awaitable[Search]]
ReportsProgress = Callable[[str], Awaitable[Progress]]


def search_routes(open_search: OpensSearch, admission: Admission, progress: ReportsProgress) -> APIRouter:
    """Routes for signed-in users."""
    router = APIRouter()

    @router.get("/api/search")
    async def search(
        request: Request,
        q: str = "",
        limit: int = 10,
        kind: str = "",
        owner: str | None = None,
        since: int | None = None,
        until: int | None = None,
        cursor: str = "",
    ) -> JSONResponse:
        # One comma-separated parameter: AppAPI's proxy keeps only the last of a repeated one.
        caller: Caller = request.state.caller
        filters = Filters(owner=owner or None, modified_after=since, modified_before=until)
        question = Question(q, limit, filters, frozenset(filter(None, kind.split(","))), cursor)
        with admission.admit(caller):
            answer = await (await open_search()).search(caller, question)
        return JSONResponse(answer_json(answer))

    @router.get("/api/status")
    async def status(request: Request) -> JSONResponse:
        caller: Caller = request.state.caller
        mine = await progress(caller.user)
        return JSONResponse({"total": mine.total, "indexed": mine.indexed, "pending": mine.pending})

    return router


def answer_json(answer: Answer) -> dict[str, Any]:
    """What a client sees of an answer. `cursor`: to ask the same question with, for what comes after these hits."""
    return {"hits": [hit_json(hit) for hit in answer.hits], "degraded": answer.degraded, "cursor": answer.cursor}


def hit_json(hit: Hit) -> dict[str, Any]:
    """What a client sees of a hit. `link` is a path on the Nextcloud server."""
    return {
        "ref": str(hit.document),
        "kind": hit.place.kind,
        "title": hit.place.title,
        "place": hit.place.where,
        "link": hit.place.link,
        "excerpt": hit.excerpt,
        "highlights": [list(mark) for mark in hit.highlights],
        "page": hit.page,
        "score": hit.score,
        "mtime": hit.mtime,
        "refreshing": hit.refreshing,
    }

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""POST /companion/candidates: unverified candidates for the companion, which verifies them inside Nextcloud.

The one route that accepts a reach from its caller. It answers only to positive proof.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ex_app.domain import BadRequest, Candidate, DocumentKey, Filters, Reach, ScopeId
from ex_app.doors.bodies import read_body
from ex_app.doors.proof import is_proven
from ex_app.search.question import Caller, Question
from ex_app.search.rank import LEXICAL_WEIGHT, LEXICAL_WEIGHT_WITHIN, Scale
from ex_app.search.service import Search, Suggestions

PATH = "/companion/candidates"

_BODY_LIMIT = 4 * 1024 * 1024  # a reach of 50,000 scopes fits

KnowsKey = Callable[[], Awaitable[bytes | None]]


class _Asked(BaseModel):
    """What the companion sends. Scopes are "f:<fileid>" or "deck:<board id>", documents "file:<fileid>"."""

    model_config = ConfigDict(extra="forbid")

    term: str
    scopes: Annotated[list[str], Field(max_length=50_000)]
    documents: Annotated[list[str], Field(max_length=50_000)] = []
    kinds: list[str] = []
    owner: str | None = None
    since: int | None = None
    until: int | None = None
    exclude: Annotated[list[str], Field(max_length=1_000)] = []


def companion_routes(
    open_search: Callable[[], Awaitable[Search]], key: KnowsKey, *, clock: Callable[[], float] = time.time
) -> APIRouter:
    """Routes for the companion alone. key: None while no companion was met."""
    router = APIRouter()

    @router.post(PATH)
    async def candidates(request: Request) -> JSONResponse:
        caller: Caller = request.state.caller
        body = await _body(request)
        known = await key()
        proven = known is not None and is_proven(
            known, request.headers, method="POST", path=PATH, user=caller.user, body=body, now=clock()
        )
        if not proven:
            return JSONResponse({"error": "There is nothing here"}, 404)
        asked = _parse(body)
        search = await open_search()
        found = await search.suggest(
            caller.user,
            Question(
                asked.term,
                filters=Filters(owner=asked.owner, modified_after=asked.since, modified_before=asked.until),
                kinds=frozenset(asked.kinds),
            ),
            Reach(
                frozenset(map(ScopeId, asked.scopes)),
                frozenset(DocumentKey.parse(document) for document in asked.documents),
            ),
            exclude=frozenset(DocumentKey.parse(document) for document in asked.exclude),
        )
        return JSONResponse(_json(found, search.scale))

    return router


async def _body(request: Request) -> bytes:
    body = await read_body(request, limit=_BODY_LIMIT)
    if body is None:
        raise BadRequest("The request is larger than 4 MiB")
    return body


def _parse(body: bytes) -> _Asked:
    try:
        return _Asked.model_validate_json(body)
    except ValidationError as error:
        # Where and what is wrong, never the input itself: it holds what a person typed.
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
        raise BadRequest(f"The request does not fit: {problems}") from None


def _json(found: Suggestions, scale: Scale) -> dict[str, Any]:
    """Candidates, most promising first, with the numbers by which both sides rank alike."""
    return {
        "candidates": [
            {
                **_candidate(candidate),
                "version": found.live[candidate.document].version,
                "settled": found.live[candidate.document].settled,
            }
            for candidate in found.candidates
        ],
        "scale": {"noise": scale.noise, "good": scale.good, "floor": scale.floor},
        "weights": {"lexical": LEXICAL_WEIGHT, "lexical_within": LEXICAL_WEIGHT_WITHIN},
        "more": found.more,
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    chunk = candidate.chunk
    return {
        "ref": str(candidate.document),
        "ordinal": chunk.ordinal,
        "text": chunk.text,
        "headings": list(chunk.headings),
        "page": chunk.page,
        "start": chunk.start,
        "end": chunk.end,
        "title": candidate.title,
        "dense": round(candidate.dense, 6),
        "sparse": round(candidate.sparse, 6),
    }

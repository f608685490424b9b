# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""POST /events: Nextcloud tells of a change.

It waits three seconds at most and never says anything twice, so that the answer comes as soon as the change is noted,
and is a good one for whatever could not be understood better the second time either.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from ex_app.doors.bodies import read_body
from ex_app.index.intake import Intake
from ex_app.nextcloud.webhooks import PATH, PROOF_HEADER
from ex_app.search.question import Caller

# Bytes of a body. A card's event quotes its description.
_BODY_LIMIT = 4 * 1024 * 1024


def event_routes(intake: Callable[[], Intake], is_enabled: Callable[[], Awaitable[bool]], *, proof: str) -> APIRouter:
    """The route for webhooks that we registered. proof: what they carry."""
    router = APIRouter()

    @router.post(PATH)
    async def hear(request: Request) -> Response:
        caller: Caller = request.state.caller
        if not hmac.compare_digest(request.headers.get(PROOF_HEADER, "").encode(), proof.encode()):
            return JSONResponse({"error": "There is nothing here"}, 404)
        # Whoever enables us again lets everything be compared, this change too.
        if await is_enabled():
            payload = await read_body(request, limit=_BODY_LIMIT)
            if payload is None:
                intake().dismiss("too large")
            else:
                await intake().take(payload, actor=caller.user)
        return Response(status_code=204)

    return router

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""GET and PUT /api/me: whether what lies in a user's own storage can be found.

Nextcloud's proxy asks for no token against forged requests. Another site's page can make a browser send forms with the
user's cookies, but no PUT and no JSON: for these the browser asks first, and the proxy refuses to answer that question.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, StrictBool, ValidationError

from ex_app.domain import BadRequest
from ex_app.doors.bodies import read_body

PATH = "/api/me"

# Bytes of a body; the longest one that says anything has twenty.
_BODY_LIMIT = 1024

_WANTED = 'Send {"indexed": true} or {"indexed": false} as application/json, and nothing else'

TellsWish = Callable[[str], Awaitable[bool]]
NotesWish = Callable[[str, bool], Awaitable[None]]


class _Wish(BaseModel):
    model_config = ConfigDict(extra="forbid")

    indexed: StrictBool


def me_routes(*, is_indexed: TellsWish, set_indexed: NotesWish) -> APIRouter:
    """Routes for signed-in users about themselves alone."""
    router = APIRouter()

    @router.get(PATH)
    async def tell(request: Request) -> JSONResponse:
        return JSONResponse({"indexed": await is_indexed(request.state.caller.user)})

    @router.put(PATH)
    async def change(request: Request) -> JSONResponse:
        wish = await _wish(request)
        await set_indexed(request.state.caller.user, wish.indexed)
        return JSONResponse({"indexed": wish.indexed})

    return router


async def _wish(request: Request) -> _Wish:
    """Raises BadRequest for anything but a wish in JSON that says it is JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadRequest(_WANTED)
    body = await read_body(request, limit=_BODY_LIMIT)
    if body is None:
        raise BadRequest(_WANTED)
    try:
        return _Wish.model_validate_json(body)
    except ValidationError:
        raise BadRequest(_WANTED) from None

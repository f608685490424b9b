# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The stand-in plays the companion: its handshake, and what it asks of the app inside a user's own request."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from demo.ocs import NOT_FOUND, OcsError, reply, route
from demo.tree import Mount
from demo.world import World
from ex_app.doors.companion import PATH
from ex_app.doors.proof import PROOF_HEADER, TIME_HEADER, proof

APP_ID = "semantic_search"


def routes() -> list[Route]:
    """The companion's OCS routes; unknown as long as the world has no companion key."""
    return route("/apps/semantic_search_companion/api/v1/handshake", _handshake, "GET")


async def _handshake(request: Request) -> Response:
    """Only for our own ExApp, and only as itself."""
    caller, world = request.state.caller, request.app.state.world
    if world.companion_key is None:
        raise OcsError(NOT_FOUND, "Invalid query")
    if caller.app is None or caller.app.id != APP_ID or caller.uid:
        raise OcsError(403, "Only Semantic Search may ask")
    return reply(request, {"oldest_api": 1, "newest_api": 1, "key": world.companion_key.hex()})


def reach_of(world: World, uid: str) -> dict[str, list[str]]:
    """The user's native reach: home, mounts and boards."""
    mounts: list[Mount] = world.mounts(uid)
    folders = [mount.node.id for mount in mounts if mount.node.is_folder]
    files = [mount.node.id for mount in mounts if not mount.node.is_folder]
    scopes = [f"f:{world.people[uid].home.id}", *(f"f:{fileid}" for fileid in folders)]
    boards = [f"deck:{board.id}" for board in world.boards_of(uid)]
    return {"scopes": scopes + boards, "documents": [f"file:{fileid}" for fileid in files]}


def question(world: World, uid: str, term: str, *, moment: float, **more: Any) -> tuple[bytes, dict[str, str]]:
    """The body and the proving headers of a companion's question for this user."""
    assert world.companion_key is not None
    body = json.dumps({"term": term, **reach_of(world, uid), **more}).encode()
    proven = proof(world.companion_key, method="POST", path=PATH, user=uid, moment=int(moment), body=body)
    return body, {TIME_HEADER: str(int(moment)), PROOF_HEADER: proven, "Content-Type": "application/json"}

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The Notes app: notes are the .md and .txt files below a person's notes folder, and listing them makes the folder."""

from __future__ import annotations

import hashlib
import json

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from demo.tree import Seen, split
from demo.world import World

_APP = "/index.php/apps/notes"


def routes() -> list[Route]:
    """What the stand-in offers of Notes."""
    return [
        Route(f"{_APP}/settings", _settings),
        Route(f"{_APP}/api/v1/settings", _settings),
        Route(f"{_APP}/api/v1/notes", _notes),
        Route(f"{_APP}/api/v1/notes/{{note:int}}", _note),
    ]


async def _settings(request: Request) -> Response:
    """Both settings routes; the internal one has no side effect at all and wants the header of an API client."""
    uid, world = request.state.caller.uid, request.app.state.world
    if uid is None:
        return _anonymous()
    internal = "/api/" not in request.url.path
    if internal and "ocs-apirequest" not in request.headers:
        return _json({"message": "CSRF check failed"}, 412)
    shown = {"notesPath": world.person(uid).notes_path, "fileSuffix": ".md", "noteMode": "rich"}
    return _json(shown | ({"customSuffix": ".md"} if internal else {}))


async def _notes(request: Request) -> Response:
    """Every note; exclude=content leaves the text out."""
    uid, world = request.state.caller.uid, request.app.state.world
    if uid is None:
        return _anonymous()
    with world.lock:
        left_out = request.query_params.get("exclude", "").split(",")
        notes = [_note_json(world, seen) for seen in _all(world, uid)]
    return _json([{key: value for key, value in note.items() if key not in left_out} for note in notes])


async def _note(request: Request) -> Response:
    uid, world = request.state.caller.uid, request.app.state.world
    if uid is None:
        return _anonymous()
    with world.lock:
        wanted = request.path_params["note"]
        found = next((_note_json(world, seen) for seen in _all(world, uid) if seen.node.id == wanted), None)
    if not found:
        return _json({"errorType": "OCA\\Notes\\Service\\NoteDoesNotExistException"}, 404)
    return _json(found)


def _all(world: World, uid: str) -> list[Seen]:
    folder = world.mkdir(uid, world.person(uid).notes_path)
    return [
        seen
        for seen in world.walk(uid, folder)
        if not seen.node.is_folder and seen.readable and seen.node.name.endswith((".md", ".txt"))
    ]


def _note_json(world: World, seen: Seen) -> dict[str, object]:
    folder, name = split(seen.path)
    content = seen.node.data.decode(errors="replace")
    return {
        "id": seen.node.id,
        "title": name.rpartition(".")[0],
        "modified": seen.node.mtime,
        "category": folder.strip("/").removeprefix(world.person(seen.uid).notes_path).strip("/"),
        "favorite": False,
        "readonly": not seen.permissions & 2,
        "internalPath": seen.path,
        "shareTypes": [],
        "isShared": seen.mount is not None,
        "error": False,
        "errorType": "",
        "content": content,
        "etag": hashlib.md5(f"{seen.path}{content}".encode(), usedforsecurity=False).hexdigest(),
    }


def _anonymous() -> Response:
    return _json({"message": "Current user is not logged in"}, 401)


def _json(data: object, status: int = 200) -> Response:
    return Response(json.dumps(data), status, media_type="application/json; charset=utf-8")

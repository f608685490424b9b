# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Deck's REST API v1.0, for reading. Any call makes a newcomer's board "Personal"."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from demo.boards import Acl, Board, Card, Stack
from demo.world import World

_PREFIX = "/index.php/apps/deck/api/v1.0/boards"
_SERVER_ERROR = "Internal server error: Please contact the server administrator if this error reappears multiple times"


def routes() -> list[Route]:
    """What the stand-in offers of Deck."""
    return [
        Route(_PREFIX, _boards),
        Route(f"{_PREFIX}/{{board:int}}", _board),
        Route(f"{_PREFIX}/{{board:int}}/stacks", _stacks),
        Route(f"{_PREFIX}/{{board:int}}/stacks/archived", _archived),
        Route(f"{_PREFIX}/{{board}}/stacks/{{stack}}/cards/{{card:int}}", _card),
    ]


async def _boards(request: Request) -> Response:
    """Archived boards too, and one's own deleted ones, which say so."""

    def answer(world: World, uid: str) -> object:
        if "if-modified-since" in request.headers:
            return Response(json.dumps({"status": 500, "message": _SERVER_ERROR}), 500, media_type="application/json")
        details = request.query_params.get("details", "").lower() in ("1", "true")
        mine = world.boards_of(uid)
        mine += [board for board in world.boards.values() if board.deleted_at and board.owner == uid]
        return [board_json(world, board, uid, details=details) for board in sorted(mine, key=lambda b: b.id)]

    return _reply(request, answer)


async def _board(request: Request) -> Response:
    def answer(world: World, uid: str) -> object:
        board = request.path_params["board"]
        return _permitted(world, uid, board) or board_json(world, world.boards[board], uid, details=True)

    return _reply(request, answer)


async def _stacks(request: Request) -> Response:
    def answer(world: World, uid: str) -> object:
        board = request.path_params["board"]
        if refused := _permitted(world, uid, board):
            return refused
        return [_stack_json(world, stack, world.cards_of(stack.id)) for stack in world.stacks_of(board)]

    return _reply(request, answer, with_etag=False)


async def _archived(request: Request) -> Response:
    def answer(world: World, uid: str) -> object:
        board = request.path_params["board"]
        if refused := _permitted(world, uid, board):
            return refused
        kept = [card for card in world.cards.values() if card.archived and not card.deleted_at]
        return [
            _stack_json(world, stack, [card for card in kept if card.stack == stack.id])
            for stack in world.stacks_of(board)
        ]

    return _reply(request, answer, with_etag=False)


async def _card(request: Request) -> Response:
    """Board and stack in the path are ignored: the card decides."""

    def answer(world: World, uid: str) -> object:
        card = world.cards.get(request.path_params["card"])
        if not card or not world.board_readable(uid, world.stacks[card.stack].board):
            return _refused("Permission denied")
        return _refused("Card is deleted") if card.deleted_at else _card_json(world, card)

    return _reply(request, answer)


def _reply(request: Request, answer: Callable[[World, str], object], *, with_etag: bool = True) -> Response:
    """Answer as JSON after Deck's greeting of newcomers."""
    uid, world = request.state.caller.uid, request.app.state.world
    if uid is None:
        return Response(json.dumps({"message": "Current user is not logged in"}), 401, media_type="application/json")
    with world.lock:
        world.open_deck(uid)
        data = answer(world, uid)
    if isinstance(data, Response):
        return data
    body = json.dumps(data).encode()
    etag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
    if with_etag and request.headers.get("if-none-match") == etag:
        return Response(b"", 304, {"ETag": etag})
    return Response(body, headers={"ETag": etag} if with_etag else {}, media_type="application/json; charset=utf-8")


def _permitted(world: World, uid: str, board: int) -> Response | None:
    return None if world.board_readable(uid, board) else _refused("Permission denied")


def _refused(message: str) -> Response:
    return Response(json.dumps({"status": 403, "message": message}), 403, media_type="application/json")


def board_json(world: World, board: Board, uid: str, *, details: bool) -> dict[str, object]:
    """A board; labels, users and stacks are filled with details only."""
    rights = dict.fromkeys(("PERMISSION_READ", "PERMISSION_EDIT", "PERMISSION_MANAGE", "PERMISSION_SHARE"), True)
    if board.owner != uid:
        rights = {name: name == "PERMISSION_READ" for name in rights}
    readers = [board.owner, *(acl.with_user for acl in board.acl if acl.with_user)]
    return {
        "id": board.id,
        "title": board.title,
        "owner": _person(world, board.owner),
        "color": board.colour,
        "archived": board.archived,
        "labels": [world.label(board, title) for title in board.labels] if details else [],
        "acl": [_acl_json(world, board, acl) for acl in board.acl],
        "permissions": rights,
        "users": [_person(world, reader) for reader in readers] if details else [],
        "shared": 0 if board.owner == uid else 1,
        "stacks": [_stack_json(world, stack, None) for stack in world.stacks_of(board.id)] if details else [],
        "activeSessions": [],
        "deletedAt": board.deleted_at,
        "lastModified": board.last_modified,
        "settings": {"notify-due": "assigned", "calendar": True} if details else [],
        "ETag": _etag(board.last_modified),
    }


def _acl_json(world: World, board: Board, acl: Acl) -> dict[str, object]:
    group = {"primaryKey": acl.with_group, "uid": acl.with_group, "displayname": acl.with_group, "type": 1}
    return {
        "id": acl.id,
        "participant": _person(world, acl.with_user) if acl.with_user else group,
        "type": 0 if acl.with_user else 1,
        "boardId": board.id,
        "permissionEdit": False,
        "permissionShare": False,
        "permissionManage": False,
        "owner": False,
    }


def _stack_json(world: World, stack: Stack, cards: list[Card] | None) -> dict[str, object]:
    shown: dict[str, object] = {"id": stack.id, "title": stack.title, "boardId": stack.board, "deletedAt": 0}
    shown["lastModified"] = stack.last_modified
    if cards:
        shown["cards"] = [_card_json(world, card) for card in cards]
    return shown | {"order": stack.order, "ETag": _etag(stack.last_modified)}


def _card_json(world: World, card: Card) -> dict[str, object]:
    board = world.boards[world.stacks[card.stack].board]
    return {
        "id": card.id,
        "title": card.title,
        "description": card.description,
        "stackId": card.stack,
        "type": "plain",
        "lastModified": card.last_modified,
        "lastEditor": None,
        "createdAt": card.created,
        "labels": [world.label(board, title) | {"cardId": card.id} for title in card.labels],
        "assignedUsers": [],
        "attachments": None,
        "attachmentCount": 0,
        "owner": _person(world, card.owner),
        "order": 0,
        "archived": card.archived,
        "done": None,
        "duedate": card.due.isoformat() if card.due else None,
        "deletedAt": card.deleted_at,
        "commentsUnread": 0,
        "commentsCount": 0,
        "ETag": _etag(card.last_modified),
        "overdue": 0,
        "referenceData": None,
    }


def _person(world: World, uid: str) -> dict[str, object]:
    return {"primaryKey": uid, "uid": uid, "displayname": world.person(uid).display_name, "type": 0}


def _etag(seconds: int) -> str:
    return hashlib.md5(str(seconds).encode(), usedforsecurity=False).hexdigest()

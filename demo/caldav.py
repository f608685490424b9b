# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""CalDAV on Deck: /remote.php/dav/calendars/{uid}/…, where every readable board is a calendar. Has no side effect."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from urllib.parse import unquote, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from demo.boards import Board, Card, Stack
from demo.dav import asking
from demo.multistatus import CAL, EMPTY, D, DavError, Properties, date, multistatus, parse, response, text, wanted
from demo.world import World

HOME = "/remote.php/dav/calendars"
_BOARD = "app-generated--deck--board-"
_FIXED = {
    "personal": "<d:collection/><cal:calendar/>",
    "inbox": "<d:collection/><cal:schedule-inbox/>",
    "outbox": "<d:collection/><cal:schedule-outbox/>",
    "trashbin": '<d:collection/><x1:trash-bin xmlns:x1="http://nextcloud.com/ns"/>',
}
_MIME = "text/calendar; charset=utf-8"


async def calendars(request: Request) -> Response:
    """Every method on a path below /remote.php/dav/calendars/{uid}."""
    body = await request.body()
    uid, world = asking(request), request.app.state.world
    owner = request.path_params["uid"]
    parts = [part for part in request.path_params.get("path", "").split("/") if part]
    with world.lock:
        if owner not in world.people:
            raise DavError(404, "NotFound", f"Principal with name {owner} not found")
        if owner != uid:
            raise _no_node(owner)
        if request.method == "REPORT":
            return _report(world, uid, parts, body)
        if request.method == "PROPFIND":
            return _propfind(world, uid, parts, body, request.headers.get("depth", "infinity"))
        return _get(world, uid, parts)


def _propfind(world: World, uid: str, parts: list[str], body: bytes, depth: str) -> Response:
    names = wanted(parse(body) if body else None) or [f"{D}resourcetype", f"{D}getetag", f"{D}getlastmodified"]
    rows: list[tuple[str, Properties]] = []
    if not parts:
        rows.append((f"{HOME}/{uid}/", {f"{D}resourcetype": lambda: "<d:collection/>"}))
        if depth != "0":
            rows += [(f"{HOME}/{uid}/{name}/", _fixed(name)) for name in _FIXED]
            rows += [(_board_href(uid, board), _calendar(board)) for board in _boards(world, uid)]
    elif len(parts) == 1 and parts[0] in _FIXED:
        rows.append((f"{HOME}/{uid}/{parts[0]}/", _fixed(parts[0])))
    else:
        board = _board(world, uid, parts[0])
        items = _items(world, board)
        if len(parts) == 1:
            rows.append((_board_href(uid, board), _calendar(board)))
            shown = sorted(items) if depth != "0" else []
        else:
            shown = [parts[1]] if parts[1] in items else []
            _item(items, parts[1])
        rows += [(_board_href(uid, board) + name, _object(world, items[name])) for name in shown]
    return multistatus(response(href, names, properties) for href, properties in rows)


def _get(world: World, uid: str, parts: list[str]) -> Response:
    if len(parts) != 2:
        raise DavError(501, "NotImplemented", "GET is only implemented for files")
    item = _item(_items(world, _board(world, uid, parts[0])), parts[1])
    etag = f'"{_etag(item)}"'
    headers = {"ETag": etag, "OC-ETag": etag, "Content-Type": _MIME, "Last-Modified": date(item.last_modified)}
    return Response(_ics(world, item), headers=headers)


def _report(world: World, uid: str, parts: list[str], body: bytes) -> Response:
    """calendar-multiget (one missing object: all is 404) and calendar-query on a board; on the home it is empty."""
    root = parse(body)
    names, found = wanted(root), []
    if root.tag == f"{CAL}calendar-multiget":
        for href in (element.text or "" for element in root.iterfind(f"{D}href")):
            path = unquote(urlsplit(href).path).removeprefix(f"{HOME}/{uid}/")
            board_name, _, name = path.rpartition("/")
            if path.startswith(HOME):
                raise _no_node(path.rsplit("/", 2)[-2])
            board = _board(world, uid, board_name)
            found.append((board, name, _item(_items(world, board), name)))
    elif root.tag == f"{CAL}calendar-query" and len(parts) == 1:
        board = _board(world, uid, parts[0])
        found = [(board, name, item) for name, item in _items(world, board).items()]
    elif root.tag != f"{CAL}calendar-query":
        raise DavError(415, "ReportNotSupported")
    return multistatus(
        response(_board_href(uid, board) + name, names, _object(world, item)) for board, name, item in found
    )


def _boards(world: World, uid: str) -> Iterator[Board]:
    if world.person(uid).deck_calendar:
        yield from (board for board in world.boards_of(uid) if not board.archived)


def _board(world: World, uid: str, name: str) -> Board:
    for board in _boards(world, uid):
        if name == f"{_BOARD}{board.id}":
            return board
    raise _no_node(name)


def _items(world: World, board: Board) -> dict[str, Card | Stack]:
    """Cards that are neither archived nor deleted, those without due date first; then stacks; by object name."""
    stacks = world.stacks_of(board.id)
    cards = [card for stack in stacks for card in world.cards_of(stack.id)]
    cards.sort(key=lambda card: card.due.timestamp() if card.due else 0.0)
    return {f"card-{card.id}.ics": card for card in cards} | {f"stack-{stack.id}.ics": stack for stack in stacks}


def _item(items: dict[str, Card | Stack], name: str) -> Card | Stack:
    if name not in items:
        raise DavError(404, "NotFound", "Node not found")
    return items[name]


def _no_node(name: str) -> DavError:
    return DavError(404, "NotFound", f"Node with name '{name}' could not be found")


def _board_href(uid: str, board: Board) -> str:
    return f"{HOME}/{uid}/{_BOARD}{board.id}/"


def _fixed(name: str) -> Properties:
    shown: dict[str, Callable[[], str | None]] = {f"{D}resourcetype": lambda: _FIXED[name]}
    if name == "personal":
        shown[f"{D}displayname"] = text("Personal")
    return shown


def _calendar(board: Board) -> Properties:
    return {
        f"{D}displayname": text(f"Deck: {board.title}"),
        f"{D}getlastmodified": text(date(board.last_modified)),
        f"{D}resourcetype": lambda: "<d:collection/><cal:calendar/>",
    }


def _object(world: World, item: Card | Stack) -> Properties:
    modified = item.last_modified
    return {
        f"{D}getetag": text(f'"{_etag(item)}"'),
        f"{D}getlastmodified": lambda: date(modified) if modified else None,
        f"{D}getcontenttype": text(_MIME),
        f"{D}resourcetype": lambda: EMPTY,
        f"{CAL}calendar-data": text(_ics(world, item).replace("\r\n", "\n")),
    }


def _etag(item: Card | Stack) -> str:
    """Knows whole seconds only: all edits within one share it."""
    return hashlib.md5(str(item.last_modified).encode(), usedforsecurity=False).hexdigest()


def _ics(world: World, item: Card | Stack) -> str:
    """The VTODO. DTSTAMP is the time of asking unless the card has a due date; CATEGORIES is empty, labels or not."""
    now = _moment(datetime.fromtimestamp(world.clock(), UTC))
    if isinstance(item, Stack):
        lines = [f"DTSTAMP:{now}", f"UID:deck-stack-{item.id}", f"SUMMARY:{_escaped('List : ' + item.title)}"]
    else:
        lines = [f"DTSTAMP:{now}", f"UID:deck-card-{item.id}"]
        if item.due:
            stamp = f"DTSTAMP:{_moment(datetime.fromtimestamp(item.created, UTC))}"
            lines = [f"UID:deck-card-{item.id}", stamp, f"DUE:{_moment(item.due.astimezone(UTC))}"]
        lines += [f"RELATED-TO:deck-stack-{item.stack}", "STATUS:NEEDS-ACTION", "CATEGORIES:"]
        lines += [f"SUMMARY:{_escaped(item.title)}", f"DESCRIPTION:{_escaped(item.description)}"]
    head = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Sabre//Sabre VObject 4.5.6//EN", "CALSCALE:GREGORIAN"]
    every = [*head, "BEGIN:VTODO", *lines, "END:VTODO", "END:VCALENDAR"]
    return "".join(_folded(line) + "\r\n" for line in every)


def _moment(at: datetime) -> str:
    return f"{at:%Y%m%dT%H%M%SZ}"


def _escaped(value: str) -> str:
    value = value.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,")
    return value.replace("\r\n", "\n").replace("\n", "\\n")


def _folded(line: str) -> str:
    """Lines of at most 75 bytes, never cut within a character."""
    return re.sub(rb"(^.{0,75}|.{1,74})(?![\x80-\xbf])", rb"\1\r\n ", line.encode())[:-3].decode()

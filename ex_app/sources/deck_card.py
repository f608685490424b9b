# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Deck cards, read through the calendar that Deck generates for each board.

Deck's own REST API creates a board for people who never opened Deck; the calendar creates nothing. Archived cards,
and people who switched the Deck calendar off, are not there.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from icalendar import Calendar, vCategory

from ex_app.domain import (
    Container,
    Content,
    DocumentKey,
    Fetched,
    Granted,
    Missing,
    NextcloudUnavailable,
    NotPermitted,
    Place,
    Reach,
    Reason,
    Refused,
    ScopeId,
    Sighting,
    Unindexable,
    Verdict,
    Version,
)
from ex_app.nextcloud import dav
from ex_app.nextcloud.dav import Entry
from ex_app.nextcloud.session import Session

log = logging.getLogger(__name__)

NAME = "deck_card"

_BOARD = re.compile(r"/calendars/[^/]+/app-generated--deck--board-(\d{1,18})/$", re.ASCII)
_CARD = re.compile(r"/app-generated--deck--board-(\d{1,18})/card-(\d{1,18})\.ics$", re.ASCII)

# Several edits within a second leave a board with one time of last change.
_UNSETTLED_S = 2

# When one missing card spoils the batch, boards are listed one by one: not more than these in one search.
_MAX_LISTINGS = 5


@dataclass(frozen=True, slots=True)
class _Card:
    key: DocumentKey
    board: int
    title: str
    text: str
    version: Version
    mtime: int


class DeckCardSource:
    """Implements Source for Deck cards."""

    name = NAME
    kinds = frozenset({NAME})
    shared_walks = True

    async def pulse(self, session: Session) -> str:
        """The boards with their times of last change."""
        boards = await _boards(session)
        return hashlib.sha256(repr(sorted((b.scope, b.etag) for b in boards.values())).encode()).hexdigest()

    async def containers(self, session: Session) -> list[Container]:
        """Every board that the user sees; boards have one walker among their members."""
        return list((await _boards(session)).values())

    async def listing(self, session: Session, container: Container) -> list[Sighting]:
        """The cards of a board, with their text hashed into the version."""
        cards = await _cards_of(session, _board_id(container.scope))
        return [_sighting(card, container.path) for card in cards]

    async def locate(self, session: Session, key: DocumentKey, known: Collection[ScopeId]) -> Sighting:
        """Where the card is now; looks at every board of the user when it left the remembered one."""
        card, board = await self._find(session, key, known)
        return _sighting(card, board)

    async def fetch(self, session: Session, key: DocumentKey, known: Collection[ScopeId], *, limit: int) -> Fetched:
        """The card's text. Always settled: its version is a hash of that very text."""
        card, board = await self._find(session, key, known)
        body = card.text.encode()
        if len(body) > limit:
            raise Unindexable(Reason.TOO_LARGE, f"{len(body)} bytes")
        return Fetched(_sighting(card, board), body, settled=True)

    async def reread(self, session: Session, key: DocumentKey, grant: Granted, *, limit: int) -> Content:
        """No request: verify's answer held the card's text."""
        return Content(grant.text.encode()[:limit], "card.md", "text/markdown")

    async def verify(
        self, session: Session, suspects: Mapping[DocumentKey, Collection[ScopeId]]
    ) -> dict[DocumentKey, Verdict]:
        """The boards that the user sees now, then all candidate cards on them: two requests."""
        boards = await _boards(session)
        expected = {key: _board_id(scope) for key, scopes in suspects.items() for scope in scopes if scope in boards}
        verdicts: dict[DocumentKey, Verdict] = dict.fromkeys(suspects, Refused.DENIED)
        if not expected:
            return verdicts
        cards, unknown_boards = await _read_cards(session, expected)
        for key, board in expected.items():
            if key in cards:
                verdicts[key] = _granted(cards[key], boards[_scope(cards[key].board)].path)
            elif board in unknown_boards:
                verdicts[key] = Refused.UNKNOWN
        return verdicts

    async def reach(self, session: Session) -> Reach:
        """The boards that the user sees."""
        return Reach(scopes=frozenset(await _boards(session)))

    async def late_reach(self, session: Session) -> Reach:
        """Nothing: boards are told at once."""
        return Reach()

    async def _find(self, session: Session, key: DocumentKey, known: Collection[ScopeId]) -> tuple[_Card, str]:
        boards = await _boards(session)
        likely = [scope for scope in known if scope in boards]
        for scope in [*likely, *(scope for scope in boards if scope not in likely)]:
            for card in await _cards_of(session, _board_id(scope)):
                if card.key == key:
                    return card, boards[scope].path
        raise Missing("the card is not there for this user")


def _scope(board: int) -> ScopeId:
    return ScopeId(f"deck:{board}")


def _board_id(scope: ScopeId) -> int:
    return int(scope.partition(":")[2])


async def _boards(session: Session) -> dict[ScopeId, Container]:
    """Boards by scope; path is the board's title. Empty when Deck or its calendar is off."""
    try:
        entries, now = await dav.calendars(session)
    except Missing:
        return {}
    boards = {}
    for entry in entries:
        match = _BOARD.search(entry.href)
        if match is None:
            continue
        scope = _scope(int(match[1]))
        title = entry.text("d:displayname").removeprefix("Deck: ")
        boards[scope] = Container(scope, f"{_age(entry, now)}|{title}", title)
    return boards


def _age(entry: Entry, now: float) -> str:
    """What tells that a board changed. Its time knows whole seconds: while that second lasts, so does the change."""
    changed = entry.text("d:getlastmodified")
    return changed if now - dav.http_time(changed) >= _UNSETTLED_S else f"{changed} {now:.0f}"


async def _cards_of(session: Session, board: int) -> list[_Card]:
    return _cards(await dav.calendar_objects(session, f"app-generated--deck--board-{board}"))


async def _read_cards(
    session: Session, expected: Mapping[DocumentKey, int]
) -> tuple[dict[DocumentKey, _Card], frozenset[int]]:
    """The cards that are where they are expected, and the boards that could not be read."""
    paths = [f"app-generated--deck--board-{board}/card-{key.id}.ics" for key, board in expected.items()]
    try:
        return {card.key: card for card in _cards(await dav.calendar_multiget(session, paths))}, frozenset()
    except Missing:
        return await _list_boards(session, set(expected.values()))


async def _list_boards(session: Session, boards: set[int]) -> tuple[dict[DocumentKey, _Card], frozenset[int]]:
    asked = sorted(boards)[:_MAX_LISTINGS]
    answers = await asyncio.gather(*(_cards_of(session, board) for board in asked), return_exceptions=True)
    cards: dict[DocumentKey, _Card] = {}
    unknown = boards.difference(asked)
    for board, answer in zip(asked, answers, strict=True):
        match answer:
            case list():
                cards |= {card.key: card for card in answer}
            case Missing() | NotPermitted():
                pass  # the board is not there for this user: its cards are denied
            case NextcloudUnavailable():
                unknown.add(board)
            case _:
                raise answer
    return cards, frozenset(unknown)


def _cards(entries: Iterable[Entry]) -> list[_Card]:
    return [card for entry in entries if (card := _card(entry)) is not None]


def _card(entry: Entry) -> _Card | None:
    match = _CARD.search(entry.href)
    data = entry.text("cal:calendar-data")
    if match is None or not data:
        return None
    try:
        todo = Calendar.from_ical(data).walk("VTODO")[0]
        due = todo.decoded("DUE").isoformat() if "DUE" in todo else ""
    except (ValueError, IndexError, AttributeError) as error:
        # The library raises all of these for nonsense. One such card must not silence the others of its boards.
        log.warning("event=odd_card card=%s error=%s", match[2], type(error).__name__)
        return None
    title = str(todo.get("SUMMARY", ""))
    description = str(todo.get("DESCRIPTION", ""))
    labels = _labels(todo.get("CATEGORIES"))
    digest = hashlib.sha256(repr((title, description, labels, due)).encode()).hexdigest()
    parts = (title, description, ", ".join(labels))
    return _Card(
        key=DocumentKey(NAME, int(match[2])),
        board=int(match[1]),
        title=title,
        text="\n\n".join(part for part in parts if part),
        version=Version(digest[:32]),
        mtime=dav.http_time(entry.text("d:getlastmodified")),
    )


def _labels(categories: list[vCategory] | vCategory | None) -> tuple[str, ...]:
    groups = categories if isinstance(categories, list) else [categories] if categories is not None else []
    return tuple(sorted(str(label) for group in groups for label in group.cats if str(label)))


def _sighting(card: _Card, board: str) -> Sighting:
    scope = _scope(card.board)
    return Sighting(
        key=card.key,
        version=card.version,
        parent=scope,
        scopes=(scope,),
        title=card.title,
        path=board,
        mtime=card.mtime,
        owner="",
        mime="text/markdown",
        size=len(card.text.encode()),
    )


def _granted(card: _Card, board: str) -> Granted:
    link = f"/index.php/apps/deck/board/{card.board}/card/{card.key.id}"
    return Granted(card.version, Place(NAME, card.title, board, link), quotable=True, mtime=card.mtime, text=card.text)

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
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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

# When a missing card spoils the batch, the others are asked for again: their boards if there are so few, else in
# halves, with so many requests in all for one search. One missing card among a hundred takes a dozen.
_MAX_LISTINGS = 5
_MAX_REQUESTS = 20

_Expected = tuple[int, DocumentKey]  # a card and the board on which the index remembers it


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
    unnoticed = False

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
        """The boards that the user sees now, then all candidate cards on them: two requests.

        A card that left its board since it was indexed makes Nextcloud answer 404 for all of them (31.0.6): then some
        more requests tell which it is, with every search until the index knows.
        """
        boards = await _boards(session)
        expected = {key: _board_id(scope) for key, scopes in suspects.items() for scope in scopes if scope in boards}
        verdicts: dict[DocumentKey, Verdict] = dict.fromkeys(suspects, Refused.DENIED)
        if not expected:
            return verdicts
        asking = _Asking(session)
        await asking.read(sorted((board, key) for key, board in expected.items()))
        for key in expected:
            card = asking.cards.get(key)
            if card is not None and _scope(card.board) in boards:
                verdicts[key] = _granted(card, boards[_scope(card.board)].path)
            else:
                verdicts[key] = Refused.GONE if key in asking.answered else Refused.UNKNOWN
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


def _calendar(board: int) -> str:
    return f"app-generated--deck--board-{board}"


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
    return _cards(await dav.calendar_objects(session, _calendar(board)))


@dataclass(slots=True)
class _Asking:
    """Cards read so far. answered: about which Nextcloud said something; left: requests that may still be made."""

    session: Session
    left: int = _MAX_REQUESTS
    cards: dict[DocumentKey, _Card] = field(default_factory=dict)
    answered: set[DocumentKey] = field(default_factory=set)

    async def read(self, expected: Sequence[_Expected]) -> None:
        """All at once. Where one that is missing spoils the answer, board by board, or in halves if there are many."""
        if self.left == 0:
            return
        self.left -= 1
        paths = [f"{_calendar(board)}/card-{key.id}.ics" for board, key in expected]
        try:
            self._note(await dav.calendar_multiget(self.session, paths), expected)
        except NextcloudUnavailable:
            return  # nothing is known of these
        except Missing:
            boards = {board for board, _ in expected}
            half = len(expected) // 2
            if len(expected) == 1:
                self.answered.add(expected[0][1])
            elif len(boards) <= _MAX_LISTINGS:
                await asyncio.gather(*(self._list(board, expected) for board in boards))
            else:
                await asyncio.gather(self.read(expected[:half]), self.read(expected[half:]))

    async def _list(self, board: int, expected: Sequence[_Expected]) -> None:
        if self.left == 0:
            return
        self.left -= 1
        here = [one for one in expected if one[0] == board]
        try:
            self._note(await dav.calendar_objects(self.session, _calendar(board)), here)
        except (Missing, NotPermitted):
            self.answered |= {key for _, key in here}  # the board is not there for this user any more
        except NextcloudUnavailable:
            return

    def _note(self, entries: Iterable[Entry], expected: Sequence[_Expected]) -> None:
        self.cards |= {card.key: card for card in _cards(entries)}
        self.answered |= {key for _, key in expected}


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

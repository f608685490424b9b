# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Deck cards in the calendars that Deck generates: what is there, for whom, and what looking at it leaves behind."""

from __future__ import annotations

import pytest
from icalendar import Calendar, Todo

from tests.contract.hands import ALICE, BOB, CAROL, Board, Hand
from tests.contract.wire import Row, multiget, propfind, rows

_LISTED = ("d:displayname", "d:getetag", "d:getlastmodified")


@pytest.fixture
def board(hand: Hand) -> Board:
    """Given: a board of alice's, which bob may read and carol may not."""
    board = hand.board(ALICE)
    hand.share_board(board, BOB)
    return board


def _calendar(board: Board) -> str:
    return f"app-generated--deck--board-{board.id}/"


def _object(board: Board, card: int) -> str:
    return f"{_calendar(board)}card-{card}.ics"


def _boards(hand: Hand, user: str) -> dict[str, str]:
    """Titles of the boards in a user's calendar home, with the time of their last change."""
    found = rows(propfind(hand, user, "", *_LISTED, depth=1, kind="calendars"))
    boards = [row for row in found if "/app-generated--deck--board-" in row.href]
    return {row.found["d:displayname"].removeprefix("Deck: "): row.found["d:getlastmodified"] for row in boards}


def _listed(hand: Hand, user: str, board: Board) -> dict[str, Row]:
    """What lies in a board's calendar, by object name."""
    answer = propfind(hand, user, _calendar(board), *_LISTED, "cal:calendar-data", depth=1, kind="calendars")
    return {name: row for row in rows(answer) if (name := row.href.rpartition("/")[2])}


def _todo(row: Row) -> Todo:
    todo = Calendar.from_ical(row.found["cal:calendar-data"]).walk("VTODO")[0]
    assert isinstance(todo, Todo)
    return todo


# --- who sees a board


def test_a_board_is_a_calendar_for_whoever_may_read_it(hand: Hand, board: Board) -> None:
    assert board.title in _boards(hand, ALICE)
    assert board.title in _boards(hand, BOB)
    assert board.title not in _boards(hand, CAROL)
    assert propfind(hand, CAROL, _calendar(board), *_LISTED, depth=1, kind="calendars").status_code == 404
    foreign = hand.ask_signed(CAROL, "PROPFIND", f"/remote.php/dav/calendars/{BOB}/", headers={"Depth": "1"})
    assert foreign.status_code == 404


def test_a_board_that_was_taken_back_is_gone_at_once(hand: Hand, board: Board) -> None:
    card = hand.card(board, "Venue")
    assert multiget(hand, BOB, _object(board, card)).status_code == 207
    hand.unshare_board(board, BOB)
    assert board.title not in _boards(hand, BOB)
    assert propfind(hand, BOB, _calendar(board), *_LISTED, depth=1, kind="calendars").status_code == 404
    assert multiget(hand, BOB, _object(board, card)).status_code == 404
    assert multiget(hand, ALICE, _object(board, card)).status_code == 207


def test_reading_boards_gives_a_newcomer_none_of_his_own(hand: Hand, board: Board) -> None:
    """Deck's REST would make him the board "Personal"; its calendars don't."""
    newcomer = hand.user()
    hand.log_in(newcomer)
    card = hand.card(board, "Venue")
    assert _boards(hand, newcomer) == {}
    hand.share_board(board, newcomer)
    assert list(_boards(hand, newcomer)) == [board.title]
    assert f"card-{card}.ics" in _listed(hand, newcomer, board)
    assert multiget(hand, newcomer, _object(board, card)).status_code == 207
    assert list(_boards(hand, newcomer)) == [board.title]


# --- what a card tells


def test_a_listing_brings_each_cards_text(hand: Hand, board: Board) -> None:
    text = 'Hall, "large"; 40 € \\ seats\nZweite Zeile: ' + "Größe " * 30
    card = hand.card(board, "Venue, booked; ünder way", text=text)
    found = _listed(hand, BOB, board)
    assert set(found) == {f"card-{card}.ics", f"stack-{board.stack}.ics"}
    todo = _todo(found[f"card-{card}.ics"])
    assert (str(todo["SUMMARY"]), str(todo["DESCRIPTION"])) == ("Venue, booked; ünder way", text)
    assert "DUE" not in todo
    assert found[f"card-{card}.ics"].found["d:getlastmodified"].endswith("GMT")


def test_labels_are_not_told(hand: Hand, board: Board) -> None:
    card = hand.card(board, "Venue", label="urgent")
    data = _listed(hand, BOB, board)[f"card-{card}.ics"].found["cal:calendar-data"]
    assert "CATEGORIES:\n" in data.replace("\r\n", "\n")
    assert "urgent" not in data


def test_an_edit_shows_in_the_next_answer_and_in_the_boards_time(hand: Hand, board: Board) -> None:
    card = hand.card(board, "Venue", text="old")
    before = _boards(hand, BOB)[board.title]
    hand.later(1.1)
    hand.edit_card(board, card, title="Venue", text="new")
    assert str(_todo(_listed(hand, BOB, board)[f"card-{card}.ics"])["DESCRIPTION"]) == "new"
    assert _boards(hand, BOB)[board.title] != before


def test_an_archived_card_is_not_there(hand: Hand, board: Board) -> None:
    card, other = hand.card(board, "Venue"), hand.card(board, "Menu")
    hand.archive_card(board, card)
    assert set(_listed(hand, ALICE, board)) == {f"card-{other}.ics", f"stack-{board.stack}.ics"}
    assert multiget(hand, ALICE, _object(board, card)).status_code == 404


# --- many at once


def test_one_request_on_the_home_reads_cards_of_several_boards(hand: Hand, board: Board) -> None:
    second = hand.board(ALICE)
    hand.share_board(second, BOB)
    one, two = hand.card(board, "Venue", text="hall"), hand.card(second, "Train", text="rail")
    found = rows(multiget(hand, BOB, _object(board, one), _object(second, two)))
    texts = {row.href.rpartition("/")[2]: str(_todo(row)["DESCRIPTION"]) for row in found}
    assert texts == {f"card-{one}.ics": "hall", f"card-{two}.ics": "rail"}


def test_one_missing_card_spoils_the_whole_request(hand: Hand, board: Board) -> None:
    card = hand.card(board, "Venue")
    assert multiget(hand, BOB, _object(board, card)).status_code == 207
    assert multiget(hand, BOB, _object(board, card), _object(board, 900_000_000)).status_code == 404


def test_a_card_that_moves_leaves_its_old_board_in_silence(hand: Hand, board: Board) -> None:
    hidden = hand.board(ALICE)
    card = hand.card(board, "Venue")
    before = _boards(hand, ALICE)
    hand.later(1.1)
    hand.move_card(board, card, hidden)
    after = _boards(hand, ALICE)
    assert after[board.title] == before[board.title]
    assert after[hidden.title] != before[hidden.title]
    assert f"card-{card}.ics" not in _listed(hand, BOB, board)
    assert multiget(hand, BOB, _object(board, card)).status_code == 404
    assert multiget(hand, BOB, _object(hidden, card)).status_code == 404
    assert multiget(hand, ALICE, _object(hidden, card)).status_code == 207

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Our own sources over each server: they list, fetch, locate, verify and say what is within reach."""

from __future__ import annotations

import pytest

from ex_app.domain import (
    Container,
    DocumentKey,
    Granted,
    Missing,
    Place,
    Refused,
    ScopeId,
    Sighting,
    Unindexable,
)
from ex_app.nextcloud.session import Nextcloud, Session
from ex_app.sources.deck_card import DeckCardSource
from ex_app.sources.file import FileSource
from tests.contract.hands import ALICE, BOB, CAROL, Board, Hand

_LIMIT = 1_000_000


def _file(fileid: int) -> DocumentKey:
    return DocumentKey("file", fileid)


def _card(card: int) -> DocumentKey:
    return DocumentKey("deck_card", card)


def _scope(board: Board) -> ScopeId:
    return ScopeId(f"deck:{board.id}")


async def _folder(source: FileSource, session: Session, path: str) -> Container:
    """The container at a path."""
    return next(container for container in await source.containers(session) if container.path == path)


async def _listed(source: FileSource, session: Session, path: str) -> dict[str, Sighting]:
    sightings = await source.listing(session, await _folder(source, session, path))
    return {sighting.title: sighting for sighting in sightings}


async def _place(source: FileSource, session: Session, fileid: int) -> Place:
    verdict = (await source.verify(session, {_file(fileid): ()}))[_file(fileid)]
    assert isinstance(verdict, Granted)
    return verdict.place


# --- files: what a walk sees


async def test_a_walk_goes_through_ones_own_folders_and_not_through_received_ones(
    hand: Hand, nextcloud: Nextcloud
) -> None:
    alices, bobs, source = hand.folder(ALICE), hand.folder(BOB), FileSource()
    hand.mkdir(ALICE, f"{alices}/inner")
    hand.mkdir(BOB, f"{bobs}/Ä & ü")
    hand.share(ALICE, alices, with_user=BOB)
    hand.move(BOB, alices, f"{bobs}/received")
    containers = {c.path: c for c in await source.containers(nextcloud.as_user(BOB))}
    assert {path for path in containers if path.startswith(bobs)} == {bobs, f"{bobs}/Ä & ü"}
    home, inner = containers[""], containers[f"{bobs}/Ä & ü"]
    assert inner.scopes == (home.scope, containers[bobs].scope, inner.scope)
    assert home.ancestors == ()


async def test_a_listing_names_each_file_with_its_version_and_scopes(hand: Hand, nextcloud: Nextcloud) -> None:
    folder, source, session = hand.folder(ALICE), FileSource(), nextcloud.as_user(ALICE)
    fileid = hand.write(ALICE, f"{folder}/Ü 1.md", "naïve", headers={"X-OC-MTime": "1700000000"})
    hand.mkdir(ALICE, f"{folder}/sub")
    hand.write(ALICE, f"{folder}/sub/deeper.md", "x")
    container = await _folder(source, session, folder)
    (sighting,) = await source.listing(session, container)
    assert (sighting.key, sighting.path, sighting.title) == (_file(fileid), f"{folder}/Ü 1.md", "Ü 1.md")
    assert (sighting.scopes, sighting.parent) == (container.scopes, container.scope)
    assert (sighting.size, sighting.mime, sighting.owner) == (6, "text/markdown", ALICE)
    assert sighting.mtime == 1_700_000_000
    assert sighting.listed.startswith(sighting.version)


async def test_an_unchanged_home_has_an_unchanged_pulse(hand: Hand, nextcloud: Nextcloud) -> None:
    folder, source, session = hand.folder(ALICE), FileSource(), nextcloud.as_user(ALICE)
    hand.write(ALICE, f"{folder}/a.md", "x")
    before = await source.pulse(session)
    containers = {c.path: c.etag for c in await source.containers(session)}
    assert await source.pulse(session) == before
    hand.write(ALICE, f"{folder}/a.md", "y")
    assert await source.pulse(session) != before
    after = {c.path: c.etag for c in await source.containers(session)}
    assert {path for path in after if path and after[path] != containers.get(path)} == {folder}


async def test_a_listing_tells_an_overwrite_that_hides_behind_the_same_etag(hand: Hand, nextcloud: Nextcloud) -> None:
    folder, source, session, stamp = hand.folder(ALICE), FileSource(), nextcloud.as_user(ALICE), "1700000000"
    hand.write(ALICE, f"{folder}/a.md", "one", headers={"X-OC-MTime": stamp})
    before = (await _listed(source, session, folder))["a.md"]
    hand.later(1.1)
    hand.write(ALICE, f"{folder}/a.md", "two", headers={"X-OC-MTime": stamp})
    after = (await _listed(source, session, folder))["a.md"]
    assert after.version == before.version
    assert after.listed != before.listed


# --- files: reading one


async def test_a_file_is_fetched_with_its_place_by_its_owner(hand: Hand, nextcloud: Nextcloud) -> None:
    folder, source, session = hand.folder(ALICE), FileSource(), nextcloud.as_user(ALICE)
    body = bytes(range(256)) * 40
    hand.mkdir(ALICE, f"{folder}/100 % ä")
    fileid = hand.write(ALICE, f"{folder}/100 % ä/b #1.bin", body, headers={"X-OC-MTime": "1700000000"})
    fetched = await source.fetch(session, _file(fileid), (), limit=_LIMIT)
    assert (fetched.body, fetched.settled) == (body, True)
    container = await _folder(source, session, f"{folder}/100 % ä")
    assert fetched.sighting.scopes == container.scopes
    assert fetched.sighting == await source.locate(session, _file(fileid), container.scopes)
    listed = (await _listed(source, session, f"{folder}/100 % ä"))["b #1.bin"]
    assert (fetched.sighting.version, fetched.sighting.path) == (listed.version, listed.path)


async def test_what_was_just_written_is_not_settled(hand: Hand, nextcloud: Nextcloud) -> None:
    folder, source, session = hand.folder(ALICE), FileSource(), nextcloud.as_user(ALICE)
    fileid = hand.write(ALICE, f"{folder}/a.md", "x")
    assert not (await source.fetch(session, _file(fileid), (), limit=_LIMIT)).settled
    hand.later(3)
    assert (await source.fetch(session, _file(fileid), (), limit=_LIMIT)).settled


async def test_a_file_that_is_too_large_or_not_there_is_not_fetched(hand: Hand, nextcloud: Nextcloud) -> None:
    folder, source, session = hand.folder(ALICE), FileSource(), nextcloud.as_user(ALICE)
    fileid = hand.write(ALICE, f"{folder}/a.md", "x" * 100)
    with pytest.raises(Unindexable):
        await source.fetch(session, _file(fileid), (), limit=99)
    with pytest.raises(Missing):
        await source.fetch(nextcloud.as_user(BOB), _file(fileid), (), limit=_LIMIT)
    hand.delete(ALICE, f"{folder}/a.md")
    with pytest.raises(Missing):
        await source.locate(session, _file(fileid), ())


async def test_a_move_changes_the_scopes_and_keeps_the_version(hand: Hand, nextcloud: Nextcloud) -> None:
    folder, other, source, session = hand.folder(ALICE), hand.folder(ALICE), FileSource(), nextcloud.as_user(ALICE)
    fileid = hand.write(ALICE, f"{folder}/a.md", "x")
    before = await source.locate(session, _file(fileid), ())
    hand.move(ALICE, f"{folder}/a.md", f"{other}/b.md")
    after = await source.locate(session, _file(fileid), before.scopes)
    assert (after.version, after.path) == (before.version, f"{other}/b.md")
    assert after.scopes == (await _folder(source, session, other)).scopes


# --- files: verdicts


async def test_each_reader_gets_his_own_verdict_and_place(hand: Hand, nextcloud: Nextcloud) -> None:
    folder, mine, source = hand.folder(ALICE), hand.folder(BOB), FileSource()
    fileid = hand.write(ALICE, f"{folder}/a.md", "x")
    closed = hand.write(ALICE, f"{hand.folder(ALICE)}/closed.md", "x")
    share = hand.share(ALICE, folder, with_user=BOB)
    hand.move(BOB, folder, f"{mine}/received")
    suspects = {_file(fileid): (), _file(closed): (), _file(900_000_000): ()}
    verdicts = await source.verify(nextcloud.as_user(BOB), suspects)
    granted = verdicts[_file(fileid)]
    assert isinstance(granted, Granted)
    assert granted.place == Place("file", "a.md", f"{mine} / received", f"/index.php/f/{fileid}")
    assert granted.quotable
    fetched = await source.fetch(nextcloud.as_user(ALICE), _file(fileid), (), limit=_LIMIT)
    assert granted.version == fetched.sighting.version
    assert verdicts[_file(closed)] is verdicts[_file(900_000_000)] is Refused.DENIED
    hand.unshare(ALICE, share)
    assert (await source.verify(nextcloud.as_user(BOB), suspects))[_file(fileid)] is Refused.DENIED


async def test_a_view_only_file_is_granted_and_not_quotable(hand: Hand, nextcloud: Nextcloud) -> None:
    folder, source = hand.folder(ALICE), FileSource()
    name = f"{folder}-view.md"
    fileid = hand.write(ALICE, f"{folder}/{name}", "x")
    hand.share(ALICE, f"{folder}/{name}", with_user=BOB, download=False)
    granted = (await source.verify(nextcloud.as_user(BOB), {_file(fileid): ()}))[_file(fileid)]
    assert isinstance(granted, Granted)
    assert not granted.quotable
    hand.share(ALICE, folder, with_user=BOB)
    again = (await source.verify(nextcloud.as_user(BOB), {_file(fileid): ()}))[_file(fileid)]
    assert isinstance(again, Granted)
    assert again.quotable


async def test_a_file_in_the_viewers_notes_folder_is_a_note_to_him_alone(hand: Hand, nextcloud: Nextcloud) -> None:
    writer, source = hand.user("writer"), FileSource()
    hand.log_in(writer)
    hand.set_notes_folder(writer, "Meine Notizen")
    for path in ("Meine Notizen", "Meine Notizen/Küche"):
        hand.mkdir(writer, path)
    fileid = hand.write(writer, "Meine Notizen/Küche/Plum cake.md", "x")
    hand.share(writer, "Meine Notizen/Küche", with_user=BOB)
    note = await _place(source, nextcloud.as_user(writer), fileid)
    assert note == Place("note", "Plum cake", "Küche", f"/index.php/apps/notes/note/{fileid}")
    assert (await _place(source, nextcloud.as_user(BOB), fileid)).kind == "file"


async def test_a_person_with_an_unusual_id_is_walked_and_verified(hand: Hand, nextcloud: Nextcloud) -> None:
    person, source = hand.user(), FileSource()
    hand.log_in(person)
    fileid = hand.write(person, "a.md", "x")
    session = nextcloud.as_user(person)
    assert "a.md" in await _listed(source, session, "")
    assert (await source.fetch(session, _file(fileid), (), limit=_LIMIT)).body == b"x"
    assert isinstance((await source.verify(session, {_file(fileid): ()}))[_file(fileid)], Granted)


# --- files: reach


async def test_within_reach_are_the_home_received_folders_and_received_files(hand: Hand, nextcloud: Nextcloud) -> None:
    folder, mine, group, source = hand.folder(ALICE), hand.folder(BOB), hand.group(BOB), FileSource()
    name = f"{folder}-single.md"
    single, moved = hand.write(ALICE, f"{folder}/{name}", "x"), hand.mkdir(ALICE, f"{folder}/moved")
    top = hand.mkdir(ALICE, f"{folder}/top")
    before = await source.reach(nextcloud.as_user(BOB))
    hand.share(ALICE, f"{folder}/{name}", with_user=BOB)
    hand.share(ALICE, f"{folder}/top", with_group=group)
    hand.share(ALICE, f"{folder}/moved", with_user=BOB)
    hand.move(BOB, "moved", f"{mine}/elsewhere")
    after = await source.reach(nextcloud.as_user(BOB))
    assert after.scopes - before.scopes == {f"f:{top}", f"f:{moved}"}
    assert after.documents - before.documents == {_file(single)}
    home = (await _folder(source, nextcloud.as_user(BOB), "")).scope
    assert home in after.scopes
    hand.leave(BOB, group)
    assert f"f:{top}" not in (await source.reach(nextcloud.as_user(BOB))).scopes


async def test_a_note_that_somebody_shared_is_within_reach(hand: Hand, nextcloud: Nextcloud) -> None:
    writer, reader, source = hand.user("writer"), hand.user("reader"), FileSource()
    hand.log_in(writer)
    hand.log_in(reader)
    hand.mkdir(writer, "Notes")
    note = hand.write(writer, "Notes/cake.md", "x")
    assert _file(note) not in (await source.reach(nextcloud.as_user(reader))).documents
    share = hand.share(writer, "Notes/cake.md", with_user=reader)
    assert _file(note) in (await source.reach(nextcloud.as_user(reader))).documents
    assert (await _place(source, nextcloud.as_user(reader), note)).kind == "note"
    hand.unshare(writer, share)
    assert _file(note) not in (await source.reach(nextcloud.as_user(reader))).documents


# --- cards


async def test_a_walk_sees_boards_and_their_cards(hand: Hand, nextcloud: Nextcloud) -> None:
    board, source, session = hand.board(ALICE), DeckCardSource(), nextcloud.as_user(ALICE)
    card = hand.card(board, "Venue", text="A hall", label="urgent")
    container = next(c for c in await source.containers(session) if c.scope == _scope(board))
    assert container.path == board.title
    (sighting,) = await source.listing(session, container)
    assert (sighting.key, sighting.title, sighting.scopes) == (_card(card), "Venue", (_scope(board),))
    fetched = await source.fetch(session, _card(card), (), limit=_LIMIT)
    assert (fetched.body, fetched.settled) == (b"Venue\n\nA hall", True)
    assert fetched.sighting == sighting


async def test_two_edits_in_one_second_are_two_versions(hand: Hand, nextcloud: Nextcloud) -> None:
    board, source, session = hand.board(ALICE), DeckCardSource(), nextcloud.as_user(ALICE)
    card = hand.card(board, "Venue", text="one")
    versions = [(await source.locate(session, _card(card), ())).version]
    for text in ("two", "three"):
        hand.edit_card(board, card, title="Venue", text=text)
        versions.append((await source.locate(session, _card(card), ())).version)
    assert len(set(versions)) == 3


async def test_cards_are_granted_by_their_boards_of_now(hand: Hand, nextcloud: Nextcloud) -> None:
    board, hidden, source = hand.board(ALICE), hand.board(ALICE), DeckCardSource()
    hand.share_board(board, BOB)
    stays, moves = hand.card(board, "Venue"), hand.card(board, "Menu")
    suspects = {_card(card): (_scope(board),) for card in (stays, moves, 900_000_000)}
    bob, carol = nextcloud.as_user(BOB), nextcloud.as_user(CAROL)
    hand.move_card(board, moves, hidden)
    verdicts = await source.verify(bob, suspects)
    granted = verdicts[_card(stays)]
    assert isinstance(granted, Granted)
    link = f"/index.php/apps/deck/board/{board.id}/card/{stays}"
    assert granted.place == Place("deck_card", "Venue", board.title, link)
    assert granted.version == (await source.locate(nextcloud.as_user(ALICE), _card(stays), ())).version
    assert verdicts[_card(moves)] is verdicts[_card(900_000_000)] is Refused.GONE
    assert set((await source.verify(carol, suspects)).values()) == {Refused.DENIED}
    hand.unshare_board(board, BOB)
    assert set((await source.verify(bob, suspects)).values()) == {Refused.DENIED}


async def test_a_card_is_found_where_it_moved(hand: Hand, nextcloud: Nextcloud) -> None:
    board, other, source, session = hand.board(ALICE), hand.board(ALICE), DeckCardSource(), nextcloud.as_user(ALICE)
    card = hand.card(board, "Venue")
    hand.move_card(board, card, other)
    assert (await source.locate(session, _card(card), (_scope(board),))).scopes == (_scope(other),)
    hand.archive_card(other, card)
    with pytest.raises(Missing):
        await source.locate(session, _card(card), (_scope(other),))


async def test_boards_are_within_reach_while_they_are_shared(hand: Hand, nextcloud: Nextcloud) -> None:
    board, source, bob = hand.board(ALICE), DeckCardSource(), nextcloud.as_user(BOB)
    pulse = await source.pulse(bob)
    assert _scope(board) not in (await source.reach(bob)).scopes
    hand.share_board(board, BOB)
    assert _scope(board) in (await source.reach(bob)).scopes
    assert await source.pulse(bob) != pulse
    hand.unshare_board(board, BOB)
    assert _scope(board) not in (await source.reach(bob)).scopes

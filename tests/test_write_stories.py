# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""How what people write gets into the index, stays true there, and leaves it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from documents import pdf
from town import Town

from ex_app.domain import DocumentKey, Lane, Parsed, Reason
from ex_app.store.documents import DocumentRow, Status

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
DEARER = HOTELS.replace("120", "175")
BEES = "# Bees\n\nThe two hives gave eleven kilos of honey this summer, most of it from lime blossom."
QUESTION = "hotel price limit for trips"


async def row_of(town: Town, key: str) -> DocumentRow:
    row = await town.row(key)
    assert row is not None
    return row


async def scopes_of(town: Town, key: str) -> set[str]:
    return {scope for point in await town.points(key) for scope in point.scopes}


def folder(town: Town, user: str, path: str) -> str:
    return f"f:{town.world.resolve(user, path).node.id}"


# --- Looking without touching


async def test_the_first_look_leaves_no_trace_in_anybodys_account(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    nodes, boards, cards = set(town.world.nodes), set(town.world.boards), set(town.world.cards)
    await town.settle()
    await town.search("alice", QUESTION)
    await town.search("bob", QUESTION)
    assert (set(town.world.nodes), set(town.world.boards), set(town.world.cards)) == (nodes, boards, cards)
    assert not any(person.deck_opened for person in town.world.people.values())


async def test_who_never_signed_in_and_who_is_disabled_is_left_alone(town: Town) -> None:
    town.write("carol", "/Policies/Lodging.md", HOTELS)
    town.write("bob", "/Policies/Lodging.md", HOTELS)
    town.world.people["carol"].last_login = 0
    town.world.disable("bob")
    await town.settle()
    assert {request.kind for request in town.world.requests if request.user in ("bob", "carol")} == {"ocs"}
    assert (await town.registry.progress()).total == 0
    town.world.people["carol"].last_login = int(town.clock())
    town.world.enable("bob")
    await town.settle()
    assert (await town.registry.progress()).indexed == 2


async def test_an_unchanged_tree_costs_one_request_per_source_and_person(town: Town) -> None:
    for name in ("Policies", "Garden", "Archive"):
        town.write("alice", f"/{name}/Paper.md", BEES)
    board = town.world.add_board("alice", "Travel")
    town.world.add_card(board, "Lodging", description=HOTELS)
    await town.settle()
    await town.settle()
    town.world.reset_requests()
    await town.settle()
    people = len(town.world.people)
    assert town.world.count(kind="dav") == people
    assert town.world.count(kind="caldav") == people
    assert town.world.count(kind="ocs") == people + 1  # who exists, and is this one enabled


async def test_a_change_costs_a_look_at_the_changed_folders_only(town: Town) -> None:
    for name in ("Policies", "Garden", "Archive"):
        town.write("alice", f"/{name}/Paper.md", BEES)
    await town.settle()
    town.world.reset_requests()
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    paths = [request.path for request in town.world.requests if request.kind == "dav"]
    assert not any("Garden" in path or "Archive" in path for path in paths)
    assert town.world.count(method="GET", kind="dav") == 1
    assert town.world.count(method="SEARCH") <= 3  # all folders, then the file before and after it was read


# --- What is read again, and what is not


async def test_a_file_that_moved_is_found_through_its_new_folder_and_nothing_is_read_again(town: Town) -> None:
    key = town.write("alice", "/Drafts/Lodging.md", HOTELS)
    town.world.mkdir("alice", "/Policies")
    town.world.share("alice", "/Policies", with_user="bob")
    await town.settle()
    town.embedder.read.clear()
    town.world.move("alice", "/Drafts/Lodging.md", "/Policies/Lodging.md")
    await town.settle()
    assert town.embedder.read == []
    assert await scopes_of(town, key) == {folder(town, "alice", "/"), folder(town, "alice", "/Policies")}
    assert (await town.search("bob", QUESTION)).titles == ["Lodging.md"]


async def test_a_folder_that_moved_takes_its_documents_along_and_not_one_of_them_is_read(town: Town) -> None:
    keys = [town.write("alice", f"/Drafts/2025/Paper {number}.md", f"{HOTELS} {number}") for number in range(3)]
    town.world.mkdir("alice", "/Policies")
    town.world.share("alice", "/Policies", with_user="bob")
    await town.settle()
    town.embedder.read.clear()
    town.world.reset_requests()
    town.world.move("alice", "/Drafts", "/Policies/Final")
    await town.settle()
    assert town.embedder.read == []
    assert town.world.count(method="GET", kind="dav") == 0
    way = ("/", "/Policies", "/Policies/Final", "/Policies/Final/2025")
    for key in keys:
        assert await scopes_of(town, key) == {folder(town, "alice", path) for path in way}
        assert (await row_of(town, key)).path.startswith("Policies/Final/2025/")
    assert {hit["place"] for hit in (await town.search("bob", QUESTION)).hits} == {"Policies / Final / 2025"}


async def test_the_same_bytes_uploaded_again_are_not_read_by_the_model(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS, via="dav")
    await town.settle()
    before = await row_of(town, key)
    town.embedder.read.clear()
    town.write("alice", "/Policies/Lodging.md", HOTELS, via="dav")
    await town.settle()
    after = await row_of(town, key)
    assert after.version != before.version
    assert (after.live, town.embedder.read) == (before.live, [])
    assert "120 euros" in (await town.search("alice", QUESTION))["Lodging.md"]["excerpt"]


async def test_an_edit_of_one_passage_lets_the_model_read_that_passage_alone(town: Town) -> None:
    chapters = [f"# Chapter {n}\n\n" + f"Sentence about subject number {n} of the manual. " * 20 for n in range(4)]
    key = town.write("alice", "/Manual.md", "\n\n".join(chapters))
    await town.settle()
    assert len(town.embedder.read) >= 4
    town.embedder.read.clear()
    chapters[2] = chapters[2].replace("subject number 2", "honey and wax")
    town.write("alice", "/Manual.md", "\n\n".join(chapters))
    await town.settle()
    assert len(town.embedder.read) == 1
    assert "honey and wax" in town.embedder.read[0]
    assert len({point.generation for point in await town.points(key)}) == 1


async def test_an_overwrite_that_keeps_time_and_size_is_found_by_the_next_listing(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS, via="dav", mtime=1_700_000_000)
    await town.settle()
    version = (await row_of(town, key)).version
    town.write("alice", "/Policies/Lodging.md", DEARER, via="dav", mtime=1_700_000_000)
    await town.settle()
    assert (await row_of(town, key)).version == version, "this is what makes it a trap"
    assert "175 euros" in (await town.search("alice", QUESTION))["Lodging.md"]["excerpt"]


async def test_a_save_while_the_last_one_is_being_read_is_read_too(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)

    async def save_again() -> None:
        town.clock.forward(1)
        town.write("alice", "/Policies/Lodging.md", DEARER)

    town.staff(embedder=Interrupted(town, save_again))
    await town.settle()
    await town.settle()
    assert "175 euros" in (await town.search("alice", QUESTION))["Lodging.md"]["excerpt"]


async def test_a_young_version_is_read_again_by_itself(town: Town) -> None:
    """Nobody asks and nobody sweeps: two saves in one second look like one."""
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.catch_up()
    before = await row_of(town, key)
    town.write("alice", "/Policies/Lodging.md", DEARER)
    town.clock.forward(3)
    await town.work()
    after = await row_of(town, key)
    assert (after.version, before.settled, after.settled) == (before.version, False, True)
    assert any("175 euros" in text for text in town.embedder.read)
    assert {point.generation for point in await town.points(key)} == {after.live}


async def test_a_move_while_the_document_is_being_read_leaves_no_old_place_behind(town: Town) -> None:
    town.world.mkdir("alice", "/Private")
    key = town.write("alice", "/Shared/Lodging.md", HOTELS)
    town.clock.forward(3)
    await town.sweep()

    async def move() -> None:
        town.world.move("alice", "/Shared/Lodging.md", "/Private/Lodging.md")

    town.staff(embedder=Interrupted(town, move))
    await town.work()
    assert await scopes_of(town, key) == {folder(town, "alice", "/"), folder(town, "alice", "/Private")}


# --- What goes


async def test_a_deleted_file_leaves_the_index_and_its_words_leave_the_registry(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    town.world.delete("alice", "/Policies/Lodging.md")
    await town.settle()
    row = await row_of(town, key)
    assert (row.status, row.title, row.path, row.live) == (Status.HIDDEN, "", "", 0)
    assert await town.points(key) == []
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]


async def test_a_deleted_folder_takes_all_its_documents_out_of_the_index(town: Town) -> None:
    keys = [town.write("alice", f"/Drafts/2025/Paper {number}.md", f"{HOTELS} {number}") for number in range(3)]
    kept = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    town.world.delete("alice", "/Drafts")
    await town.settle()
    for key in keys:
        assert await town.points(key) == []
    assert len(await town.points(kept)) == 1


async def test_an_erased_document_is_gone_and_stays_away(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    row = await row_of(town, key)
    await town.registry.erase(row.key)
    assert (await town.search("alice", QUESTION)).hits == []
    await town.work()
    assert await town.points(key) == []
    town.write("alice", "/Policies/Lodging.md", DEARER)
    await town.settle()
    assert (await town.search("alice", QUESTION)).hits == []
    assert await town.points(key) == []


async def test_a_document_erased_while_it_is_being_read_leaves_nothing(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    town.write("alice", "/Policies/Lodging.md", DEARER)
    town.clock.forward(3)
    await town.sweep()

    async def erase() -> None:
        await town.registry.erase(DocumentKey.parse(key))

    town.staff(embedder=Interrupted(town, erase))
    await town.work()
    assert await town.points(key) == []
    assert (await row_of(town, key)).status is Status.ERASED
    assert (await town.search("alice", QUESTION)).hits == []


async def test_a_file_taken_from_a_shared_folder_into_another_home_belongs_there(town: Town) -> None:
    key = town.write("alice", "/Team/Lodging.md", HOTELS)
    town.world.share("alice", "/Team", with_user="bob", permissions=31)
    town.world.mkdir("bob", "/Mine")
    await town.settle()
    town.world.move("bob", "/Team/Lodging.md", "/Mine/Lodging.md")
    await town.settle()
    row = await row_of(town, key)
    assert (row.owner, row.path) == ("bob", "Mine/Lodging.md")
    assert await scopes_of(town, key) == {folder(town, "bob", "/"), folder(town, "bob", "/Mine")}
    assert (await town.search("alice", QUESTION)).hits == []
    assert (await town.search("bob", QUESTION, owner="bob")).titles == ["Lodging.md"]
    assert (await town.search("bob", QUESTION, owner="alice")).hits == []


async def test_a_folder_that_changes_hands_before_the_index_looks_again_belongs_to_its_new_owner(town: Town) -> None:
    key = town.write("alice", "/Team/Trips/Lodging.md", HOTELS)
    town.world.share("alice", "/Team", with_user="bob", permissions=31)
    town.world.mkdir("bob", "/Mine")
    await town.settle()
    town.world.move("bob", "/Team/Trips", "/Mine/Trips")
    town.world.share("bob", "/Mine/Trips", with_user="alice")
    town.write("bob", "/Mine/Trips/Lodging.md", DEARER)
    town.clock.forward(3)
    await town.registry.enqueue(DocumentKey.parse(key), Lane.CONTENT, "bob")
    await town.work()  # the registry still has Alice for its owner, and she still finds it
    row = await row_of(town, key)
    assert (row.owner, row.path) == ("bob", "Mine/Trips/Lodging.md")
    assert await scopes_of(town, key) == {folder(town, "bob", path) for path in ("/", "/Mine", "/Mine/Trips")}


async def test_a_file_that_no_client_uploaded_is_read_again_when_one_overwrites_it_under_its_old_time(
    town: Town,
) -> None:
    """Only the listing tells: the time of upload was none, and is one."""
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    town.clock.forward(60)
    before = town.world.nodes[(await row_of(town, key)).key.id]
    town.write("alice", "/Policies/Lodging.md", DEARER, mtime=before.mtime, via="dav")
    await town.settle()
    assert "175 euros" in (await town.search("alice", QUESTION))["Lodging.md"]["excerpt"]


# --- Cards


async def test_a_cards_life(town: Town) -> None:
    travel, archive = town.world.add_board("alice", "Travel"), town.world.add_board("alice", "Old")
    card = town.world.add_card(travel, "Lodging", description=HOTELS, labels=["finance"])
    key = f"deck_card:{card}"
    await town.settle()
    town.world.edit_card(card, description=DEARER)
    await town.settle()
    assert "175 euros" in (await town.search("alice", QUESTION))["Lodging"]["excerpt"]
    town.embedder.read.clear()
    town.world.move_card(card, min(stack.id for stack in town.world.stacks_of(archive)))
    await town.settle()
    assert await scopes_of(town, key) == {f"deck:{archive}"}
    assert (await town.search("alice", QUESTION))["Lodging"]["place"] == "Old"
    assert town.embedder.read == []
    town.world.archive_card(card)
    await town.settle()
    assert await town.points(key) == []
    town.world.unarchive_card(card)
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging"]


async def test_a_card_edited_twice_in_one_second_is_indexed_as_it_is_in_the_end(town: Town) -> None:
    board = town.world.add_board("alice", "Travel")
    card = town.world.add_card(board, "Lodging", description="Nothing yet")
    await town.settle()
    town.world.edit_card(card, description=HOTELS)
    await town.catch_up()
    town.world.edit_card(card, description=DEARER)  # the board's time of last change stays the same
    await town.settle()
    hit = (await town.search("alice", QUESTION))["Lodging"]
    assert "175 euros" in hit["excerpt"]
    row = await row_of(town, f"deck_card:{card}")
    assert (await town.registry.live([row.key]))[row.key].settled
    assert row.version == (await town.worker.sources["deck_card"].locate(_as(town, "alice"), row.key, ())).version


async def test_a_board_stays_indexed_for_the_others_when_its_walker_loses_it(town: Town) -> None:
    board = town.world.add_board("carol", "Travel")
    card = town.world.add_card(board, "Lodging", description=HOTELS)
    for member in ("alice", "bob"):
        town.world.share_board(board, with_user=member)
    await town.settle()
    town.world.unshare_board(board, with_user="alice")
    for _ in range(2):
        await town.settle()
        assert (await town.search("bob", QUESTION)).titles == ["Lodging"]
    assert (await town.search("alice", QUESTION)).hits == []
    town.world.delete_board(board)
    await town.settle()
    await town.settle()
    assert await town.points(f"deck_card:{card}") == []


async def test_one_readers_loss_of_a_board_is_nobody_elses(town: Town) -> None:
    """Bob asked for a fresh look at a card, and lost the board before it was taken."""
    board = town.world.add_board("alice", "Bakery")
    card = f"deck_card:{town.world.add_card(board, 'Mend the oven', description='The dome is cracked.')}"
    town.world.share_board(board, with_user="bob")
    await town.settle()
    await town.registry.enqueue(DocumentKey.parse(card), Lane.REFRESH, "bob")
    town.world.unshare_board(board, with_user="bob")
    await town.work()
    assert (await town.search("alice", "Who repairs the cracked oven dome?")).titles == ["Mend the oven"]


# --- What cannot be read


@pytest.mark.town(max_file_mb=1)
async def test_what_gives_no_text_is_found_by_its_name_and_an_admin_can_read_why(town: Town) -> None:
    large = town.write("alice", "/Contracts/Hotel Adler price list.txt", "room rate " * 120_000)
    locked = town.write("alice", "/Contracts/Hotel Krone contract.pdf", pdf("Rates", password="closed"))
    broken = town.write("alice", "/Contracts/Hotel Linde offer.docx", b"PK\x03\x04 this is no document")
    picture = town.write("alice", "/Contracts/Hotel Rose lobby.png", b"\x89PNG\r\n\x1a\n" + bytes(64))
    good = town.write("alice", "/Contracts/Hotel Sonne.md", HOTELS)
    await town.settle()
    reasons = {key: (await row_of(town, key)).reason for key in (large, locked, broken, picture, good)}
    assert reasons == {
        large: Reason.TOO_LARGE,
        locked: Reason.ENCRYPTED,
        broken: Reason.CORRUPT,
        picture: Reason.UNSUPPORTED,
        good: None,
    }
    progress = await town.registry.progress()
    assert progress.reasons == {"too_large": 1, "encrypted": 1, "corrupt": 1, "unsupported": 1}
    assert progress.pending == 0
    for key, name in ((large, "Adler price list"), (locked, "Krone contract"), (broken, "Linde offer")):
        assert (await town.search("alice", f"Hotel {name}")).hits[0]["ref"] == key
    town.world.reset_requests()
    await town.settle()
    assert town.world.count(method="GET", kind="dav") == 0, "what cannot be read is not tried again until it changes"


async def test_files_that_nextcloud_cannot_hand_out_do_not_stop_the_others(town: Town) -> None:
    bad = [town.write("alice", f"/Papers/A{number} broken.md", BEES) for number in range(3)]
    good = town.write("alice", "/Papers/Lodging.md", HOTELS)
    town.world.fail(lambda request: request.method == "GET" and "broken" in request.path, status=500)
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]
    assert (await row_of(town, good)).live
    town.world.heal()
    town.clock.forward(7200)
    await town.work()
    for key in bad:
        assert (await row_of(town, key)).live


async def test_a_nextcloud_in_trouble_is_left_alone_and_nothing_is_lost(town: Town) -> None:
    key = town.write("alice", "/Papers/Lodging.md", HOTELS)
    town.clock.forward(3)
    await town.sweep()
    town.world.fail(lambda request: request.kind == "dav", status=503)
    item = await town.claim()
    assert item is not None
    assert await town.worker.attempt(item) >= 15
    assert await town.claim() is None, "the server asked for two minutes of rest"
    town.world.heal()
    town.clock.forward(121)
    await town.work()
    assert (await row_of(town, key)).live
    assert await town.registry.failures() == []


async def test_a_document_that_breaks_our_code_is_put_aside_and_tried_again_when_it_changes(town: Town) -> None:
    bad = town.write("alice", "/Papers/Cursed.md", "cursed")
    town.write("alice", "/Papers/Lodging.md", HOTELS)
    real = town.worker.extractor
    town.staff(extractor=Superstitious(real.extract))
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]
    for _ in range(town.settings.max_attempts):
        town.clock.forward(7200)
        await town.work()
    failures = await town.registry.failures()
    assert [(str(failure.key), failure.reason, failure.detail) for failure in failures] == [
        (bad, Reason.FAILED, "RuntimeError")
    ]
    town.clock.forward(7200)
    assert await town.claim() is None
    town.write("alice", "/Papers/Cursed.md", "blessed: hotels")
    await town.settle()
    assert (await row_of(town, bad)).live
    assert await town.registry.failures() == []


async def test_somebodys_broken_home_does_not_stop_the_sweep(town: Town) -> None:
    town.write("alice", "/Papers/Lodging.md", HOTELS)
    town.write("bob", "/Papers/Lodging.md", HOTELS)
    town.write("carol", "/Papers/Lodging.md", HOTELS)
    for user, status in (("alice", 500), ("bob", 404)):
        town.world.fail(lambda request, user=user: request.user == user and request.kind == "dav", status=status)
    await town.settle()
    assert (await town.search("carol", QUESTION)).titles == ["Lodging.md"]
    town.world.heal()
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]


# --- Crashes and races


async def test_a_crash_at_any_step_leaves_exactly_the_last_text_after_the_next_try(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    healthy = {"registry": town.worker.registry, "vectors": town.worker.vectors}
    steps = 0
    while True:
        town.write("alice", "/Policies/Lodging.md", HOTELS.replace("120", str(200 + steps)))
        town.clock.forward(3)
        await town.sweep()
        fuse = Fuse(steps)
        town.staff(**{name: Mortal(part, fuse) for name, part in healthy.items()})
        with suppress(Death):
            await town.work()
        town.staff(**healthy)
        town.clock.forward(town.settings.lease_s + 1)
        await town.work()
        town.clock.forward(6)  # whoever finds all done looks once more
        await town.work()
        points, row = await town.points(key), await row_of(town, key)
        assert [point.generation for point in points] == [row.live], f"after a death before {fuse.last}"
        assert f"{200 + steps} euros" in (await town.search("alice", QUESTION))["Lodging.md"]["excerpt"]
        assert (await town.registry.progress()).pending == 0
        if fuse.left >= 0:
            break
        steps += 1
    assert steps >= 6, "it died at every step from the first to the last"


async def test_a_writer_whose_lease_ran_out_loses_and_takes_its_points_away(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.clock.forward(3)
    await town.sweep()
    late = await town.claim()
    assert late is not None
    slow, quick = town.worker, town.worker
    generations: list[int] = []

    async def overtake() -> None:
        town.clock.forward(town.settings.lease_s + 1)
        winner = await town.claim()
        assert winner is not None
        generations.append(winner.generation)
        await quick.attempt(winner)

    town.staff(embedder=Interrupted(town, overtake))
    slow = town.worker
    await slow.attempt(late)
    assert late.generation < generations[0]
    assert (await row_of(town, key)).live == generations[0]
    assert {point.generation for point in await town.points(key)} == {generations[0]}
    assert "120 euros" in (await town.search("alice", QUESTION))["Lodging.md"]["excerpt"]


async def test_an_index_that_was_lost_is_filled_again(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    await town.vectors.destroy()
    answer = await town.ask("alice", "GET", "/api/search", params={"q": QUESTION})
    assert answer.status_code == 503
    await town.restart()
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]


async def test_a_restart_reads_nothing_again(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    town.embedder.read.clear()
    await town.restart()
    town.world.reset_requests()
    await town.settle()
    assert town.embedder.read == []
    assert town.world.count(method="GET", kind="dav") == 0


async def test_a_readers_wish_goes_before_the_backlog(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    for number in range(3):
        town.write("alice", f"/Policies/Paper {number}.md", BEES)
    town.write("alice", "/Policies/Lodging.md", DEARER)
    town.clock.forward(3)
    await town.sweep()
    await town.search("alice", QUESTION)
    item = await town.claim()
    assert item is not None
    assert (item.lane, (await row_of(town, str(item.key))).title) == (Lane.REFRESH, "Lodging.md")
    await town.registry.release([item.token])


# --- Helpers of this town


def _as(town: Town, user: str) -> Any:
    return town.house.nextcloud.as_user(user)


class Interrupted:
    """An embedder during whose first work something else happens."""

    def __init__(self, town: Town, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._town = town
        self._meanwhile: Callable[[], Awaitable[None]] | None = meanwhile

    async def documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return await self._town.embedder.documents(texts)


class Superstitious:
    """A parser that stumbles over one word."""

    def __init__(self, extract: Callable[..., Awaitable[Parsed]]) -> None:
        self._extract = extract

    async def extract(self, body: bytes, **about: str) -> Parsed:
        if b"cursed" in body:
            raise RuntimeError("the text would stand here")
        return await self._extract(body, **about)


class Death(BaseException):
    """The process is no more; nothing in it runs on."""


@dataclass
class Fuse:
    """Burns down with each call; whoever finds it burnt dies before it does anything."""

    left: int
    last: str = ""

    def burn(self, name: str) -> None:
        if self.left == 0:
            self.left, self.last = -1, name
            raise Death
        self.left -= self.left > 0


class Mortal:
    """A part of the worker that is real until its fuse has burnt down."""

    def __init__(self, part: Any, fuse: Fuse) -> None:
        self._part, self._fuse = part, fuse

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if name == "now" or not callable(found):
            return found

        async def call(*args: Any, **more: Any) -> Any:
            self._fuse.burn(name)
            return await found(*args, **more)

        return call

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Who is shown what, at the moment of asking: the index suggests, Nextcloud decides."""

from __future__ import annotations

import asyncio
import time

import pytest
from starlette.responses import Response
from starlette.types import ASGIApp, Scope
from town import Town

from demo.habits import Failure, Request
from ex_app.domain import NotAvailable
from ex_app.store.registry import Registry

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
DEARER = "# Lodging\n\nStaff may spend at most 175 euros per night on accommodation when they are away on business."
BEES = "# Bees\n\nThe two hives gave eleven kilos of honey this summer, most of it from lime blossom."
QUESTION = "hotel price limit for trips"

# A billion laughs would be a gigabyte; ten are enough to see whether anybody laughs.
BOMB = b"""<?xml version="1.0"?><!DOCTYPE d [<!ENTITY ha "ha"><!ENTITY ten "&ha;&ha;&ha;&ha;&ha;&ha;&ha;&ha;&ha;&ha;">]>
<d:multistatus xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:response><d:href>/remote.php/dav/files/bob/&ten;</d:href>
<d:propstat><d:prop><oc:fileid>%d</oc:fileid><d:getetag>"x"</d:getetag><oc:permissions>RGDNVW</oc:permissions></d:prop>
<d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response></d:multistatus>"""


# --- Given to read, and taken away


async def test_a_document_is_found_by_what_it_means_without_a_shared_word(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.write("alice", "/Garden/Bees.md", BEES)
    await town.settle()
    page = await town.search("alice", QUESTION)
    assert page.titles[0] == "Lodging.md"
    assert "120 euros" in page["Lodging.md"]["excerpt"]
    assert not page.degraded


async def test_bob_is_not_shown_what_only_alice_may_read(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    page = await town.search("bob", QUESTION)
    assert page.hits == []
    assert not page.degraded


async def test_what_is_unshared_is_gone_with_the_very_next_search_though_the_index_still_holds_it(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    share = town.world.share("alice", "/Policies", with_user="bob")
    await town.settle()
    held = await town.points(key)
    assert (await town.search("bob", QUESTION)).titles == ["Lodging.md"]
    town.world.unshare(share)
    assert (await town.search("bob", QUESTION)).hits == []
    assert await town.points(key) == held != []
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]


@pytest.mark.town(reach_ttl_s=0)
async def test_a_new_share_is_found_as_soon_as_bobs_reach_is_looked_at_again(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    held = await town.points(key)
    assert (await town.search("bob", QUESTION)).hits == []
    town.world.share("alice", "/Policies", with_group="staff")
    assert (await town.search("bob", QUESTION)).titles == ["Lodging.md"]
    assert await town.points(key) == held, "sharing writes nothing to the index"


async def test_who_leaves_a_group_is_not_shown_what_it_may_read(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.world.share("alice", "/Policies", with_group="staff")
    await town.settle()
    assert (await town.search("bob", QUESTION)).titles == ["Lodging.md"]
    town.world.leave("bob", "staff")
    assert (await town.search("bob", QUESTION)).hits == []


async def test_a_board_that_is_no_longer_shared_is_gone_at_once(town: Town) -> None:
    board = town.world.add_board("alice", "Travel")
    town.world.add_card(board, "Lodging", description=HOTELS)
    town.world.share_board(board, with_user="bob")
    await town.settle()
    page = await town.search("bob", QUESTION)
    assert [(hit["kind"], hit["place"]) for hit in page.hits] == [("deck_card", "Travel")]
    town.world.unshare_board(board, with_user="bob")
    assert (await town.search("bob", QUESTION)).hits == []


async def test_a_card_moved_to_a_board_that_bob_does_not_see_is_gone_at_once(town: Town) -> None:
    shared, hidden = town.world.add_board("alice", "Travel"), town.world.add_board("alice", "Salaries")
    card = town.world.add_card(shared, "Lodging", description=HOTELS)
    town.world.add_card(shared, "Bees", description=BEES)
    town.world.share_board(shared, with_user="bob")
    await town.settle()
    assert (await town.search("bob", QUESTION)).titles == ["Lodging"]
    town.world.move_card(card, min(stack.id for stack in town.world.stacks_of(hidden)))
    page = await town.search("bob", QUESTION)
    assert page.hits == []
    assert not page.degraded, "Nextcloud has said that it is not there"


async def test_a_card_that_moved_between_two_boards_of_bobs_is_never_placed_on_the_one_it_left(town: Town) -> None:
    """Its old board is asked for it, does not have it, and so all boards that are asked about are listed."""
    left, joined = town.world.add_board("bob", "Travel"), town.world.add_board("bob", "Archive")
    moving = town.world.add_card(left, "Lodging", description=HOTELS)
    town.world.add_card(joined, "Overnight stays", description="Hotels: whoever travels books below 150 euros a night.")
    await town.settle()
    town.world.move_card(moving, min(stack.id for stack in town.world.stacks_of(joined)))
    page = await town.search("bob", QUESTION)
    assert {hit["title"]: hit["place"] for hit in page.hits} == {"Lodging": "Archive", "Overnight stays": "Archive"}


async def test_a_file_moved_out_of_a_shared_folder_is_gone_at_once(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.world.mkdir("alice", "/Drafts")
    town.world.share("alice", "/Policies", with_user="bob")
    await town.settle()
    assert (await town.search("bob", QUESTION)).titles == ["Lodging.md"]
    town.world.move("alice", "/Policies/Lodging.md", "/Drafts/Lodging.md")
    assert (await town.search("bob", QUESTION)).hits == []


async def test_listed_is_not_readable_without_the_letter_g_nothing_is_shown(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]
    town.world.block(int(key.partition(":")[2]))
    assert (await town.search("alice", QUESTION)).hits == []


async def test_a_deleted_file_is_gone_at_once(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]
    town.world.delete("alice", "/Policies/Lodging.md")
    assert (await town.search("alice", QUESTION)).hits == []


async def test_a_disabled_account_is_shown_nothing_though_webdav_still_answers_it(town: Town) -> None:
    town.write("bob", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    answer = await town.ask("bob", "GET", "/api/search", params={"q": QUESTION}, relayed=False)
    assert [hit["title"] for hit in answer.json()["hits"]] == ["Lodging.md"]
    town.world.disable("bob")
    answer = await town.ask("bob", "GET", "/api/search", params={"q": QUESTION}, relayed=False)
    assert answer.json()["hits"] == []


# --- What may be quoted


async def test_a_view_only_share_is_listed_without_a_word_of_its_text(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.world.share("alice", "/Policies", with_user="bob", download=False)
    await town.settle()
    page = await town.search("bob", QUESTION)
    assert page.titles == ["Lodging.md"]
    assert page["Lodging.md"]["excerpt"] == ""
    assert page["Lodging.md"]["highlights"] == []
    assert not page["Lodging.md"]["refreshing"]
    assert "120 euros" in (await town.search("alice", QUESTION))["Lodging.md"]["excerpt"]


@pytest.mark.town(view_only_excerpts=True)
async def test_an_admin_may_let_view_only_shares_be_quoted(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.world.share("alice", "/Policies", with_user="bob", download=False)
    await town.settle()
    assert "120 euros" in (await town.search("bob", QUESTION))["Lodging.md"]["excerpt"]


async def test_a_second_share_that_allows_downloading_makes_it_quotable(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.world.share("alice", "/Policies/Lodging.md", with_user="bob", download=False)
    town.world.share("alice", "/Policies", with_group="staff")
    await town.settle()
    page = await town.search("bob", QUESTION)
    assert page.titles == ["Lodging.md"]
    assert "120 euros" in page["Lodging.md"]["excerpt"]


async def test_an_edited_document_is_quoted_as_it_is_now_before_the_index_knows_it(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    town.write("alice", "/Policies/Lodging.md", DEARER)
    page = await town.search("alice", QUESTION)
    assert "175 euros" in page["Lodging.md"]["excerpt"]
    assert "120" not in str(page)


async def test_an_edited_long_document_is_listed_without_its_old_text_until_it_has_been_read_again(town: Town) -> None:
    question = "How much may staff spend per night on accommodation?"
    filler = "\n\n".join(f"Paragraph {number} is about chapter {number} of the manual." for number in range(600))
    town.write("alice", "/Policies/Manual.md", f"{HOTELS}\n\n{filler}")
    await town.settle()
    assert "120 euros" in (await town.search("alice", question))["Manual.md"]["excerpt"]
    town.write("alice", "/Policies/Manual.md", f"{DEARER}\n\n{filler}")
    answer = await town.ask("alice", "GET", "/api/search", params={"q": question})
    assert [(hit["title"], hit["refreshing"]) for hit in answer.json()["hits"]] == [("Manual.md", True)]
    assert "euros" not in answer.text
    town.clock.forward(3)
    await town.work()  # without a sweep: that somebody asked is enough
    page = await town.search("alice", question)
    assert "175 euros" in page["Manual.md"]["excerpt"]
    assert not page["Manual.md"]["refreshing"]


async def test_a_document_that_cannot_be_read_on_the_spot_is_listed_without_its_old_text(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    town.write("alice", "/Policies/Lodging.md", DEARER)
    town.world.fail(lambda request: request.method == "GET", status=500)
    answer = await town.ask("alice", "GET", "/api/search", params={"q": QUESTION})
    assert [(hit["title"], hit["refreshing"]) for hit in answer.json()["hits"]] == [("Lodging.md", True)]
    assert "euros" not in answer.text


async def test_a_view_only_reader_is_not_shown_the_new_text_either(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.world.share("alice", "/Policies", with_user="bob", download=False)
    await town.settle()
    town.write("alice", "/Policies/Lodging.md", DEARER)
    assert "175 euros" in (await town.search("alice", QUESTION))["Lodging.md"]["excerpt"]
    answer = await town.ask("bob", "GET", "/api/search", params={"q": QUESTION})
    assert [hit["title"] for hit in answer.json()["hits"]] == ["Lodging.md"]
    assert "euros" not in answer.text


async def test_a_card_edited_again_within_a_second_is_quoted_as_it_is_now(town: Town) -> None:
    board = town.world.add_board("alice", "Travel")
    card = town.world.add_card(board, "Lodging", description=HOTELS)
    await town.settle()
    assert "120 euros" in (await town.search("alice", QUESTION))["Lodging"]["excerpt"]
    town.world.edit_card(card, description=HOTELS.replace("120", "150"))
    await town.catch_up()
    town.world.edit_card(card, description=DEARER)  # Deck's ETags do not tell the two apart
    page = await town.search("alice", QUESTION)
    assert "175 euros" in page["Lodging"]["excerpt"]
    await town.settle()
    row = await town.row(f"deck_card:{card}")
    assert row is not None
    assert "175 euros" in (await town.search("alice", QUESTION))["Lodging"]["excerpt"]


async def test_two_saves_within_a_second_share_an_etag_and_are_never_quoted_wrongly(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.catch_up()
    row = await town.row(key)
    assert row is not None
    assert not row.settled
    etag = town.world.nodes[row.key.id].etag
    town.write("alice", "/Policies/Lodging.md", DEARER)
    assert town.world.nodes[row.key.id].etag == etag, "this is what makes it a trap"
    assert "175 euros" in (await town.search("alice", QUESTION))["Lodging.md"]["excerpt"]
    town.world.fail(lambda request: request.method == "GET", status=500, times=1)
    page = await town.search("alice", QUESTION)
    assert (page["Lodging.md"]["excerpt"], page["Lodging.md"]["refreshing"]) == ("", True)
    town.clock.forward(3)
    await town.work()  # the second look that the worker has planned by itself
    town.world.fail(lambda request: request.method == "GET", status=500)
    assert "175 euros" in (await town.search("alice", QUESTION))["Lodging.md"]["excerpt"]


async def test_a_renamed_document_is_shown_by_its_present_name_before_the_index_knows_it(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    town.world.move("alice", "/Policies/Lodging.md", "/Policies/Where we sleep.md")
    assert (await town.search("alice", QUESTION)).titles == ["Where we sleep.md"]


# --- Unsure is not shown


FAILURES: tuple[Failure, ...] = (500, 503, 401, 403, 404, 423, 429, "garbage", "truncate", "reset")


async def test_when_nextcloud_cannot_be_asked_nothing_is_shown_and_the_answer_says_so(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    for failure in FAILURES:
        page = await town.search("alice", QUESTION)
        assert (page.titles, page.degraded) == (["Lodging.md"], False), failure
        town.world.fail(_is_search, status=failure)
        page = await town.search("alice", QUESTION)
        assert (page.hits, page.degraded) == ([], True), failure
        town.world.heal()


@pytest.mark.town(search_deadline_s=2.0)
async def test_a_nextcloud_that_does_not_answer_is_given_up_in_time(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]
    town.world.fail(_is_search, status="timeout")
    started = time.monotonic()
    page = await town.search("alice", QUESTION)
    assert (page.hits, page.degraded) == ([], True)
    assert time.monotonic() - started < 10


@pytest.mark.town(reach_deadline_s=1.5)
async def test_one_silent_source_delays_nobody_beyond_the_deadline_and_hides_no_other(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    await town.search("bob", QUESTION)  # warms everything up but Alice's reach
    town.world.fail(lambda request: request.kind == "caldav", status="timeout")
    started = time.monotonic()
    page = await town.search("alice", QUESTION)
    assert (page.titles, page.degraded) == (["Lodging.md"], True)
    assert time.monotonic() - started < 2.9


async def test_a_document_of_entities_is_no_answer(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.world.share("alice", "/Policies", with_user="bob")
    await town.settle()
    await town.search("bob", QUESTION)
    bomb = Response(BOMB % int(key.partition(":")[2]), 207, media_type="application/xml")

    def instead(scope: Scope) -> ASGIApp | None:
        return bomb if scope["method"] == "SEARCH" else None

    town.stage.instead = instead
    page = await town.search("bob", QUESTION)
    assert (page.hits, page.degraded) == ([], True)


async def test_files_are_shown_while_deck_is_ill_and_the_other_way_round(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    board = town.world.add_board("alice", "Travel")
    town.world.add_card(board, "Overnight stays", description="Hotels: whoever travels books below 150 euros a night.")
    await town.settle()
    assert set((await town.search("alice", QUESTION)).titles) == {"Lodging.md", "Overnight stays"}
    town.world.fail(lambda request: request.kind == "caldav", status=500)
    page = await town.search("alice", QUESTION)
    assert (page.titles, page.degraded) == (["Lodging.md"], True)
    town.world.heal()
    town.world.fail(_is_search, status=500)
    page = await town.search("alice", QUESTION)
    assert (page.titles, page.degraded) == (["Overnight stays"], True)


# --- Parts that go away and come back


async def test_without_its_engine_the_app_says_so_and_finds_again_when_it_is_back(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]
    with town.engine_away():
        answer = await town.ask("alice", "GET", "/api/search", params={"q": QUESTION})
        assert answer.status_code == 503
        assert answer.json() == {"error": "The search index is starting or not filled yet. Try again in a moment"}
        assert answer.headers["Retry-After"] == "5"
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]


async def test_questions_of_several_people_at_once_are_never_mixed_up(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.write("bob", "/Policies/Overnight.md", DEARER)
    await town.settle()
    pages = await asyncio.gather(
        *(town.search(user, QUESTION, relayed=False) for user in ("alice", "bob", "carol") * 5)
    )
    assert [page.titles for page in pages] == [["Lodging.md"], ["Overnight.md"], []] * 5


def _is_search(request: Request) -> bool:
    return request.method == "SEARCH"


async def test_a_registry_that_is_busy_writing_costs_freshness_and_not_the_answer(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    town.write("alice", "/Policies/Lodging.md", DEARER)

    async def busy(*_: object) -> None:
        raise NotAvailable("the database is busy")

    monkeypatch.setattr(Registry, "enqueue_many", busy)
    assert "175 euros" in (await town.search("alice", QUESTION))["Lodging.md"]["excerpt"]

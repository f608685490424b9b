# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Pages are full, go on where they ended, and tell nothing of what their reader may not read."""

from __future__ import annotations

import base64
import time

import cryptography.fernet
import pytest
from town import Town

from ex_app.search import crowds, rounds, service

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUESTION = "hotel price limit for trips"


def a_policy(number: int) -> str:
    return (
        f"# Policy {number}\n\nHotel prices on trips: the limit for office {number} is {100 + number} euros a night; "
        f"dearer hotels need the signature of partner {number}."
    )


async def policies(town: Town, number: int, *, folder: str = "/Offices") -> None:
    for one in range(number):
        town.write("alice", f"{folder}/Policy {one}.md", a_policy(one))
    await town.settle()


async def paged(town: Town, user: str, *, limit: int) -> list[list[str]]:
    """The titles on all pages."""
    page = await town.search(user, QUESTION, limit=limit)
    pages = [page.titles]
    while page.cursor:
        page = await town.search(user, QUESTION, limit=limit, cursor=page.cursor)
        pages.append(page.titles)
    return pages


# --- Going on


async def test_pages_show_every_document_once_in_the_order_of_one_long_page(town: Town) -> None:
    await policies(town, 23)
    together = (await town.search("alice", QUESTION, limit=100)).titles
    pages = await paged(town, "alice", limit=10)
    assert [len(page) for page in pages] == [10, 10, 3]
    assert [title for page in pages for title in page] == together
    assert len(set(together)) == 23


async def test_the_last_page_says_that_it_is_the_last(town: Town) -> None:
    await policies(town, 10)
    assert (await town.search("alice", QUESTION, limit=10)).cursor == ""
    assert (await town.search("alice", QUESTION, limit=9)).cursor != ""


async def test_what_came_and_went_between_two_pages_makes_nothing_appear_twice_or_never(town: Town) -> None:
    await policies(town, 12)
    first = await town.search("alice", QUESTION, limit=6)
    town.write("alice", "/Offices/Hotel price limit for trips.md", "# Hotel price limit for trips\n\nIt is 99 euros.")
    await town.settle()
    town.world.delete("alice", f"/Offices/{first.titles[0]}")
    second = await town.search("alice", QUESTION, limit=25, cursor=first.cursor)
    before = {f"Policy {number}.md" for number in range(12)} - set(first.titles)
    assert before <= set(second.titles)
    assert not set(first.titles) & set(second.titles)
    assert len(second.titles) == len(set(second.titles))


async def test_every_page_is_verified_anew(town: Town) -> None:
    await policies(town, 12)
    share = town.world.share("alice", "/Offices", with_user="bob")
    await town.registry.bump_epoch()
    first = await town.search("bob", QUESTION, limit=6)
    assert len(first.hits) == 6
    town.world.unshare(share)
    assert (await town.search("bob", QUESTION, limit=6, cursor=first.cursor)).hits == []


async def test_a_cursor_is_good_for_one_user_and_one_question(town: Town) -> None:
    await policies(town, 8)
    town.world.share("alice", "/Offices", with_user="bob")
    cursor = (await town.search("alice", QUESTION, limit=4)).cursor
    for user, params in (
        ("bob", {"q": QUESTION, "cursor": cursor}),
        ("alice", {"q": "bees", "cursor": cursor}),
        ("alice", {"q": QUESTION, "kind": "note", "cursor": cursor}),
        ("alice", {"q": QUESTION, "owner": "alice", "cursor": cursor}),
        ("alice", {"q": QUESTION, "cursor": cursor[:-4]}),
        ("alice", {"q": QUESTION, "cursor": "bm90aGluZw=="}),
        ("alice", {"q": QUESTION, "cursor": "£" * 5_000}),
    ):
        refused = await town.ask(user, "GET", "/api/search", params=params, relayed=True)
        assert refused.status_code == 400
        assert "cursor" in refused.json()["error"]


async def test_an_old_cursor_is_told_to_begin_again(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    await policies(town, 8)
    cursor = (await town.search("alice", QUESTION, limit=4)).cursor
    now = time.time()

    class Later:
        @staticmethod
        def time() -> float:
            return now + 3_700

    monkeypatch.setattr(cryptography.fernet, "time", Later)
    refused = await town.ask("alice", "GET", "/api/search", params={"q": QUESTION, "cursor": cursor}, relayed=True)
    assert refused.status_code == 400
    assert "too old" in refused.json()["error"]


async def test_a_cursor_tells_nothing_to_whoever_finds_it(town: Town) -> None:
    await policies(town, 8)
    page = await town.search("alice", QUESTION, limit=4)
    sealed = base64.urlsafe_b64decode(page.cursor)
    assert not any(told in sealed for told in (b"file", b"alice", b"hotel", page.hits[0]["ref"].encode()))


async def test_what_may_not_be_read_makes_no_next_page(town: Town) -> None:
    await policies(town, 11)
    town.world.block(town.world.resolve("alice", "/Offices/Policy 3.md").node.id)
    page = await town.search("alice", QUESTION, limit=10)
    assert len(page.hits) == 10
    assert page.cursor == ""


async def test_of_many_edited_documents_the_first_two_are_read_on_the_spot(town: Town) -> None:
    await policies(town, 5)
    for number in range(5):
        town.write("alice", f"/Offices/Policy {number}.md", a_policy(number + 50))
    town.world.reset_requests()
    page = await town.search("alice", QUESTION)
    assert town.world.count(method="GET", kind="dav") == 2
    assert (
        sorted((hit["refreshing"], bool(hit["excerpt"])) for hit in page.hits)
        == [(False, True)] * 2 + [(True, False)] * 3
    )
    assert all("15" in hit["excerpt"] for hit in page.hits if hit["excerpt"]), "their new prices"


# --- Full pages


async def test_a_pile_of_copies_leaves_no_page_short(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "DOCUMENTS", 6)
    monkeypatch.setattr(rounds, "PASSAGES", 6)
    monkeypatch.setattr(service, "_LARGEST_PAGE", 3)
    for copy in range(6):
        text = "# Hotel price limit for trips\n\nThe hotel price limit for trips of all offices is 120 euros a night."
        town.write("alice", f"/Copies {copy}/Hotel price limit for trips.md", text)
    await policies(town, 3)
    page = await town.search("alice", QUESTION, limit=3)
    assert len(page.hits) == 3
    assert page.titles.count("Hotel price limit for trips.md") == 1


async def test_a_long_document_full_of_answers_pushes_no_other_off_the_page(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though something was denied, so that all scores are taken anew."""
    monkeypatch.setattr(rounds, "PASSAGES", 6)
    await policies(town, 2)
    told = "Hotel price limit for trips: the hotel price limit for trips to office {0} is {0} euros. " * 3
    book = "\n\n".join(f"# Hotel price limit for trips {number}\n\n{told.format(number)}" for number in range(40))
    key = town.write("alice", "/Book.md", book)
    town.write("alice", "/Closed.md", a_policy(7))
    await town.settle()
    assert len(await town.points(key)) == 40
    town.world.block(town.world.resolve("alice", "/Closed.md").node.id)
    page = await town.search("alice", QUESTION, limit=10)
    assert sorted(page.titles) == ["Book.md", "Policy 0.md", "Policy 1.md"]


@pytest.fixture
def small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of six documents, and six that were denied make a crowd."""
    monkeypatch.setattr(rounds, "DOCUMENTS", 6)
    monkeypatch.setattr(rounds, "PASSAGES", 6)
    monkeypatch.setattr(crowds, "_CROWD", 6)


async def test_a_closed_folder_full_of_better_answers_does_not_hide_the_readable_ones(
    town: Town, small_rounds: None
) -> None:
    await a_closed_folder_and_an_open_one(town)
    page = await town.search("alice", QUESTION, limit=2)
    assert sorted(page.titles) == ["Journeys 0.md", "Journeys 1.md"]


@pytest.mark.usefixtures("small_rounds")
async def test_the_next_search_within_a_minute_asks_about_the_closed_folder_last(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a_closed_folder_and_an_open_one(town)
    await town.search("alice", QUESTION, limit=2)
    monkeypatch.setattr(rounds, "ROUNDS", 1)
    page = await town.search("alice", "price limit for a hotel on trips", limit=2)
    assert sorted(page.titles) == ["Journeys 0.md", "Journeys 1.md"]


@pytest.mark.usefixtures("small_rounds")
async def test_a_readable_document_in_a_folder_that_was_denied_is_still_found(town: Town) -> None:
    await a_closed_folder_and_an_open_one(town)
    await town.search("alice", QUESTION, limit=2)
    town.world.unblock(town.world.resolve("alice", "/Closed/Policy 7.md").node.id)
    page = await town.search("alice", "the signature of partner 7", limit=10)
    assert {"Policy 7.md"} == set(page.titles) - {"Journeys 0.md", "Journeys 1.md"}


async def a_closed_folder_and_an_open_one(town: Town) -> None:
    """Twenty documents that answer best and that an access rule closed, and two others."""
    for number in range(2):
        text = f"# Journeys {number}\n\nWhat a room costs when we travel: up to {90 + number} euros in town {number}."
        town.write("alice", f"/Open/Journeys {number}.md", text)
    await policies(town, 20, folder="/Closed")
    for number in range(20):
        town.world.block(town.world.resolve("alice", f"/Closed/Policy {number}.md").node.id)

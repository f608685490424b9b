# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Where somebody's searches look: what was given to them, wherever they keep it, and what is not to be found."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from town import Town

from demo.habits import Request
from ex_app.domain import DocumentKey, Granted, ScopeId
from ex_app.nextcloud.session import Nextcloud
from ex_app.search import reach
from ex_app.search.reach import ReachBook
from ex_app.search.verify import verify
from ex_app.sources import open_sources

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
ABROAD = "# Overnight stays\n\nHotels: whoever travels on business abroad books below 150 euros a night."
QUESTION = "hotel price limit for trips"
MINUTE = 61.0
SHARES = "/ocs/v2.php/apps/files_sharing/api/v1/shares"


@pytest.fixture
def hours(town: Town, monkeypatch: pytest.MonkeyPatch) -> Town:
    """The town, whose clock also tells how old a remembered reach is; asking takes no time by it."""
    monkeypatch.setattr(reach, "time", SimpleNamespace(monotonic=town.clock))
    return town


def lists_shares(request: Request) -> bool:
    return request.path == SHARES


def book(town: Town) -> ReachBook:
    """A memory of reaches that keeps each for a minute."""
    return ReachBook(town.house.nextcloud, town.house.sources, ttl=60, seconds=20, epoch=town.registry.epoch)


def file(key: str) -> DocumentKey:
    return DocumentKey.parse(key)


@contextmanager
def shares_held(town: Town) -> Iterator[threading.Event]:
    """Nextcloud is long about listing shares: until the event is set."""
    nextcloud, told = town.stage.app, threading.Event()
    assert nextcloud is not None

    async def slowly(scope: Scope, receive: Receive, send: Send) -> None:
        while not told.is_set():
            await asyncio.sleep(0.01)
        await nextcloud(scope, receive, send)

    def instead(scope: Scope) -> ASGIApp | None:
        return slowly if scope["path"] == SHARES else None

    town.stage.instead = instead
    try:
        yield told
    finally:
        told.set()


# --- Given to somebody, and put anywhere


async def test_a_single_file_received_is_found_wherever_its_reader_put_it(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.write("alice", "/Policies/Abroad.md", ABROAD)
    town.world.share("alice", "/Policies/Lodging.md", with_user="bob")
    town.world.mkdir("bob", "/Reading/Later")
    town.world.move("bob", "/Lodging.md", "/Reading/Later/From Alice.md")
    await town.settle()
    page = await town.search("bob", QUESTION)
    assert [(hit["title"], hit["place"]) for hit in page.hits] == [("From Alice.md", "Reading / Later")]
    assert not page.degraded


async def test_a_share_that_waits_to_be_accepted_is_not_found_before(hours: Town) -> None:
    hours.world.careful.add("bob")
    hours.write("alice", "/Policies/Lodging.md", HOTELS)
    hours.write("alice", "/Abroad/Abroad.md", ABROAD)
    shares = [hours.world.share("alice", path, with_user="bob") for path in ("/Policies/Lodging.md", "/Abroad")]
    await hours.settle()
    page = await hours.search("bob", QUESTION)
    assert (page.hits, page.degraded) == ([], False)
    for share in shares:
        hours.world.accept_share("bob", share)
    hours.clock.forward(MINUTE)
    assert sorted((await hours.search("bob", QUESTION)).titles) == ["Abroad.md", "Lodging.md"]


@pytest.mark.parametrize("elsewhere", ["/Lodging.md", "/Reading/Lodging.md"])
async def test_a_new_share_is_found_within_a_minute_though_no_event_tells_of_it(hours: Town, elsewhere: str) -> None:
    key = hours.write("alice", "/Policies/Lodging.md", HOTELS)
    hours.world.mkdir("bob", "/Reading")
    await hours.settle()
    held = await hours.points(key)
    assert (await hours.search("bob", QUESTION)).hits == []
    hours.clock.forward(30)
    hours.world.share("alice", "/Policies/Lodging.md", with_user="bob")
    hours.world.move("bob", "/Lodging.md", elsewhere)
    hours.clock.forward(MINUTE - 30)
    assert (await hours.search("bob", QUESTION)).titles == ["Lodging.md"]
    assert await hours.points(key) == held, "sharing writes nothing to the index"


async def test_a_received_folder_is_found_where_its_reader_put_it_and_where_that_folder_went(hours: Town) -> None:
    hours.write("alice", "/Policies/Lodging.md", HOTELS)
    hours.world.share("alice", "/Policies", with_group="staff")
    hours.world.mkdir("bob", "/Work/Given")
    hours.world.mkdir("bob", "/Archive")
    hours.world.move("bob", "/Policies", "/Work/Given/Rules")
    await hours.settle()
    assert (await hours.search("bob", QUESTION))["Lodging.md"]["place"] == "Work / Given / Rules"
    hours.world.move("bob", "/Work/Given", "/Archive/Given")
    hours.clock.forward(MINUTE)
    assert (await hours.search("bob", QUESTION))["Lodging.md"]["place"] == "Archive / Given / Rules"


async def test_a_share_within_a_share_stays_when_the_outer_one_is_taken_back(hours: Town) -> None:
    hours.write("alice", "/Policies/Travel/Lodging.md", HOTELS)
    hours.write("alice", "/Policies/Abroad.md", ABROAD)
    outer = hours.world.share("alice", "/Policies", with_user="bob")
    hours.world.share("alice", "/Policies/Travel", with_user="bob")
    hours.world.mkdir("bob", "/Mine")
    hours.world.move("bob", "/Travel", "/Mine/Trips")
    await hours.settle()
    assert sorted((await hours.search("bob", QUESTION)).titles) == ["Abroad.md", "Lodging.md"]
    hours.world.unshare(outer)
    page = await hours.search("bob", QUESTION)
    assert [(hit["title"], hit["place"]) for hit in page.hits] == [("Lodging.md", "Mine / Trips")]
    hours.clock.forward(MINUTE)
    assert (await hours.search("bob", QUESTION)).titles == ["Lodging.md"]


# --- What takes long to ask


async def test_nobody_waits_long_for_the_list_of_shares_and_the_next_search_has_it(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.write("bob", "/Abroad.md", ABROAD)
    town.world.share("alice", "/Policies/Lodging.md", with_user="bob")
    town.world.mkdir("bob", "/Reading")
    town.world.move("bob", "/Lodging.md", "/Reading/Lodging.md")
    await town.settle()
    with shares_held(town) as told:
        for _ in range(2):
            page = await town.search("bob", QUESTION)
            assert (page.titles, page.degraded) == (["Abroad.md"], True), "something may be missing"
        told.set()
        async with asyncio.timeout(10):
            while (page := await town.search("bob", QUESTION)).degraded:
                await asyncio.sleep(0.01)
    assert sorted(page.titles) == ["Abroad.md", "Lodging.md"]
    town.world.reset_requests()
    await town.search("bob", QUESTION)
    assert not [request for request in town.world.requests if lists_shares(request)]


async def test_a_list_of_shares_that_fails_leaves_the_last_one_in_force(hours: Town) -> None:
    key = hours.write("alice", "/Policies/Lodging.md", HOTELS)
    hours.world.share("alice", "/Policies/Lodging.md", with_user="bob")
    hours.world.mkdir("bob", "/Reading")
    hours.world.move("bob", "/Lodging.md", "/Reading/Lodging.md")
    await hours.settle()
    reaches = book(hours)
    assert file(key) in (await reaches.of("bob")).reach.documents
    hours.world.fail(lists_shares, status=503)
    hours.clock.forward(MINUTE)
    later = await reaches.fresh("bob")
    assert (file(key) in later.reach.documents, later.degraded) == (True, False)
    unknown = await reaches.of("carol")
    assert unknown.degraded, "hers was never told"
    hours.world.heal()
    hours.clock.forward(MINUTE)
    assert not (await reaches.fresh("carol")).degraded


async def test_the_list_of_shares_is_asked_for_at_most_once_a_minute(hours: Town) -> None:
    reaches = book(hours)
    for _ in range(3):
        await reaches.fresh("bob")
        hours.clock.forward(5)
    assert sum(map(lists_shares, hours.world.requests)) == 1
    hours.clock.forward(MINUTE)
    await reaches.of("bob")  # what was wanted meanwhile is asked for now, though nothing changed
    async with asyncio.timeout(10):
        while sum(map(lists_shares, hours.world.requests)) < 2:
            await asyncio.sleep(0.01)


async def test_where_sharing_is_switched_off_nothing_is_missing(town: Town) -> None:
    town.write("bob", "/Abroad.md", ABROAD)
    await town.settle()
    town.world.fail(lists_shares, status=404)
    page = await town.search("bob", QUESTION)
    assert (page.titles, page.degraded) == (["Abroad.md"], False)


async def test_an_app_that_ends_while_shares_are_listed_ends_in_silence(
    town: Town, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask_and_leave() -> bool:
        async with Nextcloud(town.settings) as nextcloud:
            reaches = ReachBook(nextcloud, open_sources(), ttl=60, seconds=20, epoch=town.registry.epoch)
            return (await reaches.fresh("bob")).degraded

    with shares_held(town):
        assert await asyncio.to_thread(asyncio.run, ask_and_leave())
    gc.collect()
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


# --- Doubts and age


async def test_a_doubt_about_the_remembered_reach_is_cleared_up_once_a_minute(hours: Town) -> None:
    reaches = book(hours)
    known = await reaches.of("bob")
    hours.world.reset_requests()
    assert await reaches.of("bob") != known  # it is remembered now
    assert hours.world.requests == []
    assert (await reaches.doubted("bob")).reach == known.reach
    asked = len(hours.world.requests)
    assert asked > 0
    for _ in range(3):
        assert (await reaches.doubted("bob")).reach == known.reach
    assert len(hours.world.requests) == asked
    hours.clock.forward(MINUTE)
    await reaches.doubted("bob")
    assert len(hours.world.requests) >= 2 * asked


async def test_doubts_that_come_together_are_cleared_up_together(hours: Town) -> None:
    reaches = book(hours)
    await reaches.of("bob")
    share = hours.world.share("alice", hours.world.mkdir("alice", "/Policies"), with_user="bob")
    root = ScopeId(f"f:{hours.world.shares[share].node.id}")
    hours.world.reset_requests()
    both = await asyncio.gather(reaches.doubted("bob"), reaches.doubted("bob"))
    assert all(root in known.reach.scopes for known in both)
    assert hours.world.count(method="SEARCH") == 1


@pytest.mark.town(excluded_tags="Private, not for search")
async def test_what_changes_no_etag_is_noticed_within_a_quarter_of_an_hour(hours: Town) -> None:
    hours.write("alice", "/Policies/Lodging.md", HOTELS)
    await hours.settle()
    assert (await hours.search("alice", QUESTION)).titles == ["Lodging.md"]
    folder = hours.world.resolve("alice", "/Policies").node.id
    hours.world.tag(folder, "private")
    for _ in range(14):
        hours.clock.forward(MINUTE)
        assert (await hours.search("alice", QUESTION)).titles == ["Lodging.md"]
    hours.clock.forward(MINUTE)
    await hours.search("alice", QUESTION)
    assert (await hours.search("alice", QUESTION)).hits == []
    hours.world.untag(folder, "private")
    hours.clock.forward(15 * MINUTE)
    await hours.search("alice", QUESTION)
    assert (await hours.search("alice", QUESTION)).titles == ["Lodging.md"]


# --- What is not to be found


@pytest.mark.town(excluded_tags="Private, not for search")
async def test_a_file_with_an_excluded_tag_is_hidden_from_everybody_at_once(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.write("alice", "/Policies/Abroad.md", ABROAD)
    town.world.share("alice", "/Policies", with_user="bob")
    await town.settle()
    town.world.tag(file(key).id, "holiday", "NOT FOR SEARCH")
    for user in ("alice", "bob"):
        assert (await town.search(user, QUESTION)).titles == ["Abroad.md"]
    town.world.untag(file(key).id, "NOT FOR SEARCH")
    assert sorted((await town.search("bob", QUESTION)).titles) == ["Abroad.md", "Lodging.md"]


async def test_tags_say_nothing_unless_the_admin_says_so(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.world.tag(file(key).id, "private")
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]


async def test_a_noindex_file_hides_its_folder_and_all_below_from_the_next_search_on(hours: Town) -> None:
    hours.write("alice", "/Policies/Travel/Lodging.md", HOTELS)
    hours.write("alice", "/Abroad.md", ABROAD)
    hours.world.share("alice", "/Policies", with_user="bob")
    await hours.settle()
    assert (await hours.search("bob", QUESTION)).titles == ["Lodging.md"]
    hours.world.write("alice", "/Policies/.noindex", b"")
    for _ in range(2):
        assert (await hours.search("bob", QUESTION)).hits == []
        assert (await hours.search("alice", QUESTION)).titles == ["Abroad.md"]
        hours.clock.forward(MINUTE)
    hours.world.delete("alice", "/Policies/.noindex")
    hours.clock.forward(MINUTE)
    assert (await hours.search("bob", QUESTION)).titles == ["Lodging.md"]


async def test_a_noindex_file_at_the_top_hides_all_that_its_owner_sees_and_nothing_from_others(hours: Town) -> None:
    hours.write("alice", "/Policies/Lodging.md", HOTELS)
    hours.write("bob", "/Abroad.md", ABROAD)
    hours.world.share("alice", "/Policies", with_user="bob")
    await hours.settle()
    assert sorted((await hours.search("bob", QUESTION)).titles) == ["Abroad.md", "Lodging.md"]
    hours.world.write("bob", "/.noindex", b"")
    assert (await hours.search("bob", QUESTION)).hits == []
    known = await book(hours).of("bob")
    assert not [scope for scope in known.reach.scopes if scope.startswith("f:")]
    assert (await hours.search("alice", QUESTION)).titles == ["Lodging.md"]


async def test_a_received_folder_kept_in_an_excluded_one_is_hidden_from_its_reader_alone(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    share = town.world.share("alice", "/Policies", with_user="bob")
    town.world.mkdir("bob", "/Quiet")
    town.world.write("bob", "/Quiet/.noindex", b"")
    town.world.move("bob", "/Policies", "/Quiet/Policies")
    await town.settle()
    assert (await town.search("bob", QUESTION)).hits == []
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]
    known = await book(town).of("bob")
    assert f"f:{town.world.shares[share].node.id}" in known.reach.avoid


# --- Many


async def test_five_hundred_shares_and_two_hundred_boards_cost_no_more_requests_than_one(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    board = town.world.add_board("alice", "Travel")
    town.world.add_card(board, "Abroad", description=ABROAD)
    await town.settle()
    town.world.share("alice", "/Policies", with_user="bob")
    town.world.share_board(board, with_user="bob")
    await book(town).of("bob")  # which folder the notes are in is known from now on
    before = await _asked(town)
    for number in range(249):
        town.world.write("alice", f"/Many/{number}/a.md", b"x")
        town.world.share("alice", f"/Many/{number}", with_user="bob")
        town.world.write("alice", f"/Single/{number}.md", b"x")
        town.world.share("alice", f"/Single/{number}.md", with_user="bob")
    for number in range(199):
        town.world.share_board(town.world.add_board("alice", f"Board {number}"), with_user="bob")
    assert await _asked(town) == before
    known = await book(town).of("bob")
    assert (len(known.reach.documents), known.degraded) == (249, False)
    assert Counter(scope.partition(":")[0] for scope in known.reach.scopes) == {"f": 251, "deck": 200}
    town.world.reset_requests()
    assert sorted((await town.search("bob", QUESTION)).titles) == ["Abroad", "Lodging.md"]
    town.world.reset_requests()
    assert sorted((await town.search("bob", QUESTION)).titles) == ["Abroad", "Lodging.md"]
    assert town.world.counted() == {("SEARCH", "dav"): 1, ("PROPFIND", "caldav"): 1, ("REPORT", "caldav"): 1}


async def _asked(town: Town) -> Counter[tuple[str, str]]:
    """What learning Bob's reach for the first time asks of Nextcloud."""
    town.world.reset_requests()
    assert not (await book(town).of("bob")).degraded
    asked = town.world.counted()
    assert asked == {
        ("PROPFIND", "dav"): 3,  # the root's ETag, what lies at the top, the notes
        ("SEARCH", "dav"): 1,  # all folders
        ("PROPFIND", "caldav"): 2,  # the boards, for the ETag and for themselves
        ("GET", "ocs"): 1,  # the single files
    }
    return asked


async def test_cards_on_two_hundred_boards_are_two_questions(town: Town) -> None:
    expected: dict[DocumentKey, tuple[ScopeId, ...]] = {}
    for number in range(200):
        board = town.world.add_board("alice", f"Board {number}")
        town.world.share_board(board, with_user="bob")
        card = town.world.add_card(board, "Lodging", description=HOTELS)
        expected[DocumentKey("deck_card", card)] = (ScopeId(f"deck:{board}"),)
    town.world.reset_requests()
    verdicts = await verify(open_sources(), town.house.nextcloud.as_user("bob"), expected, seconds=20)
    assert set(verdicts.granted) == set(expected)
    assert all(isinstance(grant, Granted) for grant in verdicts.granted.values())
    assert len(town.world.requests) == 2

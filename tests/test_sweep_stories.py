# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""How everybody's content is looked at again and again while Nextcloud, people and their homes have bad days."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from town import Town

from ex_app.domain import Lane, NextcloudUnavailable, NotAvailable
from ex_app.store.registry import Registry

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
QUESTION = "hotel price limit for trips"


async def test_however_many_homes_in_a_row_are_broken_those_after_them_are_walked(town: Town) -> None:
    for number in range(7):
        town.world.add_user(f"broken{number}", "Broken")
        town.write(f"broken{number}", "/Papers/Lodging.md", HOTELS)
    town.write("carol", "/Papers/Lodging.md", HOTELS)
    town.world.fail(lambda request: (request.user or "").startswith("broken") and request.kind == "dav", status=500)
    await town.settle()
    assert (await town.search("carol", QUESTION)).titles == ["Lodging.md"]


async def test_a_server_that_fails_at_everything_is_left_alone_after_three_tries(town: Town) -> None:
    for number in range(7):
        town.world.add_user(f"user{number}", "User")
    users = sorted(town.world.people)
    town.world.fail(lambda request: True, status=500)
    town.world.reset_requests()
    with pytest.raises(NextcloudUnavailable):
        await town.indexing.reconciler.sweep(users, asyncio.Event())
    assert town.world.count() == 4


async def test_sweeping_goes_on_after_appapi_was_switched_off_for_a_while(town: Town) -> None:
    town.write("carol", "/Papers/Lodging.md", HOTELS)
    town.clock.forward(3)
    town.world.fail(lambda request: request.path.endswith("/app_api/api/v1/users"), status=404, times=1)
    stop = asyncio.Event()
    sweeping = asyncio.create_task(town.indexing.reconciler.run(stop, interval=0.01))
    async with asyncio.timeout(20):
        while (await town.registry.progress()).pending == 0 and not sweeping.done():
            await asyncio.sleep(0.01)
    stop.set()
    await sweeping
    await town.work()
    assert (await town.search("carol", QUESTION)).titles == ["Lodging.md"]


async def test_a_file_taken_into_another_home_comes_back_though_its_loss_was_noticed_first(town: Town) -> None:
    """Alice's home is looked at, and the worker does its work, before anybody looks at Bob's."""
    key = town.write("alice", "/Team/Lodging.md", HOTELS)
    town.world.share("alice", "/Team", with_user="bob", permissions=31)
    town.world.mkdir("bob", "/Mine")
    await town.settle()
    town.world.move("bob", "/Team/Lodging.md", "/Mine/Lodging.md")
    for user in ("alice", "bob"):
        town.clock.forward(3)
        await town.indexing.reconciler.visit(user)
        await town.work()
    row = await town.row(key)
    assert row is not None
    assert (row.owner, row.path) == ("bob", "Mine/Lodging.md")
    assert (await town.search("bob", QUESTION)).titles == ["Lodging.md"]
    assert (await town.search("alice", QUESTION)).hits == []


async def test_a_file_that_never_settles_is_read_ever_more_rarely(town: Town) -> None:
    """Somebody between Nextcloud and the app cuts every file short."""
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.stage.instead = lambda scope: _short if scope["method"] == "GET" and "Lodging" in scope["path"] else None
    town.clock.forward(3)
    await town.sweep()
    assert await read_next(town)
    town.clock.forward(3)
    assert await read_next(town), "the second of the last save is over"
    town.clock.forward(3600)
    assert await read_next(town)
    town.clock.forward(300)
    assert not await read_next(town), "an hour after the last save five minutes are no time"


async def read_next(town: Town) -> bool:
    """Do what is due; False when nothing is."""
    item = await town.claim()
    if item is not None:
        await town.worker.attempt(item)
    return item is not None


async def test_who_lost_the_lease_takes_nothing_away_that_the_next_one_found(town: Town) -> None:
    """A worker slept through its lease with Nextcloud's "there is no such file" in its hands."""
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    row = await town.row(key)
    assert row is not None
    await town.registry.enqueue(row.key, Lane.CONTENT, "alice")
    late = await town.claim()
    assert late is not None
    town.clock.forward(town.settings.lease_s + 1)
    await town.work()
    town.world.delete("alice", "/Policies/Lodging.md")
    await town.worker.attempt(late)
    assert len(await town.points(key)) == 1


async def test_a_registry_that_is_busy_does_not_end_the_worker(town: Town) -> None:
    town.write("alice", "/Papers/Lodging.md", HOTELS)
    town.clock.forward(3)
    await town.sweep()
    town.world.fail(lambda request: request.method == "SEARCH", status=503)
    town.staff(registry=Busy(town.registry))
    stop = asyncio.Event()
    working = asyncio.create_task(town.worker.run(stop))
    async with asyncio.timeout(20):
        while not town.worker.registry.refused and not working.done():  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)
    stop.set()
    await working


class Busy:
    """A registry that takes work out and nothing back."""

    def __init__(self, real: Registry) -> None:
        self._real = real
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def release(self, *_: Any, **__: Any) -> None:
        self.refused += 1
        raise NotAvailable("the database is busy")


async def _short(scope: Scope, receive: Receive, send: Send) -> None:
    await Response(HOTELS[:40], headers={"Date": "Fri, 15 Jan 2027 08:00:00 GMT"})(scope, receive, send)


async def test_a_deleted_accounts_papers_leave_the_index_and_others_walk_its_boards(town: Town) -> None:
    papers = town.write("alice", "/Policies/Lodging.md", HOTELS)
    board = town.world.add_board("carol", "Travel")
    card = town.world.add_card(board, "Lodging", description="Nothing yet")
    for member in ("alice", "bob"):
        town.world.share_board(board, with_user=member)
    await town.settle()
    del town.world.people["alice"]
    town.world.unshare_board(board, with_user="alice")
    town.world.edit_card(card, description=HOTELS)
    await town.settle()
    assert await town.points(papers) == []
    assert (await town.row(papers)).title == ""  # type: ignore[union-attr]
    assert "120 euros" in (await town.search("bob", QUESTION))["Lodging"]["excerpt"]
    town.world.reset_requests()
    await town.settle()
    assert town.world.count(user="alice") == 0, "once is enough"


async def test_who_is_missing_from_the_list_of_users_and_still_has_a_home_keeps_his_papers(town: Town) -> None:
    """A directory of users can be away for a moment; that is no deletion."""
    papers = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    await town.indexing.reconciler.sweep(["bob", "carol"], asyncio.Event())
    town.world.fail(lambda request: request.user == "alice" and request.kind == "dav", status=503)
    await town.indexing.reconciler.sweep(["bob", "carol"], asyncio.Event())
    town.world.heal()
    assert len(await town.points(papers)) == 1
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]


async def test_a_week_after_it_was_last_seen_not_even_the_id_of_what_is_gone_is_remembered(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    town.world.delete("alice", "/Policies/Lodging.md")
    await town.settle()
    await town.settle()
    assert await town.row(key) is not None
    town.clock.forward(8 * 24 * 3600)
    await town.settle()
    assert await town.row(key) is None
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]


async def test_a_disabled_members_boards_are_walked_by_the_others(town: Town) -> None:
    board = town.world.add_board("alice", "Bakery")
    card = town.world.add_card(board, "Mend the oven", description="The dome is cracked.")
    town.world.share_board(board, with_user="bob")
    await town.settle()
    town.world.disable("alice")
    town.clock.forward(3)
    town.world.edit_card(card, title="Mend the roof", description="Slates are missing above the flour store.")
    await town.settle()
    await town.settle()
    hit = (await town.search("bob", "Who repairs the slates above the flour store?"))["Mend the roof"]
    assert "Slates are missing" in hit["excerpt"]
    row = await town.row(f"deck_card:{card}")
    assert row is not None
    assert row.title == "Mend the roof"


async def test_a_home_that_breaks_our_code_stops_nobody_elses_walk(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    files = town.indexing.reconciler.sources["file"]
    listing = files.listing

    async def broken_for_alice(session: Any, container: Any) -> Any:
        if session.user == "alice":
            raise ValueError("nobody thought of this")
        return await listing(session, container)

    monkeypatch.setattr(files, "listing", broken_for_alice)
    town.write("alice", "/Papers/Lodging.md", HOTELS)
    town.write("carol", "/Papers/Lodging.md", HOTELS)
    await town.settle()
    assert (await town.search("carol", QUESTION)).titles == ["Lodging.md"]


@pytest.mark.parametrize(("status", "wait"), [(429, 30.0), (503, 120.0)])
async def test_a_busy_server_or_one_in_maintenance_is_left_alone_for_as_long_as_it_says(
    town: Town, status: int, wait: float
) -> None:
    """Nobody else is walked meanwhile, and no work is counted as failed."""
    key = town.write("alice", "/Papers/Lodging.md", HOTELS)
    town.write("carol", "/Papers/Lodging.md", HOTELS)
    town.clock.forward(3)
    await town.sweep()
    town.stage.instead = lambda scope: _resting(status, wait) if "/files/" in scope["path"] else None
    town.write("alice", "/Papers/Food.md", HOTELS)
    with pytest.raises(NextcloudUnavailable) as raised:
        await town.sweep()
    assert raised.value.retry_after == wait
    item = await town.claim()
    assert item is not None
    await town.worker.attempt(item)
    town.stage.instead = lambda scope: None
    town.clock.forward(wait - 1)
    assert (await town.registry.progress()).failed == 0
    town.clock.forward(2)
    await town.settle()
    assert len(await town.points(key)) == 1


def _resting(status: int, wait: float) -> Response:
    return Response(b"", status, {"Retry-After": f"{wait:.0f}"})


async def test_a_locked_file_is_waited_for_and_the_others_go_on(town: Town) -> None:
    """Somebody edits it in an office; that can take all day, and ends without another version."""
    locked = town.write("alice", "/Papers/Lodging.md", HOTELS)
    town.write("alice", "/Papers/Food.md", "# Food\n\nLunch on trips is paid up to 18 euros.")
    town.stage.instead = lambda scope: _locked() if scope["method"] == "GET" and "Lodging" in scope["path"] else None
    await town.settle()
    assert (await town.search("alice", "How much is paid for lunch?")).titles == ["Food.md"]
    for _ in range(3 * town.settings.max_attempts):
        town.clock.forward(1800)
        await town.work()
    assert (await town.registry.progress()).failed == 0
    town.stage.instead = lambda scope: None
    town.clock.forward(1800)
    await town.work()
    assert len(await town.points(locked)) == 1


def _locked() -> Response:
    return Response(b"", 423)


async def test_notes_are_told_by_where_they_lie_when_they_are_shown(town: Town) -> None:
    """Another folder for notes, whatever its name, is another setting of the Notes app; nothing is indexed anew."""
    town.write("alice", "/Notizen/Reisen/Lodging.md", HOTELS)
    await town.settle()
    town.embedder.read.clear()
    town.world.set_notes_path("alice", "Notizen")
    await town.settle()
    hit = (await town.search("alice", QUESTION))["Lodging"]
    assert (hit["kind"], hit["place"]) == ("note", "Reisen")
    assert town.embedder.read == []

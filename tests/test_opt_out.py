# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Who says "leave my files out": the wish, the door that takes it, and what the index keeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from registries import DATABASES, Clock, fresh
from test_doors import MCP_HEADERS, TOOL_CALL
from test_write_stories import Death, Interrupted
from town import Town

from demo import companion
from ex_app.domain import DocumentKey, Lane, NotAvailable
from ex_app.doors.companion import PATH
from ex_app.settings import Settings
from ex_app.store.documents import Status
from ex_app.store.registry import open_registry

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
QUESTION = "hotel price limit for trips"
OUT, IN = {"indexed": False}, {"indexed": True}


async def wishes(town: Town, user: str, wish: dict[str, bool]) -> None:
    """A person turns the switch on the page."""
    answer = await town.ask(user, "PUT", "/api/me", json=wish)
    assert (answer.status_code, answer.json()) == (200, wish)


# --- What the registry remembers


@pytest.fixture(params=DATABASES)
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    with fresh(request.param, tmp_path) as own:
        yield own


async def test_a_wish_holds_until_it_is_taken_back_also_after_a_restart(installation: Settings) -> None:
    registry = await open_registry(installation, clock=Clock())
    for user in ("alice", "bob", "alice"):
        await registry.opt_outs.leave(user)
    assert await registry.opt_outs.among(["alice", "carol"]) == {"alice"}
    assert await registry.opt_outs.among([]) == frozenset()
    await registry.close()
    registry = await open_registry(installation, clock=Clock())
    assert await registry.opt_outs.everybody() == {"alice", "bob"}
    await registry.opt_outs.come_back("alice")
    await registry.opt_outs.come_back("carol")
    assert await registry.opt_outs.everybody() == {"bob"}
    assert await registry.opt_outs.among(["alice", "bob"]) == {"bob"}
    await registry.close()


async def test_who_returned_is_remembered_until_welcomed_and_no_longer(installation: Settings) -> None:
    registry = await open_registry(installation, clock=Clock())
    for user in ("alice", "bob"):
        await registry.opt_outs.leave(user)
        await registry.opt_outs.come_back(user)
    assert await registry.opt_outs.returned() == {"alice", "bob"}
    await registry.opt_outs.leave("bob")
    for user in ("alice", "bob"):
        await registry.opt_outs.welcome(user)
    assert await registry.opt_outs.returned() == frozenset()
    assert await registry.opt_outs.everybody() == {"bob"}, "who changed his mind again is not forgotten"
    await registry.close()


# --- The door


async def test_the_door_tells_and_takes_the_wish_of_whoever_asks(town: Town) -> None:
    assert (await town.ask("alice", "GET", "/api/me")).json() == IN
    await wishes(town, "alice", OUT)
    assert (await town.ask("alice", "GET", "/api/me")).json() == OUT
    assert (await town.ask("bob", "GET", "/api/me")).json() == IN
    await wishes(town, "alice", IN)
    assert (await town.ask("alice", "GET", "/api/me")).json() == IN


UNCLEAR: tuple[bytes, ...] = (
    b"",
    b"no",
    b"false",
    b"[]",
    b"{}",
    b'{"indexed": null}',
    b'{"indexed": 0}',
    b'{"indexed": "false"}',
    b'{"indexed": false, "user": "bob"}',
    b'{"indexed": false',
    b"\xff",
    b'{"indexed": false}' + b" " * 2000,
)


async def test_what_is_no_clear_wish_changes_nothing(town: Town) -> None:
    for body in UNCLEAR:
        answer = await town.ask("alice", "PUT", "/api/me", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400, body
        assert answer.json()["error"].startswith('Send {"indexed": true}'), body
    assert await town.registry.opt_outs.everybody() == frozenset()


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json"]
)
async def test_json_in_the_guise_of_a_form_changes_nothing(town: Town, kind: str) -> None:
    """Only for these kinds does a browser send another site's request without asking first."""
    answer = await town.ask("alice", "PUT", "/api/me", content=b'{"indexed": false}', headers={"Content-Type": kind})
    assert answer.status_code == 400
    assert await town.registry.opt_outs.everybody() == frozenset()


async def test_another_sites_page_cannot_turn_the_switch_through_nextclouds_proxy(town: Town) -> None:
    """Given a signed-in browser, then whatever another site can make it send is refused; only our own page succeeds."""
    json_kind = {"Content-Type": "application/json"}
    async with town.listening() as proxy, httpx.AsyncClient(auth=("alice", "alice-app-password")) as client:
        forms: tuple[dict[str, Any], ...] = (
            {"data": {"indexed": "false"}},
            {"data": {"indexed": "false", "_method": "PUT"}},
            {"content": b'{"indexed": false}', "headers": {"Content-Type": "text/plain"}},
            {"files": {"indexed": b"false"}},
        )
        for form in forms:
            for method in ("POST", "GET"):
                answer = await client.request(method, f"{proxy}/api/me", params={"indexed": "false"}, **form)
                assert method == "GET" or answer.status_code in (404, 405)
        preflight = {"Origin": "https://evil.example", "Access-Control-Request-Method": "PUT"}
        asked = await client.options(f"{proxy}/api/me", headers=preflight)
        assert asked.status_code == 405
        assert "access-control-allow-origin" not in asked.headers
        assert await town.registry.opt_outs.everybody() == frozenset()
        done = await client.put(f"{proxy}/api/me", content=b'{"indexed": false}', headers=json_kind)
        assert (done.status_code, done.json()) == (200, OUT)
    assert await town.registry.opt_outs.everybody() == {"alice"}


# --- What is shown from the next search on


async def shown(town: Town, user: str) -> tuple[list[str], list[str]]:
    """What the page and an assistant are shown: references from the one, titles from the other."""
    page = await town.ask(user, "GET", "/api/search", params={"q": QUESTION})
    answer = await town.ask(user, "POST", "/mcp", json=TOOL_CALL, headers=MCP_HEADERS)
    results = answer.json()["result"]["structuredContent"]["results"]
    return [hit["ref"] for hit in page.json()["hits"]], [hit["title"] for hit in results]


async def test_the_next_search_shows_nothing_of_his_to_himself_or_to_recipients(town: Town) -> None:
    """Given a share, when its owner opts out, then before any sweep neither page nor assistant shows it to anybody."""
    key = town.write("alice", "/Team/Lodging.md", HOTELS)
    town.world.share("alice", "/Team", with_user="bob", permissions=31)
    single = town.write("alice", "/Notes/Lodging abroad.md", HOTELS.replace("120", "175"))
    town.world.share("alice", "/Notes/Lodging abroad.md", with_user="bob")
    await town.settle()
    for user in ("alice", "bob"):
        assert set((await shown(town, user))[0]) == {key, single}
    await wishes(town, "alice", OUT)
    for user in ("alice", "bob"):
        assert await shown(town, user) == ([], [])
        answer = await town.ask(user, "GET", "/api/search", params={"q": QUESTION})
        assert "Lodging" not in answer.text
        assert answer.json()["degraded"] is False
    assert len(await town.points(key)) == 1, "no sweep was there yet"
    await wishes(town, "alice", IN)
    for user in ("alice", "bob"):
        assert set((await shown(town, user))[0]) == {key, single}


async def test_what_others_own_and_boards_are_shown_all_the_same(town: Town) -> None:
    hers = town.write("alice", "/Team/Lodging.md", HOTELS)
    town.world.share("alice", "/Team", with_user="bob", permissions=31)
    town.write("bob", "/Mine/Lodging of Bob.md", HOTELS.replace("120", "190"))
    board = town.world.add_board("bob", "Travel")
    card = town.world.add_card(board, "Lodging card", description=HOTELS.replace("120", "150"))
    await town.settle()
    await wishes(town, "bob", OUT)
    assert set((await shown(town, "bob"))[0]) == {hers, f"deck_card:{card}"}


async def test_a_stale_text_is_not_read_on_the_spot_for_anybody(town: Town) -> None:
    town.write("alice", "/Team/Lodging.md", HOTELS)
    town.world.share("alice", "/Team", with_user="bob")
    await town.settle()
    town.write("alice", "/Team/Lodging.md", HOTELS.replace("120", "175"))
    await wishes(town, "alice", OUT)
    town.world.reset_requests()
    assert await shown(town, "bob") == ([], [])
    assert town.world.count(method="GET", kind="dav") == 0
    assert (await town.registry.progress()).pending == 0


async def test_while_nobody_can_say_who_opted_out_only_what_nobody_owns_is_shown(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    town.write("alice", "/Team/Lodging.md", HOTELS)
    board = town.world.add_board("alice", "Travel")
    card = town.world.add_card(board, "Lodging card", description=HOTELS.replace("120", "150"))
    await town.settle()

    async def silent(*_: object) -> frozenset[str]:
        raise NotAvailable("The database does not answer")

    monkeypatch.setattr(type(town.registry.opt_outs), "among", silent)
    answer = (await town.ask("alice", "GET", "/api/search", params={"q": QUESTION})).json()
    assert ([hit["ref"] for hit in answer["hits"]], answer["degraded"]) == ([f"deck_card:{card}"], True)


async def test_the_companion_is_suggested_nothing_of_his(town: Town) -> None:
    """It verifies inside Nextcloud, where nobody knows who opted out."""
    town.world.companion_key = bytes(range(32))
    his = town.write("alice", "/Team/Lodging.md", HOTELS)
    town.world.share("alice", "/Team", with_user="bob")
    own = town.write("bob", "/Mine/Lodging.md", HOTELS)
    await town.settle()
    body, proven = companion.question(town.world, "bob", QUESTION, moment=town.clock())

    async def suggested() -> set[str]:
        answer = await town.ask("bob", "POST", PATH, content=body, headers=proven, relayed=False)
        return {candidate["ref"] for candidate in answer.json()["candidates"]}

    assert await suggested() == {his, own}
    await wishes(town, "alice", OUT)
    assert await suggested() == {own}


# --- What the index keeps


async def test_the_next_sweep_takes_everything_of_his_out_and_nothing_of_others(town: Town) -> None:
    """Given Bob's own papers and a folder that Alice shares with him, when he opts out, then hers stay."""
    his = town.write("bob", "/Mine/Lodging.md", HOTELS)
    hers = town.write("alice", "/Team/Lodging of the team.md", HOTELS)
    town.world.share("alice", "/Team", with_user="bob", permissions=31)
    await town.settle()
    put_in = town.write("bob", "/Team/Lodging by Bob.md", HOTELS.replace("120", "175"))
    await town.settle()
    await wishes(town, "bob", OUT)
    town.embedder.read.clear()
    town.world.reset_requests()
    await town.settle()
    assert await town.points(his) == []
    row = await town.row(his)
    assert row is not None
    assert (row.status, row.title, row.path) == (Status.HIDDEN, "", "")
    assert await town.registry.containers("file", "bob") == {}, "nor are the names of his folders kept"
    assert town.world.count(user="bob", kind="dav") == 0, "nobody looks at his files"
    assert [len(await town.points(key)) for key in (hers, put_in)] == [1, 1]
    assert sorted((await town.search("bob", QUESTION)).titles) == ["Lodging by Bob.md", "Lodging of the team.md"]
    assert town.embedder.read == []


async def test_opting_in_again_brings_everything_back_with_the_next_sweep(town: Town) -> None:
    keys = [town.write("alice", f"/Papers/{n}/Lodging {n}.md", HOTELS.replace("120", f"12{n}")) for n in range(3)]
    await town.settle()
    await wishes(town, "alice", OUT)
    await town.settle()
    await town.settle()
    later = town.write("alice", "/Papers/Lodging 9.md", HOTELS.replace("120", "129"))
    await town.settle()
    assert [await town.points(key) for key in (*keys, later)] == [[], [], [], []]
    await wishes(town, "alice", IN)
    await town.settle()
    found = await town.search("alice", QUESTION)
    assert sorted(found.titles) == ["Lodging 0.md", "Lodging 1.md", "Lodging 2.md", "Lodging 9.md"]
    assert await town.registry.opt_outs.returned() == frozenset()
    town.world.reset_requests()
    await town.settle()
    assert town.world.count(user="alice", kind="dav") == 1, "from then on only changes are looked at"


async def test_who_changes_his_mind_before_a_sweep_loses_nothing(town: Town) -> None:
    """The worker may have hidden some meanwhile, and the folders did not change."""
    read = town.write("alice", "/Papers/Lodging.md", HOTELS)
    await town.settle()
    await town.registry.enqueue(DocumentKey.parse(read), Lane.CONTENT, "alice")
    await wishes(town, "alice", OUT)
    await town.work()
    assert await town.points(read) == []
    await wishes(town, "alice", IN)
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]


async def test_work_that_was_due_is_neither_read_nor_embedded(town: Town) -> None:
    key = town.write("alice", "/Papers/Lodging.md", HOTELS)
    town.clock.forward(3)
    await town.sweep()
    await wishes(town, "alice", OUT)
    town.world.reset_requests()
    await town.work()
    row = await town.row(key)
    assert row is not None
    assert (row.status, row.title) == (Status.HIDDEN, "")
    assert town.embedder.read == []
    assert town.world.count(method="GET", kind="dav") == 0
    assert (await town.registry.progress()).pending == 0


async def test_a_readers_wish_does_not_bring_it_back(town: Town) -> None:
    key = town.write("alice", "/Team/Lodging.md", HOTELS)
    town.world.share("alice", "/Team", with_user="bob")
    await town.settle()
    await wishes(town, "alice", OUT)
    await town.settle()
    for lane in (Lane.REFRESH, Lane.CONTENT):
        await town.registry.enqueue(DocumentKey.parse(key), lane, "bob")
        await town.work()
        row = await town.row(key)
        assert row is not None
        assert (row.status, await town.points(key)) == (Status.HIDDEN, [])


async def test_a_wish_that_comes_while_a_document_is_embedded_still_counts(town: Town) -> None:
    key = town.write("alice", "/Papers/Lodging.md", HOTELS)
    town.clock.forward(3)
    await town.sweep()
    town.staff(embedder=Interrupted(town, lambda: wishes(town, "alice", OUT)))
    await town.work()
    row = await town.row(key)
    assert row is not None
    assert (row.status, row.live, await town.points(key)) == (Status.HIDDEN, 0, [])


async def test_a_paper_that_moves_between_homes_follows_the_wish_of_whoever_owns_it_now(town: Town) -> None:
    """Given that Bob opted out, when Alice's paper becomes his it goes, and when it is hers again it comes back."""
    key = town.write("alice", "/Team/Lodging.md", HOTELS)
    town.world.share("alice", "/Team", with_user="bob", permissions=31)
    town.world.mkdir("bob", "/Mine")
    await town.settle()
    await wishes(town, "bob", OUT)
    town.world.move("bob", "/Team/Lodging.md", "/Mine/Lodging.md")
    await town.settle()
    assert await town.points(key) == []
    town.world.move("bob", "/Mine/Lodging.md", "/Team/Lodging.md")
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]


async def test_a_crash_between_dropping_and_hiding_is_made_good_by_the_next_sweep(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [town.write("alice", f"/Papers/Lodging {n}.md", HOTELS.replace("120", f"12{n}")) for n in range(2)]
    await town.settle()
    await wishes(town, "alice", OUT)
    for method, part in (("hide", town.registry), ("drop", town.vectors)):
        with monkeypatch.context() as dying:
            dying.setattr(type(part), method, dies)
            with pytest.raises(Death):
                await town.sweep()
    await town.settle()
    assert [await town.points(key) for key in keys] == [[], []]
    assert (await town.registry.progress()).total == 0


async def test_boards_that_he_walks_for_all_members_stay_walked(town: Town) -> None:
    """Given the only walker of a board, when he opts out, then its cards are found and kept up to date."""
    board = town.world.add_board("alice", "Travel")
    card = town.world.add_card(board, "Lodging", description="Nothing yet")
    town.world.share_board(board, with_user="bob")
    await town.settle()
    await wishes(town, "alice", OUT)
    await town.settle()
    town.world.edit_card(card, description=HOTELS)
    await town.settle()
    for user in ("alice", "bob"):
        assert "120 euros" in (await town.search(user, QUESTION))["Lodging"]["excerpt"]


# --- Helpers of this town


async def dies(*_: Any, **__: Any) -> None:
    raise Death

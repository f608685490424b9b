# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Who asks, what was taken from him, and what the index still remembers of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from town import Town

from demo import companion
from ex_app.domain import DocumentKey, EngineUnavailable, Lane
from ex_app.doors.companion import PATH
from ex_app.doors.proof import PROOF_HEADER, TIME_HEADER, proof
from ex_app.nextcloud import dav
from ex_app.sources import file
from ex_app.store.documents import Status

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
DEARER = HOTELS.replace("120", "175")
BEES = "# Bees\n\nThe two hives gave eleven kilos of honey this summer, most of it from lime blossom."
QUESTION = "hotel price limit for trips"
MCP_HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


# --- Taken away


async def test_a_folder_moved_out_of_a_shared_one_takes_its_documents_along_at_once(town: Town) -> None:
    key = town.write("alice", "/Policies/Travel/Lodging.md", HOTELS)
    town.world.mkdir("alice", "/Drafts")
    town.world.share("alice", "/Policies", with_user="bob")
    await town.settle()
    held = await town.points(key)
    assert (await town.search("bob", QUESTION)).titles == ["Lodging.md"]
    town.world.move("alice", "/Policies/Travel", "/Drafts/Travel")
    assert (await town.search("bob", QUESTION)).hits == []
    assert await town.points(key) == held, "the index still says that it lies in what Bob can read"


async def test_what_is_written_after_bob_has_lost_it_never_reaches_him(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    share = town.world.share("alice", "/Policies", with_user="bob")
    await town.settle()
    assert (await town.search("bob", QUESTION)).titles == ["Lodging.md"]
    town.world.unshare(share)
    town.write("alice", "/Policies/Lodging.md", DEARER)
    assert (await town.search("bob", QUESTION)).hits == []
    await town.settle()
    answer = await town.ask("bob", "GET", "/api/search", params={"q": QUESTION})
    assert answer.json() == {**answer.json(), "hits": [], "degraded": False}
    assert "euros" not in answer.text
    assert (await town.search("alice", QUESTION)).hits[0]["ref"] == key


async def test_an_answer_that_alice_got_is_not_bobs_though_he_asks_the_same(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.write("bob", "/Mine/Overnight.md", DEARER)
    await town.settle()
    for user, title in (("alice", "Lodging.md"), ("bob", "Overnight.md"), ("alice", "Lodging.md")):
        assert (await town.search(user, QUESTION)).titles == [title]


# --- Left out of all searches


@pytest.mark.town(excluded_tags="Confidential")
async def test_what_carries_an_excluded_tag_is_gone_at_once(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    held = await town.points(key)
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]
    town.world.tag(DocumentKey.parse(key).id, "confidential")
    page = await town.search("alice", QUESTION)
    assert (page.hits, page.degraded) == ([], False)
    assert await town.points(key) == held != []


async def test_what_lies_beside_a_noindex_file_is_gone_at_once(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    held = await town.points(key)
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]
    town.write("alice", "/Policies/.noindex", "")
    page = await town.search("alice", QUESTION)
    assert (page.hits, page.degraded) == ([], False)
    assert await town.points(key) == held != []


async def test_who_shares_a_noindex_file_with_me_hides_nothing_of_mine(town: Town) -> None:
    town.write("alice", "/Lodging.md", HOTELS)
    await town.settle()
    town.write("carol", "/.noindex", "")
    town.world.share("carol", "/.noindex", with_user="alice")
    for _ in range(2):
        assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]
        await town.registry.bump_epoch()


async def test_noindex_files_in_numbers_make_nobodys_searches_slow(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever shares such a folder costs its receivers one long answer, when they learn what is open to them."""
    for number in range(5):
        town.world.write("carol", f"/Shared/{number}/.noindex", b"")
    town.world.share("carol", "/Shared", with_user="alice")
    town.write("alice", "/Lodging.md", HOTELS)
    await town.settle()
    told: list[int] = []

    async def counted(*asked: Any, **more: Any) -> list[dav.Node]:
        nodes = await search_ids(*asked, **more)
        told.append(len(nodes))
        return nodes

    search_ids = dav.search_ids
    monkeypatch.setattr(dav, "search_ids", counted)
    monkeypatch.setattr(file, "_MOST_QUIET", 4)
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]
    assert told == [1]


# --- What the index holds and the registry does not vouch for


async def test_points_that_were_left_behind_are_never_quoted(town: Town) -> None:
    """The new text is published; then the engine goes away before the old points are gone."""
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    town.write("alice", "/Policies/Lodging.md", BEES)
    town.clock.forward(3)
    await town.sweep()
    item = await town.claim()
    assert item is not None
    whole = town.vectors
    town.staff(vectors=WithoutCleaning(whole))
    await town.worker.attempt(item)
    town.staff(vectors=whole)
    row = await town.row(key)
    assert row is not None
    assert {point.generation for point in await town.points(key)} > {row.live}, "this is what makes it a trap"
    assert (await town.search("alice", QUESTION)).hits == []
    assert (await town.search("alice", "honey from the hives")).titles == ["Lodging.md"]


async def test_an_event_from_before_a_delete_brings_nothing_back(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    town.world.delete("alice", "/Policies/Lodging.md")
    await town.settle()
    await town.registry.enqueue(DocumentKey.parse(key), Lane.CONTENT, "alice")  # it was long on its way
    await town.work()
    row = await town.row(key)
    assert row is not None
    assert (row.status, row.title, await town.points(key)) == (Status.HIDDEN, "", [])
    assert (await town.search("alice", QUESTION)).hits == []


async def test_what_comes_back_from_the_trash_is_found_again(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    town.world.delete("alice", "/Policies/Lodging.md")
    await town.settle()
    assert (await town.search("alice", QUESTION)).hits == []
    town.world.restore("alice", "/Policies/Lodging.md", DocumentKey.parse(key).id)
    await town.settle()
    page = await town.search("alice", QUESTION)
    assert [hit["ref"] for hit in page.hits] == [key]
    assert "120 euros" in page.hits[0]["excerpt"]


async def test_an_overwrite_that_keeps_time_and_size_is_told_by_its_checksum(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS, via="dav", mtime=1_700_000_000)
    node = town.world.nodes[DocumentKey.parse(key).id]
    node.checksum = "SHA1:0001"
    await town.settle()
    etag = node.etag
    assert "120 euros" in (await town.search("alice", QUESTION))["Lodging.md"]["excerpt"]
    town.write("alice", "/Policies/Lodging.md", DEARER, via="dav", mtime=1_700_000_000)
    node.checksum = "SHA1:0002"
    assert (node.etag, len(node.data)) == (etag, len(HOTELS)), "this is what makes it a trap"
    assert "175 euros" in (await town.search("alice", QUESTION))["Lodging.md"]["excerpt"]


# --- Scores

RIVALS = {
    "Lodging.md": "# Lodging\n\nAccommodation on business trips costs staff at most 120 euros per night.",
    "Trains.md": "# Trains\n\nTickets for business trips are bought by the travel desk, second class only.",
}
ABOUT_BOTH = "accommodation and tickets"


async def scores(town: Town, user: str) -> dict[str, float]:
    return {hit["title"]: hit["score"] for hit in (await town.search(user, ABOUT_BOTH)).hits if hit["title"] in RIVALS}


async def test_what_strangers_write_moves_nobodys_scores(town: Town) -> None:
    for name, text in RIVALS.items():
        town.write("alice", f"/Policies/{name}", text)
    await town.settle()
    before = await scores(town, "alice")
    assert before.keys() == RIVALS.keys()
    for number in range(25):
        town.write("carol", f"/Mine/{number}.md", f"Accommodation number {number} in the valley.")
    await town.settle()
    assert await scores(town, "alice") == before


async def test_what_alice_may_not_read_in_her_own_home_moves_none_of_her_scores(town: Town) -> None:
    for name, text in RIVALS.items():
        town.write("alice", f"/Policies/{name}", text)
    await town.settle()
    before = await scores(town, "alice")
    for number in range(25):
        town.write("alice", f"/Audit/{number}.md", f"Accommodation number {number} in the valley.")
    await town.settle()
    town.world.block(town.world.resolve("alice", "/Audit").node.id)
    assert await scores(town, "alice") == before


# --- Who it is

STRANGERS = ("Alice", "ALICE", "alice ", "alice@example.org", "mallory")
ELSEWHERE = {
    "a header": {"X-Remote-User": "alice", "X-Forwarded-User": "alice", "EX-APP-USER-ID": "alice", "OC-User": "alice"},
    "a cookie": {"Cookie": "nc_username=alice; user=alice; stand_in_session=alice"},
}


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_who_is_unknown_to_nextcloud_is_not_taken_for_somebody_alike(town: Town, stranger: str) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    for relayed in (True, False):
        answer = await town.ask(stranger, "GET", "/api/search", params={"q": QUESTION}, relayed=relayed)
        assert (answer.status_code, answer.json()["hits"]) == (200, [])


@pytest.mark.parametrize("where", ELSEWHERE)
async def test_who_asks_is_read_from_the_signature_and_from_no_other_place(town: Town, where: str) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    answer = await town.ask("bob", "GET", "/api/search", params={"q": QUESTION}, headers=ELSEWHERE[where])
    assert answer.json()["hits"] == []


async def test_an_assistant_cannot_name_another_user_in_what_it_sends(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    arguments = {"query": QUESTION, "user": "alice"}
    call = {"name": "nc_semantic_search", "arguments": arguments, "_meta": {"user": "alice"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call, "user": "alice"}
    answer = await town.ask("bob", "POST", "/mcp", json=body, headers=MCP_HEADERS)
    assert "Lodging" not in answer.text
    answer = await town.ask("alice", "POST", "/mcp", json=body, headers=MCP_HEADERS)
    assert "Lodging" in answer.text


async def test_an_admins_request_to_the_app_gets_no_candidates_in_anybodys_name(town: Town) -> None:
    """Nextcloud signs for whomever the admin names, and says nothing of a proxy."""
    town.world.companion_key = bytes(range(32))
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    body = json.dumps({"term": QUESTION, **companion.reach_of(town.world, "alice")}).encode()
    now = int(town.clock())
    for user in ("admin", "alice"):
        guessed = proof(b"admin" * 7, method="POST", path=PATH, user=user, moment=now, body=body)
        for headers in ({}, {TIME_HEADER: str(now), PROOF_HEADER: guessed}):
            answer = await town.ask(user, "POST", PATH, content=body, headers=headers, relayed=False)
            assert answer.status_code == 404


class WithoutCleaning:
    """An index that takes what is written and is away when something is to be deleted."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    async def keep_only(self, *_: object, **__: object) -> None:
        raise EngineUnavailable("The vector engine does not answer")

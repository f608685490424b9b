# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""People, files and networks that mean harm: what still holds."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from town import Town

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
DEARER = HOTELS.replace("120", "175")
BEES = "# Bees\n\nThe two hives gave eleven kilos of honey this summer, most of it from lime blossom."
SECRETS = "# Layoffs\n\nThe plant in Kassel is to be closed in March and its forty people are to be dismissed."
QUESTION = "hotel price limit for trips"
ABOUT_SECRETS = "closing the plant and dismissing people"
MCP_HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


def reads(scope: Scope, name: str) -> bool:
    """Whether a request asks for a file's bytes."""
    return bool(scope["method"] == "GET" and str(scope["path"]).endswith(name))


def call(query: str) -> dict[str, Any]:
    arguments = {"query": query}
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "nc_semantic_search", "arguments": arguments},
    }


async def ask_mcp(town: Town, user: str, query: str) -> dict[str, Any]:
    headers = {**MCP_HEADERS, "Content-Type": "application/json"}
    answer = await town.ask(user, "POST", "/mcp", content=json.dumps(call(query)), headers=headers, relayed=False)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["result"]
    return result


# --- A path is not a document


async def test_what_took_a_documents_place_is_not_quoted_under_its_name(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.write("alice", "/Private/Layoffs.md", SECRETS)
    town.world.mkdir("alice", "/Policies/Old")
    town.world.share("alice", "/Policies", with_user="bob")
    await town.settle()
    town.write("alice", "/Policies/Lodging.md", DEARER)
    swapped: list[bool] = []

    def instead(scope: Scope) -> ASGIApp | None:
        if reads(scope, "Lodging.md") and not swapped:
            swapped.append(True)
            town.world.move("alice", "/Policies/Lodging.md", "/Policies/Old/Lodging.md")
            town.world.move("alice", "/Private/Layoffs.md", "/Policies/Lodging.md")
        return None

    town.stage.instead = instead
    page = await town.search("bob", QUESTION)
    assert swapped
    assert page.titles == ["Lodging.md"]
    assert "Kassel" not in str(page)
    assert page["Lodging.md"]["refreshing"]


async def test_what_took_a_documents_place_while_it_was_read_is_not_indexed_as_it(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.write("alice", "/Private/Layoffs.md", SECRETS)
    town.world.mkdir("alice", "/Policies/Old")
    town.world.share("alice", "/Policies/Lodging.md", with_user="bob")
    town.clock.forward(3)
    await town.sweep()
    swapped: list[bool] = []

    def instead(scope: Scope) -> ASGIApp | None:
        if reads(scope, "Lodging.md") and not swapped:
            swapped.append(True)
            town.world.move("alice", "/Policies/Lodging.md", "/Policies/Old/Lodging.md")
            town.world.move("alice", "/Private/Layoffs.md", "/Policies/Lodging.md")
        return None

    town.stage.instead = instead
    while (item := await town.claim()) is not None:
        await town.worker.attempt(item)
        if swapped:
            break
    assert [hit["ref"] for hit in (await town.search("bob", ABOUT_SECRETS)).hits] == []
    town.stage.instead = lambda _: None
    town.clock.forward(200)
    await town.catch_up()
    page = await town.search("bob", QUESTION)
    assert [hit["ref"] for hit in page.hits] == [key]
    assert "120 euros" in page.hits[0]["excerpt"]


async def test_who_asks_after_a_save_is_not_quoted_what_somebody_else_read_before_it(town: Town) -> None:
    number = int(town.write("alice", "/Policies/Lodging.md", HOTELS).partition(":")[2])
    town.world.share("alice", "/Policies", with_user="bob")
    await town.catch_up()  # too young to be told apart: whoever asks reads it anew
    read, handed_out = threading.Event(), threading.Event()

    def instead(scope: Scope) -> ASGIApp | None:
        if not (reads(scope, "Lodging.md") and "/alice/" in scope["path"]):
            return None
        return _slow_to_hand_out(town.stage.app, read, handed_out)

    town.stage.instead = instead
    asking = asyncio.create_task(town.search("alice", QUESTION))
    assert await asyncio.to_thread(read.wait, 10)
    etag = town.world.nodes[number].etag
    town.write("alice", "/Policies/Lodging.md", DEARER)
    assert town.world.nodes[number].etag == etag, "this is what makes it a trap"
    timer = threading.Timer(2.0, handed_out.set)  # were Bob made to wait for what Alice reads, he would get it
    timer.start()
    page = await town.search("bob", QUESTION)
    timer.cancel()
    handed_out.set()
    await asking
    assert "120" not in str(page)
    assert "175 euros" in page["Lodging.md"]["excerpt"]


def _slow_to_hand_out(app: ASGIApp | None, read: threading.Event, handed_out: threading.Event) -> ASGIApp:
    """Nextcloud reads the file at once and is slow to hand it out. It runs in a thread of its own."""
    assert app is not None

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        await app(scope, receive, keep)
        read.set()
        await asyncio.to_thread(handed_out.wait, 10)
        for message in messages:
            await send(message)

    return slow


# --- Files that cannot be handed out


@pytest.mark.parametrize("status", [423, 503])
async def test_files_that_are_locked_or_lost_do_not_stop_the_others(town: Town, status: int) -> None:
    bad = [town.write("alice", f"/Papers/A{number} broken.md", BEES) for number in range(6)]
    town.write("bob", "/Papers/Lodging.md", HOTELS)

    def instead(scope: Scope) -> ASGIApp | None:
        return Response(status_code=status) if reads(scope, "broken.md") else None

    town.stage.instead = instead
    started = town.clock()
    await town.settle()
    assert (await town.search("bob", QUESTION)).titles == ["Lodging.md"]
    assert town.clock() - started < 15
    town.stage.instead = lambda _: None
    town.clock.forward(7200)
    await town.work()
    for key in bad:
        row = await town.row(key)
        assert row is not None
        assert row.live


async def test_a_server_that_wants_to_be_left_alone_for_ages_is_asked_again_within_the_hour(town: Town) -> None:
    key = town.write("alice", "/Papers/Lodging.md", HOTELS)
    town.clock.forward(3)
    await town.sweep()
    town.stage.instead = lambda _: Response(status_code=503, headers={"Retry-After": "999999999"})
    item = await town.claim()
    assert item is not None
    await town.worker.attempt(item)
    town.stage.instead = lambda _: None
    town.clock.forward(3600)
    await town.work()
    row = await town.row(key)
    assert row is not None
    assert row.live


async def test_a_compressing_proxy_does_not_make_every_text_look_unfinished(town: Town) -> None:
    key = town.write("alice", "/Papers/Lodging.md", HOTELS)
    town.stage.instead = lambda scope: _weakened(town.stage.app) if reads(scope, "Lodging.md") else None
    await town.settle()
    row = await town.row(key)
    assert row is not None
    assert row.settled
    assert await town.claim() is None


def _weakened(app: ASGIApp | None) -> ASGIApp:
    """As nginx and Apache do with what they compress: the ETag of the bytes is not that of the file."""
    assert app is not None

    async def weakened(scope: Scope, receive: Receive, send: Send) -> None:
        async def changed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    (name, b"W/" + value if name.lower() == b"etag" else value) for name, value in message["headers"]
                ]
            await send(message)

        await app(scope, receive, changed)

    return weakened


# --- What one person does to another


async def test_a_readers_wish_and_his_loss_of_the_board_hide_no_card_from_the_others(town: Town) -> None:
    board = town.world.add_board("alice", "Travel")
    card = town.world.add_card(board, "Lodging", description=HOTELS)
    town.world.share_board(board, with_user="bob")
    await town.settle()
    town.world.edit_card(card, description=DEARER)
    town.clock.forward(3)
    await town.sweep()  # the worker is busy; the walk is over
    assert (await town.search("bob", QUESTION)).titles == ["Lodging"]  # his wish for fresh text
    town.world.unshare_board(board, with_user="bob")
    await town.work()
    page = await town.search("alice", QUESTION)
    assert page.titles == ["Lodging"]
    assert "175 euros" in page["Lodging"]["excerpt"]
    town.world.delete_card(card)
    await town.settle()
    assert await town.points(f"deck_card:{card}") == []


async def test_who_read_a_card_last_and_lost_it_since_hides_it_from_nobody(town: Town) -> None:
    board = town.world.add_board("alice", "Travel")
    card = town.world.add_card(board, "Lodging", description=HOTELS)
    town.world.share_board(board, with_user="bob")
    await town.settle()
    for text in (HOTELS.replace("120", "150"), DEARER):
        town.clock.forward(3)
        town.world.edit_card(card, description=text)
        assert (await town.search("bob", QUESTION)).titles == ["Lodging"]
        if text == DEARER:
            town.world.unshare_board(board, with_user="bob")
        await town.work()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging"]


@pytest.mark.parametrize("evil", ["\x0b", "\x00", "\x1b[2J", "\ufffe", "\uffff"])
async def test_a_character_that_no_xml_may_hold_silences_nobody(town: Town, evil: str) -> None:
    board = town.world.add_board("alice", "Travel")
    town.world.add_card(board, "Lodging", description=HOTELS)
    town.world.add_card(board, "Curse", description=f"A curse {evil} upon you")
    town.world.share_board(board, with_user="bob")
    key = town.write("alice", "/Policies/Night.md", BEES)
    town.world.share("alice", "/Policies/Night.md", with_user="bob")
    town.world.tag(int(key.partition(":")[2]), f"tag{evil}")
    await town.settle()
    for user in ("alice", "bob"):
        page = await town.search(user, QUESTION)
        assert (page.titles, page.degraded) == (["Lodging"], False)
        page = await town.search(user, "honey from the hives")
        assert (page.titles, page.degraded) == (["Night.md"], False)


async def test_one_card_that_makes_no_sense_silences_no_other(town: Town) -> None:
    board = town.world.add_board("alice", "Travel")
    town.world.add_card(board, "Lodging", description=HOTELS)
    town.world.add_card(board, "Bees 99999-01-01", description=BEES)

    def instead(scope: Scope) -> ASGIApp | None:
        return (
            _replacing(town.stage.app, b"STATUS:NEEDS-ACTION\nCATEGORIES:\nSUMMARY:Bees", b"DUE:x\nSUMMARY:Bees")
            if ("/calendars/" in scope["path"])
            else None
        )

    town.stage.instead = instead
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging"]


def _replacing(app: ASGIApp | None, old: bytes, new: bytes) -> ASGIApp:
    assert app is not None

    async def replaced(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        await app(scope, request.receive, keep)
        body = b"".join(message.get("body", b"") for message in messages).replace(old, new)
        await Response(body, messages[0]["status"], media_type="application/xml")(scope, receive, send)

    return replaced


# --- Answers that lie


ANSWER = """<?xml version="1.0"?><d:multistatus xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:response>
<d:href>{href}</d:href><d:propstat><d:prop><oc:fileid>{fileid}</oc:fileid><d:getetag>"x"</d:getetag>
<oc:size>{size}</oc:size><oc:permissions>RGDNVW</oc:permissions><d:getlastmodified>{date}</d:getlastmodified></d:prop>
<d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response></d:multistatus>"""
LIES = {
    "somebody else's file": {"href": "/remote.php/dav/files/alice/Lodging.md"},
    "a longer name": {"href": "/remote.php/dav/files/bob2/Lodging.md"},
    "a regular expression": {"href": "/remote.php/dav/files/b.b/Lodging.md"},
    "another number": {"fileid": "1"},
    "no number": {"fileid": "²"},
    "a huge number": {"fileid": "9" * 5000},
    "a huge size": {"size": "9" * 5000},
    "a size that is none": {"size": "²"},
    "no date": {"date": "Mon, 99 Foo 99999 99:99:99 GMT"},
}


@pytest.mark.parametrize("lie", LIES)
async def test_an_answer_that_lies_breaks_nothing(town: Town, lie: str) -> None:
    key = town.write("alice", "/Lodging.md", HOTELS)
    share = town.world.share("alice", "/Lodging.md", with_user="bob")
    await town.settle()
    assert (await town.search("bob", QUESTION)).titles == ["Lodging.md"]
    town.world.unshare(share)
    truth = {"href": "/remote.php/dav/files/bob/Lodging.md", "fileid": key.partition(":")[2], "size": "1", "date": ""}
    body = Response(ANSWER.format(**{**truth, **LIES[lie]}), 207, media_type="application/xml")
    town.stage.instead = lambda scope: body if scope["method"] == "SEARCH" else None
    answer = await town.ask("bob", "GET", "/api/search", params={"q": QUESTION})
    assert answer.status_code == 200
    assert "euros" not in answer.text
    if "href" in LIES[lie] or "fileid" in LIES[lie]:
        assert answer.json()["hits"] == []


@pytest.mark.parametrize("value", ["²", "9" * 400, "-1", "soon"])
async def test_a_strange_wish_to_be_left_alone_breaks_nothing(town: Town, value: str) -> None:
    town.write("alice", "/Lodging.md", HOTELS)
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]
    town.stage.instead = lambda _: Response(status_code=503, headers={"Retry-After": value})
    page = await town.search("alice", QUESTION)
    assert (page.hits, page.degraded) == ([], True)


# --- Questions that mean harm


async def test_half_characters_and_nothing_at_all_are_just_questions_for_an_assistant_too(town: Town) -> None:
    headers = {**MCP_HEADERS, "Content-Type": "application/json"}
    half = await town.ask("alice", "POST", "/mcp", content=json.dumps(call("\ud800")), headers=headers)
    assert half.json()["error"]["code"] == -32700, "no such text can be written in UTF-8"
    for odd in ("\x00", "\u200b\u200c\u2060", "?!...", "\u202e\u202d", "🏨" * 2000):
        result = await ask_mcp(town, "alice", odd)
        assert not result.get("isError"), result


async def test_assistants_of_several_people_at_once_are_never_mixed_up(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.write("bob", "/Policies/Overnight.md", DEARER)
    await town.settle()
    answers = await asyncio.gather(*(ask_mcp(town, user, QUESTION) for user in ("alice", "bob", "carol") * 5))
    titles = [[hit["title"] for hit in answer["structuredContent"]["results"]] for answer in answers]
    assert titles == [["Lodging.md"], ["Overnight.md"], []] * 5


@pytest.mark.parametrize("number", ["9" * 30, "-" + "9" * 400, "9" * 4000])
async def test_a_time_beyond_all_time_is_answered(town: Town, number: str) -> None:
    town.write("alice", "/Lodging.md", HOTELS)
    await town.settle()
    for name in ("since", "until", "limit"):
        answer = await town.ask("alice", "GET", "/api/search", params={"q": QUESTION, name: number})
        assert answer.status_code in (200, 400, 422), (name, answer.text)


async def test_nobody_makes_us_hold_a_body_that_no_door_has_a_use_for(town: Town) -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(64):
            taken += 1
            yield b" " * 1024 * 1024

    headers = {**MCP_HEADERS, "Content-Type": "application/json"}
    answer = await town.ask("bob", "POST", "/mcp", content=endless(), headers=headers)
    assert answer.status_code == 413
    assert taken < 10


async def test_an_old_text_cannot_be_guessed_by_who_never_could_read_it(town: Town) -> None:
    """Alice takes a sentence out, then shares the file, and Bob asks for that sentence before it is indexed again."""
    town.write("alice", "/Memo.md", "# Memo\n\nThe plant in Kassel will be closed and ninety people dismissed.")
    await town.settle()
    town.clock.forward(10)
    town.write("alice", "/Memo.md", "# Memo\n\nThe canteen serves lentil soup on Tuesdays and fish on Fridays.")
    town.world.share("alice", "/Memo.md", with_user="bob")
    assert (await town.search("bob", "plant in Kassel closed, people dismissed")).hits == []
    hit = (await town.search("bob", "When does the canteen serve lentil soup?")).hits[:1]
    assert not hit or "lentil soup" in hit[0]["excerpt"]

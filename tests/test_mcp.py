# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Assistants search as their user, through the official client; whatever Nextcloud does to streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent
from town import Town

from demo.appapi import signed

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
QUESTION = "hotel price limit for trips"
TOOL = "nc_semantic_search"
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": TOOL, "arguments": {"query": QUESTION}}}
LEGACY = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


@asynccontextmanager
async def assistant(town: Town, user: str, *, mode: str = "auto") -> AsyncIterator[Client]:
    """The official client, whose requests Nextcloud signs for this user."""
    transport = httpx2.ASGITransport(town.doors)  # type: ignore[arg-type]
    async with (
        httpx2.AsyncClient(transport=transport, headers=signed(town.app, user)) as http,
        Client(streamable_http_client("http://app/mcp", http_client=http), mode=mode) as client,  # type: ignore[arg-type]
    ):
        yield client


async def ask(town: Town, user: str, **arguments: object) -> CallToolResult:
    async with assistant(town, user) as client:
        return await client.call_tool(TOOL, {"query": QUESTION, **arguments})


def titles(result: CallToolResult) -> list[str]:
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return [hit["title"] for hit in result.structured_content["results"]]


def complaint(result: CallToolResult) -> str:
    assert result.is_error
    [said] = result.content
    assert isinstance(said, TextContent)
    return said.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_tool_says_that_it_only_reads_and_what_it_answers(town: Town, mode: str) -> None:
    async with assistant(town, "alice", mode=mode) as client:
        [tool] = (await client.list_tools()).tools
    assert tool.name == TOOL
    assert tool.annotations is not None
    assert (tool.annotations.read_only_hint, tool.annotations.open_world_hint) == (True, False)
    assert tool.input_schema["required"] == ["query"]
    assert tool.output_schema is not None
    assert set(tool.output_schema["properties"]) == {"results", "degraded", "next_cursor"}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_result_can_be_opened_and_quoted(town: Town, mode: str) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    async with assistant(town, "alice", mode=mode) as client:
        result = await client.call_tool(TOOL, {"query": QUESTION})
    assert result.structured_content is not None
    [hit] = result.structured_content["results"]
    assert "120 euros" in hit["excerpt"]
    assert (hit["ref"], hit["doc_type"], hit["place"]) == (key, "file", "Policies")
    assert hit["url"] == f"{town.stage.url}/index.php/f/{key.partition(':')[2]}"
    assert result.structured_content["degraded"] is False


async def test_twenty_questions_at_once_are_answered_to_whom_they_belong(town: Town) -> None:
    town.write("alice", "/Mine/Lodging of Alice.md", HOTELS)
    town.write("bob", "/Mine/Lodging of Bob.md", HOTELS.replace("120", "99"))
    await town.settle()
    expected = {"alice": ["Lodging of Alice.md"], "bob": ["Lodging of Bob.md"], "carol": []}
    people = [*expected] * 7
    async with assistant(town, "alice") as hers, assistant(town, "bob") as his, assistant(town, "carol") as carols:
        clients = {"alice": hers, "bob": his, "carol": carols}
        results = await asyncio.gather(*(clients[user].call_tool(TOOL, {"query": QUESTION}) for user in people))
    assert [titles(result) for result in results] == [expected[user] for user in people]


async def test_what_was_unshared_is_gone_with_the_next_call(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    share = town.world.share("alice", "/Policies", with_user="bob")
    await town.settle()
    async with assistant(town, "bob") as client:
        assert titles(await client.call_tool(TOOL, {"query": QUESTION})) == ["Lodging.md"]
        town.world.unshare(share)
        assert titles(await client.call_tool(TOOL, {"query": QUESTION})) == []


async def test_kinds_narrow_the_answer(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    board = town.world.add_board("alice", "Travel")
    town.world.add_card(board, "Lodging card", description=HOTELS.replace("120", "150"))
    await town.settle()
    assert set(titles(await ask(town, "alice"))) == {"Lodging.md", "Lodging card"}
    assert titles(await ask(town, "alice", doc_types=["deck_card"])) == ["Lodging card"]


async def test_a_model_is_told_what_to_do_differently(town: Town) -> None:
    assert complaint(await ask(town, "alice", query=" ")).endswith("The question is empty: say what you look for")
    assert complaint(await ask(town, "alice", limit=500)).endswith("limit must be between 1 and 100")
    assert "doc_types" in complaint(await ask(town, "alice", doc_types=["mail"]))
    with town.engine_away():
        said = complaint(await ask(town, "alice"))
    assert said.endswith("Try again in a moment")


async def test_there_is_no_stream_to_hold_open_and_no_session_to_end(town: Town) -> None:
    for method in ("GET", "DELETE"):
        answer = await town.ask("alice", method, "/mcp", headers={"Accept": "text/event-stream"})
        assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
        assert answer.json() == {"error": "POST only: this endpoint keeps no stream open"}


async def test_the_answer_is_one_piece_of_json_and_no_session_is_begun(town: Town) -> None:
    """Nextcloud 31's proxy breaks chunked answers, and a session could be used by somebody else."""
    answer = await town.ask("alice", "POST", "/mcp", json=CALL, headers=LEGACY)
    assert answer.status_code == 200, "no redirect to another path"
    assert answer.headers["Content-Type"] == "application/json"
    assert int(answer.headers["Content-Length"]) == len(answer.content)
    assert "mcp-session-id" not in answer.headers
    assert answer.json()["result"]["isError"] is False


async def test_an_assistant_outside_reaches_it_through_nextclouds_proxy(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    app_password = {"Authorization": "Bearer alice-app-password", "Origin": "https://assistant.example"}
    async with (
        town.listening() as proxy,
        httpx2.AsyncClient(headers=app_password) as http,
        Client(streamable_http_client(f"{proxy}/mcp", http_client=http)) as client,
    ):
        assert titles(await client.call_tool(TOOL, {"query": QUESTION})) == ["Lodging.md"]


async def test_relayed_calls_beyond_the_admitted_ones_are_told_to_wait(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    town.world.latency_s = 0.1
    answers = await asyncio.gather(*(town.ask("alice", "POST", "/mcp", json=CALL, headers=LEGACY) for _ in range(4)))
    said = [answer.json()["result"] for answer in answers]
    assert [result["isError"] for result in said].count(True) == 2
    refused = next(result for result in said if result["isError"])
    assert refused["content"][0]["text"].endswith("Too many searches at once. Try again in a moment")

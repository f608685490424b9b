# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Who gets in by which door, and what the doors never say."""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
from collections.abc import Iterator

import httpx
import pytest
from town import SECRET, Town

from demo.appapi import register, signed
from ex_app.__main__ import set_up_logging
from ex_app.doors import guard
from ex_app.doors.guard import ROUTES, Who

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
QUESTION = "hotel price limit for trips"
BY_WHO = {who: [route for route, allowed in ROUTES.items() if allowed is who] for who in Who}
TOOL_CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "nc_semantic_search", "arguments": {"query": QUESTION}},
}
MCP_HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


# --- What there is


async def test_whoever_a_route_is_for_finds_it_there(town: Town) -> None:
    for method, path in BY_WHO[Who.USER]:
        assert (await town.ask("alice", method, path)).status_code != 404, (method, path)
    assert (await town.ask("", "GET", "/heartbeat", relayed=False)).json() == {"status": "ok"}
    assert (await town.ask("", "GET", "/progress", relayed=False)).status_code == 200


async def test_nextcloud_registers_the_app_and_gets_its_page(town: Town) -> None:
    await town.house.set_enabled(False)
    async with town.listening():
        await register(town.apps, town.app)
    assert (town.app.enabled, town.app.progress, town.app.error) == (True, 100, "")
    assert await town.house.is_enabled()
    assert town.app.registered["ui/top-menu"]["search"]["displayName"] == "Semantic search"


@pytest.mark.parametrize("relayed", [True, False])
async def test_what_is_not_in_the_table_is_not_there_whoever_asks(town: Town, relayed: bool) -> None:
    elsewhere = ["/", "/docs", "/openapi.json", "/redoc", "/api", "/api/search/", "//api/search", "/API/search"]
    elsewhere += ["/mcp/", "/mcp/sse", "/heartbeat/", "/ui/", "/ui/search.js/..", "/ui/..%2fapp.py", "/.well-known/mcp"]
    asked = [("GET", path) for path in elsewhere]
    asked += [
        (method, path)
        for path in sorted({path for _, path in ROUTES})
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
        if (method, path) not in ROUTES
    ]
    for user in ("alice", "admin", ""):
        for method, path in asked:
            answer = await town.ask(user, method, path, relayed=relayed)
            assert answer.status_code == 404, (method, path)


async def test_nothing_internal_is_reached_by_climbing_through_nextclouds_proxy(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    async with town.listening() as proxy, httpx.AsyncClient(auth=("alice", "alice-app-password")) as client:
        found = await client.get(f"{proxy}/api/search", params={"q": QUESTION})
        assert [hit["ref"] for hit in found.json()["hits"]] == [key]
        # Our own routes are anchored; these are those of somebody who was careless.
        every = "GET,POST,PUT,DELETE"
        careless = {"url": "^mcp.*", "verb": every, "access_level": 1, "headers_to_exclude": "[]"}
        for routes in (town.app.routes, [careless]):
            town.app.routes = routes
            for method, inner in [*BY_WHO[Who.NEXTCLOUD], *BY_WHO[Who.COMPANION], *BY_WHO[Who.WEBHOOK]]:
                for climb in ("mcp/%2e%2e", "mcp/x/%2e%2e/%2e%2e", "mcp/%2e%2e%2f%2e%2e"):
                    answer = await client.request(method, f"{proxy}/{climb}{inner}?enabled=0")
                    assert answer.status_code in (404, 405), (method, climb, inner)
    assert await town.house.is_enabled()


async def test_what_nextcloud_itself_calls_is_not_there_for_browsers_and_users(town: Town) -> None:
    for method, path in BY_WHO[Who.NEXTCLOUD]:
        for user, relayed in (("", True), ("alice", True), ("admin", False), ("alice", False)):
            answer = await town.ask(user, method, path, relayed=relayed, params={"enabled": 0})
            assert answer.status_code == 404, (method, path, user, relayed)
    assert await town.house.is_enabled()
    progress = await town.ask("", "GET", "/progress", relayed=False)
    assert progress.json()["pending"] == 0
    switched_off = await town.ask("", "PUT", "/enabled", relayed=False, params={"enabled": 0})
    assert switched_off.json() == {"error": ""}
    assert not await town.house.is_enabled()
    answer = await town.ask("alice", "GET", "/api/search", params={"q": QUESTION})
    assert (answer.status_code, answer.json()) == (503, {"error": "Semantic Search is switched off"})


# --- Who it is


def _token(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


FORGED = {
    "no signature": {"AUTHORIZATION-APP-API": ""},
    "no base64": {"AUTHORIZATION-APP-API": "alice:secret"},
    "no text": {"AUTHORIZATION-APP-API": base64.b64encode(b"\xff\xfe").decode()},
    "no colon": {"AUTHORIZATION-APP-API": _token(SECRET)},
    "wrong secret": {"AUTHORIZATION-APP-API": _token("alice:wrong")},
    "empty secret": {"AUTHORIZATION-APP-API": _token("alice:")},
    "beginning of the secret": {"AUTHORIZATION-APP-API": _token(f"alice:{SECRET[:-1]}")},
    "secret and more": {"AUTHORIZATION-APP-API": _token(f"alice:{SECRET}x")},
    "user and colon in front": {"AUTHORIZATION-APP-API": _token(f"alice:x:{SECRET}")},
    "another app": {"EX-APP-ID": "another_app"},
}


async def test_without_the_right_signature_every_door_is_shut(town: Town) -> None:
    for forgery, headers in FORGED.items():
        for (method, path), who in ROUTES.items():
            for relayed in (True, False):
                answer = await town.ask("alice", method, path, relayed=relayed, headers=headers)
                assert answer.status_code == (200 if who is Who.ANYONE else 401), (forgery, method, path)


async def test_secret_and_app_are_compared_in_a_time_that_tells_nothing(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[object, object]] = []

    class Watched:
        @staticmethod
        def compare_digest(one: bytes, other: bytes) -> bool:
            compared.append((one, other))
            return hmac.compare_digest(one, other)

    monkeypatch.setattr(guard, "hmac", Watched)
    wrong = {"AUTHORIZATION-APP-API": _token("alice:wrong"), "EX-APP-ID": "another_app"}
    assert (await town.ask("alice", "GET", "/api/status", headers=wrong)).status_code == 401
    assert compared == [(b"another_app", b"semantic_search"), (b"wrong", SECRET.encode())]


async def test_nobody_is_not_a_user(town: Town) -> None:
    for method, path in BY_WHO[Who.USER]:
        for relayed in (True, False):
            assert (await town.ask("", method, path, relayed=relayed)).status_code == 401, (method, path)


async def test_an_admins_request_in_bobs_name_sees_with_bobs_eyes(town: Town) -> None:
    town.write("bob", "/Mine/Lodging.md", HOTELS)
    town.write("admin", "/Mine/Lodging of the admin.md", HOTELS)
    await town.settle()
    answer = await town.ask("bob", "GET", "/api/search", relayed=False, params={"q": QUESTION})
    assert [hit["title"] for hit in answer.json()["hits"]] == ["Lodging.md"]


async def test_a_user_cannot_name_another_one(town: Town) -> None:
    town.write("alice", "/Mine/Lodging.md", HOTELS)
    await town.settle()
    for name in ("user", "userId", "uid", "owner"):
        answer = await town.ask("bob", "GET", "/api/search", params={"q": QUESTION, name: "alice"})
        assert answer.json()["hits"] == []


# --- What is asked for


UNANSWERABLE: tuple[tuple[dict[str, str | int], str], ...] = (
    ({"q": "  "}, "The question is empty: say what you look for"),
    ({"q": "x" * 10_001}, "The question is too long: at most 10000 characters"),
    ({"q": "x", "limit": 0}, "limit must be between 1 and 100"),
    ({"q": "x", "limit": 101}, "limit must be between 1 and 100"),
    ({"q": "x", "kind": "mail"}, "Unknown kind: use deck_card, file, note"),
)


async def test_a_question_that_cannot_be_answered_is_told_why(town: Town) -> None:
    for wrong, sentence in UNANSWERABLE:
        answer = await town.ask("alice", "GET", "/api/search", params=wrong)
        assert (answer.status_code, answer.json()) == (400, {"error": sentence})


async def test_odd_characters_are_just_a_question(town: Town) -> None:
    for odd in ("\ud800", "\x00", "a\u202eb", "%00", "' OR 1=1 --", "🏨" * 500):
        raw = odd.encode("utf-8", "surrogatepass")
        answer = await town.ask("alice", "GET", "/api/search", params={"q": raw})
        assert answer.status_code == 200, odd.encode("unicode_escape")


async def test_the_status_counts_the_users_own_documents_only(town: Town) -> None:
    town.write("alice", "/Mine/Lodging.md", HOTELS)
    town.write("bob", "/Mine/Lodging.md", HOTELS)
    await town.settle()
    answer = await town.ask("alice", "GET", "/api/status")
    assert answer.json() == {"total": 1, "indexed": 1, "pending": 0}
    answer = await town.ask("carol", "GET", "/api/status")
    assert answer.json() == {"total": 0, "indexed": 0, "pending": 0}


# --- What leaves


async def test_no_answer_of_any_kind_may_be_kept(town: Town) -> None:
    answers = [await town.ask("alice", method, path) for method, path in ROUTES]
    answers += [await town.ask("", method, path) for method, path in ROUTES]
    answers += [await town.ask("", method, path, relayed=False) for method, path in BY_WHO[Who.NEXTCLOUD][2:]]
    answers.append(await town.ask("alice", "GET", "/nowhere"))
    answers.append(await town.ask("alice", "GET", "/api/search", params={"q": QUESTION}))
    with town.engine_away():
        answers.append(await town.ask("alice", "GET", "/api/search", params={"q": QUESTION}))
    assert {answer.status_code for answer in answers} >= {200, 400, 401, 404, 405, 503}
    assert {answer.headers["Cache-Control"] for answer in answers} == {"no-store"}
    assert {answer.headers["X-Content-Type-Options"] for answer in answers} == {"nosniff"}


async def test_more_relayed_searches_than_admitted_are_refused_at_once(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    town.world.latency_s = 0.15
    asked = [town.ask("alice", "GET", "/api/search", params={"q": QUESTION}) for _ in range(5)]
    asked += [town.ask("alice", "GET", "/api/search", params={"q": QUESTION}, relayed=False)]
    order: list[int] = []

    async def noted(asking: asyncio.Future[httpx.Response]) -> httpx.Response:
        answer = await asking
        order.append(answer.status_code)
        return answer

    answers = await asyncio.gather(*map(noted, asked))
    assert order == [429, 429, 429, 200, 200, 200], "who is refused does not wait"
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.json() == {"error": "Too many searches at once. Try again in a moment"}
    assert refused.headers["Retry-After"] == "1"
    town.world.latency_s = 0
    assert len((await town.search("alice", QUESTION)).hits) == 1


async def test_a_search_that_fails_gives_its_place_back(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    with town.engine_away():
        for _ in range(3):
            assert (await town.ask("alice", "GET", "/api/search", params={"q": QUESTION})).status_code == 503
    assert len((await town.search("alice", QUESTION)).hits) == 1


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Everything that the app would log in operation, with tracebacks."""
    known = {name: logging.getLogger(name).level for name in ("httpx", "httpcore", "mcp", "alembic")}
    set_up_logging("web")
    caplog.set_level(logging.INFO)
    yield caplog
    for name, level in known.items():
        logging.getLogger(name).setLevel(level)


class Quoting:
    """A parser whose errors quote the document."""

    async def extract(self, body: bytes, **about: str) -> None:
        raise RuntimeError(body.decode())


async def test_no_log_line_holds_what_people_ask_or_write(town: Town, logged: pytest.LogCaptureFixture) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    await town.search("alice", QUESTION)
    town.write("alice", "/Policies/Lodging.md", HOTELS.replace("120", "175"))
    await town.search("alice", QUESTION)
    with town.engine_away():
        await town.ask("alice", "GET", "/api/search", params={"q": QUESTION})
        await town.ask("alice", "POST", "/mcp", json=TOOL_CALL, headers=MCP_HEADERS)
    town.world.fail(lambda request: request.kind == "dav", status=500)
    await town.ask("alice", "GET", "/api/search", params={"q": QUESTION})
    town.world.heal()
    town.world.fail(lambda request: request.kind == "dav", status="garbage")
    await town.ask("alice", "GET", "/api/search", params={"q": QUESTION})
    town.world.heal()
    await town.ask("alice", "GET", "/api/search", params={"q": QUESTION, "limit": "many"})
    town.staff(extractor=Quoting())
    await town.settle()
    lines = [logging.Formatter("%(levelname)s %(name)s %(message)s").format(record) for record in logged.records]
    assert any("not_available" in line for line in lines)
    assert any("document_failed" in line for line in lines)
    said = "\n".join(lines)
    for word in (
        "Lodging",
        "Policies",
        "euros",
        "accommodation",
        "hotel price",
        "hotel%20price",
        "hotel+price",
        SECRET,
    ):
        assert word not in said
    assert _token(f"alice:{SECRET}") not in said


async def test_the_headers_of_this_town_are_those_that_nextcloud_sends(town: Town) -> None:
    """The whole file would prove nothing if the doors opened to headers of our own making."""
    headers = {name.lower() for name in signed(town.app, "alice")}
    assert {"authorization-app-api", "ex-app-id", "ex-app-version", "aa-version"} <= headers

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The one route that believes its caller's reach: it answers to the companion's proof and to nothing else."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
import pytest_asyncio
from town import Town

from demo import companion
from ex_app.doors.companion import PATH
from ex_app.doors.proof import PROOF_HEADER, TIME_HEADER, proof

pytestmark = pytest.mark.asyncio(loop_scope="session")

KEY = bytes(range(32))
HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
TERM = "hotel price limit for trips"


@pytest_asyncio.fixture(loop_scope="session")
async def policy(town: Town) -> str:
    """Alice's indexed policy, in a Nextcloud that has the companion."""
    town.world.companion_key = KEY
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    return key


async def ask(town: Town, user: str, body: bytes, headers: dict[str, str], **how: Any) -> httpx.Response:
    return await town.ask(user, "POST", PATH, content=body, headers=headers, **{"relayed": False, **how})


async def test_the_companion_gets_candidates_within_the_reach_that_it_names(town: Town, policy: str) -> None:
    body, proven = companion.question(town.world, "alice", TERM, moment=town.clock())
    answer = (await ask(town, "alice", body, proven)).json()
    assert [candidate["ref"] for candidate in answer["candidates"]] == [policy]
    candidate = answer["candidates"][0]
    assert "120 euros" in candidate["text"]
    assert candidate["version"]
    assert candidate["settled"]
    assert answer["scale"]["noise"] < answer["scale"]["floor"] < answer["scale"]["good"]

    body, proven = companion.question(town.world, "bob", TERM, moment=town.clock())
    assert (await ask(town, "bob", body, proven)).json()["candidates"] == []


async def test_a_valid_signature_without_proof_gets_nothing(town: Town, policy: str) -> None:
    """A proxy that never says so, or an admin's request to the app: signed for bob, but not by the companion."""
    body, _ = companion.question(town.world, "bob", TERM, moment=town.clock())
    stolen = json.dumps({**json.loads(body), **companion.reach_of(town.world, "alice")}).encode()
    assert (await ask(town, "bob", stolen, {})).status_code == 404


async def test_a_proof_is_bound_to_user_body_and_moment(town: Town, policy: str) -> None:
    body, proven = companion.question(town.world, "alice", TERM, moment=town.clock())
    assert (await ask(town, "alice", body, proven)).status_code == 200
    assert (await ask(town, "bob", body, proven)).status_code == 404
    assert (await ask(town, "alice", body.replace(b"hotel", b"motel"), proven)).status_code == 404
    assert (await ask(town, "alice", body, {**proven, TIME_HEADER: str(int(town.clock()) + 1)})).status_code == 404
    town.clock.forward(31)
    assert (await ask(town, "alice", body, proven)).status_code == 404


async def test_a_proof_for_another_path_or_by_another_key_gets_nothing(town: Town, policy: str) -> None:
    body, proven = companion.question(town.world, "alice", TERM, moment=town.clock())
    now = int(town.clock())
    elsewhere = proof(KEY, method="POST", path="/api/search", user="alice", moment=now, body=body)
    assert (await ask(town, "alice", body, {**proven, PROOF_HEADER: elsewhere})).status_code == 404
    forged = proof(b"k" * 32, method="POST", path=PATH, user="alice", moment=now, body=body)
    assert (await ask(town, "alice", body, {**proven, PROOF_HEADER: forged})).status_code == 404


async def test_even_proof_does_not_pass_through_the_proxy(town: Town, policy: str) -> None:
    body, proven = companion.question(town.world, "alice", TERM, moment=town.clock())
    assert (await ask(town, "alice", body, proven, relayed=True)).status_code == 404


async def test_without_a_companion_there_is_no_such_route(town: Town) -> None:
    town.world.companion_key = KEY
    body, proven = companion.question(town.world, "alice", TERM, moment=town.clock())
    town.world.companion_key = None
    assert (await ask(town, "alice", body, proven)).status_code == 404


@pytest.mark.parametrize("body", [b"", b"[]", b'{"term": "x"}', b'{"term": "x", "scopes": ["f:1"], "sudo": true}'])
async def test_a_question_that_does_not_fit_is_told_so_without_quoting_it(town: Town, policy: str, body: bytes) -> None:
    now = int(town.clock())
    headers = {
        TIME_HEADER: str(now),
        PROOF_HEADER: proof(KEY, method="POST", path=PATH, user="alice", moment=now, body=body),
    }
    refused = await ask(town, "alice", body, headers)
    assert refused.status_code == 400
    assert 'sudo": true' not in refused.text


async def test_a_known_key_serves_at_once_while_it_is_asked_for_again(
    town: Town, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The companion's request holds the only PHP worker: nobody is left to answer the app."""
    monkeypatch.setattr("ex_app.app._COMPANION_S", 0.0)
    body, proven = companion.question(town.world, "alice", TERM, moment=town.clock())
    assert (await ask(town, "alice", body, proven)).status_code == 200
    town.world.fail(lambda request: request.path.endswith("/handshake"), status="timeout")
    async with asyncio.timeout(10):
        assert (await ask(town, "alice", body, proven)).status_code == 200
    town.world.heal()

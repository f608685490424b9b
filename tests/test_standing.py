# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""An app that Nextcloud does not know any more falls silent before it locks its whole address out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from town import Town

from demo.habits import MAX_WRONG_SECRETS
from ex_app.domain import NextcloudUnavailable
from ex_app.nextcloud import ocs
from ex_app.nextcloud.standing import Standing

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
QUESTION = "hotel price limit for trips"


class Door:
    """Nextcloud as the app itself finds it, and a time that passes when told."""

    def __init__(self) -> None:
        self.status = 401
        self.asked = 0
        self.now = 1000.0
        self.standing = Standing(self.ask, clock=lambda: self.now)

    async def ask(self) -> int:
        self.asked += 1
        await asyncio.sleep(0)
        return self.status

    async def is_silent(self) -> bool:
        try:
            await self.standing.demand()
        except NextcloudUnavailable:
            return True
        return False


@pytest.fixture
def door() -> Iterator[Door]:
    return Door()


async def test_a_refusal_silences_all_requests_and_is_looked_at_ever_more_rarely(door: Door) -> None:
    with pytest.raises(NextcloudUnavailable) as refused:
        await door.standing.doubt()
    assert refused.value.retry_after == 900
    assert await door.is_silent()
    assert door.asked == 1
    asked = []
    for minute in range(1, 6 * 60):
        door.now = 1000.0 + 60 * minute
        before = door.asked
        assert await door.is_silent()
        asked += [minute] * (door.asked - before)
    assert asked == [15, 45, 105, 165, 225, 285, 345]


async def test_many_refused_at_once_ask_once(door: Door) -> None:
    answers = await asyncio.gather(*(door.standing.doubt() for _ in range(16)), return_exceptions=True)
    assert all(isinstance(answer, NextcloudUnavailable) for answer in answers)
    assert door.asked == 1


async def test_a_401_about_a_user_silences_nobody(door: Door) -> None:
    door.status = 200
    for _ in range(20):
        await door.standing.doubt()
    assert not await door.is_silent()
    assert door.asked == 1, "its word counts for a minute"
    door.now += 61
    door.status = 401
    with pytest.raises(NextcloudUnavailable):
        await door.standing.doubt()


async def test_whoever_is_known_again_speaks_again(door: Door) -> None:
    for recover in (door.standing.trust, lambda: setattr(door, "now", door.now + 900)):
        door.status = 401
        with pytest.raises(NextcloudUnavailable):
            await door.standing.doubt()
        door.status = 200
        recover()
        assert not await door.is_silent()
        door.now += 61


async def test_an_app_with_much_to_do_that_was_removed_behind_its_back_locks_nobody_out(town: Town) -> None:
    """Given thirty papers that wait, when the secret has changed, then Nextcloud hears of us a few times in all."""
    papers = [town.write("alice", f"/Papers/Lodging {number}.md", HOTELS) for number in range(30)]
    town.clock.forward(3)
    await town.sweep()
    town.app.secret, known = "another", town.app.secret
    for _ in papers:
        item = await town.claim()
        if item is None:
            break
        await town.worker.attempt(item)
    for _ in range(10):
        with pytest.raises(NextcloudUnavailable):
            await town.sweep()
    assert len(town.world.wrong_secrets) < MAX_WRONG_SECRETS / 2
    town.app.secret = known
    await town.house.set_enabled(True)
    town.clock.forward(1000)
    await town.settle()
    assert len((await town.search("alice", QUESTION)).hits) == 1
    assert (await town.registry.progress()).failed == 0


async def test_a_disabled_account_does_not_silence_the_app(town: Town) -> None:
    town.world.disable("bob")
    for _ in range(3):
        assert not await ocs.is_enabled(town.house.nextcloud.as_user("bob"))
    assert await ocs.is_enabled(town.house.nextcloud.as_user("alice"))

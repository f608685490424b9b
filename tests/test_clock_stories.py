# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The machine's clock was ahead for hours, and somebody set it right: nothing waits for hours that came too early."""

from __future__ import annotations

import logging

import pytest
from test_upkeep_stories import HOTELS, QUESTION, watchdog
from town import Town

from ex_app.domain import DocumentKey, Lane

pytestmark = pytest.mark.asyncio(loop_scope="session")

AHEAD_S = 6 * 3600.0


async def test_what_was_written_while_the_clock_was_ahead_is_indexed_once_it_is_right(
    town: Town, caplog: pytest.LogCaptureFixture
) -> None:
    key = DocumentKey.parse(town.write("alice", "/Policies/Lodging.md", HOTELS))
    town.clock.forward(3)
    right = town.clock()
    town.clock.forward(AHEAD_S)
    await town.sweep()
    await town.registry.wishes.add(["carol"])
    town.clock.now = right
    assert await town.claim() is None
    assert await town.registry.wishes.due() == []

    with caplog.at_level(logging.WARNING):
        await watchdog(town).look()
    assert "event=clock_was_ahead" in caplog.text
    assert [wish.user for wish in await town.registry.wishes.due()] == ["carol"]
    await town.work()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]
    row = await town.registry.document(key)
    assert row is not None
    caplog.clear()
    await watchdog(town).look()
    assert "event=clock_was_ahead" not in caplog.text, "all is right now"


async def test_what_was_put_off_while_the_clock_was_ahead_is_tried_when_the_app_starts_again(town: Town) -> None:
    """Of what waits for Nextcloud nothing tells when that began; but somebody looked at the clock then."""
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.clock.forward(3)
    await town.sweep()
    right = town.clock()
    town.clock.forward(AHEAD_S)
    item = await town.claim()
    assert item is not None
    await town.registry.release([item.token], delay=15)
    await watchdog(town).look()
    town.clock.now = right
    await watchdog(town).look()
    await town.work()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]


async def test_generations_go_on_rising_when_the_clock_is_set_back(town: Town) -> None:
    key = DocumentKey.parse(town.write("alice", "/Policies/Lodging.md", HOTELS))
    town.clock.forward(AHEAD_S)
    await town.catch_up()
    before = await town.registry.document(key)
    town.clock.forward(-AHEAD_S / 2)
    town.write("alice", "/Policies/Lodging.md", HOTELS.replace("120", "175"))
    town.clock.forward(3)
    await watchdog(town).look()
    await town.catch_up()
    after = await town.registry.document(key)
    assert before is not None
    assert after is not None
    assert after.live > before.live
    assert "175 euros" in (await town.search("alice", QUESTION))["Lodging.md"]["excerpt"]


async def test_what_a_worker_has_stays_its_own_and_what_a_dead_one_had_is_free_in_minutes(town: Town) -> None:
    key = DocumentKey.parse(town.write("alice", "/Policies/Lodging.md", HOTELS))
    town.clock.forward(AHEAD_S)
    await town.sweep()
    assert await town.claim() is not None
    town.clock.forward(-AHEAD_S)
    await town.registry.enqueue(key, Lane.CONTENT, "alice")
    await watchdog(town).look()
    assert await town.claim() is None
    town.clock.forward(601)
    assert await town.claim() is not None


async def test_a_standstill_is_noticed_though_it_began_before_the_clock_was_set_back(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.clock.forward(AHEAD_S)
    await town.sweep()
    dog = watchdog(town)
    await dog.look()
    town.clock.forward(-AHEAD_S)
    for _ in range(17):
        town.clock.forward(60)
        seen = await dog.look()
    assert seen.since is not None


async def test_a_clock_that_is_set_back_by_seconds_is_as_clocks_are(
    town: Town, caplog: pytest.LogCaptureFixture
) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.clock.forward(3)
    await town.sweep()
    await watchdog(town).look()
    town.clock.forward(-20)
    with caplog.at_level(logging.WARNING):
        await watchdog(town).look()
    assert "event=clock_was_ahead" not in caplog.text

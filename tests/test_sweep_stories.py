# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""How everybody's content is looked at again and again while Nextcloud, people and their homes have bad days."""

from __future__ import annotations

import asyncio

import pytest
from town import Town

from ex_app.domain import NextcloudUnavailable

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

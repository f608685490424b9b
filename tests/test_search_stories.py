# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What people find, and what they are never shown."""

from __future__ import annotations

import pytest
from town import Town

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
BEES = "# Bees\n\nThe two hives gave eleven kilos of honey this summer, most of it from lime blossom."


async def test_a_document_is_found_by_what_it_means_without_a_shared_word(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.write("alice", "/Garden/Bees.md", BEES)
    await town.settle()
    page = await town.search("alice", "hotel price limit for trips")
    assert page.titles[0] == "Lodging.md"
    assert "120 euros" in page["Lodging.md"]["excerpt"]
    assert not page.degraded


async def test_bob_is_not_shown_what_only_alice_may_read(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    assert (await town.search("bob", "hotel price limit for trips")).hits == []


async def test_what_is_shared_is_found_and_what_is_unshared_is_gone_with_the_next_search(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    share = town.world.share("alice", "/Policies", with_user="bob")
    await town.settle()
    before = await town.registry.progress()
    assert (await town.search("bob", "hotel price limit for trips")).titles == ["Lodging.md"]
    town.world.unshare(share)
    assert (await town.search("bob", "hotel price limit for trips")).hits == []
    assert await town.registry.progress() == before

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What is missing of group folders is named and set right, and then found by whom Nextcloud lets read it alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from test_group_folder_stories import HOTELS, PAY, QUESTION, SALARIES, fileid, found, people
from test_upkeep_stories import command
from town import Town

from ex_app.domain import DocumentKey

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVERYBODY = ("alice", "bob", "carol", "erin", "fred")

Harm = Callable[[Town, DocumentKey], Awaitable[None]]


async def forget(town: Town, key: DocumentKey) -> None:
    """The registry lost it, and the index too."""
    await town.registry.hide(key)
    await town.vectors.drop(key)
    assert await town.registry.forget_hidden(town.clock() + 1) == 1


async def hide(town: Town, key: DocumentKey) -> None:
    """The registry takes it for gone."""
    await town.registry.hide(key)
    await town.vectors.drop(key)


async def lose(town: Town, key: DocumentKey) -> None:
    """The index lost it."""
    await town.vectors.drop(key)


HARMS = pytest.mark.parametrize(
    ("harm", "kind"), [(forget, "not_known"), (hide, "not_known"), (lose, "points_missing")]
)


async def repaired(town: Town) -> dict[str, int]:
    """Which differences an admin is told of when he lets them be set right; then all agrees."""
    said = await command(town, "check", "--repair")
    await town.work()
    assert (await command(town, "check")).json["kinds"] == {}
    kinds: dict[str, int] = said.json["kinds"]
    return kinds


@HARMS
async def test_a_file_of_a_group_folder_that_is_missing_is_named_and_found_again(
    town: Town, harm: Harm, kind: str
) -> None:
    people(town, erin=["hr"], fred=["hr"])
    town.world.add_group_folder("Handbook", "staff")
    key = town.write("bob", "/Handbook/Travel/Lodging.md", HOTELS)
    town.write("bob", "/Handbook/Travel/Bees.md", "# Bees\n\nThe two hives gave eleven kilos of honey.")
    await town.settle()
    assert (await command(town, "check")).json["kinds"] == {}
    await harm(town, DocumentKey.parse(key))
    assert await found(town, QUESTION, "alice") == []
    assert await repaired(town) == {kind: 1}
    assert await found(town, QUESTION, *EVERYBODY) == ["alice", "bob"]


@HARMS
@pytest.mark.parametrize("of", ["file", "folder"])
async def test_what_one_group_alone_may_read_is_found_again_by_its_members_and_by_nobody_else(
    town: Town, of: str, harm: Harm, kind: str
) -> None:
    """Given a file, or its folder, that a rule hides from one of two groups, when it is missing in the index, then
    whoever of the other group walks it names it, and the repair shows it to nobody of the first."""
    people(town, erin=["hr"], fred=["hr"])
    town.world.add_group_folder("Handbook", "staff", "hr")
    key = town.write("erin", "/Handbook/People/Pay.md", SALARIES)
    hidden = fileid(key) if of == "file" else town.world.resolve("erin", "/Handbook/People").node.id
    town.world.rule(hidden, "staff", read=False)
    town.world.rule(hidden, "hr", read=True)
    await town.settle()
    assert await found(town, PAY, *EVERYBODY) == ["erin", "fred"]
    assert (await command(town, "check")).json["kinds"] == {}
    await harm(town, DocumentKey.parse(key))
    assert await found(town, PAY, *EVERYBODY) == []
    assert await repaired(town) == {kind: 1}
    assert await found(town, PAY, *EVERYBODY) == ["erin", "fred"]
    row = await town.row(key)
    assert row is not None
    assert row.owner == ""

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Group folders: found by whom Nextcloud lets see it, walked by few, and lost to nobody because a walker is away."""

from __future__ import annotations

import pytest
from town import Town

from demo.tree import NotFoundHere

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
SALARIES = "# Pay bands\n\nA senior baker earns between 52,000 and 61,000 euros a year, reviewed every April."
QUESTION = "hotel price limit for trips"
PAY = "How much does a senior baker earn?"

# Longer than what no ETag tells is believed, of folders and of single files.
A_QUARTER_OF_AN_HOUR_S = 15 * 60
SIX_HOURS_S = 6 * 3600


def people(town: Town, **groups: list[str]) -> None:
    """More people, by name, with the groups that they belong to."""
    for uid, theirs in groups.items():
        town.world.add_user(uid, uid.title(), theirs)


def fileid(key: str) -> int:
    return int(key.partition(":")[2])


async def found(town: Town, question: str, *users: str) -> list[str]:
    """Who of these finds anything, as far as Nextcloud's rules go."""
    return [user for user in users if (await town.search(user, question)).hits]


async def walkers(town: Town, key: str) -> list[str]:
    """Who looks at the folder in which a document lies."""
    row = await town.row(key)
    assert row is not None
    return sorted(await town.registry.walkers("file", row.parent))


async def test_members_find_what_lies_in_a_group_folder_and_others_do_not(town: Town) -> None:
    town.world.add_group_folder("Handbook", "staff")
    key = town.write("bob", "/Handbook/Travel/Lodging.md", HOTELS)
    await town.settle()
    assert await found(town, QUESTION, "alice", "bob", "carol") == ["alice", "bob"]
    row = await town.row(key)
    assert row is not None
    assert (row.owner, row.path) == ("", "Handbook/Travel/Lodging.md")
    assert row.scopes[0] == f"f:{town.world.resolve('alice', '/Handbook').node.id}"


async def test_a_change_by_anybody_is_found_with_the_next_sweep(town: Town) -> None:
    town.world.add_group_folder("Handbook", "staff")
    key = town.write("bob", "/Handbook/Lodging.md", HOTELS)
    await town.settle()
    town.clock.forward(3)
    town.write("bob", "/Handbook/Lodging.md", HOTELS.replace("120", "135"))
    await town.settle()
    assert "135 euros" in (await town.search("alice", QUESTION))["Lodging.md"]["excerpt"]
    town.world.move("bob", "/Handbook/Lodging.md", "/Handbook/Prices.md")
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Prices.md"]
    town.world.delete("bob", "/Handbook/Prices.md")
    await town.settle()
    assert await town.points(key) == []


async def test_a_whole_folder_that_is_deleted_is_gone(town: Town) -> None:
    town.world.add_group_folder("Handbook", "staff")
    key = town.write("bob", "/Handbook/Travel/Lodging.md", HOTELS)
    await town.settle()
    town.world.delete("bob", "/Handbook/Travel")
    await town.settle()
    assert await town.points(key) == []


async def test_one_member_of_each_group_walks_however_many_there_are(town: Town) -> None:
    people(town, **{f"member{number}": ["staff"] for number in range(12)}, erin=["office"], frank=["office"])
    town.world.add_group_folder("Handbook", "staff", "office")
    key = town.write("bob", "/Handbook/Travel/Lodging.md", HOTELS)
    await town.settle()
    assert await walkers(town, key) == ["alice", "erin"]
    town.clock.forward(3)
    town.world.reset_requests()
    town.write("bob", "/Handbook/Travel/Food.md", "# Food\n\nLunch on trips is paid up to 18 euros.")
    await town.settle()
    inside = [request.user for request in town.world.requests if "/Handbook/Travel" in request.path]
    listing = [request for request in town.world.requests if "/Handbook" in request.path and request.method != "GET"]
    assert set(inside) == {"alice", "erin"}
    assert len(listing) == 2 * 2, "each of them lists the changed folder and the one above"


async def test_what_one_group_alone_may_read_is_found_by_it_and_by_nobody_else(town: Town) -> None:
    people(town, erin=["staff", "hr"])
    town.world.add_group_folder("Handbook", "staff")
    key = town.write("alice", "/Handbook/People/Pay.md", SALARIES)
    single = town.write("alice", "/Handbook/Open/Lodging.md", HOTELS)
    folder = town.world.resolve("alice", "/Handbook/People").node.id
    for node in (folder, fileid(single)):
        town.world.rule(node, "staff", read=False)
        town.world.rule(node, "hr", read=True)
    await town.settle()
    assert await found(town, PAY, "alice", "bob", "carol", "erin") == ["erin"]
    assert await found(town, QUESTION, "alice", "bob", "carol", "erin") == ["erin"]
    assert await walkers(town, key) == ["erin"]


async def test_what_one_walker_loses_and_another_still_sees_stays(town: Town) -> None:
    people(town, erin=["hr"])
    town.world.add_group_folder("Handbook", "staff", "hr")
    key = town.write("erin", "/Handbook/People/Pay.md", SALARIES)
    single = town.write("erin", "/Handbook/Lodging.md", HOTELS)
    await town.settle()
    town.world.rule(town.world.resolve("erin", "/Handbook/People").node.id, "staff", read=False)
    town.world.rule(fileid(single), "staff", read=False)
    assert await found(town, PAY, "alice", "erin") == ["erin"], "searching asks Nextcloud"
    town.clock.forward(SIX_HOURS_S)
    await town.settle()
    assert await walkers(town, key) == ["erin"]
    assert len(await town.points(key)) == 1
    assert len(await town.points(single)) == 1
    assert await found(town, QUESTION, "alice", "erin") == ["erin"]


async def test_rules_set_on_a_page_are_noticed_with_the_next_sweep(town: Town) -> None:
    people(town, erin=["staff", "hr"])
    town.world.add_group_folder("Handbook", "staff")
    inside = town.write("alice", "/Handbook/People/Pay.md", SALARIES)
    single = town.write("alice", "/Handbook/Lodging.md", HOTELS)
    folder = town.world.resolve("alice", "/Handbook/People").node.id
    await town.settle()
    for node in (folder, fileid(single)):
        town.world.rule_by_hand(node, "staff", read=False)
    await town.settle()
    assert [await town.points(key) for key in (inside, single)] == [[], []]
    for node in (folder, fileid(single)):
        town.world.rule_by_hand(node, "hr", read=True)
    await town.settle()
    assert await found(town, PAY, "alice", "bob", "erin") == ["erin"]
    assert await found(town, QUESTION, "alice", "bob", "erin") == ["erin"]


async def test_rules_set_by_command_change_no_etag_and_are_noticed_for_folders_soon_and_for_files_later(
    town: Town,
) -> None:
    town.world.add_group_folder("Handbook", "staff")
    inside = town.write("alice", "/Handbook/People/Pay.md", SALARIES)
    single = town.write("alice", "/Handbook/Lodging.md", HOTELS)
    folder = town.world.resolve("alice", "/Handbook/People").node.id
    await town.settle()
    for node in (folder, fileid(single)):
        town.world.rule(node, "staff", read=False)
    town.clock.forward(A_QUARTER_OF_AN_HOUR_S)
    await town.settle()
    assert await town.points(inside) == []
    assert len(await town.points(single)) == 1
    assert await found(town, QUESTION, "alice", "bob") == [], "searching asks Nextcloud"
    town.clock.forward(SIX_HOURS_S)
    await town.settle()
    assert await town.points(single) == []
    for node in (folder, fileid(single)):
        town.world.rule(node, "staff", read=None)
    town.clock.forward(SIX_HOURS_S)
    await town.settle()
    assert await found(town, PAY, "alice", "bob") == ["alice", "bob"]
    assert await found(town, QUESTION, "alice", "bob") == ["alice", "bob"]


@pytest.mark.parametrize("loss", ["leaves the group", "is disabled", "is deleted", "opts out"])
async def test_somebody_else_walks_when_a_walker_is_away_and_nothing_is_read_twice(town: Town, loss: str) -> None:
    town.world.add_group_folder("Handbook", "staff")
    key = town.write("bob", "/Handbook/Lodging.md", HOTELS)
    await town.settle()
    assert await walkers(town, key) == ["alice"]
    town.embedder.read.clear()
    if loss == "leaves the group":
        town.world.leave("alice", "staff")
    elif loss == "is disabled":
        town.world.disable("alice")
    elif loss == "is deleted":
        del town.world.people["alice"]
        town.world.leave("alice", "staff")
    else:
        await town.registry.opt_outs.leave("alice")
    await town.settle()
    assert len(await town.points(key)) == 1
    await town.settle()
    assert await walkers(town, key) == ["bob"]
    assert await found(town, QUESTION, "bob") == ["bob"]
    assert town.embedder.read == []
    town.clock.forward(3)
    town.write("bob", "/Handbook/Lodging.md", HOTELS.replace("120", "135"))
    await town.settle()
    assert "135 euros" in (await town.search("bob", QUESTION))["Lodging.md"]["excerpt"]


async def test_a_folder_taken_from_its_last_group_is_gone_and_comes_back_when_it_is_given_again(town: Town) -> None:
    folder = town.world.add_group_folder("Handbook", "staff")
    key = town.write("alice", "/Handbook/Lodging.md", HOTELS)
    await town.settle()
    town.world.unassign(folder, "staff")
    assert await found(town, QUESTION, "alice", "bob") == []
    for _ in range(3):
        await town.settle()
    assert await town.points(key) == []
    town.world.assign(folder, "staff")
    await town.settle()
    assert len(await town.points(key)) == 1
    await town.registry.bump_epoch()  # what is open to them was asked a moment ago, and is remembered for a minute
    assert await found(town, QUESTION, "alice", "bob") == ["alice", "bob"]


async def test_a_sweep_that_could_not_look_everywhere_concludes_nothing(town: Town) -> None:
    town.world.add_group_folder("Handbook", "staff")
    key = town.write("bob", "/Handbook/Lodging.md", HOTELS)
    await town.settle()
    town.world.leave("alice", "staff")
    heal = town.world.fail(lambda request: request.user == "bob" and request.kind == "dav", status=500)
    for _ in range(3):
        town.clock.forward(3)
        await town.sweep()
    heal()
    await town.work()
    assert len(await town.points(key)) == 1
    await town.settle()
    await town.settle()
    assert await walkers(town, key) == ["bob"]


async def test_who_opted_out_still_finds_and_hides_nothing_of_what_is_everybodys(town: Town) -> None:
    town.world.add_group_folder("Handbook", "staff")
    key = town.write("bob", "/Handbook/Lodging.md", HOTELS)
    own = town.write("bob", "/Lodging.md", HOTELS)
    await town.settle()
    await town.registry.opt_outs.leave("bob")
    await town.settle()
    assert await town.points(own) == []
    assert len(await town.points(key)) == 1
    assert await found(town, QUESTION, "alice", "bob") == ["alice", "bob"]


async def test_a_noindex_file_in_a_group_folder_counts_and_one_in_a_walkers_home_does_not(town: Town) -> None:
    town.world.add_group_folder("Handbook", "staff")
    quiet = town.write("bob", "/Handbook/Drafts/Lodging.md", HOTELS)
    other = town.write("bob", "/Handbook/Travel/Lodging.md", HOTELS)
    town.write("bob", "/Handbook/Drafts/.noindex", "")
    town.write("alice", "/.noindex", "")
    await town.settle()
    assert await walkers(town, other) == ["alice"]
    assert await town.points(quiet) == []
    assert len(await town.points(other)) == 1
    assert await found(town, QUESTION, "alice", "bob") == ["bob"]


async def test_what_is_moved_between_a_home_and_a_group_folder_is_not_read_anew(town: Town) -> None:
    town.world.add_group_folder("Handbook", "staff")
    key = town.write("alice", "/Lodging.md", HOTELS)
    await town.settle()
    town.embedder.read.clear()
    town.world.move("alice", "/Lodging.md", "/Handbook/Lodging.md")
    await town.settle()
    assert await found(town, QUESTION, "alice", "bob") == ["alice", "bob"]
    town.world.move("bob", "/Handbook/Lodging.md", "/Lodging.md")
    await town.settle()
    assert await found(town, QUESTION, "alice", "bob") == ["bob"]
    row = await town.row(key)
    assert row is not None
    assert (row.owner, town.embedder.read) == ("bob", [])


async def test_what_is_shown_within_a_hidden_folder_cannot_be_opened_and_is_not_indexed(town: Town) -> None:
    """Nextcloud finds such files by id, and hands them out to nobody."""
    town.world.add_group_folder("Handbook", "staff")
    key = town.write("alice", "/Handbook/Closed/Open/Lodging.md", HOTELS)
    closed = town.world.resolve("alice", "/Handbook/Closed").node.id
    opened = town.world.resolve("alice", "/Handbook/Closed/Open").node.id
    town.world.rule(closed, "staff", read=False)
    town.world.rule(opened, "staff", read=True)
    with pytest.raises(NotFoundHere):
        town.world.resolve("alice", "/Handbook/Closed/Open/Lodging.md")
    await town.settle()
    assert await town.points(key) == []

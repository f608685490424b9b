# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What somebody does not want to be found leaves the index, stays away, and comes back when it is wanted again."""

from __future__ import annotations

import pytest
from town import Town

from ex_app.domain import DocumentKey, Lane

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
QUESTION = "hotel price limit for trips"

# Longer than what no ETag tells is believed.
A_QUARTER_OF_AN_HOUR_S = 15 * 60


async def is_indexed(town: Town, key: str) -> bool:
    """Whether the index holds anything of it; what is gone has no title left in the registry either."""
    row, points = await town.row(key), await town.points(key)
    assert bool(row and row.title) == bool(points)
    return bool(points)


async def look_again(town: Town) -> None:
    """Nothing happened for a while but what changes no ETag."""
    town.clock.forward(A_QUARTER_OF_AN_HOUR_S)
    await town.settle()


# --- .noindex


async def test_a_noindex_file_takes_its_folder_and_all_below_out_of_the_index(town: Town) -> None:
    above = town.write("alice", "/Work/Rooms.md", HOTELS)
    inside = [town.write("alice", f"/Work/Private/{path}", HOTELS) for path in ("Lodging.md", "deep/er/Lodging.md")]
    await town.settle()
    assert [await is_indexed(town, key) for key in (above, *inside)] == [True, True, True]
    town.write("alice", "/Work/Private/.noindex", "")
    await town.settle()
    assert [await is_indexed(town, key) for key in (above, *inside)] == [True, False, False]
    town.world.delete("alice", "/Work/Private/.noindex")
    await town.settle()
    assert [await is_indexed(town, key) for key in (above, *inside)] == [True, True, True]


async def test_an_owners_noindex_above_a_share_takes_what_was_shared_from_its_readers(town: Town) -> None:
    key = town.write("alice", "/Work/Shared/Lodging.md", HOTELS)
    town.world.share("alice", "/Work/Shared", with_user="bob")
    await town.settle()
    assert (await town.search("bob", QUESTION)).titles == ["Lodging.md"]
    town.write("alice", "/Work/.noindex", "")
    await town.settle()
    assert (await town.search("bob", QUESTION)).hits == []
    assert not await is_indexed(town, key)


async def test_a_readers_noindex_takes_nothing_from_the_owner(town: Town) -> None:
    key = town.write("alice", "/Shared/Lodging.md", HOTELS)
    town.world.share("alice", "/Shared", with_user="bob")
    town.write("bob", "/.noindex", "")
    await town.settle()
    await town.registry.enqueue(DocumentKey.parse(key), Lane.REFRESH, "bob")
    await town.work()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]
    assert (await town.search("bob", QUESTION)).hits == []


@pytest.mark.parametrize("reader", ["alice", "bob"])
@pytest.mark.parametrize("lane", [Lane.CONTENT, Lane.REFRESH])
async def test_neither_an_event_nor_a_reader_brings_back_what_is_left_out(town: Town, reader: str, lane: Lane) -> None:
    key = town.write("alice", "/Work/Shared/Lodging.md", HOTELS)
    town.world.share("alice", "/Work/Shared", with_user="bob")
    town.write("alice", "/Work/.noindex", "")
    await town.settle()
    assert await town.row(key) is None
    await town.registry.enqueue(DocumentKey.parse(key), lane, reader)
    await town.work()
    assert not await is_indexed(town, key)


async def test_what_moves_into_a_folder_that_is_left_out_goes_and_comes_back_when_it_moves_out(town: Town) -> None:
    town.write("alice", "/Quiet/.noindex", "")
    file = town.write("alice", "/Work/Lodging.md", HOTELS)
    folder = town.write("alice", "/Rooms/Prices.md", HOTELS)
    await town.settle()
    town.world.move("alice", "/Work/Lodging.md", "/Quiet/Lodging.md")
    town.world.move("alice", "/Rooms", "/Quiet/Rooms")
    await town.settle()
    assert [await is_indexed(town, key) for key in (file, folder)] == [False, False]
    town.world.move("alice", "/Quiet/Lodging.md", "/Work/Lodging.md")
    town.world.move("alice", "/Quiet/Rooms", "/Rooms")
    await town.settle()
    assert [await is_indexed(town, key) for key in (file, folder)] == [True, True]


async def test_a_folder_left_out_while_its_file_is_being_read_wins(town: Town) -> None:
    key = town.write("alice", "/Work/Lodging.md", HOTELS)
    town.clock.forward(3)
    await town.sweep()
    read = town.worker.extractor

    class Slow:
        async def extract(self, body: bytes, *, title: str, name: str, mime: str) -> object:
            town.write("alice", "/Work/.noindex", "")
            return await read.extract(body, title=title, name=name, mime=mime)

    town.staff(extractor=Slow())
    await town.work()
    assert await town.points(key) == []


# --- tags


@pytest.mark.town(excluded_tags="Confidential")
async def test_a_tag_on_a_file_changes_no_etag_and_is_noticed_within_a_quarter_of_an_hour(town: Town) -> None:
    tagged = town.write("alice", "/Work/Lodging.md", HOTELS)
    beside = town.write("alice", "/Work/Rooms.md", HOTELS)
    await town.settle()
    town.world.tag(int(tagged.partition(":")[2]), "Confidential", "other")
    await look_again(town)
    assert [await is_indexed(town, key) for key in (tagged, beside)] == [False, True]
    town.world.untag(int(tagged.partition(":")[2]), "Confidential")
    await look_again(town)
    assert [await is_indexed(town, key) for key in (tagged, beside)] == [True, True]


@pytest.mark.town(excluded_tags="Confidential")
async def test_a_tag_on_a_folder_takes_everything_below_it_out(town: Town) -> None:
    key = town.write("alice", "/Work/Deep/Lodging.md", HOTELS)
    await town.settle()
    folder = town.world.resolve("alice", "/Work").node.id
    town.world.tag(folder, "Confidential")
    await look_again(town)
    assert not await is_indexed(town, key)
    await town.registry.enqueue(DocumentKey.parse(key), Lane.BACKFILL, "alice")
    await town.work()
    assert not await is_indexed(town, key)
    town.world.untag(folder, "Confidential")
    await look_again(town)
    assert await is_indexed(town, key)


@pytest.mark.town(excluded_tags="Confidential, Private")
async def test_looking_for_tags_costs_a_few_requests_a_quarter_of_an_hour_and_one_else(town: Town) -> None:
    tagged = town.write("alice", "/Work/Lodging.md", HOTELS)
    town.world.tag(int(tagged.partition(":")[2]), "Confidential", "Private", "other")
    await town.settle()
    await town.settle()
    town.world.reset_requests()
    await town.settle()
    assert town.world.count(user="alice", kind="dav") == 1
    town.world.reset_requests()
    await look_again(town)
    assert town.world.count(user="alice", kind="dav") == 1 + 2 + 3  # what is there, the tags, and what carries each


# --- what an admin leaves out


@pytest.mark.town(excluded_paths="Backup/**, *.bak.md, tmp/", excluded_types="text/csv, image/")
async def test_paths_and_types_of_an_admins_choice_never_get_into_the_index(town: Town) -> None:
    out = [
        "/Backup/Lodging.md",
        "/Backup/deep/Lodging.md",
        "/Work/Lodging.bak.md",
        "/Work/tmp/a.md",
        "/Work/Prices.csv",
    ]
    kept = ["/Work/Backup/Lodging.md", "/Work/Lodging.md", "/Work/tmp.md"]
    keys = {path: town.write("alice", path, HOTELS) for path in (*out, *kept)}
    await town.settle()
    for key in keys.values():
        await town.registry.enqueue(DocumentKey.parse(key), Lane.CONTENT, "alice")
    await town.work()
    assert {path for path, key in keys.items() if await town.points(key)} == set(kept)


async def test_other_rules_are_applied_after_a_restart_though_nothing_changed_in_nextcloud(town: Town) -> None:
    backup = town.write("alice", "/Backup/Lodging.md", HOTELS)
    table = town.write("alice", "/Work/Prices.csv", HOTELS)
    await town.settle()
    assert [await is_indexed(town, key) for key in (backup, table)] == [True, True]
    await town.restart_with(excluded_paths="Backup/", excluded_types="text/csv")
    await town.settle()
    assert [await is_indexed(town, key) for key in (backup, table)] == [False, False]
    await town.restart_with(excluded_types="text/csv")
    await town.settle()
    assert [await is_indexed(town, key) for key in (backup, table)] == [True, False]


# --- what is of no use


async def test_end_to_end_encrypted_folders_are_not_looked_into(town: Town) -> None:
    key = town.write("alice", "/Vault/deep/0a1b2c3d", HOTELS)
    await town.settle()
    town.world.resolve("alice", "/Vault").node.encrypted = True
    town.write("alice", "/Vault/other", HOTELS)
    await town.settle()
    await town.registry.enqueue(DocumentKey.parse(key), Lane.BACKFILL, "alice")
    await town.work()
    assert not await is_indexed(town, key)

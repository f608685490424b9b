# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""External storages: left out unless an admin wants them, then found by whoever has them; away is not deleted."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from test_group_folder_stories import found, walkers
from town import Town

from ex_app.domain import DocumentKey, Refused
from ex_app.sources.file import FileSource

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
CLIENTS = "# Clients\n\nThe harbour office ordered forty loaves of rye bread for its summer party."
QUESTION = "hotel price limit for trips"
PARTY = "bread for a celebration"
A_QUARTER_OF_AN_HOUR_S = 15 * 60
SIX_HOURS_S = 6 * 3600

# Nobody remembers what is open to a user: what he gets is found with the next search, not a minute later.
wanted = pytest.mark.town(index_external=True, reach_ttl_s=0.0)


def mounted(town: Town, *users: str, name: str = "Archive", groups: Iterable[str] = ()) -> int:
    """A storage of these people with one document; the id of its root."""
    root = town.world.add_external(name, users=users, groups=groups)
    town.world.storage(root).users.add("admin")
    town.write("admin", f"/{name}/Travel/Lodging.md", HOTELS)
    town.world.storage(root).users.discard("admin")
    return root


def lodging(town: Town, user: str) -> str:
    return f"file:{town.world.resolve(user, '/Archive/Travel/Lodging.md').node.id}"


# --- off, as it comes


async def test_by_default_nothing_of_it_is_found_or_read(town: Town) -> None:
    mounted(town, "alice", "bob")
    key = lodging(town, "alice")
    town.world.reset_requests()
    await town.settle()
    assert await found(town, QUESTION, "alice", "bob", "carol") == []
    assert await town.row(key) is None
    assert not [request for request in town.world.requests if "/Archive" in request.path]
    assert not [request for request in town.world.requests if "files_external" in request.path]


async def test_by_default_what_nextcloud_tells_of_it_is_not_read_either(town: Town) -> None:
    await town.listen()
    mounted(town, "alice", "bob")
    town.write("alice", "/Archive/Clients.md", CLIENTS)
    await town.react()
    assert await found(town, PARTY, "alice", "bob") == []
    assert not [request for request in town.world.requests if request.method == "GET" and "/Archive" in request.path]


# --- on


@wanted
async def test_all_who_have_it_find_it_and_nobody_else(town: Town) -> None:
    root = mounted(town, "alice", "bob")
    await town.settle()
    assert await found(town, QUESTION, "alice", "bob", "carol") == ["alice", "bob"]
    row = await town.row(lodging(town, "alice"))
    assert row is not None
    assert (row.owner, row.path, row.scopes[0]) == ("", "Archive/Travel/Lodging.md", f"f:{root}")
    town.world.storage(root).users.add("carol")
    assert await found(town, QUESTION, "carol") == ["carol"], "nothing has to be read again for her"


@wanted
async def test_one_of_each_group_walks_it(town: Town) -> None:
    mounted(town, "alice", "bob", "carol")
    await town.settle()
    assert await walkers(town, lodging(town, "alice")) == ["alice", "carol"]


@wanted
async def test_it_is_given_to_a_group_and_taken_back(town: Town) -> None:
    root = mounted(town, groups=["staff"])
    key = lodging(town, "alice")
    await town.settle()
    assert await found(town, QUESTION, "alice", "bob", "carol") == ["alice", "bob"]
    town.world.leave("alice", "staff")
    assert await found(town, QUESTION, "alice", "bob") == ["bob"]
    town.world.storage(root).groups.clear()
    assert await found(town, QUESTION, "bob") == []
    await town.settle()
    await town.settle()
    assert await town.points(key) == [], "nobody has it any more"


@wanted
async def test_changes_made_through_nextcloud_are_followed(town: Town) -> None:
    mounted(town, "alice", "bob")
    await town.settle()
    town.clock.forward(3)
    town.write("bob", "/Archive/Travel/Lodging.md", HOTELS.replace("120", "135"))
    await town.settle()
    assert "135 euros" in (await town.search("alice", QUESTION))["Lodging.md"]["excerpt"]
    key = lodging(town, "bob")
    town.world.delete("bob", "/Archive/Travel")
    await town.settle()
    assert await town.points(key) == []


@wanted
async def test_somebodys_own_storage_is_found_by_him_alone(town: Town) -> None:
    mounted(town, "carol")
    await town.settle()
    assert await found(town, QUESTION, "alice", "bob", "carol") == ["carol"]


@wanted
async def test_a_noindex_file_on_it_counts_for_all(town: Town) -> None:
    mounted(town, "alice", "bob")
    key = lodging(town, "alice")
    await town.settle()
    town.write("bob", "/Archive/Travel/.noindex", "")
    assert await found(town, QUESTION, "alice", "bob") == []
    await town.settle()
    assert await town.points(key) == []


# --- away


@wanted
async def test_a_storage_that_goes_away_loses_nothing(town: Town) -> None:
    root = mounted(town, "alice", "bob")
    town.write("alice", "/Own.md", CLIENTS)
    await town.settle()
    key = lodging(town, "alice")
    town.world.storage(root).away = True
    assert await found(town, QUESTION, "alice", "bob") == [], "Nextcloud grants nothing of it"
    for pause in (3, A_QUARTER_OF_AN_HOUR_S, SIX_HOURS_S, SIX_HOURS_S):
        town.clock.forward(pause)
        await town.settle()
    town.write("alice", "/Own.md", CLIENTS.replace("forty", "ninety"))
    await town.settle()
    assert "ninety" in str(await town.search("alice", PARTY)), "her own files are followed meanwhile"
    assert len(await town.points(key)) == 1
    assert await walkers(town, key) == ["alice"]
    town.world.storage(root).away = False
    town.embedder.read.clear()
    assert await found(town, QUESTION, "alice", "bob") == ["alice", "bob"]
    await town.settle()
    assert town.embedder.read == [], "nothing had to be read again"


@wanted
async def test_what_was_to_be_read_when_it_went_away_is_read_later(town: Town) -> None:
    root = mounted(town, "alice", "bob")
    await town.settle()
    town.clock.forward(3)
    for name in ("Clients", "Guests", "Visitors"):
        town.write("bob", f"/Archive/{name}.md", CLIENTS.replace("Clients", name))
    await town.sweep()
    town.world.storage(root).dead = True
    for _ in range(2):  # Nextcloud notices it with the first of these
        await town.work()
    assert await found(town, QUESTION, "alice") == []
    town.world.storage(root).dead = town.world.storage(root).away = False
    town.clock.forward(SIX_HOURS_S)
    await town.work()
    for name in ("Clients", "Guests", "Visitors"):
        node = town.world.resolve("alice", f"/Archive/{name}.md").node
        assert len(await town.points(f"file:{node.id}")) == 1
    assert await found(town, PARTY, "alice", "bob") == ["alice", "bob"]
    assert await found(town, QUESTION, "alice", "bob") == ["alice", "bob"]


@wanted
async def test_its_death_in_the_middle_of_a_walk_concludes_nothing(town: Town) -> None:
    root = mounted(town, "alice", "bob")
    await town.settle()
    key = lodging(town, "alice")
    town.world.storage(root).dead = True
    for _ in range(3):
        town.clock.forward(SIX_HOURS_S)
        await town.settle()
    assert len(await town.points(key)) == 1


@wanted
async def test_what_is_gone_from_a_home_goes_although_a_storage_is_away(town: Town) -> None:
    root = mounted(town, "alice", "bob")
    key = town.write("alice", "/Plans/Own.md", CLIENTS)
    await town.settle()
    town.world.storage(root).away = True
    town.world.delete("alice", "/Plans/Own.md")
    await town.settle()
    assert await town.points(key) == []


# --- off again


@wanted
async def test_switched_off_it_is_hidden_at_once(town: Town) -> None:
    mounted(town, "alice", "bob")
    await town.settle()
    key, session = DocumentKey.parse(lodging(town, "alice")), town.house.nextcloud.as_user("alice")
    row = await town.row(str(key))
    assert row is not None
    off = FileSource()
    assert (await off.verify(session, {key: row.scopes}))[key] is Refused.DENIED
    assert row.scopes[0] not in (await off.reach(session)).scopes


@wanted
async def test_switched_off_it_leaves_the_index_and_switched_on_it_comes_back(town: Town) -> None:
    mounted(town, "alice", "bob")
    own = town.write("alice", "/Own.md", CLIENTS)
    await town.settle()
    key = lodging(town, "alice")
    await town.restart_with(index_external=False)
    await town.settle()
    assert await town.points(key) == []
    assert await found(town, QUESTION, "alice", "bob") == []
    assert len(await town.points(own)) == 1
    await town.restart_with(index_external=True)
    await town.settle()
    assert await found(town, QUESTION, "alice", "bob") == ["alice", "bob"]

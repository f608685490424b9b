# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""A walk is killed half-way, and what it had begun to tell is taken back or goes on."""

from __future__ import annotations

from typing import Any

import pytest
from town import Town

from ex_app.domain import DocumentKey, Lane
from ex_app.store.documents import Status
from ex_app.store.registry import Registry

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nA night in a hotel may cost 120 euros."


class Killed(BaseException):
    """As sudden as kill -9: nobody catches it."""


async def test_a_new_folder_is_remembered_before_anything_in_it_is_read(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a walk that dies once it has queued a new folder's files, when they are read and the folder is deleted
    before the next walk, then that walk misses the folder."""
    key = town.write("alice", "/New/Lodging.md", HOTELS)
    town.clock.forward(60)  # it is settled: nobody reads it again on account of its age
    place_many = Registry.place_many

    async def die(registry: Registry, sightings: Any) -> None:
        await place_many(registry, sightings)
        if sightings:
            raise Killed

    monkeypatch.setattr(Registry, "place_many", die)
    with pytest.raises(Killed):
        await town.sweep()
    monkeypatch.undo()
    await town.work()
    assert await town.points(key)
    town.world.delete("alice", "/New")
    await town.restart()
    await town.settle()
    assert await town.points(key) == []
    row = await town.row(key)
    assert row is not None
    assert row.status is Status.HIDDEN


async def test_what_was_read_in_a_folder_that_no_walk_ever_saw_is_missed_with_it(town: Town) -> None:
    """Given a file that is read just after it was moved into a new folder, when that folder is deleted before the next
    walk, then the walk after it takes the file out."""
    key = town.write("alice", "/Papers/Lodging.md", HOTELS)
    await town.settle()
    town.world.mkdir("alice", "/New")
    town.world.move("alice", "/Papers/Lodging.md", "/New/Lodging.md")
    await town.registry.enqueue(DocumentKey.parse(key), Lane.CONTENT, "alice")
    await town.work()
    town.world.delete("alice", "/New")
    town.clock.forward(60)
    await town.settle()
    assert await town.points(key) == []


async def test_what_was_read_in_a_folder_that_is_left_out_is_taken_out(town: Town) -> None:
    key = town.write("alice", "/Papers/Lodging.md", HOTELS)
    town.write("alice", "/Private/.noindex", "")
    await town.settle()
    town.world.move("alice", "/Papers/Lodging.md", "/Private/Lodging.md")
    await town.registry.enqueue(DocumentKey.parse(key), Lane.CONTENT, "alice")
    await town.work()
    town.clock.forward(60)
    await town.settle()
    assert await town.points(key) == []


async def test_what_was_read_in_a_folder_that_is_new_stays(town: Town) -> None:
    key = town.write("alice", "/Papers/Lodging.md", HOTELS)
    await town.settle()
    town.world.mkdir("alice", "/New")
    town.world.move("alice", "/Papers/Lodging.md", "/New/Lodging.md")
    await town.registry.enqueue(DocumentKey.parse(key), Lane.CONTENT, "alice")
    await town.work()
    await town.settle()
    row = await town.row(key)
    assert row is not None
    assert (row.status, row.path) == (Status.CURRENT, "New/Lodging.md")
    assert (await town.search("alice", "what may a hotel cost?")).titles == ["Lodging.md"]

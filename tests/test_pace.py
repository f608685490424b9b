# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Comparing everybody's content takes 5 % of one core of Nextcloud's at most, whatever there is to look at."""

from __future__ import annotations

import asyncio
from itertools import product

import pytest
from town import Town

from ex_app.index import pace
from ex_app.index.group_folders import LOOK_AGAIN_S, LOOK_FULLY_S
from ex_app.index.pace import Load, seconds_between

REQUEST_S = 0.05 / 3  # of one core: see pace
TWO_MINUTES = 120.0


def share_taken(load: Load, pause: float) -> float:
    """Of one core, on average, by sweeps that are so far apart."""
    each_sweep = 3 * load.users
    each_look = 2 * load.walkers + (load.users * (3 + load.tags) if load.tags else 0)
    each_full_look = load.folders
    looked = each_look / max(pause, LOOK_AGAIN_S) + each_full_look / max(pause, LOOK_FULLY_S)
    return (each_sweep / pause + looked) * REQUEST_S


def test_few_people_are_compared_every_two_minutes_and_many_once_a_second_each() -> None:
    assert seconds_between(Load(users=100), shortest=TWO_MINUTES) == TWO_MINUTES
    assert seconds_between(Load(users=1000), shortest=TWO_MINUTES) == pytest.approx(1000)


def test_whatever_there_is_to_look_at_the_share_is_kept_and_used() -> None:
    for users, tags, walkers, folders in product((10, 130, 800, 5_000, 50_000), (0, 1, 6), (0, 5, 400), (0, 20_000)):
        load = Load(users, tags, walkers, folders)
        pause = seconds_between(load, shortest=TWO_MINUTES)
        assert share_taken(load, pause) <= 0.05 * 1.001, load
        assert pause == TWO_MINUTES or share_taken(load, pause) > 0.05 * 0.7, f"{load} waits longer than it has to"


def test_so_many_folders_that_they_alone_take_the_share_do_not_stop_the_sweeps() -> None:
    assert seconds_between(Load(users=200, walkers=5, folders=10_000_000), shortest=TWO_MINUTES) < 600


@pytest.mark.asyncio(loop_scope="session")
async def test_what_is_counted_is_what_a_sweep_asks(town: Town) -> None:
    """Given people with a group folder that three groups see, when nothing changes, then an ordinary sweep asks three
    requests a user, one after a quarter of an hour two more for each walker, one after six hours each folder of theirs
    besides, and one more in all: who there is."""
    for uid, group in (("erin", "hr"), ("fred", "hr"), ("gina", "board"), ("hugo", "board")):
        town.world.add_user(uid, uid.title(), [group])
    town.world.add_group_folder("Handbook", "staff", "hr", "board")
    town.write("alice", "/Handbook/Travel/Lodging.md", "# Lodging\n\nAt most 120 euros per night.")
    town.write("alice", "/Handbook/People/Pay.md", "# Pay\n\nA baker earns 52,000 euros.")
    for _ in range(2):
        await town.settle()
    users = len(town.world.people)
    walkers, folders = await town.registry.upkeep.walked("group_folder", "file")
    assert (users, walkers) == (8, 3)
    assert folders >= walkers * 3, "the group folder and two in it"

    async def requests_of_a_sweep() -> int:
        town.world.reset_requests()
        await town.sweep()
        return town.world.count() - 1

    assert await requests_of_a_sweep() == 3 * users
    town.clock.forward(LOOK_AGAIN_S)
    assert await requests_of_a_sweep() == 3 * users + 2 * walkers
    town.clock.forward(LOOK_FULLY_S)
    assert 3 * users + 2 * walkers < await requests_of_a_sweep() <= 3 * users + 2 * walkers + folders


@pytest.mark.asyncio(loop_scope="session")
async def test_what_is_counted_with_tags_is_what_a_sweep_asks(town: Town) -> None:
    key = town.write("alice", "/Drafts/Lodging.md", "# Lodging\n\nAt most 120 euros per night.")
    for name in ("draft", "secret"):
        town.world.tag(int(key.partition(":")[2]), name)
    await town.restart_with(excluded_tags="draft, secret")
    for _ in range(2):
        await town.settle()
    users = len(town.world.people)
    town.clock.forward(LOOK_AGAIN_S)
    town.world.reset_requests()
    await town.sweep()
    assert town.world.count() - 1 == users * (3 + 3 + 2)


@pytest.mark.asyncio(loop_scope="session")
async def test_the_registry_knows_the_walkers_and_the_sweep_waits_for_them(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    town.world.add_group_folder("Handbook", "staff")
    await town.settle()
    users = len(town.world.people)
    walking = await pace.pause(town.registry, users=users, tags=0, shortest=0.0)
    assert walking > seconds_between(Load(users), shortest=0.0)
    assert await pace.pause(town.registry, users=users, tags=2, shortest=0.0) > walking

    waited: list[float] = []
    stop = asyncio.Event()

    async def attend(*_: object, seconds: float) -> None:
        waited.append(seconds)
        stop.set()

    monkeypatch.setattr("ex_app.index.reconcile.attend", attend)
    await town.indexing.reconciler.run(stop, interval=0.01, tags=2)
    assert waited == [await pace.pause(town.registry, users=users, tags=2, shortest=0.0)]

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The table of steps at which `make crash` lets processes die: nothing that the write path writes is missing in it."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from crash_steps import HARMLESS, RENAMING, STEPS
from test_write_stories import BEES, HOTELS, Interrupted
from town import Town

from ex_app.index.wishes import grant_wishes
from ex_app.store.opt_out import OptOuts
from ex_app.store.registry import Registry
from ex_app.store.vectors import Vectors
from ex_app.store.wishes import Wishes

# They change nothing: to die there is to die before the next step.
READING = {
    "OptOuts.among",
    "OptOuts.everybody",
    "OptOuts.returned",
    "Registry.by_parent",
    "Registry.containers",
    "Registry.document",
    "Registry.everybody",
    "Registry.get_setting",
    "Registry.live",
    "Registry.owned",
    "Registry.progress",
    "Registry.pulse",
    "Registry.taken",
    "Registry.unwalked",
    "Registry.walkers",
    "Wishes.due",
}


@contextmanager
def listening_to(*owners: type) -> Iterator[set[str]]:
    """The names of all coroutines of these classes that are called while the block lasts."""
    called: set[str] = set()

    def noted(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **more: Any) -> Any:
            called.add(name)
            return await method(*args, **more)

        return call

    with ExitStack() as stack:
        for owner in owners:
            for name, method in vars(owner).items():
                if inspect.iscoroutinefunction(method) and not name.startswith("_"):
                    stack.enter_context(patch.object(owner, name, noted(f"{owner.__name__}.{name}", method)))
        yield called


def test_every_step_is_a_coroutine_of_the_product() -> None:
    for step in STEPS:
        owner = getattr(importlib.import_module(step.module), step.owner)
        assert inspect.iscoroutinefunction(getattr(owner, step.method)), step.name
    assert len({step.name for step in STEPS}) == len(STEPS)


@pytest.mark.asyncio(loop_scope="session")
async def test_whatever_is_written_on_a_documents_way_is_a_step_at_which_processes_die(town: Town) -> None:
    """Given files and a card that are written, edited, renamed, moved with their folder, touched, left out and deleted,
    when Nextcloud tells of it, everybody is compared and a lease is lost, then every call that changes registry or
    index is in the table."""
    await town.listen()
    with listening_to(Registry, Vectors, Wishes, OptOuts) as called:
        town.write("alice", "/Policies/Lodging.md", HOTELS)
        town.write("alice", "/Garden/Bees.md", BEES)
        board = town.world.add_board("alice", "Travel")
        card = town.world.add_card(board, "Lodging", description=HOTELS)
        await town.catch_up()  # too young to be settled
        await town.react()
        await town.settle()
        town.write("alice", "/Policies/Lodging.md", HOTELS.replace("120", "130"))
        town.world.move("alice", "/Garden", "/Policies/Garden")
        town.world.edit_card(card, title="Lodging 2")
        await town.react()
        await town.settle()
        town.world.move("alice", "/Policies/Lodging.md", "/Policies/Hotels.md")
        town.write("alice", "/Policies/Garden/Bees.md", BEES)
        await town.settle()
        town.write("alice", "/Policies/Garden/.noindex", "")
        await town.settle()
        town.world.delete("alice", "/Policies/Garden/.noindex")
        await lose_a_lease(town)
        town.world.delete("alice", "/Policies/Garden")
        town.world.delete_card(card)
        await town.react()
        await town.settle()
        await grant_wishes(town.registry, town.indexing.reconciler.visit, asyncio.Event())
    steps = {step.name for step in STEPS}
    assert called - READING - HARMLESS <= steps
    ours = {name for name in steps if name.partition(".")[0] in ("Registry", "Vectors", "Wishes")}
    assert ours - called <= {"Wishes.add", "Wishes.grant"}  # a new folder whose files are met before it is


async def lose_a_lease(town: Town) -> None:
    """Somebody works on a document for too long."""

    async def too_long() -> None:
        town.clock.forward(town.settings.lease_s + 1)
        await town.claim()

    town.write("alice", "/Policies/Slow.md", HOTELS.replace("120", "145"))
    town.clock.forward(3)
    await town.sweep()
    town.staff(embedder=Interrupted(town, too_long))
    await town.work()
    town.staff(embedder=town.embedder)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_rename_goes_through_the_steps_that_are_ordered_while_nothing_else_is_to_be_done(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    town.embedder.read.clear()
    town.world.move("alice", "/Policies/Lodging.md", "/Policies/Hotels.md")
    with listening_to(Registry, Vectors) as called:
        await town.settle()
    assert town.embedder.read == []
    assert called >= RENAMING
    assert {step.name for step in STEPS} >= RENAMING

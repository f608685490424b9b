# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Hostile moments of the write path: what is deleted, overwritten or taken away just when nobody looks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from test_external_stories import lodging, mounted, wanted
from test_rename_stories import words_found
from test_upkeep_stories import command
from test_write_stories import Interrupted
from town import Town

from ex_app.domain import DocumentKey, Point, Sparse
from ex_app.index.drift import Drift, Kind
from ex_app.store.documents import DocumentRow, Status

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
DEARER = HOTELS.replace("120", "175")
BEES = "# Bees\n\nThe two hives gave eleven kilos of honey this summer, most of it from lime blossom."
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(64)
QUESTION = "hotel price limit for trips"

# The time that a client says a file was written, with each upload the same.
LONG_AGO = 1_700_000_000


@pytest_asyncio.fixture(loop_scope="session")
async def alert(town: Town) -> AsyncIterator[Town]:
    """A town with a folder of Alice's and one of Bob's that she may write in, whose Nextcloud tells of everything."""
    town.world.mkdir("alice", "/Policies")
    town.world.mkdir("bob", "/Mine")
    town.world.share("bob", "/Mine", with_user="alice", permissions=31)
    await town.settle()
    town.webhooks.newer = True
    await town.listen()
    yield town


async def row_of(town: Town, key: str) -> DocumentRow:
    row = await town.row(key)
    assert row is not None
    return row


async def days_pass(town: Town) -> None:
    """Long enough for everything that is looked at now and then."""
    for _ in range(3):
        town.clock.forward(7 * 3600)
        await town.settle()


class Meanwhile:
    """An index; when points were written for the first time, and before they are live, something else happens."""

    def __init__(self, inner: Any, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._inner = inner
        self._meanwhile: Callable[[], Awaitable[None]] | None = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def write(self, points: Any) -> None:
        await self._inner.write(points)
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            await meanwhile()


# --- Overwritten so that no version tells


async def test_what_came_out_of_the_trash_and_is_overwritten_under_its_old_time_is_read(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS, via="dav", mtime=LONG_AGO)
    await town.settle()
    town.world.delete("alice", "/Policies/Lodging.md")
    await town.settle()
    town.world.restore("alice", "/Policies/Lodging.md", DocumentKey.parse(key).id)
    await town.settle()
    town.clock.forward(60)
    town.write("alice", "/Policies/Lodging.md", DEARER, via="dav", mtime=LONG_AGO)
    await town.settle()
    assert "175 euros" in (await town.search("alice", QUESTION))["Lodging.md"]["excerpt"]


async def test_what_was_heard_of_and_is_overwritten_under_its_old_time_before_any_listing_is_read(alert: Town) -> None:
    alert.write("alice", "/Policies/Lodging.md", HOTELS, via="dav", mtime=LONG_AGO)
    await alert.react()
    alert.clock.forward(60)
    alert.write("alice", "/Policies/Lodging.md", DEARER, via="dav", mtime=LONG_AGO)
    alert.webhooks.take()  # this event is lost
    await alert.settle()
    assert "175 euros" in (await alert.search("alice", QUESTION))["Lodging.md"]["excerpt"]


async def test_what_was_heard_of_and_written_at_its_true_time_is_not_downloaded_for_its_first_listing(
    alert: Town,
) -> None:
    alert.write("alice", "/Policies/Lodging.md", HOTELS, via="dav")
    await alert.react()
    alert.world.reset_requests()
    await alert.settle()
    assert alert.world.count(method="GET", kind="dav") == 0


# --- Deleted while nobody looks


@pytest.mark.town(max_file_mb=1)
@pytest.mark.parametrize(
    ("name", "body"), [("Lodging.md", HOTELS.encode()), ("Sunrise.png", PICTURE), ("Huge.md", b"x " * 600_000)]
)
async def test_what_is_deleted_while_it_is_read_for_the_first_time_goes_though_no_event_tells(
    alert: Town, name: str, body: bytes
) -> None:
    """No walk ever saw it, so that no walk misses it."""
    key = alert.write("alice", f"/Policies/{name}", body)
    alert.clock.forward(3)

    async def delete() -> None:
        alert.world.delete("alice", f"/Policies/{name}")
        alert.webhooks.take()
        await alert.sweep()

    await alert.hear()
    alert.staff(embedder=Interrupted(alert, delete))
    await alert.work()
    await days_pass(alert)
    assert (await row_of(alert, key)).status is Status.HIDDEN
    assert await alert.points(key) == []


async def test_an_erased_document_stays_away_wherever_it_goes(alert: Town) -> None:
    key = alert.write("alice", "/Policies/Lodging.md", HOTELS)
    await alert.react()
    await command(alert, "erase", key)
    steps: list[Callable[[], Any]] = [
        lambda: alert.world.move("alice", "/Policies/Lodging.md", "/Policies/Beds.md"),
        lambda: alert.write("alice", "/Policies/Beds.md", DEARER),
        lambda: alert.world.move("alice", "/Policies/Beds.md", "/Mine/Beds.md"),
        lambda: alert.world.delete("bob", "/Mine/Beds.md"),
        lambda: alert.world.restore("bob", "/Mine/Beds.md", DocumentKey.parse(key).id),
    ]
    for step in steps:
        step()
        await alert.react()
        await alert.settle()
    await command(alert, "check", "--repair")
    alert.clock.forward(8 * 24 * 3600)
    await alert.settle()
    row = await row_of(alert, key)
    assert (row.status, row.title, row.path, row.owner) == (Status.ERASED, "", "", "")
    assert await alert.points(key) == []


# --- Repairing beside the worker


async def test_repairing_takes_nothing_from_a_worker_who_is_about_to_publish(town: Town) -> None:
    """Given passages of a writer who died, when they are taken away just as an edit was written, the edit stays."""
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    await leave_over(town, key)
    drift = Drift(town.house.nextcloud, town.house.sources, town.registry, town.vectors)
    (left,) = [difference async for difference in drift.differences()]
    assert left.kind is Kind.POINTS_LEFT_OVER
    town.write("alice", "/Policies/Lodging.md", DEARER)
    town.clock.forward(3)
    await town.sweep()
    town.staff(vectors=Meanwhile(town.vectors, lambda: drift.mend(left)))
    await town.work()
    assert [point.generation for point in await town.points(key)] == [(await row_of(town, key)).live]
    assert "175 euros" in (await town.search("alice", QUESTION))["Lodging.md"]["excerpt"]


async def leave_over(town: Town, key: str) -> None:
    """A passage of an early generation."""
    row = await row_of(town, key)
    held, *_ = await town.vectors.passages_of(row.key, row.live)
    place: dict[str, Any] = {name: getattr(row, name) for name in ("scopes", "title", "path", "mtime", "owner")}
    await town.vectors.write([Point(row.key, 1, held.chunk, held.text_hash, held.dense, Sparse((), ()), **place)])


# --- External storages that are away


@wanted
async def test_everything_else_is_repaired_while_a_storage_is_away(town: Town) -> None:
    root = mounted(town, "alice", "bob")
    own = town.write("carol", "/Own.md", BEES)
    await town.settle()
    key = lodging(town, "alice")
    town.world.storage(root).away = True
    await town.vectors.drop(DocumentKey.parse(own))
    assert (await command(town, "check", "--repair")).json["kinds"] == {"points_missing": 1}
    await town.work()
    assert len(await town.points(own)) == len(await town.points(key)) == 1


@wanted
async def test_sweeps_come_to_their_end_while_the_newest_file_lies_on_a_storage_that_is_away(town: Town) -> None:
    """An old file that appears for the first time raises a suspicion, which only the newest one could dispel."""
    key = town.write("carol", "/Quiet/Bees.md", BEES)
    town.write("carol", "/Quiet/.noindex", "")
    root = mounted(town, "alice", "bob")
    await town.settle()
    await town.settle()
    newest = lodging(town, "alice")
    town.world.storage(root).away = True
    town.world.move("carol", "/Quiet/Bees.md", "/Bees.md")
    await town.settle()
    assert len(await town.points(key)) == len(await town.points(newest)) == 1


# --- Names and places that change hands


async def test_two_files_that_swap_their_names_keep_their_texts(alert: Town) -> None:
    one = alert.write("alice", "/Policies/Lodging.md", HOTELS)
    other = alert.write("alice", "/Policies/Apiary.md", BEES)
    await alert.react()
    for before, after in (("Lodging", "x"), ("Apiary", "Lodging"), ("x", "Apiary")):
        alert.world.move("alice", f"/Policies/{before}.md", f"/Policies/{after}.md")
    await alert.react()
    assert await words_found(alert, "alice", "Apiary") == {one}
    assert await words_found(alert, "alice", "blossom") == {other}
    assert (await alert.search("alice", QUESTION)).hits[0]["ref"] == one


async def test_a_text_that_becomes_a_picture_while_its_last_rename_is_written_is_found_by_its_last_name(
    alert: Town,
) -> None:
    key = alert.write("alice", "/Policies/Apiary.md", BEES)
    await alert.react()
    alert.world.move("alice", "/Policies/Apiary.md", "/Policies/Lighthouse.md")
    alert.clock.forward(3)
    await alert.hear()

    async def rename() -> None:
        alert.world.move("alice", "/Policies/Lighthouse.md", "/Policies/Quillfeather.png")
        alert.webhooks.take()

    alert.staff(vectors=Meanwhile(alert.vectors, rename))
    await alert.work()
    await alert.react()
    assert await words_found(alert, "alice", "Lighthouse") == set()
    assert await words_found(alert, "alice", "blossom") == set()
    assert await words_found(alert, "alice", "Quillfeather") == {key}


async def test_a_walker_who_loses_a_group_folder_in_the_middle_of_his_walk_takes_it_from_nobody(town: Town) -> None:
    town.world.add_group_folder("Handbook", "staff")
    key = town.write("bob", "/Handbook/Travel/Lodging.md", HOTELS)
    await town.settle()
    town.clock.forward(3)
    town.write("bob", "/Handbook/Travel/Lodging.md", DEARER)
    walkers: list[str] = []

    def lose(request: Any) -> bool:
        if request.method == "PROPFIND" and "Handbook/Travel" in request.path and not walkers:
            walkers.append("alice" if "/alice/" in request.path else "bob")
            town.world.leave(walkers[0], "staff")
        return False

    town.world.fail(lose, status=500)
    await town.settle()
    await town.settle()
    (loser,) = walkers
    other = "bob" if loser == "alice" else "alice"
    assert "175 euros" in (await town.search(other, QUESTION))["Lodging.md"]["excerpt"]
    assert (await town.search(loser, QUESTION)).hits == []
    assert len(await town.points(key)) == 1

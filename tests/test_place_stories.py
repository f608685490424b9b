# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What was moved, renamed or deleted is written where it lies now, and not downloaded for it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from test_event_stories import DEARER, HOTELS, NODE, QUESTION, tell, told
from test_rename_stories import lose, words_found
from town import Town

from ex_app.domain import DocumentKey, Lane

pytestmark = pytest.mark.asyncio(loop_scope="session")

MANUAL = "\n\n".join(f"# Chapter {n}\n\n" + f"Sentence about subject number {n} of the manual. " * 20 for n in range(4))


@pytest_asyncio.fixture(loop_scope="session")
async def alert(town: Town) -> AsyncIterator[Town]:
    """A town with a folder that Bob sees, whose Nextcloud tells of moves and renames."""
    town.world.mkdir("alice", "/Drafts")
    town.world.mkdir("alice", "/Policies")
    town.world.share("alice", "/Policies", with_user="bob", permissions=31)
    await town.settle()
    town.webhooks.newer = True
    await town.listen()
    yield town


async def forget_what_happened(town: Town) -> None:
    """From here on downloads, and texts that the model reads, are counted."""
    town.embedder.read.clear()
    town.world.reset_requests()


def downloads(town: Town) -> int:
    return town.world.count(method="GET", kind="dav")


async def test_a_moved_file_is_found_in_its_new_folder_and_is_not_downloaded(alert: Town) -> None:
    key = alert.write("alice", "/Drafts/Lodging.md", HOTELS)
    await alert.react()
    await forget_what_happened(alert)
    alert.world.move("alice", "/Drafts/Lodging.md", "/Policies/Lodging.md")
    await alert.react()
    assert (downloads(alert), alert.embedder.read) == (0, [])
    assert (await alert.search("bob", QUESTION)).titles == ["Lodging.md"]
    row = await alert.row(key)
    assert row is not None
    assert row.path == "Policies/Lodging.md"
    assert await alert.claim() is None


async def test_a_renamed_file_is_found_by_its_new_name_alone_and_is_not_downloaded(alert: Town) -> None:
    key = alert.write("alice", "/Drafts/Zwetschgendatschi.md", MANUAL)
    await alert.react()
    await forget_what_happened(alert)
    alert.world.move("alice", "/Drafts/Zwetschgendatschi.md", "/Policies/Apiary.md")
    await alert.react()
    assert (downloads(alert), alert.embedder.read) == (0, [])
    assert await words_found(alert, "alice", "Apiary") == {key}
    assert await words_found(alert, "alice", "Zwetschgendatschi") == set()
    assert (await alert.search("bob", "Apiary")).titles == ["Apiary.md"]
    await forget_what_happened(alert)
    await alert.settle()
    assert downloads(alert) == 0, "the next sweep finds nothing to do"


async def test_a_move_that_a_sweep_found_first_is_looked_into_once_more_and_not_downloaded(alert: Town) -> None:
    """Given an event that finds all as it says, then perhaps it came before the move was made: what its second look
    finds is written, and nothing is read for that either."""
    alert.write("alice", "/Drafts/Lodging.md", HOTELS)
    await alert.react()
    alert.world.move("alice", "/Drafts/Lodging.md", "/Policies/Lodging.md")
    await alert.settle()
    await forget_what_happened(alert)
    await alert.react()
    assert await alert.claim() is None
    alert.clock.forward(5)
    again = await alert.claim()
    assert again is not None
    alert.world.move("alice", "/Policies/Lodging.md", "/Drafts/Lodging.md")
    await alert.worker.attempt(again)
    assert downloads(alert) == 0
    row = await alert.row(str(again.key))
    assert row is not None
    assert row.path == "Drafts/Lodging.md"
    alert.clock.forward(60)
    assert await alert.claim() is None, "nobody looks a third time"


async def test_a_renamed_file_that_was_edited_too_is_read(alert: Town) -> None:
    """Of the edit nothing was told."""
    alert.write("alice", "/Drafts/Lodging.md", HOTELS)
    await alert.react()
    alert.write("alice", "/Drafts/Lodging.md", DEARER)
    alert.webhooks.take()
    alert.world.move("alice", "/Drafts/Lodging.md", "/Drafts/Beds.md")
    await alert.react()
    assert "175 euros" in (await alert.search("alice", QUESTION))["Beds.md"]["excerpt"]


async def test_an_edit_and_a_move_that_wait_together_are_an_edit(alert: Town) -> None:
    """Given bytes that were replaced without another version, as a walk notices by the upload's time, when the file is
    moved before anybody got to it, then it is read."""
    key = DocumentKey.parse(alert.write("alice", "/Drafts/Lodging.md", HOTELS))
    await alert.react()
    for order in ((Lane.CONTENT, Lane.ACCESS), (Lane.ACCESS, Lane.CONTENT), (Lane.BACKFILL, Lane.ACCESS)):
        alert.clock.forward(60)
        await alert.work()
        await forget_what_happened(alert)
        for lane in order:
            await alert.registry.enqueue(key, lane, "alice")
        claimed = await alert.claim()
        assert claimed is not None
        await alert.worker.attempt(claimed)
        assert downloads(alert) == 1, order


async def test_an_edit_that_comes_while_a_move_is_in_work_is_read_afterwards(alert: Town) -> None:
    key = DocumentKey.parse(alert.write("alice", "/Drafts/Lodging.md", HOTELS))
    await alert.react()
    await forget_what_happened(alert)
    await alert.registry.enqueue(key, Lane.ACCESS, "alice")
    moving = await alert.claim()
    assert moving is not None
    await alert.registry.enqueue(key, Lane.CONTENT, "alice")
    await alert.worker.attempt(moving)
    assert downloads(alert) == 0
    again = await alert.claim()
    assert again is not None
    await alert.worker.attempt(again)
    assert downloads(alert) == 1


async def test_what_was_saved_twice_within_a_second_and_moved_is_read(alert: Town) -> None:
    """Given two saves that share a version, the first of which was indexed, when the file is moved, then the second
    one is read."""
    key = alert.write("alice", "/Drafts/Lodging.md", HOTELS)
    await alert.hear()
    await alert.work()
    before = await alert.row(key)
    alert.write("alice", "/Drafts/Lodging.md", DEARER)
    alert.webhooks.take()
    alert.world.move("alice", "/Drafts/Lodging.md", "/Policies/Lodging.md")
    await alert.react()
    assert "175 euros" in (await alert.search("bob", QUESTION))["Lodging.md"]["excerpt"]
    after = await alert.row(key)
    assert before is not None
    assert after is not None
    assert (before.settled, before.version) == (False, after.version)


async def test_a_renamed_document_that_lost_passages_is_downloaded_and_whole_again(alert: Town) -> None:
    key = alert.write("alice", "/Drafts/Manual.md", MANUAL)
    await alert.react()
    whole = len(await alert.points(key))
    await lose(alert, key, ordinal=2)
    alert.world.move("alice", "/Drafts/Manual.md", "/Drafts/Handbook.md")
    await alert.react()
    assert sorted(point.ordinal for point in await alert.points(key)) == [*range(whole)]


async def test_what_has_no_text_is_found_by_its_new_name_and_place(alert: Town) -> None:
    key = alert.write("alice", "/Drafts/Sunrise.png", b"\x89PNG\r\n\x1a\n" + bytes(64))
    await alert.react()
    alert.world.move("alice", "/Drafts/Sunrise.png", "/Policies/Harvest.png")
    await alert.react()
    assert [hit["ref"] for hit in (await alert.search("bob", "Harvest")).hits] == [key]
    assert (await alert.search("alice", "Sunrise")).hits == []


async def test_what_was_deleted_leaves_the_index_unless_somebody_else_has_it(alert: Town) -> None:
    alert.world.share("alice", "/Drafts", with_user="bob", permissions=31)
    gone = alert.write("alice", "/Drafts/Lodging.md", HOTELS)
    taken = alert.write("alice", "/Drafts/Beds.md", HOTELS)
    await alert.react()
    await forget_what_happened(alert)
    alert.world.delete("alice", "/Drafts/Lodging.md")
    alert.world.move("bob", "/Drafts/Beds.md", "/Beds.md")
    node = {"id": DocumentKey.parse(gone).id, "path": "/alice/files/Drafts/Lodging.md"}
    await tell(alert, told(f"{NODE}NodeDeletedEvent", node=node))
    await alert.react()
    assert downloads(alert) == 0
    assert await alert.points(gone) == []
    row = await alert.row(taken)
    assert row is not None
    assert (row.owner, len(await alert.points(taken))) == ("bob", 1)

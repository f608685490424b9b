# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What is renamed is found by its new name at once, and the language model reads nothing for it."""

from __future__ import annotations

import pytest
from qdrant_client import models
from test_write_stories import Interrupted
from town import Town

from ex_app.domain import DocumentKey, Filters, Reason
from ex_app.store.vector_points import of_document

pytestmark = pytest.mark.asyncio(loop_scope="session")

BEES = "# Bees\n\nThe two hives gave eleven kilos of honey this summer, most of it from lime blossom."


def chapters(number: int) -> list[str]:
    return [f"# Chapter {n}\n\n" + f"Sentence about subject number {n} of the manual. " * 20 for n in range(number)]


async def words_found(town: Town, user: str, word: str) -> set[str]:
    """The documents that hold a word, by BM25 alone."""
    reach = await town.worker.sources["file"].reach(town.house.nextcloud.as_user(user))
    dense = await town.house.embedder.query(word, user=user)
    sparse = town.worker.encoder.encode_query(word)  # type: ignore[attr-defined]
    found = await town.vectors.recall(dense, sparse, reach, Filters(), limit=20)
    return {str(candidate.document) for candidate in found if candidate.sparse > 0}


async def test_a_renamed_file_is_found_by_its_new_name_and_not_by_its_old_one(town: Town) -> None:
    key = town.write("alice", "/Papers/Zwetschgendatschi.md", BEES)
    await town.settle()
    assert await words_found(town, "alice", "Zwetschgendatschi") == {key}
    before = [(point.ordinal, point.text_hash) for point in await town.points(key)]
    town.embedder.read.clear()
    town.world.move("alice", "/Papers/Zwetschgendatschi.md", "/Papers/Quarterly apiary figures.md")
    await town.settle()
    assert town.embedder.read == []
    assert await words_found(town, "alice", "Zwetschgendatschi") == set()
    assert await words_found(town, "alice", "apiary") == {key}
    assert (await town.search("alice", "Quarterly apiary figures")).titles == ["Quarterly apiary figures.md"]
    assert [(point.ordinal, point.text_hash) for point in await town.points(key)] == before


async def test_every_passage_of_a_long_renamed_and_moved_document_takes_the_new_name(town: Town) -> None:
    key = town.write("alice", "/Drafts/Old.md", "\n\n".join(chapters(4)))
    town.world.mkdir("alice", "/Policies")
    await town.settle()
    town.embedder.read.clear()
    town.world.move("alice", "/Drafts/Old.md", "/Policies/Gebrauchsanweisung.md")
    await town.settle()
    assert town.embedder.read == []
    points = await town.points(key)
    assert len(points) >= 4
    assert len({point.generation for point in points}) == 1
    policies = f"f:{town.world.resolve('alice', '/Policies').node.id}"
    assert all(policies in point.scopes for point in points)
    hit = (await town.search("alice", "Gebrauchsanweisung")).hits[0]
    assert (hit["ref"], hit["place"]) == (key, "Policies")


async def test_a_folder_of_fifty_documents_is_renamed_without_reading_one(town: Town) -> None:
    keys = {town.write("alice", f"/Drafts/2025/Paper {number}.md", f"{BEES} {number}") for number in range(50)}
    await town.settle()
    town.embedder.read.clear()
    town.world.reset_requests()
    town.world.move("alice", "/Drafts/2025", "/Drafts/Anno")
    await town.settle()
    assert town.embedder.read == []
    assert town.world.count(method="GET", kind="dav") == 0
    for key in keys:
        row = await town.row(key)
        assert row is not None
        assert row.path.startswith("Drafts/Anno/")


async def test_an_edit_together_with_a_rename_lets_the_model_read_the_edited_passage_alone(town: Town) -> None:
    parts = chapters(4)
    town.write("alice", "/Manual.md", "\n\n".join(parts))
    await town.settle()
    town.embedder.read.clear()
    parts[2] = parts[2].replace("subject number 2", "honey and wax")
    town.world.move("alice", "/Manual.md", "/Handbook.md")
    town.write("alice", "/Handbook.md", "\n\n".join(parts))
    await town.settle()
    assert len(town.embedder.read) == 1
    assert town.embedder.read[0].startswith("Handbook.md")
    assert "honey and wax" in town.embedder.read[0]


async def test_where_there_is_no_text_the_name_is_the_text_and_is_read_anew(town: Town) -> None:
    key = town.write("alice", "/Pictures/Sunrise.png", b"\x89PNG\r\n\x1a\n" + bytes(64))
    await town.settle()
    town.embedder.read.clear()
    town.world.move("alice", "/Pictures/Sunrise.png", "/Pictures/Harvest festival.png")
    await town.settle()
    assert len(town.embedder.read) == 1
    assert (await town.search("alice", "Harvest festival")).hits[0]["ref"] == key


async def test_a_renamed_document_that_lost_passages_is_read_whole(town: Town) -> None:
    """Given an index that lost one of four passages, when the document is renamed, then it is whole again."""
    key = town.write("alice", "/Manual.md", "\n\n".join(chapters(4)))
    await town.settle()
    whole = len(await town.points(key))
    await lose(town, key, ordinal=2)
    town.world.move("alice", "/Manual.md", "/Handbook.md")
    await town.settle()
    assert sorted(point.ordinal for point in await town.points(key)) == [*range(whole)]


async def lose(town: Town, key: str, *, ordinal: int) -> None:
    """The index loses one passage of a document."""
    here = models.FieldCondition(key="ordinal", range=models.Range(gte=ordinal, lte=ordinal))
    await town.vectors._delete(of_document(DocumentKey.parse(key), here))


async def test_what_has_no_text_is_found_by_its_new_place_after_a_move_and_the_model_reads_nothing(town: Town) -> None:
    key = town.write("alice", "/Harvest/DSC 0815.png", b"\x89PNG\r\n\x1a\n" + bytes(64))
    town.world.mkdir("alice", "/Lighthouse")
    await town.settle()
    assert [hit["ref"] for hit in (await town.search("alice", "harvest")).hits] == [key]
    town.embedder.read.clear()
    town.world.move("alice", "/Harvest", "/Lighthouse/Old")
    await town.settle()
    assert [hit["ref"] for hit in (await town.search("alice", "lighthouse")).hits] == [key]
    assert (await town.search("alice", "harvest")).hits == []
    assert town.embedder.read == []


async def test_a_rename_while_it_is_being_read_leaves_no_old_name_behind(town: Town) -> None:
    town.write("alice", "/Garden/Bees.png", b"\x89PNG" + bytes(64))
    town.clock.forward(3)
    await town.sweep()

    async def rename() -> None:
        town.world.move("alice", "/Garden/Bees.png", "/Garden/Lighthouse.png")

    town.staff(embedder=Interrupted(town, rename))
    await town.work()
    town.staff(embedder=town.embedder)
    await town.settle()
    assert (await town.search("alice", "lighthouse")).titles == ["Lighthouse.png"]
    assert (await town.search("alice", "bees")).hits == []


async def test_what_gets_the_name_of_another_kind_is_read_as_that_kind(town: Town) -> None:
    """Given a text, when it is called a picture, then it is found by name alone, and by its text once it is back."""
    key = town.write("alice", "/Papers/Apiary.md", BEES)
    await town.settle()
    assert await words_found(town, "alice", "blossom") == {key}
    town.world.move("alice", "/Papers/Apiary.md", "/Papers/Apiary.png")
    await town.settle()
    assert await words_found(town, "alice", "blossom") == set()
    row = await town.row(key)
    assert row is not None
    assert row.reason is Reason.UNSUPPORTED
    town.world.move("alice", "/Papers/Apiary.png", "/Papers/Apiary.md")
    await town.settle()
    assert await words_found(town, "alice", "blossom") == {key}

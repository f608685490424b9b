# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Erasing from the embedded engine: deleted text leaves its files while it serves."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
import qdrant_edge as edge
from engines import EngineProcess, settings_in
from qdrant_client import models

from ex_app.store import edge_desk, engine
from ex_app.store.edge_desk import Desk, Housekeeping
from ex_app.store.edge_shards import Abandoned, Shards

UNIT = [1.0, 0.0]


def small(number: int, text: str) -> edge.Point:
    return edge.Point(id=number, vector={"dense": UNIT}, payload={"text": text, "week": number % 7})


def texts(shards: Shards) -> dict[int, str]:
    records, _ = shards.get("travel").scroll(edge.ScrollRequest(limit=10_000, with_payload=True))
    return {int(record.id): (record.payload or {})["text"] for record in records}


def with_collection(folder: Path) -> Shards:
    shards = Shards(folder)
    vectors = {"dense": models.VectorParams(size=2, distance=models.Distance.COSINE)}
    shards.create("travel", models.CreateCollection(vectors=vectors))
    shards.add("travel", edge.UpdateOperation.create_field_index("week", edge.PayloadSchemaType.Integer))
    return shards


def holds(folder: Path, word: bytes) -> bool:
    return any(word in path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_deleted_text_is_in_no_file_after_an_erasure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # the embedded engine, even where a qdrant binary is installed
    process = EngineProcess(settings_in(tmp_path))
    client = engine.connect(process.settings)
    vectors = {"dense": models.VectorParams(size=2, distance=models.Distance.COSINE)}
    await client.create_collection("travel", vectors_config=vectors)
    passages = [
        models.PointStruct(id=number, vector={"dense": UNIT}, payload={"text": f"secretpassage{number}."})
        for number in range(50)
    ]
    await client.upsert("travel", passages)
    await client.delete("travel", points_selector=[7])
    eighth = models.Filter(must=[models.HasIdCondition(has_id=[8])])
    await client.set_payload("travel", {"text": "renamed"}, points=eighth)
    assert holds(process.data, b"secretpassage7.")  # deleting does not erase

    assert await engine.compact(process.settings, "travel") is True
    assert not holds(process.data, b"secretpassage7.")
    assert not holds(process.data, b"secretpassage8.")
    assert holds(process.data, b"secretpassage9.")
    records, _ = await client.scroll("travel", limit=100)
    assert {record.id for record in records} == set(range(50)) - {7}
    assert records[7].payload == {"text": "renamed"}

    assert await engine.compact(process.settings, "missing") is False
    await client.close()
    process.stop()


def test_what_changes_during_a_compaction_is_in_the_new_shard_too(tmp_path: Path) -> None:
    """Given a copy that is half done, when points on both sides of it are added, changed and deleted, then the new
    shard takes over with exactly what the old one held, and a restart finds it."""
    shards = with_collection(tmp_path)
    for start in range(0, 600, 100):
        shards.add("travel", edge.UpdateOperation.upsert_points([small(n, "old") for n in range(start, start + 100)]))
    shards.begin_compaction("travel")
    assert shards.copy_some("travel")
    assert shards.copy_some("travel")
    shards.replace("travel", edge.UpdateOperation.delete_points([5, 200, 201, 599]))
    some = edge.Filter(must=[edge.HasIdCondition({6, 300})])
    shards.replace("travel", edge.UpdateOperation.set_payload_by_filter(some, {"text": "moved"}))
    by_filter = edge.Filter(must=[edge.FieldCondition(key="week", match=edge.MatchValue(value=0))])
    shards.replace("travel", edge.UpdateOperation.delete_points_by_filter(by_filter))
    shards.add("travel", edge.UpdateOperation.upsert_points([small(8, "new"), small(400, "new"), small(1000, "new")]))
    expected = texts(shards)
    while shards.copy_some("travel"):
        pass
    assert texts(shards) == expected
    assert (expected[6], expected[300], expected[8], expected[400], expected[1000]) == ("moved", "moved", *["new"] * 3)
    assert not {5, 200, 201, 599, 7, 49, 497} & expected.keys()
    assert shards.get("travel").info().payload_schema.keys() == {"week"}
    shards.close()
    again = Shards(tmp_path)
    assert texts(again) == expected
    again.close()
    assert [path.name for path in (tmp_path / "collections" / "travel").glob("shard-*")] == ["shard-2"]


def test_a_compaction_is_due_from_the_first_deletion_until_one_saw_no_more(tmp_path: Path) -> None:
    shards = with_collection(tmp_path)
    shards.add("travel", edge.UpdateOperation.upsert_points([small(n, "old") for n in range(150)]))
    later = time.time() + 60
    assert shards.soiled_before(later) == []
    shards.replace("travel", edge.UpdateOperation.delete_points([1]))
    assert shards.soiled_before(later) == ["travel"]
    assert shards.soiled_before(time.time() - 60) == []

    shards.begin_compaction("travel")
    assert shards.copy_some("travel")
    shards.replace("travel", edge.UpdateOperation.delete_points([2]))
    assert not shards.copy_some("travel")
    assert shards.soiled_before(later) == ["travel"], "the copy of a point deleted meanwhile may be in the new files"
    shards.begin_compaction("travel")
    while shards.copy_some("travel"):
        pass
    assert shards.soiled_before(later) == []
    shards.close()


def test_a_compaction_cut_short_leaves_the_serving_shard(tmp_path: Path) -> None:
    shards = with_collection(tmp_path)
    shards.add("travel", edge.UpdateOperation.upsert_points([small(n, "old") for n in range(150)]))
    shards.begin_compaction("travel")
    assert shards.copy_some("travel")
    shards.abandon("travel")
    with pytest.raises(Abandoned):
        shards.copy_some("travel")
    assert len(texts(shards)) == 150
    shards.close()

    home = tmp_path / "collections" / "travel"
    (home / ".draft").mkdir()  # as kill -9 leaves it
    again = Shards(tmp_path)
    assert len(texts(again)) == 150
    again.close()
    assert sorted(path.name for path in home.iterdir()) == ["collection.json", "shard-1"]


async def test_housekeeping_compacts_what_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_desk, "COMPACT_AFTER_S", -60.0)
    shards = with_collection(tmp_path)
    shards.add("travel", edge.UpdateOperation.upsert_points([small(n, f"word{n}") for n in range(150)]))
    shards.replace("travel", edge.UpdateOperation.delete_points([77]))
    desk = Desk(shards)
    keeping = asyncio.create_task(Housekeeping(desk).keep())
    async with asyncio.timeout(30):
        while (tmp_path / "collections" / "travel" / "garbage").exists():
            await asyncio.sleep(0.01)
    keeping.cancel()
    desk.close()
    assert not holds(tmp_path, b"word77")
    assert holds(tmp_path, b"word78")

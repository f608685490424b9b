# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The vector index, told against every engine at hand: embedded, the client's own memory, and QDRANT_URL where set."""

from __future__ import annotations

import asyncio
import os
import uuid
import warnings
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace

import pytest
from engines import EngineProcess, settings_in
from qdrant_client import AsyncQdrantClient, models

from ex_app.domain import (
    Chunk,
    DocumentKey,
    EngineUnavailable,
    Filters,
    Point,
    Reach,
    ScopeId,
    Sparse,
)
from ex_app.store.engine import Connection
from ex_app.store.vectors import Vectors, collection_name

WORDS = {word: number for number, word in enumerate(("hotel", "limit", "train", "lunch"), start=11)}
MINE = ScopeId("f:1")
THEIRS = ScopeId("f:2")
MY_REACH = Reach(scopes=frozenset({MINE}))
EAST = (1.0, 0.0, 0.0, 0.0)
NORTH = (0.0, 1.0, 0.0, 0.0)


def words(text: str) -> Sparse:
    """One weight for each known word."""
    known = sorted({WORDS[word] for word in text.split() if word in WORDS})
    return Sparse(tuple(known), (1.0,) * len(known))


def file(number: int) -> DocumentKey:
    return DocumentKey("file", number)


def passage(
    document: DocumentKey,
    text: str,
    *,
    dense: Sequence[float] = EAST,
    generation: int = 1,
    ordinal: int = 0,
    scopes: tuple[ScopeId, ...] = (MINE,),
) -> Point:
    return Point(
        document=document,
        generation=generation,
        chunk=Chunk(ordinal, text, 0, len(text), page=3, headings=("Travel", "Costs")),
        text_hash=f"hash of {text}",
        dense=tuple(dense),
        sparse=words(text),
        scopes=scopes,
        title=f"Title {document.id}",
        path=f"/Documents/{document.id}.md",
        mtime=1_700_000_000 + document.id,
        owner="alice",
        language="en",
    )


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "")  # the embedded engine, even where a qdrant binary is installed
        engine = EngineProcess(settings_in(tmp_path_factory.mktemp("engine")))
        yield engine
        engine.stop()


@pytest.fixture(params=["embedded", "memory", *(["server"] if "QDRANT_URL" in os.environ else [])])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[AsyncQdrantClient]:
    match request.param:
        case "embedded":
            found = Connection(request.getfixturevalue("embedded").settings)()
        case "memory":
            warnings.filterwarnings("ignore", message="Payload indexes have no effect in the local Qdrant")
            found = AsyncQdrantClient(":memory:")
        case _:
            found = AsyncQdrantClient(url=os.environ["QDRANT_URL"], api_key=os.environ.get("QDRANT_API_KEY"))
    yield found
    await found.close()


@pytest.fixture
async def index(client: AsyncQdrantClient) -> AsyncIterator[Vectors]:
    fresh = Vectors(lambda: client, collection=f"test-{uuid.uuid4().hex}", dimensions=4)
    await fresh.ensure()
    yield fresh
    await fresh.destroy()


async def ask(index: Vectors, text: str, reach: Reach = MY_REACH, filters: Filters | None = None, **how: object):
    """Candidates by document number."""
    how = {"limit": 10, **how}
    found = await index.recall(EAST, words(text), reach, filters or Filters(), **how)
    return {candidate.document.id: candidate for candidate in found}


async def test_a_passage_in_a_folder_of_my_reach_is_found_as_it_was_written(index: Vectors) -> None:
    written = passage(file(1), "hotel limit", scopes=(ScopeId("f:9"), MINE))
    await index.write([written])
    (found,) = (await ask(index, "hotel")).values()
    assert (found.document, found.generation, found.chunk, found.text_hash) == (
        file(1),
        1,
        written.chunk,
        "hash of hotel limit",
    )
    assert (found.title, found.path, found.mtime, found.owner) == (written.title, written.path, written.mtime, "alice")
    assert found.scopes == {"f:9", "f:1"}
    assert found.dense == pytest.approx(1.0)
    assert found.sparse > 0


async def test_a_single_document_in_reach_is_found_though_its_folder_is_not(index: Vectors) -> None:
    await index.write([passage(file(1), "hotel", scopes=(THEIRS,)), passage(file(2), "hotel", scopes=(THEIRS,))])
    assert (await ask(index, "hotel", Reach(documents=frozenset({file(2)})))).keys() == {2}


async def test_folders_and_documents_of_a_reach_add_up(index: Vectors) -> None:
    await index.write([passage(file(1), "hotel"), passage(file(2), "hotel", scopes=(THEIRS,))])
    assert (await ask(index, "hotel", MY_REACH | Reach(documents=frozenset({file(2)})))).keys() == {1, 2}


async def test_better_matches_outside_my_reach_do_not_crowd_out_mine(index: Vectors) -> None:
    strangers = [passage(file(number), "hotel limit", scopes=(THEIRS,)) for number in range(100, 140)]
    await index.write([*strangers, passage(file(1), "hotel", dense=NORTH)])
    assert (await ask(index, "hotel limit", limit=5)).keys() == {1}


async def test_an_empty_reach_finds_nothing_and_asks_nobody() -> None:
    def unreachable() -> AsyncQdrantClient:
        raise AssertionError("the engine was asked")

    index = Vectors(unreachable, collection="any", dimensions=4)
    assert await index.recall(EAST, words("hotel"), Reach(), Filters(), limit=10) == []


async def test_filters_narrow_within_the_reach_and_times_are_inclusive(index: Vectors) -> None:
    card = DocumentKey("deck_card", 4)
    await index.write(
        [
            passage(file(1), "hotel"),
            replace(passage(file(2), "hotel"), owner="bob"),
            replace(passage(file(3), "hotel"), mtime=50),
            passage(card, "hotel"),
            replace(passage(file(5), "hotel", scopes=(THEIRS,)), owner="bob", mtime=50),
        ]
    )
    narrowed = {
        (4,): Filters(sources=frozenset({"deck_card"})),
        (2,): Filters(owner="bob"),
        (3,): Filters(modified_after=50, modified_before=50),
        (1, 2, 4): Filters(modified_after=51),
        (): Filters(sources=frozenset({"file"}), owner="nobody"),
    }
    for expected, filters in narrowed.items():
        assert sorted(await ask(index, "hotel", filters=filters)) == sorted(expected), filters


async def test_documents_that_were_already_judged_are_not_found_again(index: Vectors) -> None:
    await index.write([passage(file(number), "hotel") for number in (1, 2, 3)])
    assert (await ask(index, "hotel", exclude={file(1), file(3)})).keys() == {2}


async def test_what_one_leg_alone_found_carries_both_scores(index: Vectors) -> None:
    """Given one passage near in meaning, one that shares more words and a limit of one for each leg."""
    await index.write(
        [
            passage(file(1), "limit", dense=EAST),
            passage(file(2), "hotel limit", dense=(3.0, 4.0, 0.0, 0.0)),
            passage(file(3), "lunch", dense=NORTH),
        ]
    )
    everything, found = await ask(index, "hotel limit", limit=10), await ask(index, "hotel limit", limit=1)
    assert found.keys() == {1, 2}
    assert found[2].dense == pytest.approx(0.6)
    assert 0 < found[1].sparse < found[2].sparse
    for number in (1, 2):
        assert found[number].sparse == pytest.approx(everything[number].sparse)
        assert found[number].dense == pytest.approx(everything[number].dense)


async def test_a_passage_that_shares_no_word_scores_nothing_there(index: Vectors) -> None:
    await index.write([passage(file(1), "lunch"), passage(file(2), "hotel", dense=NORTH)])
    assert (await ask(index, "hotel", limit=1))[1].sparse == 0.0


async def test_a_question_without_words_is_answered_by_meaning(index: Vectors) -> None:
    await index.write([passage(file(1), "hotel")])
    found = await ask(index, "unheard-of")
    assert found[1].sparse == 0.0
    assert found[1].dense == pytest.approx(1.0)


async def test_strangers_documents_do_not_move_my_scores(index: Vectors) -> None:
    """Given my three documents, when a stranger writes twenty about the same word, then my scores stay as they were.

    The client's memory honours the IDF corpus too, so that all engines tell the same story.
    """
    await index.write([passage(file(1), "hotel"), passage(file(2), "lunch"), passage(file(3), "train")])
    before = (await ask(index, "hotel"))[1].sparse
    await index.write([passage(file(number), "hotel", scopes=(THEIRS,)) for number in range(100, 120)])
    assert (await ask(index, "hotel"))[1].sparse == pytest.approx(before)
    assert (await ask(index, "hotel", limit=1))[1].sparse == pytest.approx(before)
    assert (await ask(index, "hotel", Reach(scopes=frozenset({MINE, THEIRS})), limit=30))[1].sparse < before / 2


async def test_what_was_denied_counts_no_more_once_known_passages_are_scored_anew(index: Vectors) -> None:
    """Whether it was seen or not. And each known passage keeps its place, however many better ones there are."""
    await index.write([passage(file(number), text) for number, text in enumerate(("hotel", "lunch"), 1)])
    alone = await ask(index, "hotel")
    await index.write([passage(file(number), "hotel limit") for number in range(100, 120)])
    found = await ask(index, "hotel", limit=30)
    known = [found[1], found[2]]
    anew = await index.rescored(known, words("hotel"))
    assert [one.sparse for one in anew] == pytest.approx([alone[1].sparse, 0.0])
    assert [replace(one, sparse=0.0) for one in anew] == [replace(one, sparse=0.0) for one in known]
    assert found[1].sparse < alone[1].sparse / 2


async def test_my_own_filters_do_not_move_my_scores(index: Vectors) -> None:
    await index.write([passage(file(1), "hotel"), replace(passage(file(2), "lunch"), owner="bob")])
    wide, narrow = await ask(index, "hotel"), await ask(index, "hotel", filters=Filters(owner="alice"))
    assert narrow[1].sparse == pytest.approx(wide[1].sparse)


async def test_a_reach_of_thousands_of_folders_is_one_question(index: Vectors) -> None:
    await index.write([passage(file(1), "hotel"), passage(file(2), "hotel", scopes=(THEIRS,))])
    wide = Reach(scopes=frozenset(ScopeId(f"f:{number}") for number in (1, *range(10_000, 13_000))))
    assert (await ask(index, "hotel", wide)).keys() == {1}


async def test_passages_of_a_generation_can_be_copied_into_the_next(index: Vectors) -> None:
    old = [passage(file(1), "no known word", ordinal=1), passage(file(1), "hotel", dense=(3.0, 4.0, 0.0, 0.0))]
    await index.write([*old, passage(file(1), "train", generation=2), passage(file(2), "lunch")])
    held = await index.passages_of(file(1), 1)
    assert [one.text_hash for one in held] == ["hash of hotel", "hash of no known word"]
    assert [one.chunk for one in held] == [old[1].chunk, old[0].chunk]
    assert held[0].dense == pytest.approx((0.6, 0.8, 0.0, 0.0))

    await index.write([replace(passage(file(1), "hotel", generation=3), dense=held[0].dense)])
    assert (await index.passages_of(file(1), 3))[0].dense == pytest.approx(held[0].dense)


async def test_a_new_generation_replaces_the_old_one_only_when_told(index: Vectors) -> None:
    await index.write([passage(file(1), "hotel", generation=generation) for generation in (1, 2, 3)])
    await index.write([passage(file(2), "hotel", generation=1)])
    await index.keep_only(file(1), 2)
    assert await generations(index) == {(1, 2), (1, 3), (2, 1)}
    await index.drop_generation(file(1), 3)
    assert await generations(index) == {(1, 2), (2, 1)}
    await index.drop(file(1))
    assert await generations(index) == {(2, 1)}


async def test_leftovers_of_dead_tries_go_but_not_the_work_of_a_successor(index: Vectors) -> None:
    """Given generation 2 is live and 3 was left by a try that died, when the worker of 4 finds nothing changed while
    5 is already being written by its successor, then 1 and 3 go."""
    await index.write([passage(file(1), "hotel", generation=generation) for generation in (1, 2, 3, 5)])
    await index.keep_only(file(1), 2, below=4)
    assert await generations(index) == {(1, 2), (1, 5)}


async def generations(index: Vectors) -> set[tuple[int, int]]:
    return {(imprint.document.id, imprint.generation) async for imprint in index.digest()}


async def test_writing_the_same_passage_again_replaces_it(index: Vectors) -> None:
    await index.write([passage(file(1), "hotel")])
    await index.write([passage(file(1), "lunch")])
    assert await index.count() == 1
    assert (await ask(index, "lunch"))[1].chunk.text == "lunch"


async def test_moving_a_document_leaves_its_text_and_vectors(index: Vectors) -> None:
    await index.write([passage(file(1), "hotel"), passage(file(1), "lunch", ordinal=1), passage(file(2), "train")])
    before = await index.passages_of(file(1), 1)
    await index.set_place(file(1), scopes=[THEIRS], title="New", path="/Shared/New.md")
    assert (await ask(index, "hotel")).keys() == {2}
    moved = (await ask(index, "hotel", Reach(scopes=frozenset({THEIRS}))))[1]
    assert (moved.title, moved.path, moved.scopes) == ("New", "/Shared/New.md", {THEIRS})
    assert (moved.mtime, moved.owner, moved.chunk.page) == (1_700_000_001, "alice", 3)
    assert await index.passages_of(file(1), 1) == before

    await index.set_place(file(1), scopes=[THEIRS], title="New", path="/N", mtime=7, owner="")
    moved = (await ask(index, "hotel", Reach(scopes=frozenset({THEIRS}))))[1]
    assert (moved.mtime, moved.owner) == (7, "")


async def test_the_digest_tells_every_point_however_many_there_are(index: Vectors) -> None:
    points = [passage(file(number), "hotel", ordinal=number % 3) for number in range(1, 1102)]
    await index.write(points)
    told = [imprint async for imprint in index.digest()]
    assert await index.count() == len(told) == len(points)
    assert {(imprint.document.id, imprint.ordinal) for imprint in told} == {(n, n % 3) for n in range(1, 1102)}
    assert told[0].scopes == {MINE}
    assert told[0].text_hash == "hash of hotel"


async def test_ensuring_again_or_at_the_same_time_does_no_harm(client: AsyncQdrantClient) -> None:
    if "local" in type(client._client).__name__.lower():
        pytest.skip("the client's memory is never shared by processes")
    index = Vectors(lambda: client, collection=f"test-{uuid.uuid4().hex}", dimensions=4)
    await asyncio.gather(*(index.ensure() for _ in range(4)))
    await index.write([passage(file(1), "hotel")])
    await index.ensure()
    assert await index.count() == 1
    await index.destroy()
    await index.destroy()


async def test_an_index_for_other_vectors_is_not_touched(client: AsyncQdrantClient) -> None:
    name = f"test-{uuid.uuid4().hex}"
    index = Vectors(lambda: client, collection=name, dimensions=4)
    await index.ensure()
    with pytest.raises(EngineUnavailable, match="5 dimensions"):
        await Vectors(lambda: client, collection=name, dimensions=5).ensure()
    await index.destroy()


async def test_a_missing_index_is_said_clearly(embedded: EngineProcess) -> None:
    connection = Connection(embedded.settings)
    with pytest.raises(EngineUnavailable, match="no index missing"):
        await Vectors(connection, collection="missing", dimensions=4).count()
    await connection.aclose()


async def test_an_engine_that_cannot_bind_word_statistics_to_a_reach_is_refused() -> None:
    class Old(AsyncQdrantClient):
        async def info(self) -> models.VersionInfo:
            return models.VersionInfo(title="qdrant - vector search engine", version="1.18.3")

    old = Old(":memory:")
    with pytest.raises(EngineUnavailable, match=r"1\.19 or later"):
        await Vectors(lambda: old, collection="any", dimensions=4).ensure()


async def test_the_index_recovers_when_its_engine_comes_back_elsewhere(embedded: EngineProcess) -> None:
    """Given a long-lived index, when its engine is killed and started again, then the same object finds it again."""
    connection = Connection(embedded.settings)
    index = Vectors(connection, collection="travel", dimensions=4)
    await index.ensure()
    await index.write([passage(file(1), "hotel")])
    before = embedded.address
    embedded.kill()
    for attempt in (index.count(), ask(index, "hotel"), index.write([passage(file(2), "hotel")]), index.ensure()):
        with pytest.raises(EngineUnavailable):
            await attempt
    embedded.start()
    assert embedded.address.url != before.url
    assert embedded.address.api_key != before.api_key
    assert (await ask(index, "hotel")).keys() == {1}
    await connection.aclose()


def test_an_index_is_named_after_its_ingredients() -> None:
    name = collection_name("oc/1a?b", "model", "c1", "s1")
    assert name == collection_name("oc/1a?b", "model", "c1", "s1")
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
    others = [("oc/1a?c", "model", "c1", "s1"), ("oc/1a?b", "m", "c1", "s1"), ("oc/1a?b", "model", "c2", "s1")]
    assert (
        len({name, *(collection_name(*other) for other in others), collection_name("oc/1a?b", "model", "c1", "s2")})
        == 5
    )
    assert len(collection_name("x" * 500, "model", "c1", "s1")) < 100

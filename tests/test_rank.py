# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""In what order, of how many copies, from where on: decided by documents that the asker may read, by nothing else."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from documents import pdf
from hypothesis import given
from hypothesis import strategies as st
from town import Page, Town

from ex_app.domain import Candidate, Chunk, DocumentKey, Granted, Place, Version
from ex_app.search import rounds, service
from ex_app.search.excerpt import excerpt
from ex_app.search.rank import Scale, rank

stories = pytest.mark.asyncio(loop_scope="session")

QUESTION = "hotel price limit for trips"
SPENDING = "What may I spend for a night, for meals and for the journey on business trips?"
HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
TRAINS = "# Trains\n\nBook the second class for business trips; the first class only when the journey takes four hours."
MEALS = "# Meals\n\nThe daily allowance for meals on business trips is 32 euros, without alcohol and receipts."
BEES = "# Bees\n\nThe two hives gave eleven kilos of honey this summer, most of it from lime blossom."


def shown(page: Page) -> list[tuple[Any, ...]]:
    return [(hit["title"], hit["score"], hit["excerpt"]) for hit in page.hits]


def a_trip_policy(number: int) -> str:
    return (
        f"# Policy {number}\n\nHotel prices on trips: the limit for office {number} is {100 + number} euros a night; "
        f"dearer hotels need the signature of partner {number}."
    )


# --- What others write


@stories
async def test_what_strangers_write_changes_neither_the_order_nor_the_score_of_my_answer(town: Town) -> None:
    for name, text in (("Lodging.md", HOTELS), ("Trains.md", TRAINS), ("Meals.md", MEALS)):
        town.write("alice", f"/Policies/{name}", text)
    await town.settle()
    before = shown(await town.search("alice", SPENDING))
    assert len(before) > 1
    for number in range(12):
        town.write(
            "carol", f"/Secret/Hotel price limit {number}.md", f"Spend the night on business trips: {number}. " * 3
        )
    await town.settle()
    assert shown(await town.search("alice", SPENDING)) == before


@stories
@pytest.mark.parametrize("taken", [2, 12])
async def test_what_was_taken_away_a_moment_ago_does_not_move_my_scores_either(town: Town, taken: int) -> None:
    for name, text in (("Lodging.md", HOTELS), ("Trains.md", TRAINS), ("Meals.md", MEALS), ("Bees.md", BEES)):
        town.write("alice", f"/Policies/{name}", text)
    await town.settle()
    before = shown(await town.search("alice", SPENDING))
    share = town.world.share("carol", town.world.mkdir("carol", "/Shared"), with_user="alice")
    for number in range(taken):
        town.write("carol", f"/Shared/Hotel {number}.md", f"Hotel {number}: spend the night on business trips")
    await town.settle()
    await town.registry.bump_epoch()
    assert len((await town.search("alice", SPENDING, limit=25)).hits) == len(before) + taken
    town.world.unshare(share)
    assert shown(await town.search("alice", SPENDING)) == before


@stories
async def test_a_listed_document_that_may_not_be_read_does_not_move_my_scores_either(town: Town) -> None:
    for name, text in (("Lodging.md", HOTELS), ("Trains.md", TRAINS), ("Meals.md", MEALS)):
        town.write("alice", f"/Policies/{name}", text)
    await town.settle()
    before = shown(await town.search("alice", SPENDING))
    key = town.write("alice", "/Policies/Nights.md", "Spend the night on business trips")
    await town.settle()
    assert shown(await town.search("alice", SPENDING)) != before
    town.world.block(int(key.partition(":")[2]))
    assert shown(await town.search("alice", SPENDING)) == before


@stories
async def test_of_two_copies_the_newest_is_shown_where_the_best_of_them_would_stand(town: Town) -> None:
    town.write("alice", "/2024/Travel policy.md", HOTELS, mtime=1_700_000_000)
    town.write("alice", "/2025/Travel policy.md", HOTELS, mtime=1_750_000_000)
    town.write("alice", "/Old/Travel policy.md", HOTELS, mtime=1_600_000_000)
    town.write("alice", "/2025/Trains.md", TRAINS)
    await town.settle()
    page = await town.search("alice", QUESTION)
    assert [hit["place"] for hit in page.hits if hit["title"] == "Travel policy.md"] == ["2025"]
    assert page.titles[0] == "Travel policy.md"


@stories
async def test_a_newer_copy_that_i_may_not_read_does_not_hide_mine(town: Town) -> None:
    town.write("alice", "/2024/Travel policy.md", HOTELS, mtime=1_700_000_000)
    town.write("carol", "/2025/Travel policy.md", HOTELS, mtime=1_750_000_000)
    share = town.world.share("carol", "/2025", with_user="alice")
    await town.settle()
    assert [hit["place"] for hit in (await town.search("alice", QUESTION)).hits] == ["2025"]
    town.world.unshare(share)
    assert [hit["place"] for hit in (await town.search("alice", QUESTION)).hits] == ["2024"]


@stories
async def test_two_locked_documents_are_two_documents(town: Town) -> None:
    town.write("alice", "/Contracts/Hotel Adler contract.pdf", pdf("Rates", password="closed"))
    town.write("alice", "/Contracts/Hotel Krone contract.pdf", pdf("Rates", password="closed"))
    await town.settle()
    page = await town.search("alice", "hotel contract")
    assert set(page.titles) == {"Hotel Adler contract.pdf", "Hotel Krone contract.pdf"}
    assert [hit["excerpt"] for hit in page.hits] == ["", ""]


# --- Pages


@stories
async def test_a_page_that_grows_keeps_what_it_showed_before(town: Town) -> None:
    for number in range(14):
        town.write("alice", f"/Offices/Office {number}.md", a_trip_policy(number))
    await town.settle()
    pages = [shown(await town.search("alice", QUESTION, limit=limit)) for limit in (5, 10, 15, 20, 25)]
    assert [len(page) for page in pages] == [5, 10, 14, 14, 14]
    for smaller, larger in pairwise(pages):
        assert larger[: len(smaller)] == smaller


@stories
async def test_a_question_that_nothing_answers_is_answered_by_nothing(town: Town) -> None:
    for name, text in (("Lodging.md", HOTELS), ("Trains.md", TRAINS), ("Bees.md", BEES)):
        town.write("alice", f"/Papers/{name}", text)
    await town.settle()
    for nonsense in ("quantum chromodynamics lattice gauge", "xqzv blorf wibble", "🦄🦄🦄", "?!"):
        assert (await town.search("alice", nonsense)).hits == [], nonsense
    assert (await town.search("alice", QUESTION)).titles[0] == "Lodging.md"


@stories
async def test_the_quoted_words_are_those_of_the_document_and_the_marks_lie_on_the_asked_ones(town: Town) -> None:
    town.write(
        "alice", "/Contracts/Handbook.pdf", pdf("Welcome to the office.", "The hotel limit is 120 euros a night.")
    )
    await town.settle()
    hit = (await town.search("alice", "hotel limit"))["Handbook.pdf"]
    assert hit["page"] == 2
    assert hit["excerpt"] == "The hotel limit is 120 euros a night."
    assert [hit["excerpt"][start:end] for start, end in hit["highlights"]] == ["hotel", "limit"]


# --- Narrowed down


@stories
async def test_kind_time_and_owner_narrow_a_search(town: Town) -> None:
    town.write("alice", "/Policies/Old hotels.md", a_trip_policy(1), mtime=1_600_000_000)
    town.write("alice", "/Policies/New hotels.md", a_trip_policy(2), mtime=1_750_000_000)
    town.write("alice", "/Notes/Trips/Hotel note.md", a_trip_policy(3), mtime=1_750_000_000)
    town.write("carol", "/Ours/Her hotels.md", a_trip_policy(4), mtime=1_750_000_000)
    town.world.share("carol", "/Ours", with_user="alice")
    board = town.world.add_board("alice", "Travel")
    town.world.add_card(board, "Hotel card", description=a_trip_policy(5))
    await town.settle()

    async def titles(**narrowed: str | int) -> set[str]:
        return set((await town.search("alice", QUESTION, **narrowed)).titles)

    everything = {"Old hotels.md", "New hotels.md", "Hotel note", "Her hotels.md", "Hotel card"}
    assert await titles() == everything
    assert await titles(kind="deck_card") == {"Hotel card"}
    assert await titles(kind="note") == {"Hotel note"}
    assert await titles(kind="note,deck_card") == {"Hotel note", "Hotel card"}
    assert await titles(since=1_700_000_000) == everything - {"Old hotels.md"}
    assert await titles(until=1_600_000_000) == {"Old hotels.md"}
    assert await titles(owner="carol") == {"Her hotels.md"}
    assert await titles(owner="carol", kind="deck_card") == set()


@stories
async def test_the_one_note_is_found_among_many_better_files(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        town.write("alice", f"/Offices/Hotel price limit {number}.md", a_trip_policy(number))
    town.write("alice", "/Notes/Lodging.md", HOTELS)
    await town.settle()
    monkeypatch.setattr(rounds, "DOCUMENTS", 3)
    monkeypatch.setattr(rounds, "PASSAGES", 3)
    monkeypatch.setattr(service, "_LARGEST_PAGE", 3)
    assert (await town.search("alice", QUESTION, limit=3, kind="note")).titles == ["Lodging"]


# --- The order itself


SCALE = Scale(noise=0.1, good=0.8, floor=0.36)
WORDS = ("hotel", "price", "limit", "trips", "honey", "train", "night", "euros", "office", "partner")


def found(number: int, *, dense: float, sparse: float, text: str, mtime: int) -> Candidate:
    return Candidate(
        document=DocumentKey("file", number),
        generation=1,
        chunk=Chunk(0, text, 0, len(text)),
        text_hash=text,
        scopes=frozenset(),
        title=f"{number}.md",
        path="",
        mtime=mtime,
        owner="",
        dense=dense,
        sparse=sparse,
    )


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate]:
    return [
        found(
            number,
            dense=draw(st.floats(-0.2, 1.0)),
            sparse=draw(st.floats(0, 9)),
            text=" ".join(draw(st.lists(st.sampled_from(WORDS), max_size=30))),
            mtime=draw(st.integers(0, 3)),
        )
        for number in range(draw(st.integers(0, 8)))
    ]


def granted(some: Sequence[Candidate]) -> dict[DocumentKey, Granted]:
    return {
        c.document: Granted(Version("v"), Place("file", c.title, "", ""), quotable=True, mtime=c.mtime) for c in some
    }


@given(mine=candidates(), theirs=candidates(), seed=st.integers())
def test_order_and_scores_are_the_same_whatever_else_was_found_and_in_whatever_order(
    mine: list[Candidate], theirs: list[Candidate], seed: int
) -> None:
    strange = [
        found(100 + c.document.id, dense=c.dense, sparse=c.sparse * 3, text=c.chunk.text, mtime=c.mtime + 5)
        for c in theirs
    ]
    mixed = [*mine, *strange]
    random.Random(seed).shuffle(mixed)
    alone = rank(mine, granted(mine), "hotel price limit", SCALE)
    assert rank(mixed, granted(mine), "hotel price limit", SCALE) == alone
    assert [ranked.score for ranked in alone] == sorted((ranked.score for ranked in alone), reverse=True)
    assert all(0 <= ranked.score <= 1 for ranked in alone)


def test_hundreds_of_long_passages_that_are_nearly_copies_take_no_seconds() -> None:
    """All of them are told apart, by a tenth and more of their words."""
    rng = random.Random(5)
    model = [f"word{rng.randrange(1000)}" for _ in range(1300)]
    varied = [[f"other{number}" if rng.random() < 0.04 else word for word in model] for number in range(250)]
    some = [found(n, dense=0.9, sparse=1.0, text=" ".join(text), mtime=n) for n, text in enumerate(varied)]
    began = time.process_time()
    assert len(rank(some, granted(some), "hotel price limit", SCALE)) == len(some)
    assert time.process_time() - began < 2


def test_a_passage_of_nothing_but_the_words_in_question_is_quoted_in_no_time() -> None:
    began = time.process_time()
    for _ in range(20):
        assert excerpt("\u5c71" * 2600, frozenset({"\u5c71\u5c71"})).highlights
    assert time.process_time() - began < 1

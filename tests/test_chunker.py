# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Documents become passages that the model reads whole, cut where the document has a cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ex_app.embed import files
from ex_app.extract.blocks import TEXT_LIMIT, Block, clean
from ex_app.extract.chunker import Chunker
from ex_app.settings import Settings


def _settings(**changes: object) -> Settings:
    return Settings(app_secret="very-secret-value", **changes)


@pytest.fixture(scope="module")
def chunker() -> Chunker:
    settings = _settings()
    return Chunker(files.tokenizer_file(settings), size=220, overlap=24, room=files.room(settings))


WORDS = st.lists(
    st.sampled_from(("hotel", "limit", "Straße", "東京", "🎉", "donaudampfschiff.", "x!", "12,5")), max_size=300
)
ANYTHING = st.text(st.characters(exclude_categories=()), max_size=300)
BLOCKS = st.lists(
    st.builds(
        Block,
        text=ANYTHING | WORDS.map(" ".join) | WORDS.map("".join) | WORDS.map("\n".join),
        level=st.sampled_from([0, 0, 0, 1, 2, 3]),
        page=st.none(),
    ),
    max_size=12,
)


@given(blocks=BLOCKS, size=st.integers(32, 220), overlap=st.integers(0, 60), title=st.text(max_size=60))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_passages_are_exact_ordered_complete_and_small_enough(
    blocks: list[Block], size: int, overlap: int, title: str
) -> None:
    """Whatever the document: text[start:end] is the passage, nothing is lost, the model reads every passage whole."""
    configuration = _settings()
    tokenizer = files.load_tokenizer(configuration)
    chunker = Chunker(files.tokenizer_file(configuration), size=size, overlap=overlap, room=files.room(configuration))
    parsed = chunker.chunk(blocks, title=title)
    covered: set[int] = set()
    for ordinal, chunk in enumerate(parsed.chunks):
        assert chunk.ordinal == ordinal
        assert parsed.text[chunk.start : chunk.end] == chunk.text
        assert chunk.text.strip()
        read = tokenizer.encode(f"{chunk.context_line(title)}\n{chunk.text}")
        assert len(read.ids) <= files.max_tokens(configuration)
        covered.update(range(chunk.start, chunk.end))
    starts = [chunk.start for chunk in parsed.chunks]
    assert starts == sorted(starts)
    lost = "".join(character if place not in covered else "\n" for place, character in enumerate(parsed.text))
    headings = {" ".join(clean(block.text).split()) for block in blocks if block.level}
    assert {line.strip() for line in lost.split("\n") if line.strip()} <= headings


def test_a_small_document_is_one_passage(chunker: Chunker) -> None:
    blocks = [Block("Hotels", level=1), Block("At most 120."), Block("Taxis", level=1), Block("With receipt.")]
    parsed = chunker.chunk(blocks, title="Policy")
    assert [chunk.text for chunk in parsed.chunks] == ["Hotels\n\nAt most 120.\n\nTaxis\n\nWith receipt."]


def test_small_sections_grow_together_only_below_the_same_heading(chunker: Chunker) -> None:
    long = Block("A sentence about something else entirely. " * 40)
    blocks = [
        Block("Trips", level=1),
        long,
        Block("Hotels", level=2),
        Block("At most 120."),
        Block("Taxis", level=2),
        Block("With receipt."),
        Block("Office", level=1),
        Block("Closed on Sunday."),
    ]
    small = [chunk for chunk in chunker.chunk(blocks, title="Policy").chunks if "sentence" not in chunk.text]
    assert [(chunk.headings, chunk.text) for chunk in small] == [
        (("Trips",), "Hotels\n\nAt most 120.\n\nTaxis\n\nWith receipt."),
        (("Office",), "Closed on Sunday."),
    ]


def test_a_passage_repeats_the_end_of_the_one_before_only_within_a_paragraph(chunker: Chunker) -> None:
    one = "Every word of this paragraph is about hotels in Rome " * 60
    parsed = chunker.chunk([Block(one), Block(one)], title="Rome")
    border = parsed.text.index("\n\n")
    for before, after in pairwise(parsed.chunks):
        across = before.end <= border < after.start
        assert across != (after.start < before.end)
        assert parsed.text[after.start - 1].isspace(), "passages begin with a whole word"


def test_no_passage_crosses_a_page(chunker: Chunker) -> None:
    parsed = chunker.chunk([Block("on one", page=1), Block("still one", page=1), Block("on two", page=2)], title="Two")
    assert [(chunk.page, chunk.text) for chunk in parsed.chunks] == [(1, "on one\n\nstill one"), (2, "on two")]


def test_a_heading_without_text_is_found_too(chunker: Chunker) -> None:
    long = Block("A sentence about something else entirely. " * 40)
    parsed = chunker.chunk([Block("To be written", level=1), Block("Rules", level=1), long], title="Draft")
    assert parsed.chunks[0].text == "To be written"


def test_outer_headings_yield_when_title_and_headings_get_long(chunker: Chunker) -> None:
    blocks = [Block(f"Chapter {level} of a work with endless headings " * 3, level=level) for level in range(1, 7)]
    parsed = chunker.chunk([*blocks, Block("Words. " * 400)], title="Endless")
    assert 0 < len(parsed.chunks[-1].headings) < 6
    assert parsed.chunks[-1].headings[-1].startswith("Chapter 6")


def test_a_document_longer_than_the_limit_is_cut_and_says_so(chunker: Chunker) -> None:
    parsed = chunker.chunk([Block("x" * 100_000)] * 21, title="Long")
    assert parsed.truncated
    assert TEXT_LIMIT - 50 < len(parsed.text) <= TEXT_LIMIT
    assert not chunker.chunk([Block("short")], title="Short").truncated


def test_what_a_passage_repeats_takes_only_the_room_that_is_left() -> None:
    """Given passages nearly as long as the model reads, when they overlap, then the model still reads them whole."""
    configuration = _settings()
    tokenizer = files.load_tokenizer(configuration)
    chunker = Chunker(files.tokenizer_file(configuration), size=240, overlap=100, room=files.room(configuration))
    blocks = [Block("Hotels and taxis abroad", level=1), Block("words without any end " * 600)]
    chunks = chunker.chunk(blocks, title="Policy").chunks
    assert any(after.start < before.end for before, after in pairwise(chunks))
    lengths = [len(tokenizer.encode(f"{chunk.context_line('Policy')}\n{chunk.text}").ids) for chunk in chunks]
    assert max(lengths) <= files.max_tokens(configuration)

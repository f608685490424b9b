# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Words become BM25 vectors that find each other across spellings and scripts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ex_app.domain import Sparse
from ex_app.embed.sparse import SparseEncoder


@pytest.fixture(scope="module")
def encoder() -> SparseEncoder:
    return SparseEncoder()


def _score(query: Sparse, document: Sparse) -> float:
    weights = dict(zip(document.indices, document.values, strict=True))
    return sum(value * weights.get(index, 0.0) for index, value in zip(query.indices, query.values, strict=True))


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("resume", "Mon résumé est prêt"),
        ("résumé", "send your RESUME today"),
        ("strasse", "Die Straße ist gesperrt"),
        ("гостиница", "Гостиница у моря"),
        ("ホテル", "東京のホテル料金"),
        ("酒店", "东京酒店的价格"),
        ("호텔", "호텔 요금 안내"),
        ("ξενοδοχείο", "Το ΞΕΝΟΔΟΧΕΊΟ είναι κλειστό"),
        ("فندق", "سعر فندق في المدينة"),
        ("120", "The limit is 120 €"),
        ("2026", "Report 2026-11-30"),
        ("INV-2024-001", "Invoice INV-2024-001 is paid"),
        ("12.5", "a rate of 12.5 %"),
        ("re\u0301sume\u0301", "résumé"),
    ],
)
def test_the_word_asked_for_is_found_where_it_is_written(encoder: SparseEncoder, asked: str, written: str) -> None:
    query, document = encoder.encode_query(asked), encoder.encode_document(written)
    assert query.indices
    assert set(query.indices) <= set(document.indices)


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("hotels", "a hotel in Rome"),
        ("hotel", "all hotels in Rome"),
        ("policies", "our travel policy"),
        ("Reisekosten", "die Reisekostenabrechnung"),
        ("reservación", "las reservaciones"),
        ("бронирование", "правила бронирования"),
        ("otelleri", "bütün otellerde"),
        ("hôtelière", "hoteliers"),
    ],
)
def test_another_form_of_the_word_is_found_but_counts_less(encoder: SparseEncoder, asked: str, written: str) -> None:
    question = encoder.encode_query(asked)
    other_form = _score(question, encoder.encode_document(written))
    assert 0 < other_form < _score(question, encoder.encode_document(asked))


def test_other_words_are_not_found(encoder: SparseEncoder) -> None:
    assert _score(encoder.encode_query("heating 130"), encoder.encode_document("The hotel limit is 120 €")) == 0


def test_a_word_written_often_weighs_more_than_once_but_not_proportionally(encoder: SparseEncoder) -> None:
    query = encoder.encode_query("hotel")
    once = _score(query, encoder.encode_document("hotel rome"))
    thrice = _score(query, encoder.encode_document("hotel hotel hotel rome"))
    assert once < thrice < 3 * once


def test_the_same_mention_weighs_less_in_a_longer_text(encoder: SparseEncoder) -> None:
    query = encoder.encode_query("hotel")
    short, long = encoder.encode_document("hotel rome"), encoder.encode_document("hotel " + "rome " * 400)
    assert _score(query, long) < _score(query, short)


@pytest.mark.parametrize("text", ["", "   \n", "!!! … —"])
def test_a_text_without_words_has_an_empty_vector(encoder: SparseEncoder, text: str) -> None:
    assert encoder.encode_document(text) == encoder.encode_query(text) == Sparse((), ())


@given(text=st.text(st.characters(exclude_categories=()), max_size=200))
def test_any_text_gives_a_vector_that_the_engine_accepts(encoder: SparseEncoder, text: str) -> None:
    """Ids are unique and unsigned 32 bit, weights positive, a query asks for the same ids; half characters included."""
    document, query = encoder.encode_document(text), encoder.encode_query(text)
    assert len(set(document.indices)) == len(document.indices) == len(document.values)
    assert all(0 <= index < 2**32 for index in document.indices)
    assert all(value > 0 for value in document.values)
    assert set(query.indices) == set(document.indices)

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Words as they are compared: the short way for plain text says what the long way says."""

from __future__ import annotations

import string
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from ex_app.search.words import fold, folded_words, words

_ASCII = st.text(string.printable)


@given(_ASCII | st.text())
def test_the_set_of_words_is_that_of_the_words_with_their_places(text: str) -> None:
    assert folded_words(text) == [word.folded for word in words(text)]


@given(_ASCII)
def test_plain_words_fold_as_all_others_do(text: str) -> None:
    assert fold(text) == unicodedata.normalize("NFKD", text.casefold())


@given(st.text())
def test_every_spaced_word_stands_where_it_says(text: str) -> None:
    assert all(text[word.start : word.end] and word.end <= len(text) for word in words(text))


def test_accents_and_case_make_no_difference() -> None:
    assert set(folded_words("Résumé RESUME resume_résumé")) == {"resume"}

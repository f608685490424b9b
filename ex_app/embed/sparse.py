# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Text to BM25 vectors, the same for every language.

Documents carry term frequency weights, queries ones; the engine multiplies the inverse document frequency in.
"""

from __future__ import annotations

import re
from typing import Final

from qdrant_edge import Bm25, Bm25Config, DisabledStemmer, SparseVector, StopwordsSet, TokenizerType

from ex_app.domain import Sparse

# Part of the index name: raise it whenever the same text would give another vector.
SPARSE_VERSION: Final = 1

# Words in a typical chunk; only its ratio to a chunk's own length matters.
_AVERAGE_WORDS: Final = 150

# The multilingual tokenizer drops tokens without a letter, so amounts, years and invoice numbers get one.
_NUMBER_START: Final = re.compile(r"(?<![^\W_])(?=\d)")
_NUMBER_MARK: Final = "n"


class SparseEncoder:
    """Neutral BM25: accents folded, words of every script, no stemmer and no stopwords, because languages mix."""

    def __init__(self) -> None:
        self._bm25 = Bm25(
            Bm25Config(
                avg_len=_AVERAGE_WORDS,
                tokenizer=TokenizerType.Multilingual,
                lowercase=True,
                ascii_folding=True,
                stopwords=StopwordsSet(),
                stemmer=DisabledStemmer(),
            )
        )

    def encode_document(self, text: str) -> Sparse:
        """The vector of a chunk (context line included, if the caller wants its words found); empty for no words."""
        return _sparse(self._bm25.embed_document(_prepared(text)))

    def encode_query(self, text: str) -> Sparse:
        """The vector of a question: every different word once with weight 1; empty for no words."""
        return _sparse(self._bm25.embed_query(_prepared(text)))


def _prepared(text: str) -> str:
    """Numbers marked; half characters, which broken clients send, become question marks."""
    return _NUMBER_START.sub(_NUMBER_MARK, text.encode("utf-8", "replace").decode())


def _sparse(vector: SparseVector) -> Sparse:
    return Sparse(tuple(vector.indices), tuple(vector.values))

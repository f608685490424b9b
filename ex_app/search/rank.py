# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Order, score, floor and near-duplicate collapse, computed over verified passages only.

Nothing here may depend on a passage that the user cannot read: the engine's own fusion only picked the candidates.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from ex_app.domain import Candidate, DocumentKey, Granted
from ex_app.search.words import folded_words

# How much the best lexical match weighs against a perfect semantic one. Measured on Cranfield and XQuAD (en, de, es):
# 0.7 to 1.0 are within half a point of nDCG@10 of each other, and better than DBSF and RRF on every set.
LEXICAL_WEIGHT = 0.7

# Within one document every passage is about its subject: there the rarer words of the question tell passages apart.
LEXICAL_WEIGHT_WITHIN = 1.0

# A passage that covers this much of the question's weight in words is about it, whatever the model says of the
# language. On XQuAD right answers cover 0.54 in the median, the best wrong ones to foreign questions 0.15 to 0.24.
_COVERAGE_FLOOR = 0.42

# Passages that share this much of their words are the same passage in two copies.
_SAME = 0.9

# Of this many triples, any of them, two copies share at least one but for one case in ten million.
_SAMPLE = 7

# So many triples stand for a passage: to compare hundreds of long ones that are nearly copies would take seconds.
_SKETCH = 128

# "Call Anna" on two boards is two tasks, not two copies.
_COPY_WORDS = 12


@dataclass(frozen=True, slots=True)
class Scale:
    """What cosines mean for a model: below noise nothing, from good on everything; floor divides right from wrong."""

    noise: float
    good: float
    floor: float

    @classmethod
    def of(cls, *, unrelated: float, related: float) -> Scale:
        """From the mean cosines of unrelated and related pairs.

        The shares of their distance are those that separate best for all-MiniLM-L6-v2 on XQuAD, Cranfield and the
        sample world: there noise is 0.10, good 0.80, floor 0.36.
        """
        spread = max(0.01, related - unrelated)
        return cls(noise=unrelated + 0.12 * spread, good=unrelated + 1.79 * spread, floor=unrelated + 0.74 * spread)

    def relevance(self, cosine: float) -> float:
        """A cosine as a number from 0 to 1."""
        return min(1.0, max(0.0, (cosine - self.noise) / (self.good - self.noise)))


@dataclass(frozen=True, slots=True)
class Ranked:
    """A verified document with the passage that answers best and its relevance in [0, 1].

    words: those of the question, folded, that tell passages apart; worth marking in a quote. copies: documents with the
    same passage that this one stands for.
    """

    document: DocumentKey
    grant: Granted
    passage: Candidate
    score: float
    words: frozenset[str]
    copies: int = 0


def rank(
    candidates: Sequence[Candidate],
    granted: Mapping[DocumentKey, Granted],
    question: str,
    scale: Scale,
    *,
    stale: Set[DocumentKey] = frozenset(),
) -> list[Ranked]:
    """Granted documents that answer the question, best first; passages below the floor and second copies left out.

    stale: those whose passages are not their present text. They are nobody's copy, and nobody is theirs.
    """
    verified = [candidate for candidate in candidates if candidate.document in granted]
    coverage = _Coverage(question, verified)
    best_sparse = max((candidate.sparse for candidate in verified), default=0.0)
    telling = coverage.telling()
    best: dict[DocumentKey, tuple[float, Ranked]] = {}
    for candidate in verified:
        lexical = candidate.sparse / best_sparse if best_sparse > 0 else 0.0
        covered = coverage.of(candidate)
        if candidate.dense < scale.floor and covered < _COVERAGE_FLOOR:
            continue
        meaning = scale.relevance(candidate.dense)
        score = (meaning + LEXICAL_WEIGHT * lexical) / (1 + LEXICAL_WEIGHT)
        fitness = meaning + LEXICAL_WEIGHT_WITHIN * lexical
        ranked = Ranked(candidate.document, granted[candidate.document], candidate, score, telling)
        best[candidate.document] = _better(best.get(candidate.document), (fitness, ranked))
    return _collapse(sorted((ranked for _, ranked in best.values()), key=_order), stale)


def _better(known: tuple[float, Ranked] | None, other: tuple[float, Ranked]) -> tuple[float, Ranked]:
    """Of two passages of a document the fitter one is quoted; the document scores as its best passage does."""
    if known is None:
        return other
    score = max(known[1].score, other[1].score)
    fitness, ranked = max(known, other, key=lambda pair: (pair[0], -pair[1].passage.chunk.ordinal))
    return fitness, replace(ranked, score=score)


def promising(candidates: Sequence[Candidate], scale: Scale) -> list[Candidate]:
    """Unverified candidates in the order in which to ask about them. For asking only: this order is never shown."""
    best_sparse = max((candidate.sparse for candidate in candidates), default=0.0) or 1.0
    return sorted(
        candidates,
        key=lambda candidate: (
            -(scale.relevance(candidate.dense) + LEXICAL_WEIGHT * candidate.sparse / best_sparse),
            candidate.document,
            candidate.chunk.ordinal,
        ),
    )


class _Coverage:
    """How much of a question's weight a passage covers.

    A word weighs more the fewer of the verified passages have it, so that "what is the" weighs nothing without a list
    of stopwords for every language, and without a statistic that other people's documents could move.
    """

    def __init__(self, question: str, verified: Sequence[Candidate]) -> None:
        self._words = {id(candidate): _folded(candidate) for candidate in verified}
        asked = frozenset(folded_words(question))
        self._counts = counts = Counter(word for found in self._words.values() for word in asked & found)
        number = len(verified)
        self._weights = {word: math.log(1 + (number - counts[word] + 0.5) / (counts[word] + 0.5)) for word in asked}
        self._total = sum(self._weights.values()) or 1.0

    def telling(self) -> frozenset[str]:
        """The question's words that weigh at least half of the heaviest one that was found at all."""
        found = {word: weight for word, weight in self._weights.items() if self._counts[word]}
        heaviest = max(found.values(), default=0.0)
        return frozenset(word for word, weight in found.items() if weight >= heaviest / 2)

    def of(self, candidate: Candidate) -> float:
        """A share from 0 to 1."""
        found = self._words[id(candidate)]
        return sum(weight for word, weight in self._weights.items() if word in found) / self._total


def _folded(candidate: Candidate) -> Set[str]:
    text = "\n".join((candidate.title, *candidate.chunk.headings, candidate.chunk.text))
    return frozenset(folded_words(text))


def _order(ranked: Ranked) -> tuple[float, int, DocumentKey, int]:
    """Best first; among equals the newest; then by key, so that the order is always the same."""
    return (-ranked.score, -ranked.grant.mtime, ranked.document, ranked.passage.chunk.ordinal)


def _collapse(ordered: Iterable[Ranked], stale: Set[DocumentKey]) -> list[Ranked]:
    """Of copies of the same passage the newest stays, where the best of them stood."""
    kept: list[Ranked] = []
    fingerprints: list[frozenset[int]] = []
    for ranked in ordered:
        fingerprint = frozenset() if ranked.document in stale else _shingles(ranked.passage.chunk.text)
        sample = sorted(fingerprint)[:_SAMPLE]
        twin = next((i for i, other in enumerate(fingerprints) if _alike(fingerprint, other, sample)), None)
        if twin is None:
            kept.append(ranked)
            fingerprints.append(fingerprint)
            continue
        first = kept[twin]
        newest = replace(ranked, score=first.score) if ranked.grant.mtime > first.grant.mtime else first
        kept[twin] = replace(newest, copies=first.copies + 1)
    return kept


def _shingles(text: str) -> frozenset[int]:
    """Hashes of triples of neighbouring words, the smallest ones; empty for a text too short to be called a copy."""
    folded = folded_words(text)
    triples = zip(folded, folded[1:], folded[2:], strict=False) if len(folded) >= _COPY_WORDS else ()
    return frozenset(sorted(set(map(hash, triples)))[:_SKETCH])


def _alike(one: frozenset[int], other: frozenset[int], sample: Iterable[int]) -> bool:
    """sample: a few of `one`: most passages are told apart by these alone, and all of them are compared with all."""
    if other.isdisjoint(sample):
        return False
    common = len(one & other)
    return common >= _SAME * (len(one) + len(other) - common)

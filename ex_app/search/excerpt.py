# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The part of a passage that is shown: the window with most of the question's words, cut at word boundaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass

from ex_app.search.words import words

# Characters shown of a passage: about four lines in the search bar.
LENGTH = 320


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A quote: `text` is passage[start:end] word for word; highlights are offsets into text."""

    text: str
    start: int
    end: int
    highlights: tuple[tuple[int, int], ...]


def excerpt(passage: str, terms: Set[str], *, length: int = LENGTH) -> Excerpt:
    """Quote at most `length` characters of a passage around the densest cluster of `terms` (folded words)."""
    found = [(word.start, word.end, word.folded) for word in words(passage) if word.folded in terms]
    start = _best_start(found, length) if len(passage) > length else 0
    start = _back_to_boundary(passage, start)
    end = _to_boundary(passage, min(len(passage), start + length))
    text = passage[start:end]
    start += len(text) - len(text.lstrip())
    text = text.strip()
    marks = [(s - start, e - start) for s, e, _ in found if s >= start and e <= start + len(text)]
    return Excerpt(text, start, start + len(text), _merged(marks))


def _best_start(found: list[tuple[int, int, str]], length: int) -> int:
    """Where the window with most different words begins; a little before its first one, so that it can be read."""
    lead = length // 5
    inside: Counter[str] = Counter()
    best = most = end = 0
    for first, (start, _, word) in enumerate(found):
        while end < len(found) and found[end][1] <= start - lead + length:
            inside[found[end][2]] += 1
            end += 1
        if len(inside) > most:
            best, most = max(0, start - lead), len(inside)
        if end == first:  # longer than the window
            end += 1
            continue
        inside[word] -= 1
        if not inside[word]:
            del inside[word]
    return best


def _back_to_boundary(text: str, at: int) -> int:
    """Move left to the start of the sentence or word that `at` cuts, not further than 80 characters."""
    for stop in (". ", "! ", "? ", "。", "\n", " "):
        found = text.rfind(stop, max(0, at - 80), at)
        if found >= 0:
            return found + len(stop)
    return at


def _to_boundary(text: str, at: int) -> int:
    if at >= len(text):
        return len(text)
    space = max(text.rfind(" ", max(0, at - 40), at), text.rfind("\n", max(0, at - 40), at))
    return space if space > 0 else at


def _merged(marks: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(marks):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)

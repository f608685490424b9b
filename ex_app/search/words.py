# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Words of any script, with their places in the text: for highlights and for how much of a question is covered."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

# Scripts that write no spaces: there, pairs of neighbouring characters stand in for words.
_UNSPACED = "぀-ヿ㐀-䶿一-鿿豈-﫿가-힯฀-๿"
_WORD = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_UNSPACED_START = re.compile(rf"[{_UNSPACED}]")
_ASCII_WORD = re.compile(r"[^\W_]+", re.ASCII)


class Word(NamedTuple):
    """A word as compared (folded) and where it stands: text[start:end]."""

    folded: str
    start: int
    end: int


def words(text: str) -> Iterator[Word]:
    """The words of a text in order; case, accents and compatibility forms folded away."""
    for match in _WORD.finditer(text):
        if _UNSPACED_START.match(match[0]):
            yield from _pairs(match[0], match.start())
        else:
            yield Word(fold(match[0]), match.start(), match.end())


def folded_words(text: str) -> list[str]:
    """The words of a text in order, as compared. Every search folds some hundred passages, most of them plain ASCII."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return [word.folded for word in words(text)]


def fold(word: str) -> str:
    """The form in which words are compared: résumé, RESUME and resume are one."""
    if word.isascii():
        return word.lower()
    decomposed = unicodedata.normalize("NFKD", word.casefold())
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def _pairs(run: str, offset: int) -> Iterator[Word]:
    if len(run) == 1:
        yield Word(run, offset, offset + 1)
    for index in range(len(run) - 1):
        yield Word(run[index : index + 2], offset + index, offset + index + 2)

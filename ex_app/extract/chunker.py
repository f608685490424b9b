# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Blocks to passages of a size that the model reads whole, cut where the document's structure cuts.

A passage never crosses a page, and crosses a heading only where neighbours are too small to stand alone. Where a
paragraph must be cut, the next passage repeats the end of the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from semantic_text_splitter import TextSplitter
from tokenizers import Tokenizer

from ex_app.domain import Chunk, Parsed
from ex_app.extract.blocks import TEXT_LIMIT, Block, clean, clean_line

# Part of the index name: raise it whenever the same document would give other passages, or they other hashes.
CHUNKER_VERSION: Final = 2

# Neighbouring sections grow together up to this share of a passage.
_SMALL: Final = 1 / 3

# What title and headings may take of the model's room; outer headings yield first.
_CONTEXT_SHARE: Final = 1 / 3
_HEADING_CHARS: Final = 120

# A longer "heading" is a paragraph in large letters.
_HEADING_LIMIT: Final = 250

# Where context and passage meet, some tokenizers need one token more than for both alone.
_SEAM: Final = 1

# However long the title, a passage gets this many tokens.
_LEAST_TOKENS: Final = 32

# Some tokenizers make one token of any nonsense, however long: no passage has more characters per token than this.
_CHARS_PER_TOKEN: Final = 12

# Characters given to the splitter at once.
_STRETCH: Final = 20_000

# How far an overlap may be shortened to begin with a whole word, in characters.
_WORD_REACH: Final = 40

_BREAK: Final = "\n\n"


@dataclass(frozen=True, slots=True)
class _Section:
    """A stretch of the text below one heading on one page. lead: where the headings directly before it begin."""

    lead: int
    start: int
    end: int
    page: int | None
    path: tuple[str, ...]

    @property
    def titled(self) -> bool:
        """Its innermost heading stands directly before it."""
        return self.lead < self.start


class Chunker:
    """Cuts documents for one model. tokenizer: its tokenizer.json; room: tokens of one text that the model reads."""

    def __init__(self, tokenizer: Path, *, size: int, overlap: int, room: int) -> None:
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._size = size
        self._overlap = overlap
        self._room = room
        self._splitters: dict[int, TextSplitter] = {}

    def chunk(self, blocks: Iterable[Block], *, title: str) -> Parsed:
        """The whole text and its passages in reading order; no passages for no text."""
        text, pieces, truncated = _placed(blocks)
        sections = self._merged(text, _sections(text, pieces), title)
        chunks = [chunk for section in sections for chunk in self._cut(text, section, title)]
        return Parsed(
            text, tuple(replace(chunk, ordinal=ordinal) for ordinal, chunk in enumerate(chunks)), truncated=truncated
        )

    def _merged(self, text: str, sections: Sequence[_Section], title: str) -> list[_Section]:
        """A document that is one passage becomes one; else small neighbours below the same heading grow together."""
        whole, _ = self._fit(title, ())
        pages = {section.page for section in sections}
        if len(pages) == 1 and self._fits(text, whole):
            return [_Section(0, 0, len(text), pages.pop(), ())]
        merged: list[_Section] = []
        for section in sections:
            together = _joined(merged[-1], section) if merged else None
            if together and self._fits(text[together.start : together.end], int(self._size * _SMALL)):
                merged[-1] = together
            else:
                merged.append(section)
        return merged

    def _cut(self, text: str, section: _Section, title: str) -> list[Chunk]:
        budget, path = self._fit(title, section.path)
        passage = text[section.start : section.end]
        if self._fits(passage, budget):
            spans = [(section.start, section.end)]
        else:
            spans = [
                (section.start + offset, section.start + offset + len(piece))
                for offset, piece in self._pieces(passage, budget)
            ]
            spans = self._overlapping(text, spans, self._room - self._context(title, path) - _SEAM)
        return [Chunk(0, text[start:end], start, end, section.page, path) for start, end in spans]

    def _fit(self, title: str, path: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        """Tokens left for a passage, and the headings that may go with it."""
        while path and self._context(title, path) > self._room * _CONTEXT_SHARE:
            path = path[1:]
        left = self._room - self._context(title, path) - _SEAM
        return max(_LEAST_TOKENS, min(self._size, left)), path

    def _context(self, title: str, path: tuple[str, ...]) -> int:
        return self._count(Chunk(0, "", 0, 0, headings=path).context_line(title) + "\n")

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _fits(self, text: str, tokens: int) -> bool:
        return len(text) <= tokens * _CHARS_PER_TOKEN and self._count(text) <= tokens

    def _pieces(self, passage: str, tokens: int) -> list[tuple[int, str]]:
        longest = tokens * _CHARS_PER_TOKEN
        pieces: list[tuple[int, str]] = []
        for begin, stretch in _stretches(passage):
            for offset, piece in self._splitter(tokens).chunk_indices(stretch):
                parts = ((at, piece[at : at + longest]) for at in range(0, len(piece), longest))
                pieces += [(begin + offset + at, part) for at, part in parts if part.strip()]
        return pieces

    def _splitter(self, tokens: int) -> TextSplitter:
        if tokens not in self._splitters:
            self._splitters[tokens] = TextSplitter.from_huggingface_tokenizer(self._tokenizer, tokens)
        return self._splitters[tokens]

    def _overlapping(self, text: str, spans: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
        """Where no empty line parts two passages, the second begins with the end of the first, as room allows."""
        result = spans[:1]
        for before, (begin, end) in pairwise(spans):
            start = begin
            spare = min(self._overlap, most - self._count(text[start:end]))
            overlaps = spare > 0 and _BREAK not in text[before[1] : start]
            earlier = self._stepped_back(text, before, spare) if overlaps else None
            if earlier is not None and self._count(text[earlier:end]) <= most:
                start = earlier
            result.append((start, end))
        return result

    def _stepped_back(self, text: str, span: tuple[int, int], tokens: int) -> int | None:
        """Where the last tokens of a span begin, on a word's edge; None when they are more than half of it."""
        start, end = span
        offsets = self._tokenizer.encode(text[start:end], add_special_tokens=False).offsets
        if tokens * 2 > len(offsets):
            return None
        at = start + offsets[-tokens][0]
        if at == start or text[at - 1].isspace():
            return at
        space = next((place for place in range(at, min(at + _WORD_REACH, end)) if text[place].isspace()), None)
        return at if space is None else space + 1


def _stretches(passage: str) -> Iterator[tuple[int, str]]:
    """The passage in stretches that end at the last paragraph, line or word: the splitter slows down on long texts."""
    begin = 0
    while begin < len(passage):
        end = begin + _STRETCH
        if end < len(passage):
            ends = (passage.rfind(mark, end - _STRETCH // 4, end) + len(mark) for mark in (_BREAK, "\n", ". ", " "))
            end = next((found for found in ends if found > begin + 2), end)
        yield begin, passage[begin:end]
        begin = end


@dataclass(frozen=True, slots=True)
class _Piece:
    """A block at its place in the text."""

    start: int
    end: int
    level: int
    page: int | None


def _placed(blocks: Iterable[Block]) -> tuple[str, list[_Piece], bool]:
    """The clean text of all blocks with an empty line between them, and whether the limit cut it."""
    parts: list[str] = []
    pieces: list[_Piece] = []
    start = 0
    for block in blocks:
        level = block.level if len(block.text) <= _HEADING_LIMIT else 0
        content = clean_line(block.text) if level else clean(block.text)
        if not content:
            continue
        fitting = content[: max(0, TEXT_LIMIT - start)].rstrip()
        if fitting:
            parts.append(fitting)
            pieces.append(_Piece(start, start + len(fitting), level, block.page))
        if len(fitting) < len(content):
            return _BREAK.join(parts), pieces, True
        start += len(fitting) + len(_BREAK)
    return _BREAK.join(parts), pieces, False


def _sections(text: str, pieces: Sequence[_Piece]) -> list[_Section]:
    """Runs of pieces below the same headings on the same page; headings become context, bare ones sections."""
    sections: list[_Section] = []
    headings: list[tuple[int, str]] = []
    lead: _Piece | None = None
    for piece, following in zip(pieces, [*pieces[1:], None], strict=False):
        if piece.level:
            while headings and headings[-1][0] >= piece.level:
                headings.pop()
            path = tuple(name for _, name in headings)
            headings.append((piece.level, text[piece.start : piece.end][:_HEADING_CHARS]))
            lead = lead or piece
            if following is None or 0 < following.level <= piece.level:
                sections.append(_section(lead, piece, path))
                lead = None
            continue
        path = tuple(name for _, name in headings)
        last = sections[-1] if sections else None
        if lead is None and last and (last.page, last.path) == (piece.page, path):
            sections[-1] = replace(last, end=piece.end)
        else:
            sections.append(_section(lead or piece, piece, path))
        lead = None
    return sections


def _section(lead: _Piece, piece: _Piece, path: tuple[str, ...]) -> _Section:
    """A heading at the foot of the page before stays there."""
    begin = lead.start if lead.page == piece.page else piece.start
    return _Section(begin, piece.start, piece.end, piece.page, path)


def _joined(first: _Section, second: _Section) -> _Section | None:
    """Two neighbours as one below their common headings, or None when a page or a chapter parts them."""
    inside = second.path[: len(first.path)] == first.path
    siblings = first.titled and second.path[: len(first.path) - 1] == first.path[:-1]
    if first.page != second.page or not (inside or siblings):
        return None
    if inside:
        return replace(first, end=second.end)
    return replace(first, start=first.lead, end=second.end, path=first.path[:-1])

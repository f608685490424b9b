# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""PDF: text by page, lines joined to sentences again."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Final

import kreuzberg
import pypdf

from ex_app.domain import Reason, Unindexable
from ex_app.extract.blocks import Block

# A line this full, compared with the page's longest, went on only because the paper ended.
_FULL_LINE: Final = 0.6

_SENTENCE_END: Final = tuple(".!?:;。！？…")

# What begins a list item, which goes on no line before.
_ITEM: Final = re.compile(r"[•▪◦‣●○*–—-]\s|\(?(?:\d{1,3}|[a-z])[.)]\s")

# PDFium marks a hyphen at the end of a line like this. Before a small letter it splits a word, else it belongs there.
_SPLIT_WORD: Final = re.compile(r"\x02\s*(?=[^\W\d_A-Z])")


def pdf_blocks(body: bytes) -> Iterator[Block]:
    """One block a page; raises Unindexable ENCRYPTED when it wants a password."""
    for page, text in enumerate(_pages(body), 1):
        yield Block(_unwrapped(text), page=page)


def _pages(body: bytes) -> list[str]:
    config = kreuzberg.ExtractionConfig(use_cache=False, pages=kreuzberg.PageConfig(extract_pages=True))
    try:
        result = kreuzberg.extract_bytes_sync(body, "application/pdf", config)
    except kreuzberg.KreuzbergError as error:
        if "password" in str(error).lower():
            raise Unindexable(Reason.ENCRYPTED) from error
        return _pages_by_pypdf(body)
    pages = {page["page_number"]: page["content"] for page in result.pages or ()}
    return [pages.get(number, "") for number in range(1, max(pages, default=0) + 1)]


def _pages_by_pypdf(body: bytes) -> list[str]:
    """It repairs files that PDFium gives up on."""
    try:
        reader = pypdf.PdfReader(io.BytesIO(body), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unindexable(Reason.ENCRYPTED)
        return [page.extract_text() for page in reader.pages]
    except (pypdf.errors.PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unindexable(Reason.CORRUPT, "no readable PDF") from error


def _unwrapped(page: str) -> str:
    """Lines that only the page's width broke become one again, so that passages end where sentences do."""
    page = page.replace("\r\n", "\n").replace("\r", "\n")
    page = _SPLIT_WORD.sub("", page).replace("\x02", "-")
    lines = [line.strip() for line in page.split("\n")]
    full = _FULL_LINE * max(map(len, lines), default=0)
    joined = ""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        ends = line.endswith(_SENTENCE_END) or not following or _ITEM.match(following)
        wrapped = len(line) >= full and not ends
        joined += line + (" " if wrapped else "\n")
    return joined

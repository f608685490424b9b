# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What every parser makes of a document: blocks of clean text in reading order."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

# Characters of a document that are indexed: a thousand pages.
TEXT_LIMIT: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, list, table or heading. level: 1 (outermost) to 6 for headings, 0 for text; page: 1-based."""

    text: str
    level: int = 0
    page: int | None = None


_LINE_ENDS: Final = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")

# Control characters, half characters, and invisible ones that split words or disguise what a reader sees
# (soft hyphen, zero width space, direction overrides). Joiners stay: Persian and Indic scripts need them.
_UNWANTED: Final = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\ufff9-\uffff"
    "\ud800-\udfff]"
)

# Typographic ligatures, which PDFs are full of and nobody types.
_LIGATURES: Final = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"})

_TRAILING_SPACE: Final = re.compile(r"[^\S\n]+(?=\n)")
_EMPTY_LINES: Final = re.compile(r"\n{3,}")


def clean(text: str) -> str:
    """NFC, newlines as \\n, no control or disguising characters, no trailing space, at most one empty line in a row."""
    text = _LINE_ENDS.sub("\n", text)
    text = _UNWANTED.sub("", text).translate(_LIGATURES)
    text = unicodedata.normalize("NFC", text)
    text = _TRAILING_SPACE.sub("", text)
    return _EMPTY_LINES.sub("\n\n", text).strip()


def clean_line(text: str) -> str:
    """Clean, on one line."""
    return " ".join(clean(text).split())

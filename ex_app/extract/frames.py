# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""How the sandbox and the process in it speak: frames of eight bytes length and so many bytes content.

First a frame with the JSON of `Limits`, answered by an empty frame. Then, for each document, a frame with its title,
name and media type as JSON and one with its bytes, answered by one of JSON: the text and its passages' offsets, or a
reason. Never pickle: a parser that somebody took over writes these answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from ex_app.domain import Chunk, Parsed, Reason, Unindexable

HEADER: Final = 8  # bytes of a frame's length, most significant first
MAX_ANSWER: Final = 64 * 1024 * 1024  # bytes


@dataclass(frozen=True, slots=True)
class Limits:
    """What the process in the sandbox needs to know before its first document."""

    tokenizer: str  # path of the model's tokenizer.json
    size: int  # tokens of a passage
    overlap: int  # tokens
    room: int  # tokens that the model reads
    memory_mb: int  # on top of what it needs for itself
    cpu_s: float  # for one document


def frame(content: bytes) -> tuple[bytes, bytes]:
    """The length, then the content: apart, because documents are too big to be copied for eight bytes."""
    return len(content).to_bytes(HEADER, "big"), content


def pack_limits(limits: Limits) -> bytes:
    """As JSON."""
    return json.dumps(asdict(limits)).encode()


def unpack_limits(content: bytes) -> Limits:
    """The opposite."""
    return Limits(**json.loads(content))


def pack_parsed(parsed: Parsed) -> bytes:
    """Passages travel as offsets: their text is in the text."""
    chunks = [(chunk.start, chunk.end, chunk.page, chunk.headings) for chunk in parsed.chunks]
    return json.dumps({"text": parsed.text, "truncated": parsed.truncated, "chunks": chunks}).encode()


def pack_reason(reason: Reason, detail: str) -> bytes:
    """Why there is no text."""
    return json.dumps({"reason": reason, "detail": detail}).encode()


def unpack_answer(content: bytes) -> Parsed:
    """The parsed document; raises Unindexable with the reason given, or FAILED for an answer that makes no sense."""
    try:
        answer = json.loads(content)
        if "reason" not in answer:
            return _parsed(answer)
        reason, detail = Reason(answer["reason"]), str(answer["detail"])[:200]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unindexable(Reason.FAILED, "the parser answered nonsense") from error
    raise Unindexable(reason, detail)


def _parsed(answer: Mapping[str, Any]) -> Parsed:
    text = answer["text"]
    if not isinstance(text, str):
        raise TypeError("no text")
    chunks = [_chunk(text, ordinal, *fields) for ordinal, fields in enumerate(answer["chunks"])]
    return Parsed(text, tuple(chunks), truncated=bool(answer["truncated"]))


def _chunk(text: str, ordinal: int, start: int, end: int, page: int | None, headings: list[str]) -> Chunk:
    if not 0 <= start < end <= len(text) or not (page is None or isinstance(page, int)):
        raise ValueError("offsets outside the text")
    return Chunk(ordinal, text[start:end], start, end, page, tuple(map(str, headings)))

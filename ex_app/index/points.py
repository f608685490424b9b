# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Chunks to points: embeds only passages whose text is new for the document, copies the vectors of the others.

The title is no part of what tells passages apart: a renamed document keeps what the model made of it, and only its BM25
vectors, which cost next to nothing, are made anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ex_app.domain import Chunk, Parsed, Passage, Point, Sighting, Sparse

# Texts per call to the embed process: enough to sort by length, little enough to give way to other work.
_BATCH = 128


class EmbedsDocuments(Protocol):
    """What the write path needs of the dense model."""

    async def documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """One row per text."""


class EncodesDocuments(Protocol):
    """What the write path needs of the sparse encoder."""

    def encode_document(self, text: str) -> Sparse:
        """The BM25 vector of a passage."""


KnownVectors = Mapping[str, tuple[float, ...]]  # dense ones by text hash


def embedded_text(sighting: Sighting, chunk: Chunk) -> str:
    """What both encoders read: the context line, then the passage."""
    return f"{chunk.context_line(sighting.title)}\n{chunk.text}"


def title_only(sighting: Sighting) -> Parsed:
    """A document whose text cannot be had is still found by its name and place."""
    place = sighting.path.removesuffix(sighting.title).strip("/").replace("/", " › ")
    return Parsed("", (Chunk(0, "", 0, 0, headings=(place,) if place else ()),))


def known_in(passages: Iterable[Passage]) -> KnownVectors:
    """What the model need not read again."""
    return {passage.text_hash: passage.dense for passage in passages}


async def make_points(
    sighting: Sighting,
    parsed: Parsed,
    *,
    generation: int,
    known: KnownVectors,
    embedder: EmbedsDocuments,
    encoder: EncodesDocuments,
) -> list[Point]:
    """The document's points in a new generation. Raises EmbedderUnavailable."""
    texts = {_text_hash(sighting, chunk): embedded_text(sighting, chunk) for chunk in parsed.chunks}
    fresh = [(digest, text) for digest, text in texts.items() if digest not in known]
    vectors = dict(known)
    for first in range(0, len(fresh), _BATCH):
        batch = fresh[first : first + _BATCH]
        rows = await embedder.documents([text for _, text in batch])
        for (digest, _), row in zip(batch, rows, strict=True):
            vectors[digest] = tuple(map(float, row))
    return [_point(sighting, chunk, generation=generation, vectors=vectors, encoder=encoder) for chunk in parsed.chunks]


def _text_hash(sighting: Sighting, chunk: Chunk) -> str:
    """Of headings and text. Where there is no text the title is the text."""
    text = "\n".join((" › ".join(chunk.headings), chunk.text or sighting.title))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _point(
    sighting: Sighting, chunk: Chunk, *, generation: int, vectors: KnownVectors, encoder: EncodesDocuments
) -> Point:
    digest = _text_hash(sighting, chunk)
    return Point(
        document=sighting.key,
        generation=generation,
        chunk=chunk,
        text_hash=digest,
        dense=vectors[digest],
        sparse=encoder.encode_document(embedded_text(sighting, chunk)),
        scopes=sighting.scopes,
        title=sighting.title,
        path=sighting.path,
        mtime=sighting.mtime,
        owner=sighting.owner,
    )

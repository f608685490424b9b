# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Chunks to points: embeds only passages whose text is new for the document, copies the vectors of the others."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ex_app.domain import Chunk, Parsed, Point, Sighting, Sparse

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


KnownVectors = Mapping[str, tuple[tuple[float, ...], Sparse]]  # by text hash


def embedded_text(sighting: Sighting, chunk: Chunk) -> str:
    """What both encoders read: the context line, then the passage."""
    return f"{chunk.context_line(sighting.title)}\n{chunk.text}"


def title_only(sighting: Sighting) -> Parsed:
    """A document whose text cannot be had is still found by its name and place."""
    place = sighting.path.removesuffix(sighting.title).strip("/").replace("/", " › ")
    return Parsed("", (Chunk(0, "", 0, 0, headings=(place,) if place else ()),))


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
    texts = {_hash(text): text for chunk in parsed.chunks if (text := embedded_text(sighting, chunk))}
    fresh = [(digest, text) for digest, text in texts.items() if digest not in known]
    vectors = dict(known)
    for first in range(0, len(fresh), _BATCH):
        batch = fresh[first : first + _BATCH]
        rows = await embedder.documents([text for _, text in batch])
        for (digest, text), row in zip(batch, rows, strict=True):
            vectors[digest] = (tuple(map(float, row)), encoder.encode_document(text))
    return [_point(sighting, chunk, generation=generation, vectors=vectors) for chunk in parsed.chunks]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _point(sighting: Sighting, chunk: Chunk, *, generation: int, vectors: KnownVectors) -> Point:
    digest = _hash(embedded_text(sighting, chunk))
    dense, sparse = vectors[digest]
    return Point(
        document=sighting.key,
        generation=generation,
        chunk=chunk,
        text_hash=digest,
        dense=dense,
        sparse=sparse,
        scopes=sighting.scopes,
        title=sighting.title,
        path=sighting.path,
        mtime=sighting.mtime,
        owner=sighting.owner,
    )

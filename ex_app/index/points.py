# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Chunks to points: embeds only passages whose text is new for the document, copies the vectors of the others.

The title is no part of what tells passages apart: a renamed document keeps what the model made of it, and only its BM25
vectors, which cost next to nothing, are made anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ex_app.domain import Chunk, Parsed, Passage, Point, Reason, Sighting, Sparse
from ex_app.store.documents import DocumentRow

# Between the parts of a content hash.
_HASHES_PART = "/"

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
    """What the model reads: the context line, then the passage. Where there is no text the title alone."""
    return _written(sighting, chunk) if chunk.text else sighting.title


def _written(sighting: Sighting, chunk: Chunk) -> str:
    """What BM25 reads. Where there is no text the place is among the headings."""
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


def body_hash(body: bytes) -> str:
    """Of the bytes alone."""
    return hashlib.sha256(body).hexdigest()


def body_hash_in(content: str) -> str:
    """The part of a content hash that a rename does not change."""
    return content.partition(_HASHES_PART)[0]


def content_hash(body: str, sighting: Sighting, reason: Reason | None) -> str:
    """The hash of the bytes, of what tells their kind, and of the name: a rename mostly changes the last part alone.

    reason: why there is no text; then the place counts as a part of the name, as it is found by that.
    """
    kind = hashlib.sha256(f"{PurePosixPath(sighting.title).suffix.lower()}\0{sighting.mime}".encode()).hexdigest()
    name = hashlib.sha256(f"{sighting.title}\0{sighting.path if reason else ''}".encode()).hexdigest()
    return _HASHES_PART.join((body, kind[:16], name[:32]))


def renamed(row: DocumentRow | None, content: str, held: Sequence[Passage]) -> Parsed | None:
    """The passages of a document of which nothing but the title changed; None where there is more to do.

    The same bytes read as another kind of document have other passages.
    """
    if row is None or row.reason is not None or not held or len(held) != row.chunks:
        return None
    if row.content_hash.rpartition(_HASHES_PART)[0] != content.rpartition(_HASHES_PART)[0]:
        return None
    return Parsed("", tuple(passage.chunk for passage in held), truncated=row.truncated)


def _text_hash(sighting: Sighting, chunk: Chunk) -> str:
    """Of headings and text. Where there is no text it is the title that the model reads anew, and the place is not."""
    text = "\n".join((" › ".join(chunk.headings), chunk.text)) if chunk.text else sighting.title
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
        sparse=encoder.encode_document(_written(sighting, chunk)),
        scopes=sighting.scopes,
        title=sighting.title,
        path=sighting.path,
        mtime=sighting.mtime,
        owner=sighting.owner,
    )

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Small documents whose text changed since it was indexed are read on the spot, as the asker, and quoted anew."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ex_app.domain import Chunk, DocumentKey, Granted, NotAvailable, Parsed, SemanticSearchError, Sparse, Version
from ex_app.nextcloud.session import Session
from ex_app.sources import Source

# Larger documents take longer than a search may: they are listed without a quote until the worker has read them.
MAX_BYTES = 24 * 1024

# Documents read on the spot in one search.
MAX_DOCUMENTS = 2


class Extracts(Protocol):
    """What a refresh needs of extraction."""

    async def extract(self, body: bytes, *, title: str, name: str, mime: str) -> Parsed:
        """Bytes to text and chunks; raises Unindexable."""


class EncodesBoth(Protocol):
    """What a refresh needs of the sparse encoder."""

    def encode_document(self, text: str) -> Sparse:
        """The BM25 vector of a passage."""

    def encode_query(self, text: str) -> Sparse:
        """The BM25 vector of a question."""


@dataclass(frozen=True, slots=True)
class Refresher:
    """Reads present text. Readers who ask for the same version of the same document at the same time share one reading.

    Sharing is safe: each of them was granted that very version a moment ago.
    """

    sources: Mapping[str, Source]
    extractor: Extracts
    encoder: EncodesBoth
    flights: dict[tuple[DocumentKey, Version], asyncio.Task[Parsed]]

    async def passage(
        self, session: Session, document: DocumentKey, grant: Granted, question: Sparse, *, seconds: float
    ) -> Chunk | None:
        """The passage of the present text that answers best; None when it cannot be had in time."""
        try:
            async with asyncio.timeout(seconds):
                parsed = await asyncio.shield(self._flight(session, document, grant))
        except (TimeoutError, SemanticSearchError):
            return None
        return max(parsed.chunks, key=lambda chunk: self._overlap(chunk, question), default=None)

    def _flight(self, session: Session, document: DocumentKey, grant: Granted) -> asyncio.Task[Parsed]:
        key = (document, grant.version)
        flight = self.flights.get(key)
        if flight is None:
            flight = asyncio.create_task(self._read(session, document, grant))
            self.flights[key] = flight
            flight.add_done_callback(lambda done: self._landed(key, done))
        return flight

    def _landed(self, key: tuple[DocumentKey, Version], flight: asyncio.Task[Parsed]) -> None:
        self.flights.pop(key, None)
        if not flight.cancelled():
            flight.exception()  # whoever still waits has it; nobody else needs to be told

    async def _read(self, session: Session, document: DocumentKey, grant: Granted) -> Parsed:
        content = await self.sources[document.source].reread(session, document, grant, limit=MAX_BYTES)
        if not content.body:
            raise NotAvailable("nothing to quote")
        return await self.extractor.extract(content.body, title=grant.place.title, name=content.name, mime=content.mime)

    def _overlap(self, chunk: Chunk, question: Sparse) -> float:
        weights = dict(zip(question.indices, question.values, strict=True))
        passage = self.encoder.encode_document(chunk.text)
        return sum(
            weights.get(index, 0.0) * value for index, value in zip(passage.indices, passage.values, strict=True)
        )

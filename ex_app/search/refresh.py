# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Small documents whose text changed since it was indexed are read on the spot, as the asker, and quoted anew."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ex_app.domain import Candidate, Chunk, Content, Granted, Parsed, SemanticSearchError, Sparse
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


class EmbedsPassages(Protocol):
    """What a refresh needs of the dense model."""

    async def documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """One row of unit length per text."""


@dataclass(frozen=True, slots=True)
class Refresher:
    """Reads present text. Everybody reads for himself, under his own rights and at his own moment.

    Those who got the same bytes at the same time share the parsing alone.
    """

    sources: Mapping[str, Source]
    extractor: Extracts
    encoder: EncodesBoth
    embedder: EmbedsPassages
    parsing: dict[Hashable, asyncio.Task[Parsed]]

    async def anew(
        self,
        session: Session,
        grant: Granted,
        old: Candidate,
        *,
        dense: Sequence[float],
        sparse: Sparse,
        seconds: float,
    ) -> Candidate | None:
        """The passage of the present text that answers best, with its own scores; None when it cannot be had in time.

        dense, sparse: the question. The new BM25 score is the old one's in proportion to the words shared, as only the
        engine knows how rare they are.
        """
        try:
            async with asyncio.timeout(seconds):
                content = await self.sources[old.document.source].reread(session, old.document, grant, limit=MAX_BYTES)
                if not content.body:
                    return None
                # Shielded: who runs out of time must not kill the parser under the others.
                parsed = await asyncio.shield(self._parse(content, grant.place.title))
                best = max(parsed.chunks, key=lambda chunk: self._overlap(chunk, sparse), default=None)
                if best is None:
                    return None
                text = f"{best.context_line(grant.place.title)}\n{best.text}"
                row = (await self.embedder.documents([text]))[0]
        except (TimeoutError, SemanticSearchError):
            return None
        before, now = self._overlap(old.chunk, sparse), self._overlap(best, sparse)
        return replace(
            old,
            chunk=best,
            title=grant.place.title,
            dense=float(np.dot(row, np.asarray(dense, dtype=np.float32))),
            sparse=old.sparse * min(1.0, now / before) if before else now,
        )

    def _parse(self, content: Content, title: str) -> asyncio.Task[Parsed]:
        key = (content, title)
        task = self.parsing.get(key)
        if task is None:
            task = asyncio.create_task(
                self.extractor.extract(content.body, title=title, name=content.name, mime=content.mime)
            )
            self.parsing[key] = task
            task.add_done_callback(lambda done: self._parsed(key, done))
        return task

    def _parsed(self, key: Hashable, task: asyncio.Task[Parsed]) -> None:
        self.parsing.pop(key, None)
        if not task.cancelled():
            task.exception()  # whoever still waits has it; nobody else needs to be told

    def _overlap(self, chunk: Chunk, question: Sparse) -> float:
        weights = dict(zip(question.indices, question.values, strict=True))
        passage = self.encoder.encode_document(chunk.text)
        return sum(
            weights.get(index, 0.0) * value for index, value in zip(passage.indices, passage.values, strict=True)
        )

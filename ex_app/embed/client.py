# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The way from the other processes to the embed process."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx
import numpy as np

from ex_app.domain import EmbedderUnavailable
from ex_app.embed.wire import SHAPE_HEADER, Vectors, unpack
from ex_app.settings import Settings

# Texts of one request. Long lists are faster (they are sorted by length), short ones are given up sooner.
_TEXTS: Final = 256

# A slow machine embeds two passages a second.
_DOCUMENTS_TIMEOUT_S: Final = 180.0

# People type the same again: back button, next page, the same question at another door.
_REMEMBERED: Final = 256


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What the embed process says about its model. max_tokens: of one text, special tokens included.

    unrelated, related: mean cosines of questions and passages that do not, and that do, belong together.
    """

    model: str
    dimensions: int
    max_tokens: int
    unrelated: float
    related: float


class Embedder:
    """Asks the embed process; every failure is EmbedderUnavailable, and the next call tries afresh."""

    def __init__(self, settings: Settings) -> None:
        self._query_timeout = settings.search_deadline_s
        self._client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(settings.embed_socket), retries=1),
            base_url="http://embed",
            timeout=httpx.Timeout(self._query_timeout, pool=None),
        )
        self._remembered: OrderedDict[tuple[str, str], tuple[float, ...]] = OrderedDict()

    async def info(self) -> ModelInfo:
        """Which model answers."""
        response = await self._send("GET", "/info", timeout=self._query_timeout)
        try:
            return ModelInfo(**response.json())
        except (TypeError, ValueError) as error:
            raise EmbedderUnavailable("the embedding process answered nonsense") from error

    async def query(self, text: str, *, user: str) -> tuple[float, ...]:
        """The vector of a user's question, of unit length; waits no longer than a search may take.

        Remembered for this user alone: how fast an answer comes must not tell what somebody else asked.
        """
        known = (user, text)
        if known in self._remembered:
            self._remembered.move_to_end(known)
            return self._remembered[known]
        rows = await self._rows("/query", {"text": text}, expected=1, timeout=self._query_timeout)
        vector = tuple(rows[0].tolist())
        self._remembered[known] = vector
        if len(self._remembered) > _REMEMBERED:
            self._remembered.popitem(last=False)
        return vector

    async def documents(self, texts: Sequence[str]) -> Vectors:
        """One row of unit length for each text (context line and passage), in the order given; (0, 0) for none."""
        parts = [
            await self._rows("/documents", {"texts": part}, expected=len(part), timeout=_DOCUMENTS_TIMEOUT_S)
            for part in (list(texts[begin : begin + _TEXTS]) for begin in range(0, len(texts), _TEXTS))
        ]
        return np.concatenate(parts) if parts else np.zeros((0, 0), dtype=np.float32)

    async def close(self) -> None:
        """Drop the connections."""
        await self._client.aclose()

    async def _rows(self, path: str, content: Mapping[str, Any], *, expected: int, timeout: float) -> Vectors:  # noqa: ASYNC109  httpx cancels better
        response = await self._send("POST", path, content=content, timeout=timeout)
        try:
            rows = unpack(response.content, response.headers.get(SHAPE_HEADER, ""))
        except ValueError as error:
            raise EmbedderUnavailable("the embedding process answered nonsense") from error
        if len(rows) != expected:
            raise EmbedderUnavailable(f"the embedding process answered {len(rows)} vectors for {expected} texts")
        return rows

    async def _send(
        self,
        method: str,
        path: str,
        *,
        timeout: float,  # noqa: ASYNC109  httpx tells connect from read
        content: Mapping[str, Any] | None = None,
    ) -> httpx.Response:
        try:
            response = await self._client.request(method, path, content=_json(content), timeout=timeout)
            response.raise_for_status()
        except httpx.HTTPStatusError as error:
            raise EmbedderUnavailable(f"the embedding process answered {error.response.status_code}") from error
        except httpx.HTTPError as error:
            raise EmbedderUnavailable(f"the embedding process does not answer: {type(error).__name__}") from error
        return response


def _json(content: Mapping[str, Any] | None) -> bytes | None:
    """Half characters, which broken clients send, become question marks."""
    return None if content is None else json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What makes hunted worlds cheap: Nextcloud without a network, words without a model, files in memory."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
from leak_rules import Found
from town import Stage, Town

from ex_app.embed.client import ModelInfo
from ex_app.settings import Settings

_DIMENSIONS = 64

_MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


class Hashing:
    """Stands where the language model does: a text is the sum of its words' directions."""

    def __init__(self, _: Settings) -> None: ...

    async def info(self) -> ModelInfo:
        return ModelInfo("hashing", _DIMENSIONS, 256, unrelated=0.1, related=0.5)

    async def query(self, text: str, *, user: str) -> tuple[float, ...]:
        return tuple(_direction(text).tolist())

    async def documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.stack([_direction(text) for text in texts]) if texts else np.zeros((0, 0), dtype=np.float32)

    async def close(self) -> None: ...


def _direction(text: str) -> npt.NDArray[np.float32]:
    vector = np.zeros(_DIMENSIONS, dtype=np.float32)
    for word in re.findall(r"\w+", text.lower()) or ["nothing"]:
        digest = zlib.crc32(word.encode())
        vector[digest % _DIMENSIONS] += 1
        vector[digest // _DIMENSIONS % _DIMENSIONS] += 1 if digest >> 31 else -1
    return vector / (float(np.linalg.norm(vector)) or 1.0)


class _Silence(Exception):
    """The stand-in waits for the client to give up."""


class Wire(httpx.AsyncBaseTransport):
    """Carries requests to the stand-in in this very process; `before` is told of each of them first."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.before: Callable[[], None] = lambda: None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.before()
        assert isinstance(request.stream, httpx.AsyncByteStream)
        given = [{"type": "http.request", "body": b"".join([part async for part in request.stream])}]
        told: list[Any] = []

        async def receive() -> Any:
            if not given:
                raise _Silence
            return given.pop()

        async def send(message: Any) -> None:
            told.append(message)

        try:
            await self.stage(_scope(request), receive, send)
        except _Silence as error:
            raise httpx.ReadTimeout("no answer", request=request) from error
        except ConnectionResetError as error:
            raise httpx.RemoteProtocolError("cut", request=request) from error
        body = b"".join(message.get("body", b"") for message in told)
        return httpx.Response(told[0]["status"], headers=told[0]["headers"], content=body)


def _scope(request: httpx.Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": "http",
        "path": request.url.path,
        "raw_path": request.url.raw_path.partition(b"?")[0],
        "query_string": request.url.query,
        "server": ("nextcloud", 80),
        "client": ("127.0.0.1", 123),
        "root_path": "",
    }


def quick_folder() -> str | None:
    """A folder in memory where there is one: worlds need not survive a power cut."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


async def by_json(
    town: Town, user: str, question: str, limit: int, narrow: Mapping[str, str], *, relayed: bool
) -> tuple[str, list[dict[str, Any]], bool]:
    """Everything that was said, the hits and whether anything is missing: the first page and the next one, if any."""
    params: dict[str, Any] = {"q": question, "limit": limit, **narrow}
    said, hits, degraded = "", [], False
    for _ in range(2):
        answer = await town.ask(user, "GET", "/api/search", params=params, relayed=relayed)
        if answer.status_code != 200:
            raise Found("broken", f"{answer.status_code} {answer.text}")
        page = answer.json()
        # A sealed cursor is noise: now and then it holds eight letters that look like one of our words.
        said += answer.text.replace(page["cursor"] or "\0", "") + str(answer.headers)
        hits += page["hits"]
        degraded |= page["degraded"]
        params["cursor"] = page["cursor"]
        if not page["cursor"]:
            break
    if len({hit["ref"] for hit in hits}) < len(hits):
        raise Found("repeated", f"{user} was shown a document on two pages")
    return said, hits, degraded


async def by_mcp(
    town: Town, user: str, question: str, limit: int, narrow: Mapping[str, str], *, relayed: bool
) -> tuple[str, list[dict[str, Any]], bool]:
    """The same of an assistant's tool, one page."""
    given: dict[str, Any] = {"query": question, "limit": limit}
    if narrow:
        given["doc_types"] = [narrow["kind"]]
    call = {"name": "nc_semantic_search", "arguments": given}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    answer = await town.ask(user, "POST", "/mcp", json=body, headers=_MCP, relayed=relayed)
    result = answer.json().get("result", {})
    if answer.status_code != 200 or result.get("isError", True):
        raise Found("broken", f"{answer.status_code} {answer.text[:500]}")
    told = result["structuredContent"]
    hits = [{**hit, "kind": hit["doc_type"], "link": hit["url"]} for hit in told["results"]]
    return answer.text.replace(told["next_cursor"] or "\0", ""), hits, told["degraded"]

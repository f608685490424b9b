# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The embed process: one model behind a unix socket, questions before indexing.

`GET /info`, `POST /query {"text"}` and `POST /documents {"texts"}`; vectors travel as `wire` says.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ex_app.domain import BadRequest, NotAvailable
from ex_app.embed.wire import MAX_TEXTS, SHAPE_HEADER, Vectors, pack
from ex_app.processes import CRUNCHING_NICE, end_with_parent
from ex_app.settings import Settings

if TYPE_CHECKING:
    from ex_app.embed.model import Model

logger = logging.getLogger(__name__)

_MAX_BODY: Final = 32 * 1024 * 1024  # bytes
_MAX_QUERY_CHARS: Final = 10_000  # far more than any model reads
_MAX_WAITING_QUERIES: Final = 64

# Texts that a core encodes without looking up: short enough that a question never waits long for it.
_SLICE: Final = 8

# As long as somebody searches, indexing keeps to one core.
_SEARCHING_S: Final = 30.0

# An indexing slice lets questions pass first, but a flood of questions must not stop indexing for good.
_YIELD_S: Final = 2.0


class Encoder:
    """Runs the model on threads of their own: one for questions, one a lane for documents."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._queries = ThreadPoolExecutor(1, "embed-queries")
        self._documents = ThreadPoolExecutor(model.lanes, "embed-documents", initializer=_step_back)
        self._alone = threading.Lock()  # of the one lane that goes on while somebody searches
        self._quiet = threading.Event()
        self._quiet.set()
        self._waiting = 0
        self._last_query = float("-inf")

    async def warm_up(self) -> None:
        """The first question would be slow: ask it ourselves."""
        await asyncio.get_running_loop().run_in_executor(self._queries, self.model.encode_query, "warm up")

    async def query(self, text: str) -> Vectors:
        """One row; raises NotAvailable when more questions wait than anybody would wait for."""
        if self._waiting >= _MAX_WAITING_QUERIES:
            raise NotAvailable("too many questions at once")
        self._waiting += 1
        self._last_query = time.monotonic()
        self._quiet.clear()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._queries, self.model.encode_query, text)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._quiet.set()

    async def documents(self, texts: Sequence[str], *, abandoned: Callable[[], Awaitable[bool]]) -> Vectors:
        """One row a text, in the order given; stops between slices once the caller is gone."""
        loop = asyncio.get_running_loop()
        rows = np.zeros((len(texts), self.model.dimensions), dtype=np.float32)
        by_length = sorted(range(len(texts)), key=lambda position: len(texts[position]))
        slices = iter([by_length[begin : begin + _SLICE] for begin in range(0, len(by_length), _SLICE)])

        async def lane() -> None:
            for positions in slices:
                if await abandoned():
                    logger.info("embed_abandoned texts=%d", len(texts))
                    return
                rows[positions] = await loop.run_in_executor(
                    self._documents, self._encode_slice, [texts[position] for position in positions]
                )

        await asyncio.gather(*(lane() for _ in range(self.model.lanes)))
        return rows

    def close(self) -> None:
        """Let the current slice finish, drop the rest."""
        self._queries.shutdown(wait=True, cancel_futures=True)
        self._documents.shutdown(wait=True, cancel_futures=True)

    def _encode_slice(self, texts: list[str]) -> Vectors:
        self._quiet.wait(_YIELD_S)
        if time.monotonic() - self._last_query < _SEARCHING_S:
            with self._alone:
                self._quiet.wait(_YIELD_S)  # a question may have come while another lane was at it
                return self.model.encode_documents(texts, threads=1)
        return self.model.encode_documents(texts, threads=self.model.cores // self.model.lanes)


def _step_back() -> None:
    """On Linux a thread has a niceness of its own, which those that it starts inherit."""
    os.nice(CRUNCHING_NICE)


def build_app(encoder: Encoder) -> Starlette:
    """The three routes."""

    async def info(_: Request) -> Response:
        model = encoder.model
        return JSONResponse(
            {
                "model": model.name,
                "dimensions": model.dimensions,
                "max_tokens": model.max_tokens,
                "unrelated": model.unrelated,
                "related": model.related,
            }
        )

    async def query(request: Request) -> Response:
        text = (await _read(request)).get("text")
        if not isinstance(text, str):
            raise BadRequest("text must be a string")
        return _packed(await encoder.query(text[:_MAX_QUERY_CHARS]))

    async def documents(request: Request) -> Response:
        texts = (await _read(request)).get("texts")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise BadRequest("texts must be a list of strings")
        if len(texts) > MAX_TEXTS:
            raise _TooLargeError(f"at most {MAX_TEXTS} texts at once")
        return _packed(await encoder.documents(texts, abandoned=request.is_disconnected))

    return Starlette(
        routes=[
            Route("/info", info),
            Route("/query", query, methods=["POST"]),
            Route("/documents", documents, methods=["POST"]),
        ],
        exception_handlers={
            BadRequest: _says(400),
            _TooLargeError: _says(413),
            NotAvailable: _says(503),
        },
    )


def run(settings: Settings) -> None:
    """Load the model and serve it until told to stop; the socket appears once questions can be answered."""
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle threads must not spin on cores that others need
    end_with_parent()
    from ex_app.embed import model as dense  # noqa: PLC0415  torch must see the environment above

    started = time.monotonic()
    encoder = Encoder(dense.load(settings))
    asyncio.run(_serve(encoder, settings.embed_socket, started))


async def _serve(encoder: Encoder, path: Path, started: float) -> None:
    await encoder.warm_up()
    listener = _listen(path)
    logger.info("embed_ready model=%s seconds=%.1f", encoder.model.name, time.monotonic() - started)
    config = uvicorn.Config(
        build_app(encoder), log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=2
    )
    try:
        await uvicorn.Server(config).serve(sockets=[listener])
    finally:
        encoder.close()


def _listen(path: Path) -> socket.socket:
    """Bind the socket so that only our own user can reach it, in place of one that a dead process left behind."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    return listener


class _TooLargeError(BadRequest):
    pass


def _says(status: int) -> Callable[[Request, Exception], Response]:
    return lambda _, error: PlainTextResponse(str(error), status)


async def _read(request: Request) -> Mapping[str, Any]:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BODY:
            raise _TooLargeError(f"at most {_MAX_BODY} bytes at once")
    try:
        content = json.loads(body)
    except ValueError as error:
        raise BadRequest("the body must be JSON") from error
    return content if isinstance(content, dict) else {}


def _packed(rows: Vectors) -> Response:
    body, shape = pack(rows)
    return Response(body, media_type="application/octet-stream", headers={SHAPE_HEADER: shape})

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The embedded vector engine: Qdrant Edge in a process of its own, behind the part of Qdrant's REST API that we use.

    QDRANT__SERVICE__API_KEY=… python -m ex_app.store.edge_server --data DIR --port PORT

Listens on 127.0.0.1 only and answers nothing without the key. It never optimizes segments, as the engine serves nothing
while it does; one call of our own, `POST /collections/{name}/compaction`, erases what was deleted, while it serves.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import logging
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import qdrant_edge as edge
import uvicorn
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_json
from qdrant_client.http import models
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ex_app.processes import InUse, owned
from ex_app.store import edge_convert as convert
from ex_app.store.edge_desk import Desk, Housekeeping, Overloaded
from ex_app.store.edge_shards import CollectionExists, NoCollection, Shards, Unreadable

# The Qdrant release whose API this speaks: the first with a filterable IDF corpus.
API_VERSION = "1.19.0"
MAX_BODY = 32 * 1024 * 1024  # bytes; Qdrant's own limit

_M = TypeVar("_M", bound=BaseModel)
_Handler = Callable[[Request, "_House"], Awaitable[Any]]
_DELETION: TypeAdapter[models.PointIdsList | models.FilterSelector] = TypeAdapter(
    models.PointIdsList | models.FilterSelector
)
_log = logging.getLogger(__name__)


class _Refused(Exception):
    """The request cannot be answered; carries the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class _House:
    """What the handlers work with."""

    desk: Desk
    housekeeping: Housekeeping


class KeyRequired:
    """ASGI middleware: 401 for everything that does not carry the API key."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"api-key", b"")
        if hmac.compare_digest(given, self._key):
            await self._app(scope, receive, send)
            return
        refusal = Response("Must provide an API key", status_code=401, media_type="text/plain")
        await refusal(scope, receive, send)


def build_app(shards: Shards, *, api_key: str) -> Starlette:
    """The REST API over the shards; closes them when it shuts down."""
    if not api_key:
        raise ValueError("an API key is needed")
    desk = Desk(shards)
    house = _House(desk, Housekeeping(desk))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        keeping = asyncio.create_task(house.housekeeping.keep())
        yield
        keeping.cancel()
        desk.close()

    def route(path: str, method: str, handler: _Handler) -> Route:
        async def endpoint(request: Request) -> Response:
            return await _answer(request, house, handler)

        return Route(path, endpoint, methods=[method])

    return Starlette(
        routes=[route(path, method, handler) for path, method, handler in _routes()],
        middleware=[Middleware(KeyRequired, key=api_key)],
        lifespan=lifespan,
    )


def _routes() -> list[tuple[str, str, _Handler]]:
    one, points = "/collections/{name}", "/collections/{name}/points"
    return [
        ("/collections", "GET", _list_collections),
        (f"{one}/exists", "GET", _exists),
        (one, "GET", _describe),
        (one, "PUT", _create),
        (one, "DELETE", _delete_collection),
        (f"{one}/index", "PUT", _create_index),
        (f"{one}/compaction", "POST", _compact),
        (points, "PUT", _upsert),
        (points, "POST", _retrieve),
        (f"{points}/delete", "POST", _delete_points),
        (f"{points}/payload", "POST", _set_payload),
        (f"{points}/query", "POST", _query),
        (f"{points}/query/batch", "POST", _query_batch),
        (f"{points}/scroll", "POST", _scroll),
        (f"{points}/count", "POST", _count),
        ("/", "GET", _version),
    ]


async def _answer(request: Request, house: _House, handler: _Handler) -> Response:
    """Qdrant's envelope around what the handler gives or raises."""
    started = time.monotonic()
    try:
        result = await handler(request, house)
    except Exception as fault:  # noqa: BLE001 - the outermost line: every fault becomes an answer
        status, message = _fault(fault)
        if status >= 500:
            _log.error("request_failed method=%s status=%d", request.method, status, exc_info=fault)
        content: dict[str, Any] = {"status": {"error": message}, "time": time.monotonic() - started}
        return Response(to_json(content), status_code=status, media_type="application/json")
    if handler is not _version:
        result = {"result": result, "status": "ok", "time": time.monotonic() - started}
    return Response(to_json(result), media_type="application/json")


def _fault(fault: Exception) -> tuple[int, str]:
    match fault:
        case _Refused():
            return fault.status, str(fault)
        case NoCollection():
            return 404, f"Not found: Collection `{fault}` doesn't exist!"
        case CollectionExists():
            return 409, f"Wrong input: Collection `{fault}` already exists!"
        case Overloaded():
            return 503, "Too many requests are waiting"
        case ValidationError():
            found = fault.errors(include_input=False, include_url=False)[0]
            return 400, f"Format error in JSON body: {'.'.join(map(str, found['loc']))}: {found['msg']}"
        case ValueError():
            return 400, f"Wrong input: {fault}"
        case _ if type(fault) is Exception and not str(fault).startswith("Service"):
            return 400, f"Wrong input: {fault}"  # how the engine itself reports a bad request
        case _:
            return 500, f"Service internal error: {fault}"


async def _body(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY:
            raise _Refused(413, f"Payload too large: the limit is {MAX_BODY} bytes")
        parts.append(part)
    return b"".join(parts)


async def _parsed(request: Request, model: type[_M]) -> _M:
    return model.model_validate_json(await _body(request))


def _name(request: Request) -> str:
    return str(request.path_params["name"])


async def _version(_: Request, __: _House) -> dict[str, str]:
    return {"title": "qdrant - vector search engine (embedded)", "version": API_VERSION}


async def _list_collections(_: Request, house: _House) -> dict[str, Any]:
    names = await house.desk.read(lambda shards: shards.names())
    return {"collections": [{"name": name} for name in names]}


async def _exists(request: Request, house: _House) -> dict[str, bool]:
    return {"exists": _name(request) in await house.desk.read(lambda shards: shards.names())}


async def _describe(request: Request, house: _House) -> dict[str, Any]:
    name = _name(request)
    created, info = await house.desk.read(lambda shards: (shards.request_of(name), shards.get(name).info()))
    params = created.model_dump(mode="json", include={"vectors", "sparse_vectors"}, exclude_none=True)
    return {
        "status": "green",
        "optimizer_status": "ok",
        "points_count": info.points_count,
        "segments_count": info.segments_count,
        "indexed_vectors_count": 0,
        "config": {
            "params": params,
            # Required by the models, without effect: there is no graph without optimization.
            "hnsw_config": {"m": 0, "ef_construct": 100, "full_scan_threshold": 10000},
            "optimizer_config": {"default_segment_number": 0, "flush_interval_sec": 1},
        },
        "payload_schema": {
            field: {"data_type": str(index.data_type).rpartition(".")[2].lower(), "points": index.points}
            for field, index in info.payload_schema.items()
        },
    }


async def _create(request: Request, house: _House) -> bool:
    name, asked = _name(request), await _parsed(request, models.CreateCollection)
    await house.desk.write(lambda shards: shards.create(name, asked))
    return True


async def _delete_collection(request: Request, house: _House) -> bool:
    name = _name(request)
    return await house.desk.write(lambda shards: shards.delete(name))


async def _add(request: Request, house: _House, operation: edge.UpdateOperation) -> dict[str, Any]:
    """Every write waits until it is durable, whatever the caller's `wait` says."""
    name = _name(request)
    await house.desk.write(lambda shards: shards.add(name, operation))
    return {"operation_id": 0, "status": "completed"}


async def _replace(request: Request, house: _House, operation: edge.UpdateOperation) -> dict[str, Any]:
    name = _name(request)
    await house.desk.write(lambda shards: shards.replace(name, operation))
    return {"operation_id": 0, "status": "completed"}


async def _compact(request: Request, house: _House) -> bool:
    await house.housekeeping.compact(_name(request))
    return True


async def _create_index(request: Request, house: _House) -> dict[str, Any]:
    return await _add(request, house, convert.field_index(await _parsed(request, models.CreateFieldIndex)))


async def _upsert(request: Request, house: _House) -> dict[str, Any]:
    return await _add(request, house, convert.upsert(await _parsed(request, models.PointsList)))


async def _delete_points(request: Request, house: _House) -> dict[str, Any]:
    return await _replace(request, house, convert.deletion(_DELETION.validate_json(await _body(request))))


async def _set_payload(request: Request, house: _House) -> dict[str, Any]:
    return await _replace(request, house, convert.payload_update(await _parsed(request, models.SetPayload)))


async def _retrieve(request: Request, house: _House) -> list[dict[str, Any]]:
    name, asked = _name(request), convert.retrieve(await _parsed(request, models.PointRequest))
    records = await house.desk.read(lambda shards: shards.get(name).retrieve(**asked))
    return [convert.record_json(record) for record in records]


async def _query(request: Request, house: _House) -> dict[str, Any]:
    name, asked = _name(request), convert.query(await _parsed(request, models.QueryRequest))
    found = await house.desk.read(lambda shards: shards.get(name).query(asked))
    return {"points": [convert.scored_json(point) for point in found]}


async def _query_batch(request: Request, house: _House) -> list[dict[str, Any]]:
    name = _name(request)
    batch = await _parsed(request, models.QueryRequestBatch)
    asked = edge.QueryBatchRequest([convert.query(search) for search in batch.searches])
    answers = await house.desk.read(lambda shards: shards.get(name).query_batch(asked))
    return [{"points": [convert.scored_json(point) for point in found]} for found in answers]


async def _scroll(request: Request, house: _House) -> dict[str, Any]:
    name, asked = _name(request), convert.scroll(await _parsed(request, models.ScrollRequest))
    records, following = await house.desk.read(lambda shards: shards.get(name).scroll(asked))
    return {"points": [convert.record_json(record) for record in records], "next_page_offset": following}


async def _count(request: Request, house: _House) -> dict[str, int]:
    name, asked = _name(request), convert.count(await _parsed(request, models.CountRequest))
    return {"count": await house.desk.read(lambda shards: shards.get(name).count(asked))}


def watch_parent() -> None:
    """End with the parent: it holds our standard input open for as long as it lives."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        os._exit(0)  # nothing acknowledged is lost: it is in the write-ahead log

    threading.Thread(target=wait, name="parent", daemon=True).start()


def main(arguments: list[str] | None = None) -> None:
    """Serve until told to stop; exits with a sentence when the folder has another owner or no key is given."""
    parser = argparse.ArgumentParser(prog="edge_server", description="The embedded vector engine")
    parser.add_argument("--data", type=Path, required=True, help="folder of the collections")
    parser.add_argument("--port", type=int, required=True, help="port on 127.0.0.1")
    asked = parser.parse_args(arguments)
    key = os.environ.get("QDRANT__SERVICE__API_KEY", "")
    if not key:
        sys.exit("QDRANT__SERVICE__API_KEY must be set")
    if os.environ.get("EX_APP_CHILD") == "1":
        watch_parent()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    try:
        with owned(asked.data):
            app = build_app(Shards(asked.data), api_key=key)
            uvicorn.run(
                app,
                host="127.0.0.1",
                port=asked.port,
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_keep_alive=60,
                timeout_graceful_shutdown=3,
            )
    except (InUse, Unreadable) as fault:
        sys.exit(str(fault))


if __name__ == "__main__":
    main()

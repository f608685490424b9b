# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""An ExApp that repeats what it was asked: the far end of AppAPI's proxy.

To let a real server know it, run `python -m tests.contract.probe` with the NEXTCLOUD_TEST_APP_* variables set, and give
the line that it prints to `occ app_api:app:register <id> <manual daemon> --wait-finish --json-info '<line>'`.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

# As in our manifest: anchored on both sides, slashes escaped. The last one is what a careless manifest would say.
ROUTES: list[dict[str, Any]] = [
    {
        "url": url,
        "verb": verb,
        "access_level": 1,
        "headers_to_exclude": ["Authorization", "Cookie"],
    }
    for url, verb in (
        (r"^\/?echo\/here$", "GET"),
        (r"^\/?tool$", "POST,GET,DELETE"),
        (r"^\/?ui\/search\.(js|css)$", "GET"),
        (r"^\/?api\/me$", "GET,PUT"),
        ("^careless.*", "POST"),
    )
]

# What says this is answered as by an app in trouble.
PLEASE_FAIL = "please-fail"


def _echo(request: Request, body: bytes) -> dict[str, Any]:
    return {
        "method": request.method,
        "path": request.url.path,
        "query": request.url.query,
        "headers": dict(request.headers),
        "body": body.decode("latin-1"),
    }


async def _answer(request: Request) -> Response:
    """Healthy, in no need of preparation, and otherwise an echo. Always with a length: streams break in the proxy."""
    match request.url.path:
        case "/heartbeat":
            return JSONResponse({"status": "ok"})
        case "/init":
            return JSONResponse({}, 501)
        case "/enabled":
            return JSONResponse({"error": ""})
        case "/ui/search.js":
            return Response("'use strict'", media_type="text/javascript", headers={"Cache-Control": "no-store"})
        case "/ui/search.css":
            return Response("main { }", media_type="text/css", headers={"Cache-Control": "no-store"})
    echo = _echo(request, await request.body())
    request.app.state.heard.append(echo)
    status = 500 if PLEASE_FAIL in echo["body"] else 200
    return JSONResponse(echo, status, headers={"Cache-Control": "no-store"})


@contextmanager
def probing(port: int, heard: list[dict[str, Any]] | None = None) -> Iterator[str]:
    """Serve the probe on 127.0.0.1 for the length of a with block; its address. Port 0 picks a free one.

    heard: where everything that it repeats is written down.
    """
    app = Starlette(routes=[Route("/{path:path}", _answer, methods=["GET", "POST", "PUT", "DELETE"])])
    app.state.heard = [] if heard is None else heard
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)


def main() -> None:
    """Print the registration, then answer until Ctrl-C."""
    port = int(os.environ["NEXTCLOUD_TEST_APP_PORT"])
    info = {
        "id": os.environ["NEXTCLOUD_TEST_APP_ID"],
        "name": "Contract probe",
        "version": os.environ["NEXTCLOUD_TEST_APP_VERSION"],
        "secret": os.environ["NEXTCLOUD_TEST_APP_SECRET"],
        "port": port,
        "routes": ROUTES,
    }
    print(json.dumps(info), flush=True)  # noqa: T201
    with probing(port) as url:
        httpx.get(f"{url}/heartbeat", trust_env=False).raise_for_status()
        while True:
            time.sleep(1)


if __name__ == "__main__":
    main()

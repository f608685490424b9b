# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Wiring of the stand-in: its ASGI application and a server on 127.0.0.1 that tests and the demo start."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from demo import appapi, caldav, companion, dav, deck, notes, ocs, pages, proxy
from demo.gate import ExApp, Gate
from demo.multistatus import DavError
from demo.webhooks import Webhooks
from demo.world import World

_CAL_METHODS = ["PROPFIND", "REPORT", "GET"]
_DAV_METHODS = ["PROPFIND", "REPORT", "GET", "HEAD", "PUT", "MKCOL", "MOVE", "DELETE"]


def create_app(world: World, *, workers: int = 8) -> Starlette:
    """The stand-in over a world. workers: concurrent requests that its PHP has; app.state: world, apps, webhooks."""
    apps: dict[str, ExApp] = {}
    webhooks = Webhooks(world)
    app = Starlette(
        routes=[
            Route("/status.php", _status),
            Route("/remote.php/dav", dav.search, methods=["SEARCH"]),
            Route("/remote.php/dav/", dav.search, methods=["SEARCH"]),
            Route("/remote.php/dav/files/{uid}", dav.files, methods=_DAV_METHODS),
            Route("/remote.php/dav/files/{uid}/{path:path}", dav.files, methods=_DAV_METHODS),
            Route("/remote.php/dav/systemtags/", dav.system_tags, methods=["PROPFIND"]),
            Route("/remote.php/dav/calendars/{uid}", caldav.calendars, methods=_CAL_METHODS),
            Route("/remote.php/dav/calendars/{uid}/{path:path}", caldav.calendars, methods=_CAL_METHODS),
            *deck.routes(),
            *notes.routes(),
            *proxy.routes(),
            *pages.routes(),
            *appapi.routes(),
            *webhooks.routes(),
            *companion.routes(),
            *ocs.routes(),
            *ocs.fallback(),
        ],
        exception_handlers={DavError: _dav_error},
        middleware=[Middleware(Gate, world=world, apps=apps, workers=workers)],
    )
    app.state.world, app.state.apps, app.state.webhooks = world, apps, webhooks
    return app


async def _dav_error(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, DavError)
    return problem.response


async def _status(request: Request) -> Response:
    return JSONResponse(
        {"installed": True, "maintenance": False, "version": "31.0.6.2", "versionstring": "31.0.6", "edition": ""}
    )


@dataclass(eq=False, slots=True)
class Served:
    """A running stand-in. url has no slash at its end."""

    world: World
    app: Starlette
    url: str
    _server: uvicorn.Server = field(repr=False)
    _thread: threading.Thread = field(repr=False)

    @property
    def apps(self) -> dict[str, ExApp]:
        """Registered ExApps by id."""
        apps: dict[str, ExApp] = self.app.state.apps
        return apps

    @property
    def webhooks(self) -> Webhooks:
        """Registered webhooks and their delivery."""
        webhooks: Webhooks = self.app.state.webhooks
        return webhooks

    def stop(self) -> None:
        """Stop answering; hanging requests are dropped."""
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10)


def serve(world: World, port: int = 0, *, workers: int = 8) -> Served:
    """Serve a world on 127.0.0.1 in a thread of its own, port 0 picking a free one; returns when it answers."""
    app = create_app(world, workers=workers)
    # Named TCP, else asyncio leaves Nagle's algorithm on and every answer takes 40 ms longer.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    config = uvicorn.Config(app, log_level="critical", lifespan="off", date_header=False, server_header=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True, name="stand-in Nextcloud")
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("the stand-in did not start")
        time.sleep(0.005)
    return Served(world, app, f"http://127.0.0.1:{listener.getsockname()[1]}", server, thread)


@contextlib.contextmanager
def serving(world: World, port: int = 0, *, workers: int = 8) -> Iterator[Served]:
    """serve() for the length of a with block."""
    served = serve(world, port, workers=workers)
    try:
        yield served
    finally:
        served.stop()

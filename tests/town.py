# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""A small town around the app: a scriptable Nextcloud, people who search, and time that passes when a story says so.

Everything is real but Nextcloud and the clock: registry, engine, language model, parser, write path and doors. Nothing
runs by itself: a story lets the write path work with `settle` or `catch_up`.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
import uvicorn
from fastapi import FastAPI
from registries import Clock
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from demo.appapi import routes_from, signed
from demo.gate import ExApp
from demo.server import create_app
from demo.webhooks import Webhooks
from demo.world import World
from ex_app.app import Indexing, open_indexing, web_app
from ex_app.domain import DocumentKey, Work
from ex_app.embed.client import Embedder
from ex_app.extract.sandbox import Extractor
from ex_app.house import House, open_house
from ex_app.index.wishes import grant_wishes
from ex_app.index.worker import Worker
from ex_app.nextcloud import ocs
from ex_app.nextcloud.webhooks import arrange
from ex_app.settings import Settings
from ex_app.sources import open_sources
from ex_app.store import engine
from ex_app.store.documents import DocumentRow
from ex_app.store.registry import Registry
from ex_app.store.vectors import Imprint, Vectors

SECRET = "a secret of Nextcloud and the app"
INFO = Path(__file__).parents[1] / "appinfo" / "info.xml"

# Long enough that what was written before can be told apart from what is written after.
_A_WHILE_S = 3.0

# More documents than any story has; a worker that does more goes round in circles.
_MANY = 300

Answers = Callable[[Scope], ASGIApp | None]


class Stage:
    """The one address at which the Nextclouds of all stories answer, one after the other: a server is slow to start."""

    def __init__(self) -> None:
        self.url = ""
        self.app: ASGIApp | None = None
        self.instead: Answers = lambda _: None  # what a story wants answered in Nextcloud's place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.app is not None
        await (self.instead(scope) or self.app)(scope, receive, send)


@contextmanager
def staged() -> Iterator[Stage]:
    """A stage on a free port, for as long as the block lasts."""
    stage = Stage()
    # Named TCP, else asyncio leaves Nagle's algorithm on and every answer takes 40 ms longer.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    stage.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = uvicorn.Config(stage, log_level="critical", lifespan="off", date_header=False, server_header=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True, name="Nextcloud of the stories")
    thread.start()
    while not server.started:
        time.sleep(0.005)
    yield stage
    server.should_exit = server.force_exit = True
    thread.join(10)


class CountingEmbedder:
    """The real embedder, with a memory for the passages that it was asked to read."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.read: list[str] = []

    async def documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.read += texts
        return await self._inner.documents(texts)


@dataclass(frozen=True)
class Page:
    """What a person is shown."""

    hits: list[dict[str, Any]]
    degraded: bool
    cursor: str = ""

    @property
    def titles(self) -> list[str]:
        return [hit["title"] for hit in self.hits]

    def __getitem__(self, title: str) -> dict[str, Any]:
        return {hit["title"]: hit for hit in self.hits}[title]

    def __str__(self) -> str:
        return str(self.hits)


@dataclass
class Town:
    """The world, the app beside it, and everything a story does with both."""

    world: World
    clock: Clock
    stage: Stage
    settings: Settings
    app: ExApp
    house: House
    indexing: Indexing
    embedder: CountingEmbedder
    doors: FastAPI
    browser: httpx.AsyncClient = field(repr=False)

    # --- time and the write path

    async def settle(self) -> None:
        """A while later everybody's content was looked at once, and nothing is left to do."""
        self.clock.forward(_A_WHILE_S)
        await self.catch_up()

    async def catch_up(self) -> None:
        """At this very moment: one look at everybody's content, then all work that is due."""
        await self.sweep()
        await self.work()

    async def sweep(self) -> None:
        """One look at everybody's content; differences become work."""
        users = await ocs.user_ids(self.house.nextcloud.as_user(""))
        await self.indexing.reconciler.sweep(users, asyncio.Event())

    async def work(self) -> None:
        """Work until nothing is due, as one worker does: when it asks for a pause, time passes."""
        for _ in range(_MANY):
            item = await self.claim()
            if item is None:
                return
            self.clock.forward(await self.worker.attempt(item))
        raise AssertionError("the worker goes round in circles")

    # --- what Nextcloud tells by itself

    @property
    def webhooks(self) -> Webhooks:
        """The registrations, and what is queued for them."""
        assert isinstance(self.stage.app, Starlette)
        webhooks: Webhooks = self.stage.app.state.webhooks
        return webhooks

    async def listen(self) -> None:
        """Let Nextcloud tell the app of changes from now on."""
        await arrange(self.house.nextcloud.as_user(""), self.settings)
        self.webhooks.take()

    async def hear(self) -> int:
        """Run Nextcloud's queued webhooks once; returns how many the app took."""
        self.app.url = self.app.url or "http://app"
        self.webhooks.transport = httpx.ASGITransport(self.doors, raise_app_exceptions=False)
        return await self.webhooks.deliver()

    async def react(self) -> None:
        """A while later what Nextcloud told of is done, without a sweep: wishes to walk, then all work that is due."""
        self.clock.forward(_A_WHILE_S)
        await self.hear()
        for _ in range(3):  # work leads to wishes, and wishes to work
            await self.work()
            await grant_wishes(self.registry, self.indexing.reconciler.visit, asyncio.Event())
        await self.work()

    async def claim(self) -> Work | None:
        """Take the next document that is due, as a worker does."""
        claimed = await self.registry.claim(1, self.settings.lease_s)
        return claimed[0] if claimed else None

    def staff(self, **parts: Any) -> None:
        """Put other parts into the worker."""
        self.indexing = replace(self.indexing, worker=replace(self.worker, **parts))

    # --- asking

    async def search(self, user: str, text: str, *, relayed: bool = True, **params: str | int) -> Page:
        """What the user's browser gets from the search page's route through Nextcloud's proxy."""
        answer = await self.ask(user, "GET", "/api/search", params={"q": text, **params}, relayed=relayed)
        assert answer.status_code == 200, answer.text
        return Page(**answer.json())

    async def ask(
        self,
        user: str,
        method: str,
        path: str,
        *,
        relayed: bool = True,
        headers: Mapping[str, str] = MappingProxyType({}),
        **more: Any,
    ) -> httpx.Response:
        """One request to the app as Nextcloud signs it; `relayed`: as its proxy passes a browser's on."""
        proxied = {"x-origin-ip": "192.0.2.7"} if relayed else {}
        given = {**signed(self.app, user), **proxied, **headers}
        return await self.browser.request(method, path, headers=given, **more)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """The app on a port of its own, known to Nextcloud; gives the address of Nextcloud's proxy to it."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(128)
            config = uvicorn.Config(self.doors, log_level="critical", lifespan="off")
            server = uvicorn.Server(config)
            serving = asyncio.create_task(server.serve([listener]))
            self.app.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            yield f"{self.stage.url}/index.php/apps/app_api/proxy/{self.app.id}"
            server.should_exit = True
            await serving

    # --- what can go wrong

    async def restart(self) -> None:
        """The worker's process ends and starts again on what is on disk."""
        self.indexing = await open_indexing(self.house, self.worker.extractor)  # type: ignore[arg-type]
        self.staff(embedder=self.embedder)

    async def restart_with(self, **excluded: str | bool) -> None:
        """An admin changes what is left out, and the indexing starts again."""
        house = replace(self.house, sources=open_sources(self.settings.model_copy(update=excluded)))
        self.indexing = await open_indexing(house, self.worker.extractor)  # type: ignore[arg-type]
        self.staff(embedder=self.embedder)

    @contextmanager
    def engine_away(self) -> Iterator[None]:
        """Nobody listens where the engine was; afterwards it is there again, as after a restart on another port."""
        before = engine.address_of(self.settings)
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))  # taken, and without a listener
            engine.publish(self.settings, engine.Address(f"http://127.0.0.1:{unused.getsockname()[1]}", "any key"))
            try:
                yield
            finally:
                engine.publish(self.settings, before)

    # --- looking behind the doors

    @property
    def apps(self) -> dict[str, ExApp]:
        """What is registered with Nextcloud."""
        assert isinstance(self.stage.app, Starlette)
        apps: dict[str, ExApp] = self.stage.app.state.apps
        return apps

    @property
    def registry(self) -> Registry:
        return self.house.registry

    @property
    def worker(self) -> Worker:
        return self.indexing.worker

    @property
    def vectors(self) -> Vectors:
        return self.worker.vectors

    async def row(self, key: str) -> DocumentRow | None:
        """What the registry knows of a document, "file:12"."""
        return await self.registry.document(DocumentKey.parse(key))

    async def points(self, key: str) -> list[Imprint]:
        """What the index holds of a document."""
        return [imprint async for imprint in self.vectors.digest() if str(imprint.document) == key]

    def write(self, user: str, path: str, text: str | bytes, **more: Any) -> str:
        """A person saves a file; returns its reference."""
        data = text.encode() if isinstance(text, str) else text
        return f"file:{self.world.write(user, path, data, **more)}"


@asynccontextmanager
async def living_town(
    folder: Path, *, stage: Stage, address: engine.Address, embed_socket: Path, extractor: Extractor, **knobs: Any
) -> AsyncIterator[Town]:
    """Alice and Bob of the staff, Carol alone and an admin, with an app of their own that is enabled."""
    clock = Clock(1_800_000_000.0)
    world = World(clock=clock, instance_id=f"oc{uuid.uuid4().hex[:10]}")
    for uid, groups in (("admin", ["admin"]), ("alice", ["staff"]), ("bob", ["staff"]), ("carol", [])):
        world.add_user(uid, uid.title(), groups)
    settings = _settings(folder, stage.url, **knobs)
    engine.publish(settings, address)
    settings.embed_socket.symlink_to(embed_socket)
    nextcloud = create_app(world)
    app = ExApp("semantic_search", "Semantic Search", "0.1.0", SECRET, "", routes_from(INFO), enabled=True)
    nextcloud.state.apps[app.id] = app
    stage.app, stage.instead = nextcloud, Stage().instead
    async with open_house(settings, clock=clock) as house:
        await house.set_enabled(True)
        indexing = await open_indexing(house, extractor)
        embedder = CountingEmbedder(house.embedder)
        async with opened(web_app(settings, clock=clock)) as (doors, browser):
            town = Town(world, clock, stage, settings, app, house, indexing, embedder, doors, browser)
            town.staff(embedder=embedder)
            yield town
        await indexing.worker.vectors.destroy()


@asynccontextmanager
async def opened(doors: FastAPI) -> AsyncIterator[tuple[FastAPI, httpx.AsyncClient]]:
    """The app's doors as a server holds them open: from start to end in one task."""
    started, ended = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with doors.router.lifespan_context(doors):
            started.set()
            await ended.wait()

    holding = asyncio.create_task(hold())
    holding.add_done_callback(lambda _: started.set())
    try:
        await started.wait()
        # Not raising: a story sees a crash as the 500 that a browser gets.
        transport = httpx.ASGITransport(doors, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://app") as browser:
            yield doors, browser
    finally:
        ended.set()
        await holding


def _settings(folder: Path, nextcloud_url: str, **knobs: Any) -> Settings:
    """Patient, as test machines are busy, and blind to the environment of whoever runs the tests."""
    usual: dict[str, Any] = {
        "app_secret": SECRET,
        "app_persistent_storage": folder,
        "nextcloud_url": nextcloud_url,
        "search_deadline_s": 20.0,
        "reach_deadline_s": 20.0,
        "database_url": "",
        "qdrant_url": "",
        "qdrant_api_key": "",
    }
    return Settings(**{**usual, **knobs})

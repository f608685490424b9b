# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Wiring of the two processes that know every room: the doors, and the write path."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from ex_app.domain import BadRequest, NotAvailable, Progress, SemanticSearchError
from ex_app.doors.admission import Admission, Busy
from ex_app.doors.companion import companion_routes
from ex_app.doors.events import event_routes
from ex_app.doors.guard import Guard
from ex_app.doors.lifecycle import Part, lifecycle_routes
from ex_app.doors.mcp import McpDoor
from ex_app.doors.me import me_routes
from ex_app.doors.pages import page_routes
from ex_app.doors.search import search_routes
from ex_app.doors.sentences import sentence
from ex_app.embed.sparse import SparseEncoder
from ex_app.extract.sandbox import Extractor
from ex_app.house import House, open_extractor, open_house
from ex_app.index.erasing import give_up_former_index
from ex_app.index.intake import Intake
from ex_app.index.reconcile import SWEPT_AT, Reconciler
from ex_app.index.watchdog import Condition, Watchdog
from ex_app.index.worker import Worker
from ex_app.nextcloud import dav, ocs, webhooks
from ex_app.nextcloud.companion import handshake
from ex_app.search.rank import Scale
from ex_app.search.refresh import Refresher
from ex_app.search.service import Search
from ex_app.settings import Settings
from ex_app.sources.excluded import tag_names
from ex_app.store.registry import Clock

log = logging.getLogger(__name__)

# Documents under way at once: one is read from Nextcloud while another is embedded.
_IN_FLIGHT = 2

_POLL_S = 1.0

# The longest wait before looking again whether we are enabled, however long a rest Nextcloud asks for; seconds.
_LONGEST_WAIT_S = 30.0

# Documents under way may come to their end when we are told to; later ones go back to the work table.
_PARTING_S = 3.0

# How long the companion's key, or its absence, is believed; an admin who installs it waits no longer.
_COMPANION_S = 60.0


class _Web:
    """The web process's house, opened when the server starts, and its search, built when it is first asked."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._house: House | None = None
        self._search: Search | None = None
        self._intake: Intake | None = None
        self._building = asyncio.Lock()
        self._extractor = open_extractor(settings)
        self._companion: bytes | None = None
        self._companion_until = 0.0
        self._meeting: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Hold the house open."""
        async with open_house(self._settings, clock=self._clock) as house:
            self._house = house
            self._intake = Intake(house.registry)
            try:
                yield
            finally:
                await self._extractor.close()

    @property
    def house(self) -> House:
        """The open house."""
        if self._house is None:
            raise NotAvailable("Semantic Search is starting")
        return self._house

    def intake(self) -> Intake:
        """Takes what Nextcloud tells of. Raises NotAvailable while the house opens."""
        if self._intake is None:
            raise NotAvailable("Semantic Search is starting")
        return self._intake

    async def is_enabled(self) -> bool:
        return await self.house.is_enabled()

    async def search(self) -> Search:
        """Raises NotAvailable while the app is off or instance and model are not known yet."""
        house = self.house
        if not await house.is_enabled():
            raise NotAvailable("Semantic Search is switched off")
        async with self._building:
            if self._search is None:
                self._search = await self._build_search(house)
        return self._search

    async def _build_search(self, house: House) -> Search:
        model = await house.embedder.info()
        encoder = SparseEncoder()
        return Search(
            self._settings,
            nextcloud=house.nextcloud,
            sources=house.sources,
            embedder=house.embedder,
            encoder=encoder,
            vectors=await house.vectors(),
            registry=house.registry,
            refresher=Refresher(house.sources, self._extractor, encoder, house.embedder, {}),
            scale=Scale.of(unrelated=model.unrelated, related=model.related),
        )

    async def companion_key(self) -> bytes | None:
        """The key of the companion inside Nextcloud, asked for again from time to time; None without one.

        A known key is asked for beside the request that it serves: whoever waits for us holds a PHP worker, and there
        may be no second one to answer us.
        """
        if self._companion_until < time.monotonic():
            self._companion_until = time.monotonic() + _COMPANION_S
            self._meeting = asyncio.create_task(self._meet_companion())
        if self._companion is None and self._meeting is not None:
            await asyncio.shield(self._meeting)
        return self._companion

    async def _meet_companion(self) -> None:
        try:
            met = await handshake(self.house.nextcloud.as_user(""))
        except NotAvailable as error:
            log.warning("event=companion_not_met error=%s", error)
            return
        self._companion = met.key if met and met.fits else None

    async def database_answers(self) -> None:
        await self.house.registry.epoch()

    async def engine_answers(self) -> None:
        try:
            await self.house.engine().get_collections()
        except SemanticSearchError:
            raise
        except Exception as error:
            # The client raises whatever its transport does; here only whether it answers matters.
            raise NotAvailable("The vector engine does not answer yet") from error

    async def model_answers(self) -> None:
        await self.house.embedder.info()

    async def set_enabled(self, enabled: bool) -> None:
        await self.house.set_enabled(enabled)

    async def progress(self) -> Progress:
        swept = await self.house.registry.get_setting(SWEPT_AT)
        return replace(await self.house.registry.progress(), swept_at=float(swept) if swept else None)

    async def condition(self) -> Condition:
        return await self.house.condition()

    async def progress_for(self, user: str) -> Progress:
        return await self.house.registry.progress_for(user)

    async def is_indexed(self, user: str) -> bool:
        return not await self.house.registry.opt_outs.among([user])

    async def set_indexed(self, user: str, indexed: bool) -> None:
        registry = self.house.registry
        await (registry.opt_outs.come_back(user) if indexed else registry.opt_outs.leave(user))


def web_app(settings: Settings, *, clock: Clock = time.time) -> FastAPI:
    """The doors. The house opens when the server starts."""
    web = _Web(settings, clock)
    admission = Admission(settings.proxied_searches)
    mcp = McpDoor(settings, web.search, admission)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with web.open(), mcp.server.session_manager.run():
            yield

    parts = (
        Part("The database", 20, web.database_answers),
        Part("The vector engine", 40, web.engine_answers),
        Part("The language model", 90, web.model_answers),
    )
    app = FastAPI(lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None)
    app.include_router(
        lifecycle_routes(settings, parts, set_enabled=web.set_enabled, progress=web.progress, condition=web.condition)
    )
    app.include_router(search_routes(web.search, admission, web.progress_for))
    app.include_router(me_routes(is_indexed=web.is_indexed, set_indexed=web.set_indexed))
    app.include_router(companion_routes(web.search, web.companion_key, clock=clock))
    app.include_router(event_routes(web.intake, web.is_enabled, proof=webhooks.proof(settings)))
    app.include_router(page_routes())
    app.mount("/", mcp)  # the guard lets nothing but /mcp through to here
    app.add_exception_handler(SemanticSearchError, _explain)
    app.add_middleware(Guard, settings=settings)
    return app


async def _explain(_: Request, error: Exception) -> JSONResponse:
    """Our errors are sentences for people, with the status that a client can act on."""
    assert isinstance(error, SemanticSearchError)
    match error:
        case BadRequest():
            return JSONResponse({"error": sentence(error)}, 400)
        case Busy():
            return JSONResponse({"error": sentence(error)}, 429, {"Retry-After": "1"})
        case _:
            log.warning("event=not_available error=%s", error)
            return JSONResponse({"error": sentence(error)}, 503, {"Retry-After": "5"})


async def run_worker(settings: Settings, stop: asyncio.Event) -> None:
    """The write path: works while the app is enabled, until told to stop."""
    async with open_house(settings) as house:
        extractor = open_extractor(settings)
        try:
            was_enabled = False
            while not stop.is_set():
                pause = _POLL_S
                try:
                    enabled = await house.is_enabled()
                    if enabled and not was_enabled:
                        house.nextcloud.trust()
                    was_enabled = enabled
                    if enabled:
                        await _index_while_enabled(house, extractor, stop)
                        was_enabled = False
                except SemanticSearchError as error:
                    log.warning("event=indexing_waits error=%s", error)
                    pause = min(getattr(error, "retry_after", None) or _POLL_S, _LONGEST_WAIT_S)
                await _sleep(stop, pause)
        finally:
            await extractor.close()


async def _index_while_enabled(house: House, extractor: Extractor, stop: asyncio.Event) -> None:
    indexing = await open_indexing(house, extractor)
    ended = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(indexing.worker.run(ended)) for _ in range(_IN_FLIGHT)]
        tags = len(tag_names(house.settings.excluded_tags))
        sweeping = indexing.reconciler.run(ended, interval=house.settings.reconcile_interval_s, tags=tags)
        running.append(tasks.create_task(sweeping))
        hearing = webhooks.keep_arranged(house.nextcloud.as_user(""), house.settings, ended)
        running.append(tasks.create_task(hearing))
        running.append(tasks.create_task(_watchdog(house, indexing).run(ended)))
        while not stop.is_set() and await _is_still_enabled(house):
            await _sleep(stop, _POLL_S)
        ended.set()
        _, late = await asyncio.wait(running, timeout=_PARTING_S)
        for task in late:
            task.cancel()


def _watchdog(house: House, indexing: Indexing) -> Watchdog:
    parts = {
        "Nextcloud": lambda: ocs.user_ids(house.nextcloud.as_user("")),
        "the vector engine": indexing.worker.vectors.count,
        "the language model": house.embedder.info,
    }
    return Watchdog(house.registry, parts, house.settings.stalled_after_minutes * 60)


async def _is_still_enabled(house: House) -> bool:
    """A registry that does not answer for a moment says nothing: whoever needs it waits by himself."""
    try:
        return await house.is_enabled()
    except NotAvailable:
        return True


@dataclass(frozen=True, slots=True)
class Indexing:
    """The write path: who finds what is to be done, and who does it."""

    reconciler: Reconciler
    worker: Worker


async def open_indexing(house: House, extractor: Extractor) -> Indexing:
    """The write path of this house, its index made ready. Raises NotAvailable while something of it is away."""
    await _meet_nextcloud(house)
    vectors = await house.vectors()
    await vectors.ensure()
    await give_up_former_index(house.registry, house.engine, served=vectors.collection)
    if await house.registry.adopt_index(vectors.collection, points=await vectors.count()):
        log.info("event=new_index name=%s", vectors.collection)
    worker = Worker(
        settings=house.settings,
        nextcloud=house.nextcloud,
        sources=house.sources,
        registry=house.registry,
        vectors=vectors,
        embedder=house.embedder,
        encoder=SparseEncoder(),
        extractor=extractor,
    )
    return Indexing(Reconciler(house.nextcloud, house.sources, house.registry, vectors), worker)


async def _meet_nextcloud(house: House) -> None:
    """Bind the registry to the instance that we serve; a registry of another one is refused."""
    users = await ocs.user_ids(house.nextcloud.as_user(""))
    for user in users:
        instance = await dav.instance_id(house.nextcloud.as_user(user))
        if instance:
            await house.registry.bind(instance)
            return
    raise NotAvailable("Nextcloud shows no user yet")


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)

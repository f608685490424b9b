# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""AppAPI's lifecycle: heartbeat, init with progress, enabled and disabled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from nc_py_api import AsyncNextcloudApp, NextcloudException

from ex_app.domain import NotAvailable, Progress, SemanticSearchError
from ex_app.index.watchdog import Condition
from ex_app.settings import Settings

log = logging.getLogger(__name__)

# AppAPI gives up on /init after an hour; a part that has not come up by now will not.
_PART_S = 900.0
_POLL_S = 0.2

MENU = "search"


@dataclass(frozen=True, slots=True)
class Part:
    """Something that must answer before the app is ready. ready: raises NotAvailable as long as it is not."""

    name: str
    progress: int  # percent of the start that is done when it answers
    ready: Callable[[], Awaitable[object]]


def lifecycle_routes(
    settings: Settings,
    parts: Sequence[Part],
    *,
    set_enabled: Callable[[bool], Awaitable[None]],
    progress: Callable[[], Awaitable[Progress]],
    condition: Callable[[], Awaitable[Condition]],
) -> APIRouter:
    """Routes that Nextcloud itself calls, and whoever watches over it."""
    router = APIRouter()
    running: set[asyncio.Task[None]] = set()

    @router.get("/heartbeat")
    async def heartbeat() -> JSONResponse:
        return JSONResponse({"status": "ok"})

    @router.post("/init")
    async def init() -> JSONResponse:
        # Nextcloud waits for this answer; reporting 100 % makes it call us back. So the work goes on beside it.
        task = asyncio.create_task(initialise(settings, parts))
        running.add(task)
        task.add_done_callback(running.discard)
        return JSONResponse({})

    @router.put("/enabled")
    async def enabled(enabled: int) -> JSONResponse:
        try:
            if enabled:
                await _register_page(settings)
            await set_enabled(bool(enabled))
        except (NextcloudException, SemanticSearchError) as error:
            log.warning("event=enable_failed error=%s", type(error).__name__)
            return JSONResponse({"error": f"Semantic Search could not start: {error}"})
        return JSONResponse({"error": ""})

    @router.get("/progress")
    async def overall() -> JSONResponse:
        return JSONResponse({**asdict(await progress()), **asdict(await condition())})

    return router


async def initialise(settings: Settings, parts: Sequence[Part]) -> None:
    """Wait for every part and tell Nextcloud how far we are; at 100 it enables the app."""
    nextcloud = _app(settings)
    try:
        await nextcloud.set_init_status(1)
        for part in parts:
            await _wait_for(part)
            await nextcloud.set_init_status(part.progress)
        await nextcloud.set_init_status(100)
    except SemanticSearchError as error:
        log.error("event=init_failed error=%s", error)  # noqa: TRY400 - the message says it all
        await nextcloud.set_init_status(0, error=str(error))
    except NextcloudException as error:
        log.error("event=init_status_failed status=%s", error.status_code)  # noqa: TRY400 - Nextcloud cannot be told
    except Exception as error:
        # Else AppAPI would wait an hour for a start that has failed.
        log.exception("event=init_broke error=%s", type(error).__name__)
        await nextcloud.set_init_status(0, error="Semantic Search could not start. The app's log says why")


async def _wait_for(part: Part) -> None:
    deadline = asyncio.get_running_loop().time() + _PART_S
    while True:
        try:
            await part.ready()
        except NotAvailable as error:
            if asyncio.get_running_loop().time() > deadline:
                raise NotAvailable(f"{part.name} did not start: {error}. The app's log says why") from error
            await asyncio.sleep(_POLL_S)
        else:
            return


async def _register_page(settings: Settings) -> None:
    """The search page in Nextcloud's menu. Registering again replaces."""
    nextcloud = _app(settings)
    await nextcloud.ui.top_menu.register(MENU, "Semantic search", "img/app.svg")
    await nextcloud.ui.resources.set_script("top_menu", MENU, "ui/search")
    await nextcloud.ui.resources.set_style("top_menu", MENU, "ui/search")


def _app(settings: Settings) -> AsyncNextcloudApp:
    return AsyncNextcloudApp(
        app_id=settings.app_id,
        app_version=settings.app_version,
        app_secret=settings.app_secret.get_secret_value(),
        nextcloud_url=settings.nextcloud_url,
    )

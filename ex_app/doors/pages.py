# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The search page's script and style, and the app's icons. Nextcloud embeds them; we render no page ourselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse

_UI = Path(__file__).parents[1] / "ui"
_FILES = {
    "/ui/search.js": (_UI / "search.js", "text/javascript"),
    "/ui/search.css": (_UI / "search.css", "text/css"),
    "/img/app.svg": (_UI / "app.svg", "image/svg+xml"),
    "/img/app-dark.svg": (_UI / "app-dark.svg", "image/svg+xml"),
}


def page_routes() -> APIRouter:
    """One route per file: nothing else on disk can be asked for."""
    router = APIRouter()
    for path, (file, kind) in _FILES.items():
        router.add_api_route(path, _sender(file, kind), methods=["GET"])
    return router


def _sender(file: Path, kind: str) -> Callable[[], Awaitable[FileResponse]]:
    async def send() -> FileResponse:
        return FileResponse(file, media_type=kind)

    return send

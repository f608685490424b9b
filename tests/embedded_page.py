# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The search page as AppAPI frames it, in front of canned answers, and somebody who uses it in a real browser."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import uvicorn
from selenium import webdriver
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

ROOT = Path(__file__).parents[1]
UI = ROOT / "ex_app" / "ui"
_DEADLINE_S = 5.0
_EMBEDDED = "/cloud/index.php/apps/app_api/embedded/semantic_search/search"
# Where the app's own paths begin: behind AppAPI's PHP proxy, with and without index.php, and behind HaRP.
MOUNTS = (
    "/cloud/index.php/apps/app_api/proxy/semantic_search",
    "/cloud/apps/app_api/proxy/semantic_search",
    "/cloud/exapps/semantic_search",
)


@dataclass
class Stage:
    """A Nextcloud that answers as told: `answers` by question, one after the other, the last again and again."""

    origin: str = ""
    answers: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    gates: dict[str, threading.Event] = field(default_factory=dict)
    status: dict[str, int] = field(default_factory=lambda: {"total": 0, "indexed": 0, "pending": 0})
    asked: list[dict[str, list[str]]] = field(default_factory=list)
    me: tuple[int, Any] = (200, {"indexed": True})
    wishes: list[Any] = field(default_factory=list)
    noted: Callable[[Any], tuple[int, Any]] = lambda wish: (200, wish)

    def will_answer(self, question: str, *answers: tuple[int, Any]) -> None:
        self.answers[question] = list(answers)

    def forget(self) -> None:
        fresh = Stage()
        self.answers, self.gates, self.status, self.asked = fresh.answers, fresh.gates, fresh.status, fresh.asked
        self.me, self.wishes, self.noted = fresh.me, fresh.wishes, fresh.noted

    async def search(self, request: Request) -> Response:
        query = parse_qs(request.url.query)
        self.asked.append(query)
        question = query["q"][0]
        if gate := self.gates.get(question):
            await asyncio.to_thread(gate.wait, _DEADLINE_S)
        queue = self.answers[question]
        status, body = queue.pop(0) if len(queue) > 1 else queue[0]
        return HTMLResponse(body, status) if isinstance(body, str) else JSONResponse(body, status)

    async def progress(self, _request: Request) -> Response:
        return JSONResponse(self.status)

    async def myself(self, request: Request) -> Response:
        if request.method == "GET":
            status, body = self.me
            return JSONResponse(body, status)
        assert request.headers["Content-Type"] == "application/json"
        self.wishes.append(await request.json())
        if gate := self.gates.get("/api/me"):
            await asyncio.to_thread(gate.wait, _DEADLINE_S)
        status, body = self.noted(self.wishes[-1])
        return JSONResponse(body, status)

    async def page(self, request: Request) -> Response:
        """What Nextcloud 31 renders: AppAPI's template puts a second #content into the layout's own."""
        nonce = secrets.token_urlsafe(12)
        mount = MOUNTS[int(request.query_params.get("mount", "0"))]
        html = (
            f'<!DOCTYPE html><html lang="{request.query_params.get("lang", "en")}" data-locale="en_GB"><head>'
            '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
            f'<title>Nextcloud</title><link rel="stylesheet" href="{mount}/ui/search.css">'
            f'<script nonce="{nonce}" defer src="{mount}/ui/search.js?v=1a2b"></script></head><body>'
            '<div id="content" class="app-app_api"><h1 id="page-heading-level-1">Nextcloud</h1>'
            '<div id="content"></div></div></body></html>'
        )
        policy = f"default-src 'none';script-src 'nonce-{nonce}';style-src 'self';img-src 'self';connect-src 'self'"
        return HTMLResponse(html, headers={"Content-Security-Policy": policy})

    def routes(self) -> list[Route | Mount]:
        async def document(request: Request) -> Response:
            return HTMLResponse(f"<title>Document {request.path_params['id']}</title>")

        own = [Route("/api/search", self.search), Route("/api/status", self.progress)]
        own.append(Route("/api/me", self.myself, methods=["GET", "PUT"]))
        ui = Mount("/ui", StaticFiles(directory=UI))
        mounts = [Mount(mount, routes=[*own, ui]) for mount in MOUNTS]
        return [Route(_EMBEDDED, self.page), Route("/cloud/index.php/f/{id}", document), *mounts]


@contextmanager
def served() -> Iterator[Stage]:
    """A stage on a free port of this machine."""
    stage = Stage()
    listener = socket.create_server(("127.0.0.1", 0))
    stage.origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = uvicorn.Config(Starlette(routes=stage.routes()), log_level="warning", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield stage
    server.should_exit = True
    thread.join(_DEADLINE_S)


@contextmanager
def browsing(profile: Path) -> Iterator[webdriver.Chrome]:
    """A headless Chromium; skips the test where there is none."""
    binary, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not binary or not driver:
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    options.page_load_strategy = "eager"
    quiet = ("quic", "background-networking", "component-update", "sync", "gpu", "dev-shm-usage")
    for flag in ("headless", "no-sandbox", "no-first-run", *(f"disable-{part}" for part in quiet)):
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={profile}")
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    yield chrome
    chrome.quit()


@dataclass
class Person:
    """Somebody in front of the page."""

    browser: webdriver.Chrome
    stage: Stage

    def opens(self, query: str = "") -> None:
        self.browser.get(f"{self.stage.origin}{_EMBEDDED}?{query}")

    def types(self, words: str) -> None:
        self.field.send_keys(words)

    def presses(self, key: str) -> None:
        ActionChains(self.browser).send_keys(key).perform()

    def clicks(self, words: str) -> None:
        self.waits(lambda: [b for b in self.all("button") if b.text == words])[0].click()

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, f"#semantic-search :is({selector})")

    def waits(self, condition: Callable[[], Any]) -> Any:
        return WebDriverWait(self.browser, _DEADLINE_S, poll_frequency=0.02).until(lambda _: condition())

    def reads(self, sentence: str) -> None:
        """Waits until the sentence is on the page."""
        self.waits(lambda: sentence in self.panel)

    def sees(self, *titles: str) -> None:
        """Waits until exactly these results are there."""
        script = "return [...document.querySelectorAll('.sem-title')].map((title) => title.textContent)"
        self.waits(lambda: self.browser.execute_script(script) == [*titles])

    @property
    def field(self) -> WebElement:
        found: list[WebElement] = self.waits(lambda: self.all("input[type=search]"))
        return found[0]

    @property
    def panel(self) -> str:
        return str(self.browser.execute_script("return document.querySelector('.sem-panel')?.innerText"))

    @property
    def focused(self) -> str:
        element = self.browser.switch_to.active_element
        return str(element.get_attribute("id") or element.get_property("textContent"))


def hit(title: str = "Travel policy.pdf", **changes: Any) -> dict[str, Any]:
    """A result as the API gives it."""
    told: dict[str, Any] = {
        "place": "Finance / Travel",
        "link": "/index.php/f/12",
        "excerpt": "",
        "highlights": [],
        "page": None,
    }
    return {"kind": "file", "title": title, **told, "score": 0.83, "mtime": 1796050678, "refreshing": False, **changes}


def found(*hits: dict[str, Any], degraded: bool = False, cursor: str = "") -> tuple[int, Any]:
    return 200, {"hits": [*hits], "degraded": degraded, "cursor": cursor}

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Many search at once through the proxy of a server with few PHP workers: does everybody else still get theirs?

A search through the proxy holds one worker while the app asks that same server for leave. Were all workers held so,
nobody would be answered until the first search gives up.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import httpx
from rich.table import Table

from demo.bench.bills import QUESTION
from demo.launch import APP_ID, Running
from demo.world import World
from ex_app.settings import Settings

WORKERS, AT_ONCE = 4, 8
_BURSTS = 12
_QUIET = 5  # requests of others between two bursts

# A small real server needs about as long for the least of requests.
_PHP_S = 0.04

_PASSER_BY = "visitor"

# Beside the load everything else may take twice its time.
_MOST = 2.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the searches, in seconds by status, and of everybody else's requests, in seconds."""

    searches: dict[int, list[float]]
    quiet: list[float]
    loaded: list[float]
    deadline_s: float

    @property
    def ratio(self) -> float:
        """How much longer other requests took beside the searches."""
        return statistics.median(self.loaded) / statistics.median(self.quiet)

    @property
    def problems(self) -> list[str]:
        """Why this must not be released; empty when all is well."""
        longest = max(took for some in self.searches.values() for took in some)
        found = []
        if not set(self.searches) <= {200, 429} or 200 not in self.searches or 429 not in self.searches:
            found.append(f"searches were answered with {sorted(self.searches)}")
        if longest > self.deadline_s:
            found.append(f"a search took {longest:.1f} s")
        if self.ratio >= _MOST:
            found.append(f"others waited {self.ratio:.1f} times as long as usual")
        return found


def furnish(world: World, bills: Iterator[tuple[str, str]]) -> None:
    """So many people who all may read the same, and somebody who wants something else."""
    world.add_user("author")
    for title, text in islice(bills, 30):
        world.write("author", f"/Travel/{title}.md", text.encode(), mtime=world.clock() - 86_400)
    for person in _people():
        world.add_user(person)
        world.share("author", "/Travel", with_user=person)
    world.add_user(_PASSER_BY)


def measure(demo: Running) -> Outcome:
    """Search in bursts, with somebody else's requests beside them; the first burst finds no reach known."""
    world = demo.served.world
    world.latency_s = _PHP_S
    settings = Settings(app_secret="unused")
    try:
        searches, quiet, loaded = asyncio.run(_play(demo))
    finally:
        world.latency_s = 0.0
    by_status: dict[int, list[float]] = {}
    for status, took in searches:
        by_status.setdefault(status, []).append(took)
    return Outcome(by_status, quiet, loaded, settings.search_deadline_s + settings.reach_deadline_s)


async def _play(demo: Running) -> tuple[list[tuple[int, float]], list[float], list[float]]:
    async with httpx.AsyncClient(base_url=demo.served.url, timeout=60, trust_env=False) as client:
        errands = cycle((("GET", "/status.php"), ("PROPFIND", f"/remote.php/dav/files/{_PASSER_BY}/")))
        answers: list[tuple[int, float]] = []
        quiet: list[float] = []
        loaded: list[float] = []
        for _ in range(_BURSTS):  # in turns, so that whatever else the machine does weighs on both
            quiet += [await _errand(client, *next(errands)) for _ in range(_QUIET)]
            searching = asyncio.gather(*(_search(client, person) for person in _people()))
            while not searching.done():
                loaded.append(await _errand(client, *next(errands)))
            answers += await searching
        return answers, quiet, loaded


async def _search(client: httpx.AsyncClient, person: str) -> tuple[int, float]:
    started = time.perf_counter()
    answer = await client.get(
        f"/index.php/apps/app_api/proxy/{APP_ID}/api/search",
        params={"q": QUESTION},
        auth=(person, f"{person}-app-password"),
    )
    if answer.status_code == 200 and not answer.json()["hits"]:
        return 204, time.perf_counter() - started  # an empty answer is none
    return answer.status_code, time.perf_counter() - started


async def _errand(client: httpx.AsyncClient, method: str, path: str) -> float:
    started = time.perf_counter()
    auth = (_PASSER_BY, f"{_PASSER_BY}-app-password")
    answer = await client.request(method, path, auth=auth, headers={"Depth": "0"})
    answer.raise_for_status()
    return time.perf_counter() - started


def table_of(outcome: Outcome) -> Table:
    """Searches by answer, then everybody else."""
    table = Table("asked", "answered", "how often", "median ms", "longest ms", box=None)
    counts = Counter({status: len(took) for status, took in outcome.searches.items()})
    for status, number in sorted(counts.items()):
        _row(table, f"{AT_ONCE} searches at once, {_BURSTS} times", str(status), number, outcome.searches[status])
    _row(table, "others, while nobody searches", "2xx", len(outcome.quiet), outcome.quiet)
    _row(table, f"others, meanwhile: {outcome.ratio:.2f} times", "2xx", len(outcome.loaded), outcome.loaded)
    return table


def _row(table: Table, what: str, answered: str, number: int, took: Sequence[float]) -> None:
    table.add_row(what, answered, str(number), f"{statistics.median(took) * 1000:.0f}", f"{max(took) * 1000:.0f}")


def _people() -> list[str]:
    return [f"searcher-{number}" for number in range(AT_ONCE)]

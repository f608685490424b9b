# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What one search costs Nextcloud: requests, bytes, milliseconds.

Each person of this world can read so many documents, and all of them answer the one question asked. The client's own
request through the proxy is not counted: what Semantic Search asks in order to answer it is.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from rich.table import Table

from demo.bench.bills import QUESTION
from demo.launch import Running
from demo.world import World
from ex_app.settings import Settings
from ex_app.store.registry import open_registry

SIZES = (1, 10, 50, 100)

# Somebody in the middle of a big house: what he receives is empty for the most part, as a search is about the rest.
SHARES, BOARDS = 500, 200
_FULL_SHARES, _FULL_BOARDS = 60, 40

# Long ago enough for every ETag to be settled: nothing is read a second time while we count.
_LONG_AGO_S = 30 * 86_400

_RUNS = 5

Bills = Iterator[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Cost:
    """One search, asked several times: the requests and bytes of a usual run, the median of the milliseconds.

    asked: requests by method and part; received, sent: bytes, by Nextcloud, to answer them; ms: until the client has
    its answer.
    """

    shown: int
    asked: Counter[tuple[str, str]]
    received: int
    sent: int
    ms: float


def furnish(world: World, bills: Bills) -> None:
    """A reader for each size, half of his documents notes; a planner with cards; and people who read through shares."""
    for size in SIZES:
        reader = _reader(size)
        world.add_user(reader)
        for number, (title, text) in enumerate(islice(bills, size)):
            folder = "/Notes" if number % 2 else "/Travel"
            _write(world, reader, f"{folder}/{title}.md", text)
    for person in ("planner", "manager", "guest"):
        world.add_user(person)
    board = world.add_board("planner", "Travel")
    for title, text in islice(bills, 10):
        world.add_card(board, title, description=text)
    world.share_board(board, with_user="manager")
    for folder in ("/Travel", "/Notes"):
        world.share(_reader(10), folder, with_user="manager")
        world.share(_reader(100), folder, with_user="guest")
    _furnish_big_house(world, bills)


def _furnish_big_house(world: World, bills: Bills) -> None:
    """So many shares and boards hold something; half of those shares are of a single file, all others of folders."""
    world.add_user("head office")
    world.add_user("clerk")
    for number in range(SHARES):
        path = f"/Cases/Case {number}"
        if number >= _FULL_SHARES:
            world.mkdir("head office", path)
        elif number % 2:
            title, text = next(bills)
            path = f"{path} {title}.md"
            _write(world, "head office", path, text)
        else:
            title, text = next(bills)
            _write(world, "head office", f"{path}/{title}.md", text)
        world.share("head office", path, with_user="clerk")
    for number in range(BOARDS):
        board = world.add_board("head office", f"Case {number}")
        world.share_board(board, with_user="clerk")
        if number < _FULL_BOARDS:
            title, text = next(bills)
            world.add_card(board, title, description=text)


def measure(demo: Running) -> tuple[Table, dict[str, int]]:
    """The table, and the requests of a search by the number of its candidates, once the reach is known."""
    table = Table("what is searched", "shown", "reach", "requests", "of which", "bytes in", "bytes out", "ms", box=None)
    requests = {}
    for size in SIZES:
        requests[str(size)] = _both(table, demo, "files and notes", _reader(size)).asked.total()
    _both(table, demo, "Deck cards", "planner")
    _both(table, demo, "files, notes and cards", "manager")
    _denials(table, demo)
    _both(table, demo, f"{SHARES} received shares, {BOARDS} boards", "clerk")
    return table, requests


def _denials(table: Table, demo: Running) -> None:
    """What the guest reads through shares is withdrawn by access rules, of which no index knows."""
    world = demo.served.world
    files = [seen.node.id for seen in world.walk(_reader(100)) if not seen.node.is_folder]
    for denied in (0, 50, 90, 100):
        for fileid in files[:denied]:
            world.block(fileid)
        _row(table, f"100 candidates, {denied} % denied", "known", cost(demo, "guest"))
    for fileid in files:
        world.unblock(fileid)


def _both(table: Table, demo: Running, what: str, person: str) -> Cost:
    """A row for a reach that must be asked for, and one for a known one, which is returned."""
    _row(table, what, "not known", cost(demo, person, runs=3, before=lambda: forget_reaches(demo)))
    known = cost(demo, person)
    _row(table, what, "known", known)
    return known


def cost(demo: Running, person: str, *, runs: int = _RUNS, before: Callable[[], None] = lambda: None) -> Cost:
    """Ask as this person; exits when a search doesn't find all that the person may read, as of that nothing follows."""
    world = demo.served.world
    readable = {key for key in world.all_documents() if world.readable(person, key)}
    seen: list[tuple[Counter[tuple[str, str]], int, int]] = []
    took: list[float] = []
    for _ in range(runs):
        before()
        world.reset_requests()
        started = time.perf_counter()
        answer = demo.get(person, "api/search", q=QUESTION, limit=100)
        took.append(time.perf_counter() - started)
        # The client's own request is known by its kind, as nothing else of ours goes through the proxy.
        asked = Counter({what: number for what, number in world.counted().items() if what[1] != "proxy"})
        received, sent = (ways.total() - ways["proxy"] for ways in (world.received, world.sent))
        seen.append((asked, received, sent))
        answer.raise_for_status()
        found = {hit["ref"] for hit in answer.json()["hits"]}
        if found != readable:
            sys.exit(
                f"{person} found {len(found)} documents and may read {len(readable)}: the count would mean nothing"
            )
    # The usual run: once in a minute a reach is also confirmed.
    asked, received, sent = sorted(seen, key=lambda run: run[0].total())[len(seen) // 2]
    return Cost(len(readable), asked, received, sent, statistics.median(took) * 1000)


def forget_reaches(demo: Running) -> None:
    """Begin a new reach epoch, as a folder does that moves: nobody's reach is believed any more."""
    asyncio.run(_forget_reaches(Settings(app_secret="unused", app_persistent_storage=demo.data, database_url="")))


async def _forget_reaches(settings: Settings) -> None:
    registry = await open_registry(settings)
    try:
        await registry.bump_epoch()
    finally:
        await registry.close()


def _row(table: Table, what: str, reach: str, one: Cost) -> None:
    parts = ", ".join(f"{number} {method} {part}" for (method, part), number in sorted(one.asked.items()))
    total = str(one.asked.total())
    table.add_row(what, str(one.shown), reach, total, parts, f"{one.received:,}", f"{one.sent:,}", f"{one.ms:.0f}")


def _write(world: World, uid: str, path: str, text: str) -> None:
    world.write(uid, path, text.encode(), mtime=world.clock() - _LONG_AGO_S)


def _reader(size: int) -> str:
    return f"reader-{size}"

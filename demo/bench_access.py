# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""`make bench-access`: how many requests one search costs Nextcloud, counted by the stand-in.

Each person of this world can read so many documents, and all of them answer the one question asked. The client's own
request through the proxy is not counted: what Semantic Search asks in order to answer it is.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import product

from rich.console import Console
from rich.table import Table

from demo.launch import Running, running
from demo.run import show_progress
from demo.world import World

SIZES = (1, 10, 50, 100)
QUESTION = "What does a night in a hotel cost?"

_TOWNS = ("Lisbon", "Bergen", "Graz", "Leeds", "Turin", "Malmö", "Brest", "Gdansk", "Split", "Porto", "Ghent", "Cork")
_ROOMS = ("a single room", "a double room", "a suite", "a room under the roof", "a room to the courtyard")
_VISITS = ("the trade fair", "a site visit", "the annual meeting", "a training course")

# Long ago enough for every ETag to be settled: nothing is read a second time while we count.
_LONG_AGO_S = 30 * 86_400


def main() -> None:
    """Print a table and, as last line, one JSON object; exit 1 unless one request is enough for every size."""
    console = Console(width=120)
    world = World()
    furnish(world)
    # No sweep while we count; no deadline, as requests are counted and not seconds.
    with running(world, RECONCILE_INTERVAL_S="3600", SEARCH_DEADLINE_S="30") as demo:
        show_progress(demo, console)
        cold = {person: cost(demo, person) for person in world.people}
        warm = {person: cost(demo, person) for person in world.people}
        # What this person reads through shares is withdrawn by access rules, of which no index knows.
        world.block(world.resolve(_reader(100), "/Notes").node.id)
        half_denied = cost(demo, "guest")
        world.block(world.resolve(_reader(100), "/Travel").node.id)
        all_denied = cost(demo, "guest")
    table = Table("what is searched", "readable", "requests", "of which", box=None)
    for size in SIZES:
        _row(table, "files and notes", size, warm[_reader(size)])
    _row(table, "files and notes, reach not yet known", 100, cold[_reader(100)])
    _row(table, "Deck cards", 10, warm["planner"])
    _row(table, "files, notes and Deck cards", 20, warm["manager"])
    _row(table, "100 candidates, half of them denied", 50, half_denied)
    _row(table, "100 candidates, all denied: the reach is learnt anew", 0, all_denied)
    console.print(table)
    requests = {str(size): warm[_reader(size)].total() for size in SIZES}
    print(json.dumps({"requests_per_search": requests}))
    sys.exit(0 if set(requests.values()) == {1} else 1)


def furnish(world: World) -> None:
    """A reader for each size, half of his documents notes; a planner with cards; and two who read through shares."""
    bills = _bills()
    for size in SIZES:
        reader = _reader(size)
        world.add_user(reader)
        for number in range(size):
            folder = "/Notes" if number % 2 else "/Travel"
            title, text = next(bills)
            world.write(reader, f"{folder}/{title}.md", text.encode(), mtime=world.clock() - _LONG_AGO_S)
    for person in ("planner", "manager", "guest"):
        world.add_user(person)
    board = world.add_board("planner", "Travel")
    for _ in range(10):
        title, text = next(bills)
        world.add_card(board, title, description=text)
    world.share_board(board, with_user="manager")
    for folder in ("/Travel", "/Notes"):
        world.share(_reader(10), folder, with_user="manager")
        world.share(_reader(100), folder, with_user="guest")


def cost(demo: Running, person: str) -> Counter[tuple[str, str]]:
    """What one search asks of Nextcloud, by method and part. Exits when it doesn't find all that the person may read.

    The client's own request is known by its kind, as nothing else of ours goes through the proxy.
    """
    world = demo.served.world
    readable = {key for key in world.all_documents() if world.readable(person, key)}
    world.reset_requests()
    answer = demo.get(person, "api/search", q=QUESTION, limit=100)
    asked = world.counted()
    answer.raise_for_status()
    found = {hit["ref"] for hit in answer.json()["hits"]}
    if found != readable:
        sys.exit(f"{person} found {len(found)} documents and may read {len(readable)}: the count would mean nothing")
    return Counter({what: number for what, number in asked.items() if what[1] != "proxy"})


def _row(table: Table, what: str, readable: int, asked: Counter[tuple[str, str]]) -> None:
    parts = ", ".join(f"{number} {method} {part}" for (method, part), number in sorted(asked.items()))
    table.add_row(what, str(readable), str(asked.total()), parts)


def _reader(size: int) -> str:
    return f"reader-{size}"


def _bills() -> Iterator[tuple[str, str]]:
    """Titles and texts that all answer the question, no two of them alike enough to be shown as one."""
    for number, (visit, room, town) in enumerate(product(_VISITS, _ROOMS, _TOWNS)):
        title = f"Hotel bill {number + 1}"
        text = (
            f"A night in the hotel in {town}: {room} cost {70 + number} euros. We went there for {visit} "
            f"and paid {8 + number % 9} euros more for breakfast, {number % 4} euros for the city tax."
        )
        yield title, text


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""`make bench-access`: what a search costs Nextcloud, what it shows after a change, and whom it keeps waiting.

Measured against the stand-in. The last line is one JSON object, the requests of a search by the number of its
candidates. Exit status 1 when that is not one for every size, when anything was exposed, or when searches made others
wait.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import httpx
from rich.console import Console

from demo.bench import admission, cost, exposure, real
from demo.bench.bills import bills
from demo.launch import running
from demo.run import show_progress
from demo.server import serving
from demo.world import World
from tests.contract.hands import ALICE, BOB, CAROL
from tests.contract.stand_in_hand import Clock, StandInHand

_NOTE = "Milliseconds are of this one run on this one machine, against a stand-in that is not PHP."


def main() -> None:
    """Print the tables and, as last line, one JSON object."""
    console = Console(width=130)
    supply = bills()
    requests, clean = _costs_and_changes(console, supply)
    problems = _crowd(console, supply)
    if real.is_configured():
        rows = real.rows(supply)
        console.print("\n[bold]Changes on the real Nextcloud[/bold]", exposure.table_of(rows), sep="\n")
        clean = clean and exposure.is_clean(rows)
    if not clean:
        problems.append("something was exposed, or not found in the first place, or an answer was incomplete")
    if set(requests.values()) != {1}:
        problems.append("files and notes cost more than one request")
    for problem in problems:
        console.print(f"Not well: {problem}")
    print(json.dumps({"requests_per_search": requests}))
    sys.exit(1 if problems else 0)


def _costs_and_changes(console: Console, supply: Iterator[tuple[str, str]]) -> tuple[dict[str, int], bool]:
    """The requests by the number of candidates, and whether nothing was exposed."""
    clock = Clock()
    world = World(clock=clock)
    cost.furnish(world, supply)
    for person in (ALICE, BOB, CAROL):
        world.add_user(person)
    # The hand changes the world through a door of its own, so that what it asks is no part of any count.
    with serving(world) as served:
        hand = StandInHand(served, clock)
        play = exposure.prepare(hand, supply, world.block)
        # No sweep meanwhile: the index must not hear of a change. No deadline: a busy machine is not what we look at.
        with running(world, RECONCILE_INTERVAL_S="3600", SEARCH_DEADLINE_S="30", REACH_DEADLINE_S="30") as demo:
            show_progress(demo, console)
            table, requests = cost.measure(demo)
            console.print("\n[bold]One search[/bold]", table, _NOTE, sep="\n")
            with httpx.Client(base_url=demo.served.url, timeout=60, trust_env=False) as http:

                def ask(user: str, method: str, path: str, **options: Any) -> httpx.Response:
                    return http.request(method, path, auth=(user, world.people[user].password), **options)

                client = exposure.Client(ask)
                exposure.wait(client, play)
                rows = exposure.perform(client, play)
            console.print("\n[bold]A change, then the first search[/bold]", exposure.table_of(rows), sep="\n")
        hand.clean()
    return requests, exposure.is_clean(rows)


def _crowd(console: Console, supply: Iterator[tuple[str, str]]) -> list[str]:
    """Problems of many searches at once on a small server."""
    world = World()
    admission.furnish(world, supply)
    with running(world, workers=admission.WORKERS, RECONCILE_INTERVAL_S="3600") as demo:
        demo.wait_until_indexed()
        outcome = admission.measure(demo)
    title = f"\n[bold]{admission.AT_ONCE} searches at once on {admission.WORKERS} PHP workers[/bold]"
    console.print(title, admission.table_of(outcome), sep="\n")
    return outcome.problems


if __name__ == "__main__":
    main()

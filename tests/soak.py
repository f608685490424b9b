# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""`make soak`: people do all sorts of things, everything fails now and then; in the end nothing may be wrong.

Real processes beside the stand-in. Nextcloud is down or asks for rest, engine, worker, model are killed, clocks jump.
Then all is quiet, until nothing is left to do. The last line is one JSON object. drift: documents of which the index
holds anything else than that of an undisturbed installation; lost: what somebody may read and does not find; doubled:
documents with more than one live text; rss_ratio, fds_ratio: memory and open files in the last third of the time, of
those in the first. Exit status 1 on a miss.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import httpx
from crash_orders import Orders, orders
from leak_steps import COMMON, PEOPLE
from processes import kill
from rich.console import Console
from soak_world import People, held, not_found, undisturbed

from demo.bench.processes import Usage, watched
from demo.launch import Running, running

_MOST_GROWTH = 1.10

_TROUBLES = {"nextcloud_down": 2, "too_many": 1, "engine": 2, "worker": 2, "embed": 1, "clock": 1}
_BETWEEN_TROUBLES_S = (6.0, 15.0)
_BETWEEN_DOINGS_S = (0.1, 1.0)
_TROUBLE_S = (2.0, 6.0)

# Forward alone: when a clock is set back it takes the watchdog a minute to notice, and runs are short.
_JUMP_S = (5.0, 900.0)

_SWEEPS = 2  # quiet is when so many comparisons found nothing to do


class Soak:
    """The product, the people and the dice of one run."""

    def __init__(self, demo: Running, people: People, told: Orders, dice: Random) -> None:
        self.demo = demo
        self.people = people
        self.told = told
        self.dice = dice
        self.counts: Counter[str] = Counter()
        self._offset = 0.0
        self._heal_at: float | None = None

    def go_on(self, seconds: float) -> None:
        """Doings, searches and troubles for so long."""
        ends = time.monotonic() + seconds
        trouble_at = time.monotonic() + self.dice.uniform(*_BETWEEN_TROUBLES_S)
        while (now := time.monotonic()) < ends:
            self.people.do_something()
            self.counts["doings"] += 1
            self._search()
            if self._heal_at is not None and now > self._heal_at:
                self.heal()
            if now > trouble_at:
                self._trouble()
                trouble_at = now + self.dice.uniform(*_BETWEEN_TROUBLES_S)
            time.sleep(self.dice.uniform(*_BETWEEN_DOINGS_S))
        self.heal()

    def heal(self) -> None:
        self.people.world.heal()
        self._heal_at = None

    def _search(self) -> None:
        """Whatever is away, an answer comes, and never that of a crash."""
        with suppress(httpx.TransportError):
            answer = self.demo.get(self.dice.choice(PEOPLE), "api/search", q=f"{COMMON} budget", limit=25)
            self.counts[f"searches answered with {answer.status_code}"] += 1

    def _trouble(self) -> None:
        name = self.dice.choices([*_TROUBLES], weights=[*_TROUBLES.values()])[0]
        self.counts[f"trouble: {name}"] += 1
        match name:
            case "nextcloud_down":
                self._fails(status=self.dice.choice([500, 503, "reset", "timeout"]))
            case "too_many":
                self._fails(status=429)
            case "clock":
                self._offset += self.dice.uniform(*_JUMP_S)
                self.told.set_clock(self._offset)
            case _:
                kill(self.demo.process.pid, name)

    def _fails(self, *, status: Any) -> None:
        """Everything that the product asks; people go on through the proxy."""
        self.people.world.fail(lambda request: request.kind in ("dav", "caldav", "ocs", "notes"), status=status)
        self._heal_at = time.monotonic() + self.dice.uniform(*_TROUBLE_S)


def wait_until_quiet(demo: Running, patience_s: float) -> None:
    """Until nothing is left to do after some comparisons in a row. Raises TimeoutError."""
    ends, seen, swept = time.monotonic() + patience_s, demo.progress().get("swept_at"), 0
    while swept < _SWEEPS:
        if time.monotonic() > ends:
            raise TimeoutError(f"never quiet: {demo.progress()}\n{demo.log_tail()}")
        time.sleep(0.3)
        with suppress(httpx.TransportError, ValueError):
            now = demo.progress()
            if now["pending"]:
                swept = 0
            elif now["swept_at"] != seen:
                swept += 1
            seen = now["swept_at"]


def growth(samples: Sequence[Mapping[str, Usage]], taken: Callable[[Usage], float]) -> float:
    """The last third over the first: medians of each role, of those that were up in both, together."""
    third = len(samples) // 3
    first, last = (_medians(some, taken) for some in (samples[:third], samples[-third:]))
    both = first.keys() & last.keys()
    return sum(last[role] for role in both) / sum(first[role] for role in both)


def _medians(samples: Sequence[Mapping[str, Usage]], taken: Callable[[Usage], float]) -> dict[str, float]:
    roles = {role for sample in samples for role in sample}
    return {role: statistics.median(taken(s[role]) for s in samples if role in s) for role in roles}


def main() -> None:
    """Say what happened and, as last line, one JSON object."""
    parser = argparse.ArgumentParser(
        prog="make soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--quiet", type=float, default=900, help="seconds in which all must come to rest")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    console, people = Console(width=130), People(given.seed)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, orders(Path(folder)) as told:
        knobs = {"LEASE_S": "5", "RECONCILE_INTERVAL_S": "5", "SEARCH_DEADLINE_S": "5", **told.environment}
        with running(people.world, **knobs) as demo:
            demo.wait_until_indexed()
            soak = Soak(demo, people, told, Random(given.seed))
            soak.go_on(min(60.0, given.seconds / 5))  # warm: what everybody needs is loaded
            with watched(demo.process.pid, every_s=1.0) as watch:
                soak.go_on(given.seconds)
            wait_until_quiet(demo, given.quiet)
            held_now, missed = held(demo), not_found(people, demo)
            failures = demo.progress()["reasons"]
        ideal = undisturbed(people.world)
    drift = [f"{key}: {what}" for key, what in held_now.differences(ideal).items()]
    console.print(dict(soak.counts), f"{len(ideal.places)} documents, {len(ideal.lines)} passages", failures)
    for what, some in (("drift", drift), ("lost", missed), ("doubled", sorted(held_now.doubled))):
        if some:
            console.print(f"{what}:", *some[:20], sep="\n  ")
    figures = {
        "drift": len(drift),
        "lost": len(missed),
        "doubled": len(held_now.doubled),
        "rss_ratio": round(growth(watch.samples, lambda usage: usage.rss_mb), 3),
        "fds_ratio": round(growth(watch.samples, lambda usage: usage.fds), 3),
    }
    sys.stdout.write(json.dumps(figures) + "\n")
    crashed = [answer for answer in soak.counts if answer.endswith("500")]
    grew = max(figures["rss_ratio"], figures["fds_ratio"]) > _MOST_GROWTH
    sys.exit(1 if drift or missed or held_now.doubled or grew or crashed else 0)


if __name__ == "__main__":
    main()

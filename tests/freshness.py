# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""`make bench-freshness`: how long after an edit, or a new share, somebody who searches finds it.

Registry, engine, write path, doors and search are the real ones; the clock is turned by hand. Nextcloud's webhooks come
late and not all of them; with `webhook+reconcile` everybody is compared besides. Somebody searches again and again
until the new text is quoted, or the shared document found. What he asks for, other documents of his fit as well as the
new text does and better than the old one, so that no search comes upon the old text and lets it be read anew.

The last line is one JSON object. Seconds are of what was found; `never`: not within ten minutes. Exit status 1 unless
with comparisons everything was found, within five minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import json
import math
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from leak_hunt import hunting_ground
from leak_wire import Hashing, Wire, quick_folder
from rich.console import Console
from rich.table import Table
from town import Stage, Town, living_town

from demo.people import Event
from ex_app import house
from ex_app.index.wishes import grant_wishes
from ex_app.nextcloud.session import Nextcloud
from ex_app.search import reach
from ex_app.sources import file

WRITER, READER = "alice", "bob"

# What the webhooks of a Nextcloud are like whose background jobs run every few seconds.
MEDIAN_S, SPREAD, LOST = 15.0, 1.0, 0.03

CONTENT_S, ACCESS_S = 3.0, 0.2
SWEEP_S = 120.0

NEVER_S = 600.0
MOST_S = 300.0

# How often one asks who waits for a share; a text that is waited for is asked for whenever the index may have changed.
_ASKS_S = 2.0
_TICK_S = 1.0
_RESTLESS_S = 10.0  # after anything happened the worker looks every second: some work is due a little later

# One search looks at no more documents than this, so that the one that is waited for is not among them by chance.
_OTHERS = 260
_COMMON = "ledger budget hotel"


@dataclass
class Found:
    """Seconds that were waited, by what was waited for; never: how often in vain."""

    mode: str
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"edit": [], "share": []})
    never: dict[str, int] = field(default_factory=lambda: {"edit": 0, "share": 0})
    told: int = 0
    lost: int = 0

    def figures(self) -> dict[str, Any]:
        """Of all together, then of each."""
        everything = _figures([s for some in self.seconds.values() for s in some], sum(self.never.values()))
        apart = {kind: _figures(some, self.never[kind]) for kind, some in self.seconds.items()}
        return {"mode": self.mode, **everything, **apart}


def _figures(seconds: list[float], never: int) -> dict[str, Any]:
    ordered = sorted(seconds)

    def at(share: float) -> float | None:
        return round(ordered[max(0, math.ceil(len(ordered) * share) - 1)], 1) if ordered else None

    return {"n": len(seconds) + never, "p50": at(0.5), "p95": at(0.95), "p99": at(0.99), "max": at(1), "never": never}


class Days:
    """A town in which time passes: webhooks arrive, comparisons come round, the worker works, somebody asks."""

    def __init__(self, town: Town, dice: Random, *, keys: Mapping[int, str], sweeps: bool) -> None:
        self.town = town
        self.dice = dice
        self.keys = keys
        self.told = self.lost = 0
        self._sweeps = sweeps
        self._next_sweep = town.clock() + dice.uniform(0, SWEEP_S)
        self._arriving: list[tuple[float, int, Event]] = []
        self._numbers = count()
        self._restless_until = town.clock() + _RESTLESS_S

    async def pass_until(self, moment: float, condition: Callable[[], Any] | None = None, *, asks_s: float = 0) -> bool:
        """Let time pass up to a moment; True as soon as the condition holds.

        It is asked whenever something happened, and every `asks_s` seconds besides.
        """
        clock = self.town.clock
        asked = clock()
        while True:
            happened = await self._happen()
            if condition and (happened or (asks_s and clock() - asked >= asks_s)):
                asked = clock()
                if await condition():
                    return True
            if clock() >= moment:
                return False
            clock.now = min(max(self._next_moment(asked + asks_s if asks_s else moment), clock() + 0.01), moment)

    def _next_moment(self, other: float) -> float:
        now = self.town.clock()
        moments = [other]
        if self._sweeps:
            moments.append(self._next_sweep)
        if self._arriving:
            moments.append(self._arriving[0][0])
        if now < self._restless_until:
            moments.append(now + _TICK_S)
        return min(moments)

    async def _happen(self) -> bool:
        """Everything that is due now; True when the index may say something else than before."""
        self._send_off()
        now, happened = self.town.clock(), False
        while self._arriving and self._arriving[0][0] <= now:
            await self._deliver(heapq.heappop(self._arriving)[2])
            happened = True
        if self._sweeps and self._next_sweep <= now:
            await self.town.sweep()
            self._next_sweep = now + SWEEP_S
            happened = True
        if happened:
            self._restless_until = now + _RESTLESS_S
        if now < self._restless_until:
            await grant_wishes(self.town.registry, self.town.indexing.reconciler.visit, asyncio.Event())
            happened = await self._work() or happened
        return happened

    def _send_off(self) -> None:
        """What just happened is on its way, or lost."""
        for event in self.town.webhooks.take():
            if self.dice.random() < LOST:
                self.lost += 1
                continue
            self.told += 1
            delay = MEDIAN_S * math.exp(self.dice.gauss(0, SPREAD))
            heapq.heappush(self._arriving, (self.town.clock() + delay, next(self._numbers), event))

    async def _deliver(self, event: Event) -> None:
        with patch.object(self.town.webhooks, "take", lambda: [event]):
            await self.town.hear()

    async def _work(self) -> bool:
        """One worker: reading takes three seconds, and what it read counts from then on."""
        worked = False
        while item := await self.town.claim():
            pause = await self.town.worker.attempt(item)
            self.town.clock.forward(pause + (CONTENT_S if item.reads else ACCESS_S))
            self._restless_until = self.town.clock() + _RESTLESS_S
            self._send_off()
            worked = True
        return worked


async def cycle(days: Days, number: int, found: Found) -> None:
    """Somebody edits a document, or shares one; somebody else looks for it until he finds it."""
    town, kind = days.town, ("edit", "share")[number % 2]
    word = f"qz{number:05d}"
    question = f"{_COMMON} {word if kind == 'edit' else _shared_word(number)}"
    key = days.keys[number]

    async def is_found() -> bool:
        page = await town.search(READER, question)
        hits = [hit for hit in page.hits if hit["ref"] == key]
        return bool(hits) and (kind == "share" or word in hits[0]["excerpt"])

    if await is_found():  # a minute ago at most he searched too, so that what is open to him is known
        raise RuntimeError("found before it was there: its time would mean nothing")
    await days.pass_until(town.clock() + days.dice.uniform(0, 60))
    changed = town.clock()
    share = None
    if kind == "edit":
        town.write(WRITER, f"/Shared/Paper {number}.md", f"{_COMMON} {word} {_COMMON} {word}")
    else:
        share = town.world.share(WRITER, f"/Own {number}", with_user=READER)
    if await days.pass_until(changed + NEVER_S, is_found, asks_s=_ASKS_S if kind == "share" else 0):
        found.seconds[kind].append(town.clock() - changed)
    else:
        found.never[kind] += 1
    if share is not None:
        town.world.unshare(share)
    await days.pass_until(town.clock() + days.dice.uniform(0, SWEEP_S))


def _shared_word(number: int) -> str:
    return f"qy{number:05d}"


async def furnish(town: Town, cycles: int) -> dict[int, str]:
    """Documents to edit and documents to share, and others that fit the question; all long ago. Returns the keys."""
    keys = {}
    long_ago = town.clock() - 86_400
    town.world.mkdir(WRITER, "/Shared")
    town.world.share(WRITER, "/Shared", with_user=READER)
    for number in range(cycles):
        if number % 2:
            text = f"{_COMMON} {_shared_word(number)} {_COMMON}"
            keys[number] = town.write(WRITER, f"/Own {number}/Paper.md", text, mtime=long_ago)
        else:
            text = f"violin maple varnish workshop {number} chisel glue"
            keys[number] = town.write(WRITER, f"/Shared/Paper {number}.md", text, mtime=long_ago)
    for number in range(_OTHERS):
        text = f"{_COMMON} {_COMMON} invoice {number} paid to supplier {number * 7}"
        town.write(READER, f"/Papers/Invoice {number}.md", text, mtime=long_ago)
    await town.listen()
    await town.sweep()
    while item := await town.claim():
        await town.worker.attempt(item)
    return keys


async def play(mode: str, cycles: int, seed: int, ground: dict[str, Any]) -> Found:
    """All cycles of one mode in a town of its own."""
    found = Found(mode)
    async with _quick_town(**ground) as town:
        keys = await furnish(town, cycles)
        days = Days(town, Random(seed), keys=keys, sweeps=mode.endswith("reconcile"))
        for number in range(cycles):
            await cycle(days, number, found)
        found.told, found.lost = days.told, days.lost
    return found


@asynccontextmanager
async def _quick_town(**ground: Any) -> AsyncIterator[Town]:
    """Nextcloud without a network, words without a model; what is open to people is remembered by the town's clock."""
    stage = Stage()
    stage.url = "http://nextcloud"
    clock: list[Callable[[], float]] = []
    hours = SimpleNamespace(monotonic=lambda: clock[0]() if clock else 0.0)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fresh-", dir=quick_folder())))
        stack.enter_context(patch.object(house, "Embedder", Hashing))
        stack.enter_context(patch.object(house, "Nextcloud", partial(Nextcloud, transport=Wire(stage))))
        for module in (reach, file):
            stack.enter_context(patch.object(module, "time", hours))
        made = living_town(folder, stage=stage, embed_socket=folder / "nobody", proxied_searches=50, **ground)
        async with made as town:
            clock.append(town.clock)
            yield town


def table_of(outcomes: list[Found]) -> Table:
    """Seconds by mode and kind."""
    columns = ("mode", "what", "n", "p50", "p95", "p99", "max", "never")
    table = Table(*columns, box=None)
    for outcome in outcomes:
        figures = outcome.figures()
        for kind in ("edit", "share"):
            table.add_row(outcome.mode, kind, *(str(figures[kind][name]) for name in columns[2:]))
        table.add_row("", f"webhooks told {outcome.told}, lost {outcome.lost}")
    return table


def main() -> None:
    """Print the table and, as last line, one JSON object."""
    parser = argparse.ArgumentParser(
        prog="make bench-freshness", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cycles", type=int, default=400, help="edits and shares together, of each mode")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    console, started, outcomes = Console(width=110), time.monotonic(), []
    with (
        tempfile.TemporaryDirectory(prefix="ground-", dir=quick_folder()) as folder,
        hunting_ground(Path(folder)) as (runner, ground),
    ):
        for mode in ("webhook", "webhook+reconcile"):
            outcomes.append(runner.run(play(mode, given.cycles, given.seed, ground)))
            console.print(f"{mode}: after {time.monotonic() - started:.0f} s")
    console.print(table_of(outcomes))
    modes = [outcome.figures() for outcome in outcomes]
    sys.stdout.write(json.dumps({"modes": modes}) + "\n")
    safe = modes[-1]
    sys.exit(0 if safe["never"] == 0 and safe["max"] is not None and safe["max"] <= MOST_S else 1)


if __name__ == "__main__":
    main()

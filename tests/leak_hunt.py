# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Hunts for leaks: random worlds, random doings, and every single hit held against Nextcloud's own permissions.

python tests/leak_hunt.py --hits 200000                    the last line is JSON; the exit code is 1 when it found any
python tests/leak_hunt.py --sabotage quote-all             with one control removed: it has to find something
python tests/leak_hunt.py --replay '[("write", 3), …]'     the steps that it printed, once more
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import logging
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import PropertyMock, patch

from engines import EngineProcess, settings_in
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from leak_play import ASKING, TROUBLE, WORKINGS, Step, play
from leak_rules import Found, Tally
from leak_steps import MUTATIONS, weighted
from leak_wire import quick_folder

from ex_app.domain import Granted, Place, Version
from ex_app.embed import files
from ex_app.extract.sandbox import Extractor
from ex_app.nextcloud import dav
from ex_app.search import reach, rounds, service
from ex_app.search.verify import Verdicts, verify

# Kinds of findings that make the hunt fail; the JSON line counts the first three by name.
_NAMES = {"leak": "leaks", "superseded": "superseded", "ghost": "ghosts"}


def steps(length: int = 30) -> st.SearchStrategy[list[Step]]:
    """Some building, then doings of all sorts; shrinks to fewer and fewer of them."""
    first: list[Step] = [("settle", 0)]
    return st.builds(lambda built, done: built + first + done, _some({"found": 1}, 2), _some(all_doings(), length))


def all_doings() -> dict[str, int]:
    """Everything that can happen, with how often it does."""
    return {**MUTATIONS, **WORKINGS, **TROUBLE, **ASKING}


def _some(table: dict[str, int], times: int) -> st.SearchStrategy[list[Step]]:
    step = st.tuples(st.sampled_from(weighted(table)), st.integers(0, 2**16))
    lists = st.lists(st.lists(step, max_size=12), min_size=times, max_size=times)
    return lists.map(lambda parts: [step for part in parts for step in part])


# --- Controls removed one at a time, to prove that the hunt would see it


async def _grants_all(sources: Any, session: Any, suspects: Any, *, seconds: float) -> Verdicts:
    real = await verify(sources, session, suspects, seconds=seconds)
    places = {key: Place("file", "?", "", f"/index.php/f/{key.id}") for key in suspects}
    invented = {key: Granted(Version(""), places[key], quotable=True, mtime=0) for key in suspects}
    return replace(real, granted={**invented, **real.granted}, denied=frozenset())


async def _never_fresh(self: reach.ReachBook, user: str) -> reach.Known:
    entry = self._entries.get(user)
    return entry.known if entry else await self.fresh(user)


async def _always_enabled(*_: object) -> bool:
    return True


SABOTAGE: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "none": nullcontext,
    "grant-all": lambda: patch.object(rounds, "verify", _grants_all),
    "listed-is-readable": lambda: patch.object(dav.Node, "readable", PropertyMock(return_value=True)),
    "version-blind": lambda: patch.object(service, "_is_current", lambda row, grant: True),
    "unsettled-blind": lambda: patch.object(service, "_is_current", lambda row, grant: row.version == grant.version),
    "quote-all": lambda: patch.object(service.Search, "_quotable", lambda self, ranked: True),
    "registry-blind": lambda: patch.object(rounds, "_is_live", lambda candidate, live: candidate.document in live),
    "enabled-blind": lambda: patch.object(service.Search, "_is_enabled", _always_enabled),
    # Reach serves recall only: without it people miss documents, and nothing leaks.
    "stale-reach": lambda: patch.object(reach.ReachBook, "of", _never_fresh),
}


# --- Running


@dataclass(frozen=True)
class Order:
    """What one process has to do."""

    seed: int
    hits: int
    seconds: float
    sabotage: str
    shrink: bool
    replay: str = ""


@contextmanager
def hunting_ground(folder: Path) -> Iterator[tuple[asyncio.Runner, dict[str, Any]]]:
    """An engine and a parser that all worlds of a process share."""
    engine = EngineProcess(settings_in(folder))
    embed = engine.settings
    extractor = Extractor(embed, tokenizer=files.tokenizer_file(embed), room=files.room(embed))
    try:
        with asyncio.Runner() as runner:
            yield runner, {"address": engine.address, "extractor": extractor}
            runner.run(extractor.close())
    finally:
        engine.stop()


def hunt(order: Order) -> dict[str, Any]:
    """Play worlds until enough hits were checked, time is up or something was found; returns the tally."""
    logging.disable(logging.NOTSET)
    logging.getLogger("hypothesis").setLevel(logging.ERROR)
    tally, ends = Tally(), time.monotonic() + order.seconds
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ground-", dir=quick_folder())))
        runner, ground = stack.enter_context(hunting_ground(folder))
        stack.enter_context(SABOTAGE[order.sabotage]())
        if order.replay:
            _replay(runner, ground, tally, ast.literal_eval(order.replay))
            return asdict(tally)
        turn = order.seed * 1_000
        while tally.checked < order.hits and time.monotonic() < ends and not tally.found:
            turn += 1
            _round(runner, ground, tally, turn=turn, ends=ends, order=order)
    return asdict(tally)


def _round(
    runner: asyncio.Runner, ground: dict[str, Any], tally: Tally, *, turn: int, ends: float, order: Order
) -> None:
    """Some worlds of one seed; prints the fewest steps that still show what was found."""
    last: list[tuple[list[Step], str, str]] = []
    first: list[int] = []

    @seed(turn)
    @settings(
        max_examples=25,
        deadline=None,
        database=None,
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink] if order.shrink else [Phase.generate],
    )
    @given(steps())
    def worlds(chosen: list[Step]) -> None:
        if not last and (tally.checked >= order.hits or time.monotonic() > ends):
            return
        counted = Tally() if last else tally
        try:
            runner.run(play(chosen, counted, **ground, ttl=60.0))
        except Exception as error:
            kind = error.kind if isinstance(error, Found) else "broken"
            first.append(counted.checked)
            last.append((chosen, kind, f"{type(error).__name__}: {error}"))
            raise

    try:
        worlds()
    except Exception as error:
        chosen, kind, what = last[-1]
        if not isinstance(error, Found):
            logging.getLogger(__name__).exception("hunt broken")
        tally.found[kind] = tally.found.get(kind, 0) + 1
        _say(f"seed {turn}, after {first[0]} hits: {what}\n  steps: {chosen}")


def _replay(runner: asyncio.Runner, ground: dict[str, Any], tally: Tally, chosen: list[Step]) -> None:
    try:
        runner.run(play(chosen, tally, **ground, ttl=60.0))
    except Found as error:
        tally.found[error.kind] = 1
        _say(str(error))


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def verdict(tally: Tally, seconds: float) -> dict[str, Any]:
    """The last line. upper_95: a larger share of wrong hits would have shown itself with 95 % probability."""
    named = {name: tally.found.get(kind, 0) for kind, name in _NAMES.items()}
    others = {kind: count for kind, count in tally.found.items() if kind not in _NAMES}
    share = 1 - 0.05 ** (1 / tally.checked) if tally.checked and not tally.found else None
    counts = {name: value for name, value in asdict(tally).items() if name != "found"}
    return {**counts, **named, "others": others, "upper_95": share, "seconds": round(seconds)}


def main() -> int:
    """The command line; 1 when anything was found, or no hit was looked at."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hits", type=int, default=200_000, help="stop when so many hits were checked")
    parser.add_argument("--seconds", type=float, default=7200.0, help="stop after so long")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--sabotage", choices=SABOTAGE, default="none")
    parser.add_argument("--no-shrink", action="store_true", help="print the steps as they were found, at once")
    parser.add_argument("--replay", default="", metavar="STEPS")
    args = parser.parse_args()
    started, tally = time.monotonic(), Tally()
    count = 1 if args.replay else args.processes
    orders = [
        Order(
            seed=args.seed + 1_000 * number,
            hits=-(-args.hits // count),
            seconds=args.seconds,
            sabotage=args.sabotage,
            shrink=not args.no_shrink,
            replay=args.replay,
        )
        for number in range(count)
    ]
    _say(f"hunting with seed {args.seed}")
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(hunt, order) for order in orders]):
            tally.plus(done.result())
    sys.stdout.write(json.dumps(verdict(tally, time.monotonic() - started)) + "\n")
    played = tally.checked or args.replay  # a hunt that looked at nothing has shown nothing
    return 1 if tally.found or not played else 0


if __name__ == "__main__":
    sys.exit(main())

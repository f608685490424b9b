# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""`make crash`: kill -9 at every step of the write path and at hundreds of random moments, in one long run.

Real processes beside the stand-in, in which people go on doing things. In the end the index must hold exactly what an
undisturbed installation makes of the same world: compared are document, version, ordinal, hash of the text and scopes
of every passage. The last line is one JSON object. kills: at random moments; steps: named ones at which a process died,
before and after; those that a rename goes through are counted twice, as they are met again while nothing else is to be
done. Exit status 1 unless the two indexes are equal and every named step was reached.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import product
from pathlib import Path

from crash_orders import Orders, orders
from crash_steps import RENAMING, STEPS, WHEN, Step
from leak_steps import IMPOSSIBLE, PEOPLE
from processes import kill
from rich.console import Console
from soak import wait_until_quiet
from soak_world import People, held, not_found, undisturbed

from demo.launch import Running, running
from demo.tree import join, split
from ex_app.store.database import FILE_NAME

_VICTIMS = {"worker": 6, "engine": 3, "embed": 1}
_BETWEEN_S = (0.1, 2.5)

# A dead worker's documents are free again after two seconds, and nobody is put aside for having been killed often: that
# is what the tries are for when a document takes its worker down.
_KNOBS = {"LEASE_S": "2", "RECONCILE_INTERVAL_S": "2", "MAX_ATTEMPTS": "1000", "TEST_RESTART_S": "0.5"}

_STIRS, _STIR_S = 4, 20.0

_QUIET = ".noindex"
_RENAMES = 5
_PATIENCE_S = 120.0


Stir = Callable[[Running, People, Orders], None]


def die_at_every_step(
    demo: Running, people: People, told: Orders, points: list[tuple[Step, str]], stir: Stir
) -> list[str]:
    """Let a process die at each of these while people stir things up; returns those to which nobody came."""
    missed = []
    for step, when in points:
        told.die(step, when)
        if not any(_died(demo, people, told, stir) for _ in range(_STIRS)):
            told.withdraw()
            missed.append(f"{step.name} {when}")
    return missed


def _died(demo: Running, people: People, told: Orders, stir: Stir) -> bool:
    """Things are stirred up, Nextcloud tells of it; True when somebody died as told."""
    stir(demo, people, told)
    asyncio.run(demo.served.webhooks.deliver())
    ends = time.monotonic() + _STIR_S
    while not told.is_done:
        if time.monotonic() > ends:
            return False
        if "drop_generation" in told.order:
            take_leases(demo)
        time.sleep(0.05)
    return True


def everything(_: Running, people: People, told: Orders) -> None:
    """Everybody does everything."""
    speak_up(people)
    people.do_everything()
    if "Vectors.drop " in told.order:
        fall_silent(people)


def renames(demo: Running, people: People, _: Orders) -> None:
    """Once all else is done, a few files get other names."""
    wait_until_quiet(demo, _PATIENCE_S)
    for name in ["rename"] * _RENAMES:
        people.do(name, people.dice)


def fall_silent(people: People) -> None:
    """Somebody in each home wants a folder left out."""
    for user in PEOPLE:
        files = [seen for seen in people.world.walk(user) if not seen.node.is_folder]
        with people.changing(), suppress(*IMPOSSIBLE):
            people.world.write(user, join(split(people.dice.choice(files).path)[0], _QUIET), b"")


def speak_up(people: People) -> None:
    """Nothing is left out any more."""
    for user in PEOPLE:
        for seen in list(people.world.walk(user)):
            with people.changing(), suppress(*IMPOSSIBLE):
                if split(seen.path)[1] == _QUIET:
                    people.world.delete(user, seen.path)


def take_leases(demo: Running) -> None:
    """Whoever works on something has done so for too long: others may have it."""
    with closing(sqlite3.connect(demo.data / FILE_NAME, timeout=5)) as registry, registry:
        registry.execute("UPDATE work SET token = NULL, due = 0 WHERE token IS NOT NULL")


def kill_at_random(demo: Running, people: People, kills: int) -> None:
    """Whoever it is, at whatever it is; there is always something to do."""
    for _ in range(kills):
        for _ in range(people.dice.randint(2, 6)):
            people.do_something()
        asyncio.run(demo.served.webhooks.deliver())
        time.sleep(people.dice.uniform(*_BETWEEN_S))
        kill(demo.process.pid, people.dice.choices([*_VICTIMS], weights=[*_VICTIMS.values()])[0])


def main() -> None:
    """Say what differs and, as last line, one JSON object."""
    parser = argparse.ArgumentParser(
        prog="make crash", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200, help="at random moments")
    parser.add_argument("--step", default="", help="only those whose name begins like this: Vectors.drop")
    parser.add_argument("--points", type=int, default=len(STEPS) * len(WHEN), help="named ones, of all that there are")
    parser.add_argument("--quiet", type=float, default=900, help="seconds in which all must come to rest")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    console, people = Console(width=130), People(given.seed)
    steps = [step for step in STEPS if step.name.startswith(given.step)]
    points = [*product(steps, WHEN)]
    people.dice.shuffle(points)
    points = points[: given.points]
    renaming = [(step, when) for step, when in points if step.name in RENAMING]
    with tempfile.TemporaryDirectory(prefix="crash-") as folder, orders(Path(folder)) as told:
        with running(people.world, **_KNOBS, **told.environment) as demo:
            demo.wait_until_indexed()
            missed = die_at_every_step(demo, people, told, points, everything)
            missed += die_at_every_step(demo, people, told, renaming, renames)
            deaths = len(points) + len(renaming) - len(missed)
            console.print(f"{deaths} deaths at named steps; nobody came to {missed or 'no other'}")
            speak_up(people)
            kill_at_random(demo, people, given.kills)
            console.print(f"{given.kills} deaths at random moments; {len(people.world.all_documents())} documents")
            wait_until_quiet(demo, given.quiet)
            held_now, lost = held(demo), not_found(people, demo)
        ideal = undisturbed(people.world)
    equal = held_now.digest == ideal.digest
    differing = [f"{key}: {what}" for key, what in held_now.differences(ideal).items()]
    for what, some in (("differs", differing), ("lost", lost), ("twice", sorted(held_now.doubled))):
        if some:
            console.print(f"{what}:", *some[:20], sep="\n  ")
    sys.stdout.write(json.dumps({"kills": given.kills, "steps": deaths, "equal": equal}) + "\n")
    sys.exit(0 if equal and not missed and not lost and not held_now.doubled else 1)


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""An admin's commands: `python -m ex_app <command>`, in the environment in which the app runs.

They name documents by reference ("file:12"), never by title. The last line of each is JSON; status 1 says that
something is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from ex_app.domain import DocumentKey, Lane, NotAvailable, Reason
from ex_app.house import House, open_house
from ex_app.index import erasing
from ex_app.index.drift import Drift
from ex_app.index.reconcile import SWEPT_AT
from ex_app.index.watchdog import State
from ex_app.settings import Settings
from ex_app.store import engine
from ex_app.store.documents import DocumentRow
from ex_app.store.work import Due

# Differences and failures that are named one by one; all are counted.
_NAMED = 1000

_WATCH_EVERY_S = 1.0

Command = Callable[[House, argparse.Namespace, Console], Awaitable[int]]


def parser() -> argparse.ArgumentParser:
    """Of all commands."""
    whole = argparse.ArgumentParser(prog="python -m ex_app", description="Semantic Search for Nextcloud")
    commands = whole.add_subparsers(dest="command", required=True)
    status = commands.add_parser("status", help="how far indexing is")
    status.add_argument("--watch", action="store_true", help="show a progress bar until nothing is left to do")
    failed = commands.add_parser("failures", help="documents that are not tried again until they change")
    reasons = [str(reason) for reason in Reason]
    failed.add_argument("--reason", choices=reasons, help="all without text for this reason, as `status` counts them")
    retry = commands.add_parser("retry", help="try documents again that failed")
    which = retry.add_mutually_exclusive_group(required=True)
    which.add_argument("ref", nargs="?", help='"file:12" or "deck_card:7"')
    which.add_argument("--all", action="store_true", help="all that `failures` names")
    which.add_argument("--reason", choices=reasons, help="all without text for this reason: they are read again")
    check = commands.add_parser("check", help="compare registry, index and Nextcloud")
    check.add_argument("--repair", action="store_true", help="let every difference be set right")
    erase = commands.add_parser("erase", help="erase for good: gone from searches and from all files of the app")
    which = erase.add_mutually_exclusive_group(required=True)
    which.add_argument("ref", nargs="?", help='"file:12" or "deck_card:7"')
    which.add_argument("--user", help="everything that this user owns")
    lift = commands.add_parser("lift", help="take an erasure back")
    lift.add_argument("ref", help='"file:12" or "deck_card:7"')
    commands.add_parser("compact", help="remove words of what was deleted from all files of the app now")
    return whole


async def run(settings: Settings, asked: argparse.Namespace, console: Console) -> int:
    """Do what was asked; returns the exit status. Raises SemanticSearchError with what to do."""
    async with open_house(settings) as house:
        return await COMMANDS[asked.command](house, asked, console)


async def status(house: House, asked: argparse.Namespace, console: Console) -> int:
    """1 when nothing goes on though there is work."""
    if asked.watch:
        await _watch(house, console)
    progress, queue = await house.registry.progress(), await house.registry.upkeep.queue()
    how, now = await house.condition(), house.registry.now()
    swept_at = await house.registry.get_setting(SWEPT_AT)
    stalled = f" for {_span(now - how.stalled_since)}, waits for" if how.stalled_since is not None else ":"
    state = f"{how.state}{stalled} {how.waits_for}" if how.waits_for else str(how.state)
    said: dict[str, Any] = {
        "state": how.state,
        "waits_for": how.waits_for,
        "to_do": how.to_do,
        "documents": progress.total,
        "indexed": progress.indexed,
        "pending": progress.pending,
        "failed": progress.failed,
        "reasons": progress.reasons,
        "queue_age_s": round(now - queue.oldest) if queue.oldest else 0,
        "documents_per_minute": round(queue.pace * 60, 1),
        "eta_s": round(progress.pending / queue.pace) if queue.pace else None,
        "swept_s_ago": round(now - float(swept_at)) if swept_at else None,
    }
    table = Table("", "", show_header=False, box=None)
    table.add_row("State", state)
    if how.to_do:
        table.add_row("What to do", how.to_do)
    table.add_row("Documents", f"{progress.total}, {progress.indexed} of them with their text")
    table.add_row(
        "Without text", ", ".join(f"{n} {reason}" for reason, n in sorted(progress.reasons.items())) or "none"
    )
    longest = f", the longest for {_span(said['queue_age_s'])}" if progress.pending else ""
    until = f"; all done in {_span(said['eta_s'])}" if progress.pending else ""
    table.add_row("To do", f"{progress.pending}{longest}")
    table.add_row("Pace", f"{queue.pace * 60:.1f} documents a minute{until}")
    table.add_row("Last comparison", f"{_span(said['swept_s_ago'])} ago" if swept_at else "not yet")
    return _told(console, table, said, wrong=how.state in (State.STALLED, State.NOT_RUNNING))


async def _watch(house: House, console: Console) -> None:
    columns = (TextColumn("Indexing"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("")
        while True:
            progress, queue = await house.registry.progress(), await house.registry.upkeep.queue()
            done = progress.total - progress.pending
            left = f"done in {_span(progress.pending / queue.pace)}" if queue.pace else ""
            bar.update(task, total=progress.total, completed=max(0, done), description=left)
            if not progress.pending:
                return
            await asyncio.sleep(_WATCH_EVERY_S)


async def failures(house: House, asked: argparse.Namespace, console: Console) -> int:
    """Names what was given up; with a reason all that have no text for it, most of which was read in vain."""
    if asked.reason:
        textless = await house.registry.upkeep.without_text(Reason(asked.reason))
        for row in textless[:_NAMED]:
            console.print(f"{row.key} {asked.reason}, {row.size} bytes, {row.mime}", markup=False, soft_wrap=True)
        return _told(
            console, f"{len(textless)} in all", {"failures": len(textless), "reasons": {asked.reason: len(textless)}}
        )
    rows = await house.registry.failures(_NAMED)
    table = Table("Document", "Reason", "Tries", "Since", "Said")
    for failure in rows:
        since = f"{_span(house.registry.now() - failure.failed_at)} ago"
        table.add_row(str(failure.key), str(failure.reason), str(failure.attempts), since, failure.detail)
    said = {"failures": len(rows), "reasons": Counter(str(row.reason) for row in rows)}
    return _told(console, table if rows else "None was given up", said)


async def retry(house: House, asked: argparse.Namespace, console: Console) -> int:
    """1 when there is no such failure."""
    await _demand_enabled(house)
    if asked.reason:
        textless = await house.registry.upkeep.without_text(Reason(asked.reason))
        await _read_again(house, textless)
        return _told(console, f"{len(textless)} will be read again", {"revived": len(textless)})
    keys = None if asked.all else [DocumentKey.parse(asked.ref)]
    revived = await house.registry.upkeep.revive(keys)
    if not revived and keys:
        textless = [row for row in (await house.registry.upkeep.rows(keys)).values() if row.reason]
        await _read_again(house, textless)
        revived = len(textless)
    said = f"{revived} will be tried again" if revived else "There is no such failure: see `failures`"
    return _told(console, said, {"revived": revived}, wrong=not revived and not asked.all)


async def _read_again(house: House, rows: Sequence[DocumentRow]) -> None:
    """Their bytes are what they were: without doubt nothing would be done about them."""
    await house.registry.upkeep.doubt([row.key for row in rows])
    await house.registry.enqueue_many(Due(row.key, Lane.BACKFILL, row.owner or row.reader) for row in rows)


async def check(house: House, asked: argparse.Namespace, console: Console) -> int:
    """1 when there are differences, mended or not."""
    await _demand_enabled(house)
    drift = Drift(house.nextcloud, house.sources, house.registry, await house.vectors())
    counted: Counter[str] = Counter()
    async for difference in drift.differences():
        counted[difference.kind] += 1
        if counted.total() <= _NAMED:
            console.print(f"{difference.key} {difference.kind}")
        if asked.repair:
            await drift.mend(difference)
    table = Table("Difference", "Documents")
    for kind, number in counted.most_common():
        table.add_row(kind, str(number))
    said = {"differences": counted.total(), "kinds": counted, "repaired": bool(asked.repair)}
    return _told(console, table if counted else "No differences", said, wrong=bool(counted))


async def erase(house: House, asked: argparse.Namespace, console: Console) -> int:
    """1 when there is nothing to erase."""
    keys = await house.registry.owned(asked.user) if asked.user is not None else [DocumentKey.parse(asked.ref)]
    for key in keys:
        # First of all, and even when another part is away: from now on no search finds it.
        await house.registry.erase(key)
    vectors = await house.vectors()
    compact = partial(engine.compact, house.settings, vectors.collection)
    with console.status("Erasing, and rewriting the index's files …"):
        cleared = await erasing.erase(keys, registry=house.registry, vectors=vectors, compact=compact)
    nobody = "" if keys else f"The app knows nothing that is owned by {asked.user}: is it the user id, not a name? "
    said = f"{nobody}{len(keys)} erased. {_of_files(cleared)}"
    return _told(console, said, {"erased": len(keys), **asdict(cleared)}, wrong=not keys)


async def lift(house: House, asked: argparse.Namespace, console: Console) -> int:
    """1 when it was not erased."""
    key = DocumentKey.parse(asked.ref)
    lifted = await house.registry.lift(key)
    row = await house.registry.document(key)
    if lifted and row is not None:
        # No walk would list its folder again before something changes in it.
        await house.registry.upkeep.look_into(key.source, row.parent)
    said = "The next comparison indexes it again" if lifted else f"{key} was not erased"
    return _told(console, said, {"lifted": lifted}, wrong=not lifted)


async def compact(house: House, _: argparse.Namespace, console: Console) -> int:
    """Takes about a minute per 100,000 passages."""
    vectors = await house.vectors()
    rewrite = partial(engine.compact, house.settings, vectors.collection)
    with console.status("Rewriting the index's files: about a minute per 100,000 passages …"):
        cleared = await erasing.clear(registry=house.registry, compact=rewrite)
    return _told(console, _of_files(cleared), asdict(cleared))


COMMANDS: Mapping[str, Command] = {
    "status": status,
    "failures": failures,
    "retry": retry,
    "check": check,
    "erase": erase,
    "lift": lift,
    "compact": compact,
}


async def _demand_enabled(house: House) -> None:
    if not await house.is_enabled():
        raise NotAvailable("the app is switched off: enable it in Nextcloud first")


def _of_files(cleared: erasing.Cleared) -> str:
    if cleared.engine and cleared.database:
        return "No file of the app holds words of it any more."
    if not cleared.engine:
        return "The words leave your Qdrant server's files when its optimizer gets to them: that cannot be forced."
    return "The database's log was in use and may hold words for up to an hour: run `compact` again."


def _told(console: Console, people: Table | str, machines: Mapping[str, Any], *, wrong: bool = False) -> int:
    console.print(people)
    console.print(json.dumps(machines), soft_wrap=True, highlight=False, markup=False)
    return int(wrong)


def _span(seconds: float | None) -> str:
    """A length of time as people say it."""
    if seconds is None:
        return "an unknown time"
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"

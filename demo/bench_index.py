# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""`make bench-index`: how fast documents come into the index, in how much memory, and what comparing costs Nextcloud.

The last line is one JSON object. ratio: chunks per second from the stand-in until published, of those of the model
alone (float32) for the same chunks in the same run; rss_mb: the largest resident sizes of all our processes together;
requests_unchanged, requests_one_change: for the files and notes of somebody with 20,000 files. The one request for all
of Deck's boards and the one that asks whether the account is enabled stand in the table. events_p99_ms: in what time
99 of 100 events were answered, durably noted, while indexing took all that the machine has. Exit status 1 on a miss.
"""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console
from rich.table import Table

from demo.bench import indexing, sweeping
from demo.bench.hearing import Heard

_LEAST_RATIO = 0.85
_UNCHANGED = 1
_LONGEST_ANSWER_MS = 50.0


def main() -> None:
    """Print the tables and, as last line, one JSON object."""
    parser = argparse.ArgumentParser(
        prog="make bench-index", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunks", type=int, default=2_000, help="at least so many passages")
    parser.add_argument("--rounds", type=int, default=4, help="in so many turns with the model alone")
    parser.add_argument("--batch", type=int, default=64, help="texts that the model alone is given at once")
    parser.add_argument("--files", type=int, default=20_000, help="of the one whose content is compared")
    given = parser.parse_args()
    console = Console(width=130)
    sweep = sweeping.measure(given.files)
    console.print(f"\n[bold]Somebody with {given.files:,} files[/bold]", sweeping.table_of(sweep), sep="\n")
    outcome = indexing.measure(given.chunks, rounds=given.rounds, batch=given.batch, say=console.print)
    title = f"\n[bold]Into the index[/bold] (the app chose {outcome.precision} on this machine)"
    console.print(title, indexing.table_of(outcome), sep="\n")
    console.print("\n[bold]What it took[/bold]", _taken(outcome), sep="\n")
    console.print("\n[bold]Events told meanwhile[/bold]", _heard(outcome.heard), sep="\n")
    figures = {
        "ratio": round(outcome.ratio, 3),
        "rss_mb": round(sum(outcome.peaks.values())),
        "requests_unchanged": sweep.files(sweep.unchanged),
        "requests_one_change": sweep.files(sweep.one_change),
        "events_p99_ms": round(outcome.heard.quantile_ms(0.99), 1),
    }
    problems = []
    if outcome.chunks < given.chunks:
        problems.append(f"only {outcome.chunks} chunks")
    if outcome.ratio < _LEAST_RATIO:
        problems.append(f"the whole path comes to {outcome.ratio:.2f} of the model alone, not {_LEAST_RATIO}")
    if figures["requests_unchanged"] != _UNCHANGED:
        problems.append("an unchanged home costs more than one request")
    if outcome.heard.refused or figures["events_p99_ms"] >= _LONGEST_ANSWER_MS:
        problems.append(f"events: {outcome.heard.refused} refused, 99 % within {figures['events_p99_ms']} ms, not 50")
    for problem in problems:
        console.print(f"Not well: {problem}")
    print(json.dumps(figures))
    sys.exit(1 if problems else 0)


def _taken(outcome: indexing.Outcome) -> Table:
    table = Table("process", "MB at its most", "processor seconds", "ms a chunk", box=None)
    for role, peak in sorted(outcome.peaks.items(), key=lambda item: -item[1]):
        seconds = outcome.cpu.get(role, 0.0)
        table.add_row(role, f"{peak:.0f}", f"{seconds:.1f}", f"{1000 * seconds / outcome.chunks:.1f}")
    return table


def _heard(heard: Heard) -> Table:
    table = Table("events", "refused", "half within, ms", "95 %", "99 %", "all", box=None)
    within = [f"{heard.quantile_ms(share):.1f}" for share in (0.5, 0.95, 0.99, 1.0)]
    table.add_row(str(len(heard.seconds)), str(heard.refused), *within)
    return table


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""`make bench-memory`: in how much memory 50,000 small files and ten of 100 MB come into the index.

The last line is one JSON object. small, large: files whose text is in the index; rss_mb: the largest resident sizes of
all our processes together; stated_mb: what the README tells people to have; first_third_mb, last_third_mb: the usual
resident size of all of them while the small ones came in. Exit status 1 when more was taken or anything is missing.
"""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console

from demo.bench import weighing

_STATED_MB = 3_000


def main() -> None:
    """Print the table and, as last line, one JSON object."""
    parser = argparse.ArgumentParser(
        prog="make bench-memory", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", type=int, default=50_000, help="files of a handful of words")
    parser.add_argument("--large", type=int, default=10, help="files of many megabytes")
    parser.add_argument("--megabytes", type=int, default=100, help="of each of the large ones")
    given = parser.parse_args()
    console = Console(width=130)
    weight = weighing.measure(given.small, given.large, megabytes=given.megabytes, say=console.print)
    title = f"\n[bold]Resident memory[/bold] ({weight.seconds:.0f} s)"
    console.print(title, weighing.table_of(weight), sep="\n")
    first, last = (sum(sizes.values()) for sizes in weight.thirds)
    figures = {
        "small": weight.small,
        "large": weight.large,
        "rss_mb": round(sum(weight.peaks.values())),
        "stated_mb": _STATED_MB,
        "first_third_mb": round(first),
        "last_third_mb": round(last),
    }
    problems = []
    if figures["rss_mb"] > _STATED_MB:
        problems.append(f"{figures['rss_mb']} MB, not {_STATED_MB}")
    if (weight.small, weight.large) != (given.small, given.large):
        problems.append(f"indexed are {weight.small} small and {weight.large} large ones")
    for problem in problems:
        console.print(f"Not well: {problem}")
    print(json.dumps(figures))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()

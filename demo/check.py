# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""`make demo-check`: the demo without a person. Every question is asked as its user, through Nextcloud's proxy.

Right: the expected document comes first, or nothing shows where nothing is expected. A leak is a hit that its user may
not read, by the stand-in's own permission model; a ghost is a hit that does not exist or says what it no longer says.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.content import furnish, name_of
from demo.launch import Running, running
from demo.questions import QUESTIONS, Question
from demo.run import show_progress
from demo.world import World

_READY_S = 180.0


def main() -> None:
    """Print a table and, as last line, one JSON object; exit 1 unless all is right."""
    started = time.monotonic()
    console = Console(width=150)
    world = World()
    furnish(world)
    with running(world) as demo:
        show_progress(demo, console)
        ready = time.monotonic() - started
        outcomes = [(question, ask(demo, question)) for question in QUESTIONS]
        indexed = demo.progress()["indexed"]
    table = Table("", "user", "question", "expected", "first", "score", box=None)
    right = leaks = ghosts = 0
    for question, answer in outcomes:
        fine = is_right(world, question, answer)
        right += fine
        leaks += sum(not world.readable(question.user, hit["ref"]) for hit in answer["hits"])
        ghosts += sum(is_ghost(world, hit) for hit in answer["hits"])
        first = answer["hits"][0] if answer["hits"] else None
        table.add_row(
            "ok" if fine else "[bold red]no[/]",
            question.user,
            question.text,
            question.expected or "-",
            name_of(world, first["ref"]) if first else "-",
            f"{first['score']:.3f}" if first else "",
        )
    console.print(table)
    result = {
        "documents_indexed": indexed,
        "questions": len(outcomes),
        "right": right,
        "leaks": leaks,
        "ghosts": ghosts,
        "seconds_to_ready": round(ready, 1),
    }
    print(json.dumps(result))
    sys.exit(0 if right == len(outcomes) and not leaks and not ghosts and ready <= _READY_S else 1)


def ask(demo: Running, question: Question) -> dict[str, Any]:
    """The JSON answer that this user's browser gets."""
    response = demo.get(question.user, "api/search", q=question.text, limit=10)
    response.raise_for_status()
    answer: dict[str, Any] = response.json()
    return answer


def is_right(world: World, question: Question, answer: dict[str, Any]) -> bool:
    """Whether the first hit is the expected document (and page), or there is none where none is expected."""
    hits = answer["hits"]
    if question.expected is None:
        return not hits
    if not hits or name_of(world, hits[0]["ref"]) != question.expected:
        return False
    return question.page is None or hits[0]["page"] == question.page


def is_ghost(world: World, hit: dict[str, Any]) -> bool:
    """A hit on nothing, or one that quotes what a plain-text document does not say."""
    if hit["ref"] not in world.all_documents():
        return True
    name = name_of(world, hit["ref"])
    if not hit["excerpt"] or not name.endswith((".md", ".txt")):
        return False
    return _flat(hit["excerpt"]) not in _flat(world.body(hit["ref"]).decode())


def _flat(text: str) -> str:
    """Markdown marks and line breaks are not part of what a document says."""
    return "".join(char for char in text if char.isalnum())


if __name__ == "__main__":
    main()

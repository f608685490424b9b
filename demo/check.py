# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""`make demo-check`: the demo without a person. Every question is asked as its user, through Nextcloud's proxy.

Right: the expected document comes first, or nothing shows where nothing is expected. A leak is a hit that its user may
not read, or a quote from what he may only view, by the stand-in's own permission model; a ghost is a hit that does not
exist or says what it no longer says.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.content import CONTENT, PAGE_BREAK, furnish, name_of
from demo.launch import Running, running
from demo.questions import QUESTIONS, Question
from demo.run import show_progress
from demo.world import World

_READY_S = 180.0

# A question and the JSON that its user was answered.
Outcome = tuple[Question, dict[str, Any]]


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
    console.print(_table(world, outcomes))
    counts = tally(world, outcomes)
    print(json.dumps({"documents_indexed": indexed, **counts, "seconds_to_ready": round(ready, 1)}))
    sys.exit(0 if is_fine(counts) and ready <= _READY_S else 1)


def tally(world: World, outcomes: Sequence[Outcome]) -> dict[str, int]:
    """How many questions were asked and answered right, and all hits of theirs that are leaks or ghosts."""
    return {
        "questions": len(outcomes),
        "right": sum(is_right(world, question, answer) for question, answer in outcomes),
        "leaks": sum(is_leak(world, question.user, hit) for question, answer in outcomes for hit in answer["hits"]),
        "ghosts": sum(is_ghost(world, hit) for _, answer in outcomes for hit in answer["hits"]),
    }


def is_fine(counts: Mapping[str, int]) -> bool:
    """Everything right, nothing leaked, nothing made up; no questions at all prove nothing."""
    return 0 < counts["questions"] == counts["right"] and not counts["leaks"] and not counts["ghosts"]


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


def is_leak(world: World, user: str, hit: dict[str, Any]) -> bool:
    """A hit that this user may not read, or may not copy from and is shown words of."""
    return not world.readable(user, hit["ref"]) or (bool(hit["excerpt"]) and not world.quotable(user, hit["ref"]))


def is_ghost(world: World, hit: dict[str, Any]) -> bool:
    """A hit on nothing, or one that quotes what the document does not say."""
    if hit["ref"] not in world.all_documents():
        return True
    return _flat(hit["excerpt"]) not in _flat(_says(world, hit["ref"]))


def _says(world: World, key: str) -> str:
    """The words of a document; of a rendered one those that it was made from."""
    source, number = key.split(":")
    if source == "deck_card":
        return world.body(key).decode() + "".join(sorted(world.cards[int(number)].labels))
    node = world.nodes[int(number)]
    owner = str(node.owner)
    if not node.name.endswith((".pdf", ".docx")):
        return world.body(key).decode()
    [path] = world.path_for(owner, node.id)
    return (CONTENT / owner / f"{path[1:]}.md").read_text("utf-8").replace(PAGE_BREAK, "\n")


def _table(world: World, outcomes: Sequence[Outcome]) -> Table:
    table = Table("", "user", "question", "expected", "first", "score", box=None)
    for question, answer in outcomes:
        first = answer["hits"][0] if answer["hits"] else None
        table.add_row(
            "ok" if is_right(world, question, answer) else "[bold red]no[/]",
            question.user,
            question.text,
            question.expected or "-",
            name_of(world, first["ref"]) if first else "-",
            f"{first['score']:.3f}" if first else "",
        )
    return table


def _flat(text: str) -> str:
    """Markdown marks and line breaks are not part of what a document says."""
    return "".join(char for char in text if char.isalnum())


if __name__ == "__main__":
    main()

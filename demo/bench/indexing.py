# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""How fast documents come into the index, held against the model alone.

People save documents of many lengths and kinds at once; the clock runs from the first question about their folders
until nothing is left to do. Then the model alone encodes the very same passages. In turns, so that whatever else the
machine does weighs on both. In one more turn events come in beside.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from rich.table import Table

from demo.bench.bare import bare_model
from demo.bench.hearing import Heard, told
from demo.bench.processes import watched
from demo.content import Paper, render
from demo.launch import Running, running
from demo.world import World
from ex_app.domain import DocumentKey
from ex_app.settings import Settings
from ex_app.store import engine
from ex_app.store.registry import open_registry
from ex_app.store.vectors import Vectors

_WRITER = "writer"
_DIMENSIONS = 384

# Words of a document: many short ones, few long ones. Characters tell the tokens of this vocabulary well enough.
_WORDS_MEDIAN, _WORDS_SPREAD, _WORDS_MOST = 350, 1.1, 6_000
_WORDS_A_CHUNK = 120  # no document has more of them, so that there are chunks enough

# Long ago enough for every version to be settled: nothing is read twice.
_LONG_AGO_S = 30 * 86_400
_KINDS = ("md", "md", "md", "txt", "txt", "txt", "md", "txt", "docx", "pdf")
_PATIENCE_S = 1_800.0

_BEGINNINGS = (
    "har led ti lan kee ro bar in qua win sto bread let oi gla stai win sig boa cre cap re pain sal gar en fue"
)
_ENDINGS = "bour ger de tern per pe rel voice y ter rm er ter ling ss r dow nal t w tain pair t t den gine l"


@dataclass(frozen=True, slots=True)
class Round:
    """One turn: so many documents and chunks, the seconds of the whole path and of the model alone."""

    documents: int
    chunks: int
    path_s: float
    bare_s: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """All turns, and the precision that the app chose for itself.

    heard: the events told in another turn, which is not counted as one; peaks: the largest resident size of each
    process in MB; cpu: seconds of processor time that each took in the turns.
    """

    rounds: list[Round]
    heard: Heard
    peaks: dict[str, float]
    cpu: dict[str, float]
    precision: str

    @property
    def chunks(self) -> int:
        return sum(one.chunks for one in self.rounds)

    @property
    def ratio(self) -> float:
        """Chunks per second through the whole path, of those of the model alone."""
        return sum(one.bare_s for one in self.rounds) / sum(one.path_s for one in self.rounds)


def measure(chunks: int, *, rounds: int, batch: int, say: Callable[[str], None]) -> Outcome:
    """Index at least so many chunks in so many turns. batch: texts of the model alone at once."""
    world = World()
    world.add_user(_WRITER)
    papers = _papers(Random(5), words=chunks * _WORDS_A_CHUNK * (rounds + 1) // rounds)
    *parts, beside = [papers[number :: rounds + 1] for number in range(rounds + 1)]
    # What is new is seen within two seconds; the clock runs from then on.
    with bare_model(batch) as bare, running(world, RECONCILE_INTERVAL_S="2") as demo:
        demo.wait_until_indexed()
        with watched(demo.process.pid) as watch:
            done: list[Round] = []
            known: list[DocumentKey] = []
            for part in parts:
                turn, known = _turn(demo, part, bare)
                done.append(turn)
                say(f"{done[-1].chunks} chunks: {done[-1].path_s:.1f} s, the model alone {done[-1].bare_s:.1f} s")
        with told(demo, _WRITER, known) as heard:
            expected = demo.progress()["indexed"] + len(beside)
            save_all(demo, _WRITER, beside)
            _wait(demo, lambda: demo.progress()["indexed"] >= expected, every_s=0.5)
        chosen = re.search(r"embed_precision chosen=(\w+)", demo.log.read_text(errors="replace"))
    return Outcome(done, heard, watch.peaks(), watch.cpu(), chosen[1] if chosen else "unknown")


def table_of(outcome: Outcome) -> Table:
    """A row a turn."""
    table = Table("documents", "chunks", "whole path, chunks/s", "model alone, chunks/s", "ratio", box=None)
    for one in outcome.rounds:
        path, bare = one.chunks / one.path_s, one.chunks / one.bare_s
        table.add_row(str(one.documents), str(one.chunks), f"{path:.1f}", f"{bare:.1f}", f"{path / bare:.2f}")
    return table


def _turn(
    demo: Running, papers: Sequence[tuple[str, bytes]], bare: Callable[[Sequence[str]], float]
) -> tuple[Round, list[DocumentKey]]:
    path_s, keys = _through_the_whole_path(demo, papers)
    texts = asyncio.run(_texts(demo, keys))
    return Round(len(papers), len(texts), path_s, bare(texts)), keys


def _through_the_whole_path(demo: Running, papers: Sequence[tuple[str, bytes]]) -> tuple[float, list[DocumentKey]]:
    world = demo.served.world
    expected = demo.progress()["indexed"] + len(papers)
    keys = save_all(demo, _WRITER, papers)
    _wait(demo, lambda: world.count(method="SEARCH", kind="dav") > 0, every_s=0.005)
    started = time.perf_counter()
    _wait(demo, lambda: _is_done(demo, expected), every_s=0.5)
    return time.perf_counter() - started, keys


def save_all(demo: Running, user: str, papers: Sequence[tuple[str, bytes]]) -> list[DocumentKey]:
    """Write them at one moment, each with a settled version; requests are counted from then on."""
    world = demo.served.world
    with world.lock:  # nobody sees a part of it
        world.reset_requests()
        return [
            DocumentKey("file", world.write(user, path, data, mtime=world.clock() - _LONG_AGO_S))
            for path, data in papers
        ]


def _is_done(demo: Running, expected: int) -> bool:
    now = demo.progress()
    return not now["pending"] and now["indexed"] >= expected


def _wait(demo: Running, condition: Callable[[], bool], *, every_s: float) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > deadline or demo.process.poll() is not None:
            raise TimeoutError(f"not indexed\n{demo.log_tail()}")
        time.sleep(every_s)


async def _texts(demo: Running, keys: Sequence[DocumentKey]) -> list[str]:
    """What the model was given for these documents, by what the index holds of them."""
    settings = Settings(app_secret="unused", app_persistent_storage=demo.data, qdrant_url="", database_url="")
    connection, registry = engine.Connection(settings), await open_registry(settings)
    try:
        vectors = Vectors(connection, collection=str(await registry.get_setting("index")), dimensions=_DIMENSIONS)
        texts = []
        for key in keys:
            row = await registry.document(key)
            assert row is not None
            chunks = [passage.chunk for passage in await vectors.passages_of(key, row.live)]
            texts += [f"{chunk.context_line(row.title)}\n{chunk.text}" for chunk in chunks]
        return texts
    finally:
        await connection.aclose()
        await registry.close()


def _papers(dice: Random, *, words: int) -> list[tuple[str, bytes]]:
    """Paths and contents of documents with so many words together, no two sentences of them alike."""
    sentences = _sentences(dice)
    papers: list[tuple[str, bytes]] = []
    while words > 0:
        number = len(papers)
        length = min(_WORDS_MOST, max(20, int(dice.lognormvariate(0, _WORDS_SPREAD) * _WORDS_MEDIAN)))
        words -= length
        end = _KINDS[number % len(_KINDS)]
        paragraphs = [" ".join(next(sentences) for _ in range(dice.randint(3, 8))) for _ in range(length // 60 + 1)]
        text = f"# Paper {number}\n\n" + "\n\n".join(paragraphs)
        paper = Paper(_WRITER, f"/Papers {number % 12}/Paper {number}.{end}", text, 0)
        papers.append((paper.path, render(paper)))
    return papers


def _sentences(dice: Random) -> Iterator[str]:
    """Sentences of about twelve words that the model knows in part."""
    words = [begin + end for begin in _BEGINNINGS.split() for end in _ENDINGS.split()]
    while True:
        yield " ".join(dice.choices(words, k=dice.randint(7, 16))).capitalize() + "."

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""How much memory our processes take while very many small files and a few very large ones come into the index."""

from __future__ import annotations

import asyncio
import io
import time
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

from pypdf import PdfReader, PdfWriter
from rich.table import Table

from demo.bench.indexing import save_all
from demo.bench.processes import Usage, watched
from demo.content import Paper, render
from demo.launch import Running, running
from demo.world import World
from ex_app.domain import DocumentKey
from ex_app.settings import Settings
from ex_app.store.registry import open_registry

_COLLECTOR = "collector"
_IN_A_FOLDER = 50
_MB = 1024 * 1024

# Seconds without anything new in the index after which no more is waited for.
_PATIENCE_S = 600.0

_WORDS = "bread oven letter harbour invoice meeting garden winter salary roof bicycle lesson doctor ticket flour river"


@dataclass(frozen=True, slots=True)
class Weight:
    """What was seen. small, large: files whose text is in the index; peaks: the largest resident size of each role, MB.

    thirds: the usual resident size of each role in the first and the last third of the time that the small ones took.
    """

    small: int
    large: int
    peaks: Mapping[str, float]
    thirds: tuple[Mapping[str, float], Mapping[str, float]]
    seconds: float


def measure(small: int, large: int, *, megabytes: int, say: Callable[[str], None]) -> Weight:
    """Index so many small files, then so many of so many megabytes."""
    world, dice = World(), Random(7)
    world.add_user(_COLLECTOR)
    started = time.monotonic()
    with running(world, RECONCILE_INTERVAL_S="2", MAX_FILE_MB=str(megabytes + 1)) as demo:
        demo.wait_until_indexed()
        with watched(demo.process.pid) as watch:
            few = _let_in(demo, [(_place(number), _letter(dice)) for number in range(small)], say)
            usual = [*watch.samples]
            many = _let_in(demo, large_ones(large, megabytes), say)
        return Weight(
            asyncio.run(_with_text(demo, few)),
            asyncio.run(_with_text(demo, many)),
            watch.peaks(),
            (_usual(usual[: len(usual) // 3]), _usual(usual[-(len(usual) // 3) :])),
            time.monotonic() - started,
        )


def table_of(weight: Weight) -> Table:
    """A row a role, the largest first."""
    first, last = weight.thirds
    table = Table("process", "MB at its most", "small files: first third", "last third", box=None)
    for role, peak in sorted(weight.peaks.items(), key=lambda item: -item[1]):
        table.add_row(role, f"{peak:.0f}", f"{first.get(role, 0):.0f}", f"{last.get(role, 0):.0f}")
    table.add_row("all", *(f"{sum(sizes.values()):.0f}" for sizes in (weight.peaks, first, last)))
    return table


def _let_in(demo: Running, files: Sequence[tuple[str, bytes]], say: Callable[[str], None]) -> list[DocumentKey]:
    """Save them all, and wait until nothing is left to do or nothing happens any more."""
    expected = demo.progress()["indexed"] + len(files)
    keys = save_all(demo, _COLLECTOR, files)
    reached, until, told = -1, time.monotonic() + _PATIENCE_S, 0.0
    while time.monotonic() < until:
        now = demo.progress()
        if not now["pending"] and now["indexed"] >= expected:
            break
        if demo.process.poll() is not None:
            raise RuntimeError(f"the app ended\n{demo.log_tail()}")
        if now["indexed"] != reached:
            reached, until = now["indexed"], time.monotonic() + _PATIENCE_S
        if time.monotonic() - told > 60:
            say(f"{now['indexed']:,} of {expected:,} documents")
            told = time.monotonic()
        time.sleep(0.5)
    return keys


async def _with_text(demo: Running, keys: Collection[DocumentKey]) -> int:
    """How many of these are in the index with their text, not with their name alone."""
    settings = Settings(app_secret=demo.app.secret, app_persistent_storage=demo.data, database_url="")
    registry = await open_registry(settings)
    try:
        rows = [await registry.document(key) for key in keys]
    finally:
        await registry.close()
    return sum(row is not None and bool(row.live) and row.reason is None for row in rows)


def _usual(samples: Sequence[Mapping[str, Usage]]) -> dict[str, float]:
    roles = {role for sample in samples for role in sample}
    return {role: median(sample[role].rss_mb for sample in samples if role in sample) for role in roles}


def _place(number: int) -> str:
    folder = number // _IN_A_FOLDER
    return f"/Year {folder % 10}/Month {folder // 10 % 12}/Week {folder}/Letter {number}.md"


def _letter(dice: Random) -> bytes:
    return (" ".join(dice.choices(_WORDS.split(), k=dice.randint(4, 9))).capitalize() + ".").encode()


def large_ones(number: int, megabytes: int) -> list[tuple[str, bytes]]:
    """Of each kind in turn. Those of one kind are the same bytes: they need not lie here ten times."""
    makers = (_text, _word, _markdown, _pdf, _table)
    made = [(maker.__name__.strip("_"), maker(megabytes * _MB)) for maker in makers[:number]]
    ends = {"text": "txt", "word": "docx", "markdown": "md", "pdf": "pdf", "table": "csv"}
    files = [made[at % len(made)] for at in range(number)]
    return [(f"/Large/{kind} {at}.{ends[kind]}", data) for at, (kind, data) in enumerate(files)]


def _text(size: int) -> bytes:
    dice = Random(1)
    page = b"\n".join(_letter(dice) for _ in range(20_000))
    return (page * (size // len(page) + 1))[:size]


def _markdown(size: int) -> bytes:
    dice = Random(2)
    sections = (f"## Part {at}\n\n{_letter(dice).decode()}\n\n- {_letter(dice).decode()}\n" for at in range(20_000))
    page = "\n".join(sections).encode()
    return (page * (size // len(page) + 1))[:size]


def _table(size: int) -> bytes:
    dice = Random(3)
    page = "".join(f"{at};{dice.random():.6f};{_letter(dice).decode()}\n" for at in range(20_000)).encode()
    return (page * (size // len(page) + 1))[:size]


def _word(size: int) -> bytes:
    """A Word document with a picture that nothing makes smaller."""
    small = render(Paper(_COLLECTOR, "/a.docx", "# Catalogue\n\nBread for the harbour.", 0))
    whole = io.BytesIO(small)
    with zipfile.ZipFile(whole, "a", zipfile.ZIP_STORED) as package:
        package.writestr("word/media/picture.png", Random(4).randbytes(size - len(small) - 1024))
    return whole.getvalue()


def _pdf(size: int) -> bytes:
    """A PDF with an attachment that nothing makes smaller."""
    small = render(Paper(_COLLECTOR, "/a.pdf", "# Catalogue\n\nBread for the harbour.", 0))
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(small)))
    writer.add_attachment("picture.bin", Random(5).randbytes(size - len(small) - 4096))
    whole = io.BytesIO()
    writer.write(whole)
    return whole.getvalue()

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What it costs Nextcloud to compare somebody with very many files, when nothing changed and when one file did."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from demo.appapi import routes_from
from demo.gate import ExApp
from demo.server import Served, serving
from demo.world import World
from ex_app.house import open_house
from ex_app.index.reconcile import Reconciler
from ex_app.settings import Settings
from ex_app.store.vectors import Vectors

_COLLECTOR = "collector"
_IN_A_FOLDER = 50
_SECRET = "of nobody"
_LONG_AGO_S = 30 * 86_400

Asked = Counter[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Requests of one comparison by method and part: when nothing changed, and when one file did.

    files: those for files and notes (WebDAV); the rest is for Deck's boards and for what is no source's.
    """

    unchanged: Asked
    one_change: Asked

    @staticmethod
    def files(asked: Asked) -> int:
        return sum(number for (_, part), number in asked.items() if part == "dav")


def measure(files: int) -> Sweep:
    """Somebody with so many files, fifty in a folder and the folders in folders."""
    world = World()
    world.add_user(_COLLECTOR)
    changed = _furnish(world, files)
    with serving(world) as served, tempfile.TemporaryDirectory(prefix="semantic-search-") as folder:
        return asyncio.run(_measure(served, Path(folder), changed))


async def _measure(served: Served, folder: Path, changed: str) -> Sweep:
    world = served.world
    info = Path(__file__).parents[2] / "appinfo" / "info.xml"
    app = ExApp("semantic_search", "Semantic Search", "0.1.0", _SECRET, "", routes_from(info), enabled=True)
    served.apps[app.id] = app
    settings = Settings(app_secret=_SECRET, app_persistent_storage=folder, nextcloud_url=served.url, database_url="")
    async with open_house(settings) as house:
        # No engine: nothing here moves, so that nothing is written to the index.
        vectors = Vectors(house.engine, collection="none", dimensions=1)
        reconciler = Reconciler(house.nextcloud, house.sources, house.registry, vectors)

        async def sweep() -> Asked:
            world.reset_requests()
            await reconciler.sweep([_COLLECTOR], asyncio.Event())
            return world.counted()

        await sweep()
        pending = (await house.registry.progress()).pending
        unchanged = await sweep()
        world.write(_COLLECTOR, changed, b"other words")
        one_change = await sweep()
    if pending != sum(not node.is_folder for node in world.nodes.values()):
        raise RuntimeError(f"only {pending} files were seen: the counts would mean nothing")
    return Sweep(unchanged, one_change)


def _furnish(world: World, files: int) -> str:
    """Returns the path of a file, three folders deep."""
    path = ""
    for number in range(files):
        folder = number // _IN_A_FOLDER
        path = f"/Year {folder % 10}/Month {folder // 10 % 12}/Week {folder}/Letter {number}.md"
        world.write(_COLLECTOR, path, b"", mtime=world.clock() - _LONG_AGO_S)
    return path


def table_of(sweep: Sweep) -> Table:
    """Requests by part."""
    table = Table("somebody's content is compared", "for files and notes", "for Deck", "for both", "of which", box=None)
    for what, asked in (("nothing changed", sweep.unchanged), ("one file changed", sweep.one_change)):
        by_part: Counter[str] = Counter()
        for (_, part), number in asked.items():
            by_part[part] += number
        parts = ", ".join(f"{number} {method} {part}" for (method, part), number in sorted(asked.items()))
        table.add_row(what, str(by_part["dav"]), str(by_part["caldav"]), str(by_part["ocs"]), parts)
    return table

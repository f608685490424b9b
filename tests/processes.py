# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The product's processes as the kernel shows them, what the index holds, and a heartbeat taken from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ex_app.domain import DocumentKey
from ex_app.settings import Settings
from ex_app.store import engine
from ex_app.store.registry import open_registry
from ex_app.store.vectors import Imprint, Vectors

ROOT = Path(__file__).parents[1]

# By what a process is known in its command line.
_MARKS = {"engine": "ex_app.store.edge_server", "embed": "ex_app embed", "worker": "ex_app worker", "web": "ex_app web"}

# Runs beside us: in our own process the measuring would wait for the stand-in, which lives there too.
_HEARTBEATS = """
import http.client, json, sys, threading, time
done, seconds = threading.Event(), []
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=5)
while not done.wait(0.02):
    started = time.perf_counter()
    connection.request("GET", "/heartbeat")
    answer = connection.getresponse()
    assert answer.status == 200 and json.loads(answer.read())["status"] == "ok"
    seconds.append(time.perf_counter() - started)
print(json.dumps(seconds))
"""


@dataclass
class Heartbeats:
    """How long each heartbeat took, in seconds."""

    seconds: list[float] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        return sorted(self.seconds)[int(len(self.seconds) * share)]


@contextmanager
def heartbeats(port: int) -> Iterator[Heartbeats]:
    """Ask for the heartbeat fifty times a second for as long as the block lasts."""
    taken = Heartbeats()
    with subprocess.Popen(
        [sys.executable, "-c", _HEARTBEATS, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as asking:
        yield taken
        answer, _ = asking.communicate(timeout=10)
    taken.seconds = json.loads(answer)


def roles(supervisor: int) -> dict[str, int]:
    """The process of each role that is up now."""
    children = {pid: line for pid, (parent, line) in _processes().items() if parent == supervisor}
    return {role: pid for role, mark in _MARKS.items() for pid, line in children.items() if mark in line}


def descendants(ancestor: int) -> set[int]:
    """Every process below one, however deep."""
    processes = _processes()
    found: set[int] = set()
    rest = {ancestor}
    while rest:
        rest = {pid for pid, (parent, _) in processes.items() if parent in rest}
        found |= rest
    return found


def alive(pids: set[int]) -> dict[int, str]:
    """Which of them still run, with their command lines."""
    processes = _processes()
    return {pid: processes[pid][1] for pid in pids if pid in processes}


def kill(supervisor: int, *names: str) -> None:
    """kill -9 of the processes of these roles, each as soon as it is up."""
    for name in names:
        pid = eventually(lambda name=name: roles(supervisor).get(name), within_s=30)
        os.kill(pid, signal.SIGKILL)


def eventually(condition: Callable[[], Any], *, within_s: float) -> Any:
    """What the condition gives once it holds; fails when it does not in time."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s"
        time.sleep(0.02)
    return found


def launch(folder: Path, **environment: str) -> subprocess.Popen[str]:
    """Start the product as Nextcloud's deploy daemon does, but with nothing in its environment save what is told."""
    return subprocess.Popen(
        [sys.executable, "-m", "ex_app"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "APP_PERSISTENT_STORAGE": str(folder), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@dataclass(frozen=True)
class Index:
    """What is in the index, and what the registry says of it."""

    imprints: tuple[Imprint, ...]
    live: dict[DocumentKey, tuple[int, int]]  # generation and number of passages

    @property
    def passages(self) -> list[tuple[str, int, str, tuple[str, ...]]]:
        """Document, ordinal, hash of the text and scopes of every passage: what must not depend on how it came."""
        return sorted((str(i.document), i.ordinal, i.text_hash, tuple(sorted(i.scopes))) for i in self.imprints)


async def read_index(data: Path) -> Index:
    """Through the product's own registry and vectors, while it runs on this folder."""
    settings = Settings(app_secret="unused", app_persistent_storage=data, qdrant_url="", database_url="")
    connection, registry = engine.Connection(settings), await open_registry(settings)
    try:
        vectors = Vectors(connection, collection=str(await registry.get_setting("index")), dimensions=384)
        imprints = tuple([imprint async for imprint in vectors.digest()])
        rows = await registry.live({imprint.document for imprint in imprints})
        return Index(imprints, {key: (row.generation, row.chunks) for key, row in rows.items()})
    finally:
        await connection.aclose()
        await registry.close()


async def lose_index(data: Path) -> None:
    """Somebody deletes the index behind the product's back."""
    settings = Settings(app_secret="unused", app_persistent_storage=data, qdrant_url="", database_url="")
    connection, registry = engine.Connection(settings), await open_registry(settings)
    try:
        await Vectors(connection, collection=str(await registry.get_setting("index")), dimensions=384).destroy()
    finally:
        await connection.aclose()
        await registry.close()


def _processes() -> dict[int, tuple[int, str]]:
    """Parent and command line of every process that has not ended."""
    found: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended while we looked
        if state != "Z":
            found[int(entry.name)] = (int(parent), line)
    return found

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What our own processes take, as the kernel tells it: memory and open files, by role."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

_PROC = Path("/proc")

# By what a process is known in its command line.
_MARKS = {
    "ex_app.store.edge_server": "engine",
    "ex_app engine": "engine",
    "ex_app embed": "embed",
    "ex_app worker": "worker",
    "ex_app web": "web",
    "ex_app.extract.child": "parser",
}

_SAMPLES_S = 0.5


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one process or several. rss_mb: resident memory; peak_mb: the most that it ever was; fds: open files.

    cpu_s: seconds of processor time since they started.
    """

    rss_mb: float = 0.0
    peak_mb: float = 0.0
    fds: int = 0
    cpu_s: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.rss_mb + other.rss_mb, self.peak_mb + other.peak_mb, self.fds + other.fds, self.cpu_s + other.cpu_s
        )


def family(supervisor: int) -> dict[int, str]:
    """Every process of ours that runs now, with its role; a parser's says whose it is."""
    found = {supervisor: "supervisor"}
    children: dict[int, list[tuple[int, str]]] = {}
    for pid, parent, line in _processes():
        children.setdefault(parent, []).append((pid, line))
    todo = [supervisor]
    while todo:
        parent = todo.pop()
        for pid, line in children.get(parent, []):
            role = next((role for mark, role in _MARKS.items() if mark in line), "other")
            found[pid] = f"{role} of {found[parent]}" if role in ("parser", "other") else role
            todo.append(pid)
    return found


def usage(supervisor: int) -> dict[str, Usage]:
    """What each role takes now; who ends while we look is left out."""
    taken: dict[str, Usage] = {}
    for pid, role in family(supervisor).items():
        with suppress(OSError, ValueError, KeyError):  # one that is ending has no memory any more
            status = dict(line.split(":", 1) for line in (_PROC / str(pid) / "status").read_text().splitlines())
            rss, peak = (int(status[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
            ticks = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[11:13]
            cpu = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
            one = Usage(rss, peak, len([*(_PROC / str(pid) / "fd").iterdir()]), cpu)
            taken[role] = taken.get(role, Usage()) + one
    return taken


@dataclass
class Watch:
    """What was seen while it lasted."""

    samples: list[Mapping[str, Usage]] = field(default_factory=list)

    def peaks(self) -> dict[str, float]:
        """The largest resident size of each role in MB, of all processes that had it one after the other."""
        largest: dict[str, float] = {}
        for sample in self.samples:
            for role, taken in sample.items():
                largest[role] = max(largest.get(role, 0.0), taken.peak_mb)
        return largest

    def cpu(self) -> dict[str, float]:
        """Seconds of processor time that each role took meanwhile; those of a process that made way count on."""
        spent: dict[str, float] = {}
        for before, after in pairwise(self.samples):
            for role, taken in after.items():
                more = taken.cpu_s - before.get(role, Usage()).cpu_s
                spent[role] = spent.get(role, 0.0) + (more if more >= 0 else taken.cpu_s)
        return spent


@contextmanager
def watched(supervisor: int, every_s: float = _SAMPLES_S) -> Iterator[Watch]:
    """Look at our processes again and again while the block lasts."""
    watch, done = Watch(), threading.Event()

    def look() -> None:
        while not done.wait(every_s):
            watch.samples.append(usage(supervisor))

    thread = threading.Thread(target=look, daemon=True, name="watch")
    thread.start()
    try:
        yield watch
    finally:
        done.set()
        thread.join(10)


def _processes() -> Iterator[tuple[int, int, str]]:
    """Number, parent and command line of every process that has not ended."""
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                yield int(entry.name), int(parent), line

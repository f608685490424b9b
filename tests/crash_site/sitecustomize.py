# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Python runs this first in every process of the product that is started with this folder on its PYTHONPATH.

It lets the tests' orders into the product without a line in the product: to die at a step by `kill -9`, to read another
clock, and to start again quickly what died young.
"""

from __future__ import annotations

import importlib
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _shared(variable: str, size: int) -> mmap.mmap | None:
    path = os.environ.get(variable)
    if not path:
        return None
    with Path(path).open("r+b") as file:
        return mmap.mmap(file.fileno(), size)


def _another_clock(offset: mmap.mmap) -> None:
    real = time.time
    time.time = lambda: real() + struct.unpack("d", offset[:8])[0]


def _mortal(method: Callable[..., Any], name: str, order: mmap.mmap) -> Callable[..., Any]:
    def obey(when: str) -> None:
        wanted = f"{name} {when}".encode()
        if order[: len(wanted) + 1] == wanted + b"\0":
            order[:] = bytes(len(order))  # once
            os.kill(os.getpid(), signal.SIGKILL)

    async def call(*args: Any, **more: Any) -> Any:
        obey("before")
        found = await method(*args, **more)
        obey("after")
        return found

    call.__name__ = call.__qualname__ = method.__name__
    return call


def _dies_as_told(role: str, order: mmap.mmap) -> None:
    from crash_steps import STEPS  # noqa: PLC0415  only where they are wanted: others start quickly

    for step in STEPS:
        if step.role == role:
            owner = getattr(importlib.import_module(step.module), step.owner)
            setattr(owner, step.method, _mortal(getattr(owner, step.method), step.name, order))


def _main() -> None:
    role = sys.orig_argv[-1]
    if offset := _shared("TEST_CLOCK", 8):
        _another_clock(offset)
    if role == "ex_app":
        import ex_app.supervisor  # noqa: PLC0415

        ex_app.supervisor._RESTART_MOST_S = float(os.environ.get("TEST_RESTART_S", ex_app.supervisor._RESTART_MOST_S))
    elif role in ("worker", "web") and (order := _shared("TEST_ORDER", 64)):
        _dies_as_told(role, order)


_main()

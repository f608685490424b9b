# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Keeps the app's processes running: restarts what dies, ends all together.

Each child holds the other end of a pipe from us as its stdin, so that none outlives us, not even after kill -9.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

log = logging.getLogger(__name__)

_RESTART_FIRST_S = 0.5
_RESTART_MOST_S = 30.0
_HEALTHY_S = 60.0  # a child that lived this long starts afresh with short pauses

# For all children together: container engines kill us 10 s after they asked.
_GRACE_S = 8.0


async def supervise(tiers: Sequence[Sequence[str]]) -> None:
    """Run `python -m ex_app <role>` for each role until SIGTERM or SIGINT.

    tiers: roles that serve come before those that use them; the users end first, so that none is left in the lurch.
    """
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, asked.set)
    async with asyncio.TaskGroup() as group:
        kept = []
        for roles in tiers:
            stop = asyncio.Event()
            kept.append((stop, [group.create_task(_keep(role, stop)) for role in roles]))
        await asked.wait()
        deadline = loop.time() + _GRACE_S
        for stop, keepers in reversed(kept):
            stop.set()
            _, late = await asyncio.wait(keepers, timeout=max(0.0, deadline - loop.time()))
            for keeper in late:
                keeper.cancel()
            await asyncio.wait(keepers)
    log.info("event=ended")


async def _keep(role: str, stop: asyncio.Event) -> None:
    """Start, wait, start again until told to stop; pauses grow while it keeps dying young. Cancelled, it kills."""
    pause = _RESTART_FIRST_S
    while not stop.is_set():
        started = asyncio.get_running_loop().time()
        status = await _run(role, stop)
        if stop.is_set():
            return
        if asyncio.get_running_loop().time() - started > _HEALTHY_S:
            pause = _RESTART_FIRST_S
        log.error("event=died role=%s status=%d restart_in_s=%.1f", role, status, pause)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
        pause = min(pause * 2, _RESTART_MOST_S)


async def _run(role: str, stop: asyncio.Event) -> int:
    """One life of a child; returns its exit status, negative for a signal."""
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ex_app",
            role,
            stdin=asyncio.subprocess.PIPE,
            env={**os.environ, "EX_APP_CHILD": "1"},
            start_new_session=True,  # a terminal's Ctrl-C is ours to pass on, in order
        )
    except OSError as error:
        log.error("event=start_failed role=%s error=%s", role, error.strerror)  # noqa: TRY400 - a full machine, no bug
        return os.EX_OSERR
    log.info("event=started role=%s pid=%d", role, process.pid)
    end = asyncio.create_task(process.wait())
    told = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((end, told), return_when=asyncio.FIRST_COMPLETED)
        if not end.done():
            with suppress(ProcessLookupError):
                process.terminate()
        return await end
    except asyncio.CancelledError:
        log.warning("event=killed role=%s", role)
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    finally:
        told.cancel()

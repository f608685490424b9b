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
_GRACE_S = 10.0


async def supervise(roles: Sequence[str]) -> None:
    """Run `python -m ex_app <role>` for each role until SIGTERM or SIGINT; children end in reverse order."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    children = [_Child(role) for role in roles]
    keepers = [asyncio.create_task(child.keep(stop)) for child in children]
    await stop.wait()
    for child in reversed(children):
        await child.end()
    await asyncio.gather(*keepers)


class _Child:
    def __init__(self, role: str) -> None:
        self._role = role
        self._process: asyncio.subprocess.Process | None = None

    async def keep(self, stop: asyncio.Event) -> None:
        """Start, wait, start again; pauses grow while it keeps dying young."""
        pause = _RESTART_FIRST_S
        while not stop.is_set():
            started = asyncio.get_running_loop().time()
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "ex_app",
                self._role,
                stdin=asyncio.subprocess.PIPE,
                env={**os.environ, "EX_APP_CHILD": "1"},
                start_new_session=True,  # a terminal's Ctrl-C is ours to pass on, in order
            )
            log.info("event=started role=%s pid=%d", self._role, self._process.pid)
            status = await self._process.wait()
            if stop.is_set():
                return
            lived = asyncio.get_running_loop().time() - started
            pause = _RESTART_FIRST_S if lived > _HEALTHY_S else min(pause * 2, _RESTART_MOST_S)
            log.error("event=died role=%s status=%s restart_in_s=%.1f", self._role, status, pause)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), pause)

    async def end(self) -> None:
        """Ask it to end, then make it."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _GRACE_S)
        except TimeoutError:
            log.warning("event=killed role=%s", self._role)
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

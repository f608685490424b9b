# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Parsing where it can do no harm: in a process with limits, which is killed and replaced when it misbehaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ex_app.domain import NotAvailable, Parsed, Reason, Unindexable
from ex_app.extract.frames import HEADER, MAX_ANSWER, Limits, frame, pack_limits, unpack_answer
from ex_app.settings import Settings

logger = logging.getLogger(__name__)

_START_S: Final = 60.0

# Libraries leak: a process serves so many documents and makes way for a fresh one.
_DOCUMENTS_A_CHILD: Final = 200

# Bytes handed to the process at a time.
_PIECE: Final = 1024 * 1024

# All of the environment that gets in: nothing of ours holds a secret there, nothing can be told to talk.
_INHERITED: Final = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT")
_OWN_ENVIRONMENT: Final = {
    "LANG": "C.UTF-8",
    "MALLOC_ARENA_MAX": "2",  # arenas reserve address space, which is what the limit counts
    "PYTHONDONTWRITEBYTECODE": "1",
    "RAYON_NUM_THREADS": "2",
    "TOKENIZERS_PARALLELISM": "false",
}


class _ChildLost(Exception):
    """The process ended before it answered."""


class Extractor:
    """Turns bytes into text and passages, one document at a time. tokenizer, room: of the model that reads passages."""

    def __init__(self, settings: Settings, *, tokenizer: Path, room: int) -> None:
        self._timeout = settings.extract_timeout_s
        self._limits = Limits(
            tokenizer=str(tokenizer),
            size=settings.document_chunk_size,
            overlap=settings.document_chunk_overlap,
            room=room,
            memory_mb=settings.extract_memory_mb,
            cpu_s=self._timeout * 2,  # libraries use more than one core; the clock outside is the stricter limit
        )
        self._turn = asyncio.Lock()
        self._child: _Child | None = None

    async def extract(self, body: bytes, *, title: str, name: str, mime: str) -> Parsed:
        """Text and passages of one document.

        Raises Unindexable with the reason why there is no text (also for documents that hang, crash or eat memory), and
        NotAvailable when no parser process can be started. Cancelling kills the parser.
        """
        request = (*frame(json.dumps({"title": title, "name": name, "mime": mime}).encode()), *frame(body))
        async with self._turn:
            try:
                return await self._attempt(request)
            except _ChildLost:
                logger.info("parser_lost retry=1")
            try:
                return await self._attempt(request)
            except _ChildLost as error:
                raise Unindexable(Reason.FAILED, "the parser was killed twice") from error

    async def close(self) -> None:
        """End the parser process, whatever it does."""
        if self._child is not None:
            await self._child.end()
            self._child = None

    async def _attempt(self, request: Sequence[bytes]) -> Parsed:
        """Raises _ChildLost when somebody else killed the process: that says nothing about the document."""
        child = await self._ready_child()
        answered = False
        try:
            async with asyncio.timeout(self._timeout):
                answer = await child.ask(request)
            answered = True
        except TimeoutError as error:
            raise Unindexable(Reason.TIMEOUT, f"took more than {self._timeout:g} seconds") from error
        except (asyncio.IncompleteReadError, OSError) as error:
            code = await child.end()
            if code == -signal.SIGKILL:
                raise _ChildLost from error
            if code == -signal.SIGXCPU:
                raise Unindexable(Reason.TIMEOUT, "took too much processor time") from error
            raise Unindexable(Reason.CORRUPT, "the parser crashed on it") from error
        finally:
            if not answered:
                await self.close()
        return unpack_answer(answer)

    async def _ready_child(self) -> _Child:
        child = self._child
        if child is not None and (child.process.returncode is not None or child.documents >= _DOCUMENTS_A_CHILD):
            await self.close()
        if self._child is None:
            self._child = await _started(self._limits)
        self._child.documents += 1
        return self._child


@dataclass(slots=True)
class _Child:
    process: Process
    folder: tempfile.TemporaryDirectory[str]
    documents: int = 0

    async def ask(self, request: Sequence[bytes]) -> bytes:
        """Raises IncompleteReadError or OSError when the process ends before it has answered."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        for part in request:
            view = memoryview(part)
            for start in range(0, len(part), _PIECE):  # what the pipe does not take at once is copied
                self.process.stdin.write(view[start : start + _PIECE])
                await self.process.stdin.drain()
        length = int.from_bytes(await self.process.stdout.readexactly(HEADER), "big")
        if length > MAX_ANSWER:
            raise Unindexable(Reason.FAILED, "the parser answered too much")
        return await self.process.stdout.readexactly(length)

    async def end(self) -> int:
        """Kill it with everything it started; returns its exit code, negative for a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        code = await self.process.wait()
        self.folder.cleanup()
        return code


async def _started(limits: Limits) -> _Child:
    folder = tempfile.TemporaryDirectory(prefix="parser-", ignore_cleanup_errors=True)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "ex_app.extract.child",
        stdin=PIPE,
        stdout=PIPE,
        cwd=folder.name,
        env=_environment(folder.name),
        start_new_session=True,
    )
    child = _Child(process, folder)
    try:
        async with asyncio.timeout(_START_S):
            await child.ask(frame(pack_limits(limits)))
    except (TimeoutError, asyncio.IncompleteReadError, OSError) as error:
        raise NotAvailable(f"the parser process does not start: exit code {await child.end()}") from error
    except asyncio.CancelledError:
        await child.end()
        raise
    return child


def _environment(folder: str) -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {**inherited, **_OWN_ENVIRONMENT, "PYTHONPATH": root, "HOME": folder, "TMPDIR": folder}

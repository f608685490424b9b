# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The process in the sandbox: reads documents from stdin, writes text and passages to stdout, may be killed any time.

Started by `sandbox` only, with an empty environment and in an empty folder.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from ex_app.domain import Reason, Unindexable
from ex_app.extract.frames import HEADER, Limits, frame, pack_parsed, pack_reason, unpack_limits
from ex_app.processes import CRUNCHING_NICE, WORKER_NICE

if TYPE_CHECKING:
    from ex_app.extract.chunker import Chunker

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38
_OPEN_FILES: Final = 64


def main() -> None:
    """Serve until stdin ends."""
    _die_with_parent()
    os.nice(CRUNCHING_NICE - WORKER_NICE)  # more than whoever started it: mostly the worker
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get between the frames
    logging.disable()  # what parsers complain about may quote the document
    first = _read(requests)
    if first is None:
        return
    limits = unpack_limits(first)
    chunker = _warmed_up(limits)
    _confine(limits)
    _write(answers, b"")
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    while (request := _read(requests)) is not None:
        body = _read(requests) or b""
        _grant_cpu(limits.cpu_s)
        _write(answers, _answer(chunker, request, body))


def _answer(chunker: Chunker, request: bytes, body: bytes) -> bytes:
    from ex_app.extract.parsers import parse  # noqa: PLC0415  only this process may load parsers

    about = json.loads(request)
    try:
        parsed = chunker.chunk(parse(body, name=about["name"], mime=about["mime"]), title=about["title"])
    except Unindexable as error:
        return pack_reason(error.reason, str(error).partition(": ")[2])
    except MemoryError:
        return pack_reason(Reason.TOO_LARGE, "needs more memory than it may take")
    except Exception as error:  # noqa: BLE001  libraries raise anything on broken files; the outermost line of defence
        return pack_reason(Reason.CORRUPT, type(error).__name__)
    return pack_parsed(parsed) if parsed.chunks else pack_reason(Reason.NO_TEXT, "")


def _warmed_up(limits: Limits) -> Chunker:
    """Load everything and start every library's threads, so that the limits count the documents alone."""
    from ex_app.extract.chunker import Chunker  # noqa: PLC0415
    from ex_app.extract.parsers import parse  # noqa: PLC0415

    chunker = Chunker(Path(limits.tokenizer), size=limits.size, overlap=limits.overlap, room=limits.room)
    chunker.chunk(parse(b"# Warm\n\nup", name="warm.md", mime=""), title="")
    for kind, body in (("rtf", rb"{\rtf1 warm up}"), ("pdf", b"%PDF-1.4 no more than that")):
        try:
            list(parse(body, name=f"warm.{kind}", mime=""))
        except Unindexable:
            continue
    return chunker


def _confine(limits: Limits) -> None:
    """No more memory, files, core dumps or privileges than reading takes."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    memory = used + limits.memory_mb * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _grant_cpu(seconds: float) -> None:
    """The limit counts from the process's start: move it before each document. Whoever passes it is killed."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    until = int(usage.ru_utime + usage.ru_stime + seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))


def _die_with_parent() -> None:
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _read(stream: BinaryIO) -> bytes | None:
    header = stream.read(HEADER)
    if len(header) < HEADER:
        return None
    return stream.read(int.from_bytes(header, "big"))


def _write(stream: BinaryIO, content: bytes) -> None:
    stream.writelines(frame(content))
    stream.flush()


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""A part of a bench in a process of its own, so that nothing else that the bench does is counted with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_ROOT = Path(__file__).parents[2]


@contextmanager
def beside(module: str, *arguments: str) -> Iterator[tuple[IO[str], IO[str]]]:
    """Run a module as a program; gives its input and output. It is to end when its input does."""
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdin, process.stdout

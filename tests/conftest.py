# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What all tests share: no way to a model hub, and one embed process for the whole run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from ex_app.settings import Settings

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

_ROOT = Path(__file__).resolve().parents[1]
_START_DEADLINE_S = 90.0
_SERVE = "from ex_app.embed.server import run; from ex_app.settings import Settings; run(Settings())"


@pytest.fixture(scope="session")
def embed_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings whose embed socket answers, from one process that all test processes share."""
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "embed"
    shared.mkdir(exist_ok=True)
    settings = Settings(app_secret="unused", app_persistent_storage=shared, search_deadline_s=20)  # machines are busy
    with FileLock(shared / "start.lock"):
        lifeline = _join(settings.embed_socket, shared / "lifeline")
        if lifeline is None:
            lifeline = _start(settings, shared)
    yield settings
    os.close(lifeline)


@pytest.fixture(scope="session")
def embed_socket(embed_settings: Settings) -> Path:
    """The socket of the shared embed process; link it into a data folder of your own as `run/embed.sock`."""
    return embed_settings.embed_socket


def _join(address: Path, fifo: Path) -> int | None:
    """Keep a living embed process alive for us too; None when there is none."""
    try:
        lifeline = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None
    if _answers(address):
        return lifeline
    os.close(lifeline)
    return None


def _start(settings: Settings, shared: Path) -> int:
    """Start the process; it ends when the last holder of its lifeline closes it, however suddenly."""
    fifo = shared / "lifeline"
    fifo.unlink(missing_ok=True)
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    lifeline = os.open(fifo, os.O_WRONLY)
    os.set_blocking(reading, True)
    environment = {**os.environ, "APP_SECRET": "unused", "APP_PERSISTENT_STORAGE": str(shared), "EX_APP_CHILD": "1"}
    log = (shared / "embed.log").open("ab")
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE],
        cwd=_ROOT,
        env=environment,
        stdin=reading,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    os.close(reading)
    deadline = time.monotonic() + _START_DEADLINE_S
    while not _answers(settings.embed_socket):
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"the embed process did not start:\n{(shared / 'embed.log').read_text()[-3000:]}")
        time.sleep(0.1)
    return lifeline


def _answers(address: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(address))
        except OSError:
            return False
        return True

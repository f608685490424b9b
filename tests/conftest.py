# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What all tests share: no way to a model hub, one embed process for the whole run, and the town of the stories."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from engines import EngineProcess, settings_in
from filelock import FileLock
from registries import STORIES_ON, fresh
from town import Stage, Town, living_town, staged

from ex_app.embed import files
from ex_app.extract.sandbox import Extractor
from ex_app.settings import Settings
from ex_app.store.engine import Address

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

# Nothing here speaks TLS, and every HTTP client would read all certificates anew: a folder is only read when needed.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

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


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "town(**settings): settings of the town that differ from the usual ones")


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    """Where the Nextclouds of the stories answer."""
    with staged() as stage:
        yield stage


@pytest.fixture(scope="session")
def shared_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """One embedded engine for all towns of this test process; each has an index of its own in it."""
    engine = EngineProcess(settings_in(tmp_path_factory.mktemp("engine")))
    yield engine.address
    engine.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def extractor(embed_settings: Settings) -> AsyncIterator[Extractor]:
    """One parser process for all towns of this test process."""
    extractor = Extractor(
        embed_settings, tokenizer=files.tokenizer_file(embed_settings), room=files.room(embed_settings)
    )
    yield extractor
    await extractor.close()


@pytest.fixture
def town_database(tmp_path: Path) -> Iterator[str]:
    """Address of the database of one story; empty for a file."""
    with fresh(STORIES_ON, tmp_path) as settings:
        yield settings.database_url


@pytest_asyncio.fixture(loop_scope="session")
async def town(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    stage: Stage,
    shared_engine: Address,
    embed_socket: Path,
    extractor: Extractor,
    town_database: str,
) -> AsyncIterator[Town]:
    """A town of its own for each story; see living_town. Stories live in one event loop: loop_scope="session"."""
    marker = request.node.get_closest_marker("town")
    knobs = {"database_url": town_database, **(marker.kwargs if marker else {})}
    async with living_town(
        tmp_path, stage=stage, address=shared_engine, embed_socket=embed_socket, extractor=extractor, **knobs
    ) as town:
        yield town


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

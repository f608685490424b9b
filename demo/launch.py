# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Starts the whole product beside the stand-in: the ExApp's own processes, registered as an admin would."""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from demo import appapi
from demo.gate import ExApp
from demo.server import Served, serving
from demo.world import World

APP_ID = "semantic_search"
_ROOT = Path(__file__).parents[1]
_READY_S = 180.0


@dataclass(frozen=True, slots=True)
class Running:
    """The product, running beside a stand-in. data: the ExApp's persistent storage."""

    served: Served
    app: ExApp
    process: subprocess.Popen[bytes]
    data: Path
    log: Path
    client: httpx.Client  # one for all requests: making one takes 20 ms

    def progress(self) -> dict[str, Any]:
        """How far indexing is, asked as Nextcloud itself."""
        answer = self.client.get(f"{self.app.url}/progress", headers=appapi.signed(self.app, None))
        found: dict[str, Any] = answer.json()
        return found

    def get(self, user: str, path: str, **params: str | int) -> httpx.Response:
        """A request of a user's browser or client, through Nextcloud's proxy with an app password."""
        person = self.served.world.people[user]
        return self.client.get(
            f"{self.served.url}/index.php/apps/app_api/proxy/{APP_ID}/{path}",
            params=params,
            auth=(user, person.app_password),
        )

    def log_tail(self) -> str:
        """The end of the app's log."""
        return self.log.read_text(errors="replace")[-4000:]

    def wait_until_indexed(self, watch: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
        """Poll until everybody's content was walked and nothing is left to do. Raises TimeoutError."""
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline:
            now = self.progress()
            watch(now)
            if now.get("swept_at") and not now["pending"]:
                return
            if self.process.poll() is not None:
                raise RuntimeError(f"the app ended\n{self.log_tail()}")
            time.sleep(0.2)
        raise TimeoutError(f"not indexed after {_READY_S:.0f} s\n{self.log_tail()}")


@contextmanager
def running(world: World, *, port: int = 0, workers: int = 8, **environment: str) -> Iterator[Running]:
    """Serve the world, start the app's processes, register it; ends all of it, and its data, with the block."""
    with (
        tempfile.TemporaryDirectory(prefix="semantic-search-") as folder,
        serving(world, port, workers=workers) as served,
        httpx.Client(timeout=30, trust_env=False) as client,
    ):
        data = Path(folder)
        app_port, secret = _free_port(), secrets.token_urlsafe(32)
        app = ExApp(
            id=APP_ID,
            name="Semantic Search",
            version="0.1.0",
            secret=secret,
            url=f"http://127.0.0.1:{app_port}",
            routes=appapi.routes_from(_ROOT / "appinfo" / "info.xml"),
        )
        log = data / "app.log"
        environment = {
            "APP_ID": APP_ID,
            "APP_VERSION": app.version,
            "APP_SECRET": secret,
            "APP_PORT": str(app_port),
            "APP_PERSISTENT_STORAGE": str(data),
            "NEXTCLOUD_URL": served.url,
            "AA_VERSION": "5.0.2",
            "EX_APP_CHILD": "1",
            **environment,
        }
        # For an admin's commands in another terminal; the folder is ours alone.
        (data / "environment").write_text("".join(f"{n}={shlex.quote(v)}\n" for n, v in environment.items()))
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "ex_app"],
                cwd=_ROOT,
                env=_inherited() | environment,
                stdin=subprocess.PIPE,  # closed with us, however we end: nothing of the app stays behind
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        try:
            asyncio.run(appapi.register(served.apps, app, deadline_s=120.0))
            yield Running(served, app, process, data, log, client)
        except appapi.HandshakeFailed as error:
            raise RuntimeError(f"{error}\n{log.read_text(errors='replace')[-4000:]}") from error
        finally:
            _end(process)


def _inherited() -> dict[str, str]:
    """Nothing of the caller's configuration may leak into the demo."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
    threads = {name: value for name, value in os.environ.items() if name.startswith(("OMP_", "OPENBLAS_", "MKL_"))}
    return {name: os.environ[name] for name in kept if name in os.environ} | threads


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

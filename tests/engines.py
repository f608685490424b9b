# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The embedded engine as a real child process, for tests of the store."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import httpx

from ex_app.settings import Settings
from ex_app.store import engine


def settings_in(folder: Path) -> Settings:
    """Settings of an installation in this folder that runs its own engine."""
    return Settings(app_secret="not a secret", app_persistent_storage=folder, qdrant_url="", qdrant_api_key="")


class EngineProcess:
    """One embedded engine that can be killed and started again on the same folder; its standard input stays open."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.start()

    def start(self) -> None:
        """Start it, on another port and with another key than before, and wait until it answers."""
        command = engine.engine_command(self.settings)
        assert command is not None
        command.folder.mkdir(parents=True, exist_ok=True)
        self.address = command.address
        self.data = command.folder
        self.process = subprocess.Popen(
            command.argv, env={**command.env, "EX_APP_CHILD": "1"}, cwd=command.folder, stdin=subprocess.PIPE
        )
        wait_until_answering(command.address, self.process)
        engine.publish(self.settings, command.address)

    def kill(self) -> None:
        """kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self.process.terminate()
        assert self.process.wait(30) in (0, -signal.SIGTERM, -signal.SIGKILL)
        assert self.process.stdin is not None
        self.process.stdin.close()


def wait_until_answering(address: engine.Address, process: subprocess.Popen[bytes]) -> None:
    """Poll until the engine answers; fails when it ended or takes longer than a minute."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the engine ended with {process.returncode}"
        try:
            answer = httpx.get(f"{address.url}/collections", headers={"api-key": address.api_key}, timeout=2)
        except httpx.TransportError:
            time.sleep(0.02)
            continue
        assert answer.status_code == 200
        return
    raise AssertionError("the engine does not answer")

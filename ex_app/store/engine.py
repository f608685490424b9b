# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Which vector engine runs, and how every process finds it.

By order: QDRANT_URL (a server or cluster that somebody else runs), a `qdrant` binary on the PATH, the embedded engine.
The last two are child processes on the loopback with a random port and key per start, published in `run/engine.json`.
"""

from __future__ import annotations

import asyncio
import ctypes
import ipaddress
import json
import os
import secrets
import shutil
import signal
import socket
import sys
import warnings
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import httpx
from qdrant_client import AsyncQdrantClient
from qdrant_client.http.exceptions import ApiException

from ex_app.domain import EngineUnavailable
from ex_app.settings import Settings

CALL_TIMEOUT_S = 20  # a search is bounded by its own deadline; this bounds writes and scrolls
READY_WITHIN_S = 30.0
COMPACTION_TIMEOUT_S = 3600.0

# All that an engine process inherits: it parses nothing of ours and needs no secret but its own key.
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "EX_APP_CHILD")
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Address:
    """Where an engine listens. api_key may be empty for a foreign engine."""

    url: str
    api_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Command:
    """How to start an engine. env: its whole environment; folder: its working directory."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    folder: Path
    address: Address


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """A started engine; process is None when somebody else runs it."""

    address: Address
    process: asyncio.subprocess.Process | None


def engine_command(settings: Settings) -> Command | None:
    """How to start the engine with a fresh port and key; None when QDRANT_URL names one that runs elsewhere."""
    if settings.qdrant_url:
        return None
    port, key = _free_port(), secrets.token_urlsafe(32)
    address = Address(f"http://127.0.0.1:{port}", key)
    base = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    binary = shutil.which("qdrant")
    if binary is None:
        return _embedded(settings.data_dir / "qdrant-edge", port=port, base=base, address=address)
    return _server(binary, settings.data_dir / "qdrant", port=port, base=base, address=address)


def publish(settings: Settings, address: Address) -> None:
    """Tell the other processes where the engine is; readable by our user alone, replaced in one step."""
    target = _address_file(settings)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = target.with_suffix(f".{os.getpid()}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump({"url": address.url, "api_key": address.api_key}, file)
    draft.replace(target)


def address_of(settings: Settings) -> Address:
    """Where the engine is now; raises EngineUnavailable when none was started yet."""
    if settings.qdrant_url:
        return Address(settings.qdrant_url, settings.qdrant_api_key.get_secret_value())
    try:
        told = json.loads(_address_file(settings).read_text(encoding="utf-8"))
        return Address(told["url"], told["api_key"])
    except (OSError, ValueError, KeyError, TypeError):
        raise EngineUnavailable("The vector engine has not started yet") from None


def connect(settings: Settings) -> AsyncQdrantClient:
    """A client for the engine as it is published now; raises EngineUnavailable. Long-lived callers use `Connection`."""
    return _client(address_of(settings))


class Connection:
    """Gives a client for the engine as it is *now*: call it before each use, it follows restarts to a new port."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seen: tuple[int, int] | None = None
        self._client: AsyncQdrantClient | None = None
        self._outdated: list[AsyncQdrantClient] = []

    def __call__(self) -> AsyncQdrantClient:
        """The current client; raises EngineUnavailable when no engine was started yet."""
        seen = self._fingerprint()
        if self._client is None or seen != self._seen:
            fresh = connect(self._settings)
            if self._client is not None:
                self._outdated.append(self._client)  # someone may still be waiting on it
            self._client, self._seen = fresh, seen
        return self._client

    async def aclose(self) -> None:
        """Close every client that was given out."""
        clients = [*self._outdated, *([self._client] if self._client else [])]
        self._client, self._outdated = None, []
        for client in clients:
            await client.close()

    def _fingerprint(self) -> tuple[int, int]:
        if self._settings.qdrant_url:
            return (0, 0)
        try:
            found = _address_file(self._settings).stat()
        except OSError:
            raise EngineUnavailable("The vector engine has not started yet") from None
        return (found.st_ino, found.st_mtime_ns)


async def compact(settings: Settings, collection: str) -> bool:
    """Erase now what was deleted from the index; takes about a minute per 100,000 points, searches go on.

    False when the engine is not ours: a Qdrant server erases when its own optimizer gets to it. Raises
    EngineUnavailable.
    """
    address = address_of(settings)
    headers = {"api-key": address.api_key} if address.api_key else {}
    try:
        async with httpx.AsyncClient(base_url=address.url, headers=headers, timeout=COMPACTION_TIMEOUT_S) as plain:
            answer = await plain.post(f"/collections/{collection}/compaction")
    except httpx.HTTPError as fault:
        raise EngineUnavailable("The vector engine does not answer") from fault
    if answer.status_code == 404:
        return False
    if answer.status_code != 200:
        raise EngineUnavailable(f"The vector engine could not erase (status {answer.status_code})")
    return True


def run(settings: Settings) -> NoReturn:
    """Become the engine: pick a port and key, publish them, replace this process. For the supervisor's child."""
    command = engine_command(settings)
    if command is None:
        sys.exit("QDRANT_URL is set: the engine runs elsewhere")
    command.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    publish(settings, command.address)
    if os.environ.get("EX_APP_CHILD") == "1":
        _die_with_parent()
    os.chdir(command.folder)
    os.execve(command.argv[0], command.argv, dict(command.env))  # noqa: S606 - our own argv, no shell


@asynccontextmanager
async def start_engine(settings: Settings) -> AsyncIterator[RunningEngine]:
    """An engine that answers, for as long as the block lasts; raises EngineUnavailable when it does not start."""
    command = engine_command(settings)
    if command is None:
        yield RunningEngine(address_of(settings), None)
        return
    command.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    process = await asyncio.create_subprocess_exec(
        *command.argv,
        env={**command.env, "EX_APP_CHILD": "1"},
        cwd=command.folder,
        stdin=asyncio.subprocess.PIPE,  # held open: the child ends when we do
    )
    try:
        await _ready(command.address, process)
        publish(settings, command.address)
        yield RunningEngine(command.address, process)
    finally:
        await _stop(process)


def _embedded(data: Path, *, port: int, base: Mapping[str, str], address: Address) -> Command:
    argv = (sys.executable, "-m", "ex_app.store.edge_server", "--data", str(data), "--port", str(port))
    home = str(Path(__file__).resolve().parents[2])  # where the package lies, as the working directory is another
    env = {**base, "PYTHONPATH": home, "PYTHONUNBUFFERED": "1", "QDRANT__SERVICE__API_KEY": address.api_key}
    return Command(argv, env, data, address)


def _server(binary: str, data: Path, *, port: int, base: Mapping[str, str], address: Address) -> Command:
    env = {
        **base,
        "QDRANT__SERVICE__HOST": "127.0.0.1",
        "QDRANT__SERVICE__HTTP_PORT": str(port),
        "QDRANT__SERVICE__GRPC_PORT": str(_free_port()),  # cannot be switched off; its default port may be taken
        "QDRANT__SERVICE__API_KEY": address.api_key,
        "QDRANT__SERVICE__ENABLE_STATIC_CONTENT": "false",
        "QDRANT__STORAGE__STORAGE_PATH": str(data / "storage"),
        "QDRANT__STORAGE__SNAPSHOTS_PATH": str(data / "snapshots"),
        "QDRANT__TELEMETRY_DISABLED": "true",
        "QDRANT__LOG_LEVEL": "WARN",
        "QDRANT_INIT_FILE_PATH": str(data / ".initialized"),
    }
    return Command((binary,), env, data, address)


def _address_file(settings: Settings) -> Path:
    return settings.data_dir / "run" / "engine.json"


def _client(address: Address) -> AsyncQdrantClient:
    with warnings.catch_warnings():
        if _is_loopback(address.url):
            warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
        return AsyncQdrantClient(
            url=address.url,
            # Without a port in the URL the client would take 6333 even for https://host.
            port=urlsplit(address.url).port or (443 if address.url.startswith("https:") else 6333),
            api_key=address.api_key or None,
            timeout=CALL_TIMEOUT_S,
            check_compatibility=False,  # `Vectors.ensure` asks for the version once
            limits=httpx.Limits(max_keepalive_connections=8, keepalive_expiry=30.0),
        )


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _die_with_parent() -> None:
    """Ask the kernel to end us with our parent: survives exec, which a thread would not. Linux only."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


async def _ready(address: Address, process: asyncio.subprocess.Process) -> None:
    client = _client(address)
    try:
        async with asyncio.timeout(READY_WITHIN_S):
            while True:
                with suppress(ApiException):
                    await client.get_collections()
                    return
                if process.returncode is not None:
                    raise EngineUnavailable(f"The vector engine ended at start with status {process.returncode}")
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise EngineUnavailable("The vector engine does not answer") from None
    finally:
        await client.close()


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), 10)
    except TimeoutError:
        process.kill()
        await process.wait()

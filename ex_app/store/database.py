# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Opens the registry's database (SQLite or PostgreSQL), migrates it, and hands out short transactions."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy import URL, Connection, Table, event, make_url, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from tenacity import AsyncRetrying, RetryError, retry_if_exception_type, stop_after_delay, wait_random

from ex_app.domain import NotAvailable, SemanticSearchError
from ex_app.settings import Settings

log = logging.getLogger(__name__)

T = TypeVar("T")

FILE_NAME = "registry.db"

# How long a transaction waits for another process's: ours take milliseconds, so this only bounds a stuck disk.
BUSY_TIMEOUT_S = 15.0

# How long a start waits for another process that is migrating.
MIGRATION_TIMEOUT_S = 120.0

# SQLite's write-ahead log needs shared memory and honest locks, which these file systems don't have.
NETWORK_FILE_SYSTEMS = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb2",
        "smb3",
        "smbfs",
        "afs",
        "ceph",
        "lustre",
        "beegfs",
        "glusterfs",
        "ocfs2",
        "gfs2",
        "davfs",
    }
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.davfs2", "fuse.rclone", "fuse.s3fs", "fuse.juicefs"}
)

# Any constant of ours: PostgreSQL's advisory locks are numbers within one database.
_MIGRATION_LOCK = 0x53656D53


class _Turn:
    """One writer at a time, of all processes. The kernel wakes the next one at once, where SQLite only looks again
    after ever longer pauses, so that somebody's short writes could keep another's waiting for long.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mine = asyncio.Lock()
        self._held = -1  # closing it gives the turn away
        # A thread of its own: however long a turn does not come, nobody else runs out of threads.
        self._waiting = ThreadPoolExecutor(1, "registry-turn")

    async def __aenter__(self) -> None:
        await self._mine.acquire()
        try:
            self._held = await self._among_processes()
        except BaseException:
            self._mine.release()
            raise

    async def __aexit__(self, *_: object) -> None:
        os.close(self._held)
        self._mine.release()

    async def _among_processes(self) -> int:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            await _lock(file)
        except BlockingIOError:
            await self._comes(file)
        except BaseException:
            os.close(file)
            raise
        return file

    async def _comes(self, file: int) -> None:
        waiting = self._waiting.submit(fcntl.flock, file, fcntl.LOCK_EX)
        try:
            async with asyncio.timeout(BUSY_TIMEOUT_S):
                await asyncio.shield(asyncio.wrap_future(waiting))
        except BaseException as error:
            waiting.add_done_callback(lambda _: os.close(file))  # whenever it comes, it is nobody's turn
            if isinstance(error, TimeoutError):
                raise NotAvailable("Another process has been writing to the registry's database for too long") from None
            raise

    def close(self) -> None:
        """Nobody asks for a turn any more."""
        self._waiting.shutdown(wait=False)


class Database:
    """Connections to the registry. Writers queue for their turn, so that they hardly ever wait in SQLite itself.

    A caller that is cancelled walks away; its transaction goes on to its end. Cancelled half-way, the driver would
    leave an open transaction behind, and everybody else waiting for its lock.
    """

    def __init__(self, engine: AsyncEngine, turn: _Turn | None = None) -> None:
        """turn: of those who write to an SQLite file."""
        self._writers = engine
        self._readers = engine.execution_options(sqlite_begin="")
        self._queue = turn
        self._turn: contextlib.AbstractAsyncContextManager[Any] = turn or contextlib.nullcontext()
        self._running: set[asyncio.Task[Any]] = set()

    async def write(self, job: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Run `job` in a transaction that holds SQLite's write lock from its start. Raises NotAvailable."""
        return await self._to_the_end(self._write(job))

    async def read(self, job: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Run statements that each see what is committed and never wait for writers. Raises NotAvailable."""
        return await self._to_the_end(self._read(job))

    async def scrub(self) -> bool:
        """Move everything from SQLite's log into the file and empty the log, so that erased words are in neither.

        False when a reader or writer was in the way: ask again later. PostgreSQL cleans up by itself (VACUUM).
        """
        return await self._to_the_end(self._scrub()) if self._queue else True

    async def close(self) -> None:
        """Let what is running end, then give every connection back."""
        await asyncio.gather(*self._running, return_exceptions=True)
        if self._queue:
            self._queue.close()
        await self._writers.dispose()

    async def _write(self, job: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        async with self._turn, self._writers.begin() as connection:
            return await job(connection)

    async def _read(self, job: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        async with self._readers.connect() as connection:
            return await job(connection)

    async def _scrub(self) -> bool:
        async with self._turn, self._readers.connect() as connection:
            row = (await connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))).one()
            return int(row[0]) == 0

    async def _to_the_end(self, running: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(running)
        self._running.add(task)
        task.add_done_callback(self._ended)
        with _answering():
            return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        # Looked at here too: nobody else does when the caller has walked away.
        if not task.cancelled() and (error := task.exception()):
            log.debug("registry_call_failed error=%s", type(error).__name__)


async def open_database(settings: Settings) -> Database:
    """Open and migrate; safe when several processes do so at once.

    Raises SemanticSearchError, saying what to do, when place or address do not fit, or the data is newer than we.
    """
    if settings.database_url:
        return await _open_postgresql(_postgresql_url(settings.database_url))
    return await _open_sqlite(settings.data_dir)


def insert(connection: AsyncConnection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that knows ON CONFLICT, in the connection's dialect."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


def file_system_of(path: Path, mounts: str) -> str:
    """The type of the file system that `path` lies on, by the text of /proc/mounts; empty when unknown."""
    target = path.resolve()
    found, depth = "", -1
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(fields[1].encode().decode("unicode_escape"))
        # The last mount of equal depth hides the earlier ones.
        if target.is_relative_to(point) and len(point.parts) >= depth:
            found, depth = fields[2], len(point.parts)
    return found


@contextlib.contextmanager
def _answering() -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        # These mean that a statement of ours is wrong; anything else, that the database cannot serve it now.
        if isinstance(error, (IntegrityError, DataError, ProgrammingError, NotSupportedError)):
            raise
        raise NotAvailable(f"The registry's database does not answer: {str(error.orig)[:200]}") from error
    except (PoolTimeout, OSError) as error:
        raise NotAvailable(f"The registry's database does not answer: {type(error).__name__}") from error


async def _open_sqlite(directory: Path) -> Database:
    path = _private_file(directory)
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=str(path)),
        connect_args={"timeout": BUSY_TIMEOUT_S, "isolation_level": None},
        pool_size=4,
        max_overflow=4,
    )
    event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    event.listen(engine.sync_engine, "begin", _begin_sqlite)
    async with _closing_on_error(engine), _file_lock(directory / "registry.lock"), engine.begin() as connection:
        await connection.run_sync(_upgrade)
    return Database(engine, _Turn(directory / "registry.turn"))


async def _open_postgresql(url: URL) -> Database:
    engine = create_async_engine(url, pool_size=4, max_overflow=4, pool_pre_ping=True)
    with _answering():
        async with _closing_on_error(engine), engine.begin() as connection:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
            await connection.run_sync(_upgrade)
    return Database(engine)


def _postgresql_url(address: str) -> URL:
    """Read DATABASE_URL in the spellings that people copy from elsewhere; errors never repeat it, for its password."""
    try:
        url = make_url(address)
    except ArgumentError:
        raise SemanticSearchError(
            "DATABASE_URL cannot be read; write postgresql://user:password@host/database."
        ) from None
    if url.drivername not in {"postgresql", "postgres", "postgresql+asyncpg"}:
        raise SemanticSearchError(
            f"DATABASE_URL names {url.drivername!r}; we speak postgresql://, or leave it empty for SQLite."
        )
    if mode := url.query.get("sslmode"):
        url = url.difference_update_query(["sslmode"]).update_query_dict({"ssl": mode})
    return url.set(drivername="postgresql+asyncpg")


def _private_file(directory: Path) -> Path:
    """The database file, made if need be, readable by us alone; SQLite's log and its index inherit the mode."""
    _refuse_network_file_system(directory)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / FILE_NAME
    path.touch(mode=0o600)
    path.chmod(0o600)
    return path


def _refuse_network_file_system(directory: Path) -> None:
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return
    kind = file_system_of(directory, mounts.read_text(errors="replace"))
    if kind in NETWORK_FILE_SYSTEMS:
        raise SemanticSearchError(
            f"The storage {directory} lies on a network file system ({kind}), where SQLite loses data. "
            "Put APP_PERSISTENT_STORAGE on a local disk, or set DATABASE_URL to a PostgreSQL database."
        )


def _prepare_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout = {int(BUSY_TIMEOUT_S * 1000)}",
        "journal_mode = WAL",
        # What we acknowledged survives a power cut, an erasure above all.
        "synchronous = FULL",
        "secure_delete = ON",
        "foreign_keys = ON",
        # Sorted rows never reach a temporary file.
        "temp_store = MEMORY",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A reader that became a writer half-way could not wait for its turn: writers say so at the start.
    begin = connection.get_execution_options().get("sqlite_begin", "BEGIN IMMEDIATE")
    if begin:
        connection.exec_driver_sql(begin)


@contextlib.asynccontextmanager
async def _closing_on_error(engine: AsyncEngine) -> AsyncIterator[None]:
    try:
        yield
    except BaseException:
        await engine.dispose()
        raise


@contextlib.asynccontextmanager
async def _file_lock(path: Path) -> AsyncIterator[None]:
    """Held by one process at a time; the kernel frees it when the holder dies."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        waiting = AsyncRetrying(
            retry=retry_if_exception_type(BlockingIOError),
            wait=wait_random(0.02, 0.1),
            stop=stop_after_delay(MIGRATION_TIMEOUT_S),
        )
        await waiting(_lock, descriptor)
        yield
    except RetryError as error:
        raise NotAvailable(
            "Another process has been opening the registry for minutes; stop it and start again."
        ) from error
    finally:
        os.close(descriptor)


async def _lock(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _upgrade(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise SemanticSearchError(
            "The registry was written by a newer version of this app. Install that version, or start with an empty "
            "storage and index again."
        ) from error

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The command line: `python -m ex_app` runs everything, a role alone one process; see `commands` for an admin's."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from itertools import chain
from typing import NoReturn

from pydantic import ValidationError

from ex_app.domain import SemanticSearchError
from ex_app.processes import WORKER_NICE, end_with_parent, owned
from ex_app.settings import Settings
from ex_app.supervisor import supervise

# See ex_app.commands, which is only loaded when one of them is asked for.
COMMANDS = ("status", "failures", "retry", "check", "erase", "lift", "compact")

# Who serves before who uses: they end the other way round.
TIERS = (("engine", "embed"), ("worker", "web"))


def main() -> None:
    """Run the role that the command line (or APP_ROLE) names, or an admin's command."""
    if sys.argv[1:2] and sys.argv[1] in COMMANDS:
        _command(sys.argv[1:])
    parser = argparse.ArgumentParser(
        prog="python -m ex_app",
        usage=f"%(prog)s [ROLE]\n       %(prog)s {{{','.join(COMMANDS)}}} ...",
        description="Semantic Search for Nextcloud",
        epilog=f"Beside a running app: {', '.join(COMMANDS)}; each tells more with --help.",
    )
    parser.add_argument("role", nargs="?", default=os.environ.get("APP_ROLE", "all"), choices=("all", *chain(*TIERS)))
    role = parser.parse_args().role
    set_up_logging(role)
    settings = _settings()
    try:
        _run(role, settings)
    except SemanticSearchError as error:
        sys.exit(f"Semantic Search cannot run: {error}")


def _settings(*, advice: str = "") -> Settings:
    """From the environment. advice: for whoever lacks something in it."""
    try:
        return Settings()
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in error.errors())
        sys.exit(f"The environment does not fit: {problems}{advice}")


def _command(arguments: Sequence[str]) -> NoReturn:
    from rich.console import Console  # noqa: PLC0415

    from ex_app import commands  # noqa: PLC0415

    asked = commands.parser().parse_args(arguments)
    os.environ.setdefault("LOG_LEVEL", "WARNING")
    set_up_logging(asked.command)
    settings = _settings(advice=". Run this with the variables with which the app runs; in its container they are set.")
    if not settings.database_url and not (settings.data_dir / "registry.db").exists():
        # A new one would say that the app is switched off.
        sys.exit(f"The app has never run in {settings.data_dir}: is APP_PERSISTENT_STORAGE what it runs with?")
    try:
        sys.exit(asyncio.run(commands.run(settings, asked, Console())))
    except SemanticSearchError as error:
        sys.exit(f"Semantic Search cannot do that: {error}")


def set_up_logging(role: str) -> None:
    """One line an event on stderr; never what people write or ask."""
    logging.basicConfig(level=os.environ.get("LOG_LEVEL", "INFO"), format=f"%(levelname)s {role} %(name)s %(message)s")
    # httpx writes each URL at INFO, and URLs name people's files; the others tell nothing that an admin needs.
    for noisy in ("httpx", "httpcore", "mcp", "alembic", "sentence_transformers"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _run(role: str, settings: Settings) -> None:
    """Each role imports only what it needs: the doors never load torch."""
    match role:
        case "engine":
            from ex_app.store import engine  # noqa: PLC0415

            engine.run(settings)
        case "embed":
            from ex_app.embed import server  # noqa: PLC0415

            server.run(settings)
        case "worker":
            end_with_parent()
            os.nice(WORKER_NICE)
            asyncio.run(_worker(settings))
        case "web":
            end_with_parent()
            _web(settings)
        case _:
            end_with_parent()
            with owned(settings.data_dir):
                asyncio.run(supervise([[role for role in tier if _is_ours(role, settings)] for tier in TIERS]))


def _is_ours(role: str, settings: Settings) -> bool:
    return role != "engine" or not settings.qdrant_url


async def _worker(settings: Settings) -> None:
    from ex_app.app import run_worker  # noqa: PLC0415

    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    await run_worker(settings, stop)


def _web(settings: Settings) -> None:
    import uvicorn  # noqa: PLC0415

    from ex_app.app import web_app  # noqa: PLC0415

    uvicorn.run(
        web_app(settings),
        host=settings.app_host,
        port=settings.app_port,
        log_level="warning",
        access_log=False,  # its lines hold queries
        timeout_graceful_shutdown=5,
    )


if __name__ == "__main__":
    main()

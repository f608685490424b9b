# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""`make demo`: a stand-in Nextcloud with sample content, the app beside it, and one URL to open."""

from __future__ import annotations

import argparse
import asyncio
import signal
import threading
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from demo.content import furnish
from demo.launch import Running, running
from demo.world import World

_MORE = """In another terminal, change a file and search again a few seconds later:
  curl -u alice:alice-password -T README.md {url}/remote.php/dav/files/alice/Notes.md
or look after the app as an admin does:
  (set -a; . {data}/environment; .venv/bin/python -m ex_app status)
"""


def main() -> None:
    """Run until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--port", type=int, default=8090, help="port of the stand-in Nextcloud on 127.0.0.1")
    port = parser.parse_args().port
    console = Console()
    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.default_int_handler)  # a closed terminal ends it as tidily as Ctrl-C does
    world = World()
    furnish(world)
    console.print("Starting a stand-in Nextcloud and Semantic Search beside it (the language model loads first) …")
    try:
        with running(world, port=port) as demo:
            threading.Thread(target=deliver, args=(demo,), daemon=True, name="webhooks").start()
            show_progress(demo, console)
            console.print(f"\n[bold]Open {demo.served.url}[/bold]  pick alice, bob or carol, and search.\n")
            console.print(_MORE.format(url=demo.served.url, data=demo.data), highlight=False, soft_wrap=True)
            console.print("Ctrl-C ends it; nothing stays behind.")
            while demo.process.poll() is None:
                time.sleep(0.5)
            console.print(f"The app ended by itself:\n{demo.log_tail()}")
            raise SystemExit(1)
    except KeyboardInterrupt:
        console.print("\nBye.")
    except OSError as error:
        advice = "Try another: .venv/bin/python -m demo.run --port 8091"
        raise SystemExit(f"Port {port} on 127.0.0.1 is not free ({error}). {advice}") from error


def deliver(demo: Running) -> None:
    """Tell the app of changes, every second; a real Nextcloud does it as often as its background jobs run."""
    asyncio.run(demo.served.webhooks.run(1.0))


def show_progress(demo: Running, console: Console) -> None:
    """Draw how far indexing is until it is done."""
    columns = (TextColumn("Indexing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("index", total=None)

        def watch(now: dict[str, object]) -> None:
            bar.update(task, total=int(str(now["total"])) or None, completed=int(str(now["indexed"])))

        demo.wait_until_indexed(watch)


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What our processes share: whose a folder is, and that none outlives its parent."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ex_app.domain import SemanticSearchError

# Niceness beside the doors and questions, which have none. Whoever holds the registry's lock must not be kept from
# a core by those who take all cores for minutes.
WORKER_NICE: Final = 10
CRUNCHING_NICE: Final = 15


class InUse(SemanticSearchError):
    """Another process owns the folder."""


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Own the folder while the process lives; raises InUse. The kernel releases it however the process ends."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise InUse(
                f"{folder} is in use by another process (pid {lock.read().strip() or '?'}): "
                "end that one first, or give this one a folder of its own"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def end_with_parent() -> None:
    """When a supervisor started us, end as soon as it does: it holds the other end of our stdin."""
    if os.environ.get("EX_APP_CHILD") == "1":
        threading.Thread(target=_wait_for_the_end, name="end-with-parent", daemon=True).start()


def _wait_for_the_end() -> None:
    # Not through sys.stdin: a thread inside its buffer would break the interpreter's own end.
    while os.read(0, 4096):
        pass
    os._exit(0)

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What our child processes share."""

from __future__ import annotations

import os
import threading


def end_with_parent() -> None:
    """When a supervisor started us, end as soon as it does: it holds the other end of our stdin."""
    if os.environ.get("EX_APP_CHILD") == "1":
        threading.Thread(target=_wait_for_the_end, name="end-with-parent", daemon=True).start()


def _wait_for_the_end() -> None:
    # Not through sys.stdin: a thread inside its buffer would break the interpreter's own end.
    while os.read(0, 4096):
        pass
    os._exit(0)

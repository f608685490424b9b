# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""How soon an event is answered while indexing takes all that the machine has.

As a program, so that whatever else the bench does is not counted: it posts events, one after the other at a steady
pace, until its input ends, and prints how many seconds each answer took.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import numpy as np

from demo import appapi
from demo.bench.beside import beside
from demo.launch import Running
from ex_app.domain import DocumentKey
from ex_app.nextcloud.webhooks import PATH

_EVERY_S = 0.1
_CLASS = "OCP\\Files\\Events\\Node\\NodeWrittenEvent"
_TIMEOUT_S = 3.0  # Nextcloud waits no longer


@dataclass(slots=True)
class Heard:
    """seconds: of each answer; refused: events that were not answered well within Nextcloud's patience."""

    seconds: list[float] = field(default_factory=list)
    refused: int = 0

    def quantile_ms(self, share: float) -> float:
        """So many of the answers took no longer than this."""
        return 1000 * float(np.quantile(self.seconds, share)) if self.seconds else float("inf")


@contextmanager
def told(demo: Running, user: str, keys: Sequence[DocumentKey]) -> Iterator[Heard]:
    """Tell the app again and again that somebody wrote these files; filled in when the block ends."""
    heard = Heard()
    with beside("demo.bench.hearing") as (sending, answers):
        sending.write(json.dumps(_errand(demo, user, keys)) + "\n")
        sending.flush()
        try:
            yield heard
        finally:
            sending.close()
            answer = json.loads(answers.read())
            heard.seconds, heard.refused = answer["seconds"], answer["refused"]


def _errand(demo: Running, user: str, keys: Sequence[DocumentKey]) -> dict[str, object]:
    """Address, headers and bodies as the stand-in's own deliveries have them."""
    hook = next(hook for hook in demo.served.webhooks.hooks.values() if hook.event == _CLASS)
    node = [{"id": key.id, "path": f"/{user}/files/told"} for key in keys]
    return {
        "url": demo.app.url + PATH,
        "headers": appapi.signed(demo.app, user) | hook.headers | (hook.auth or {}),
        "bodies": [
            {"event": {"class": _CLASS, "node": one}, "user": {"uid": user, "displayName": user}, "time": 0}
            for one in node
        ],
    }


def _main() -> None:
    errand = json.loads(sys.stdin.readline())
    ended = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    heard = Heard()
    with httpx.Client(timeout=_TIMEOUT_S, trust_env=False, headers=errand["headers"]) as client:
        for body in itertools.cycle(errand["bodies"]):
            started = time.perf_counter()
            try:
                fine = client.post(errand["url"], content=json.dumps(body).encode()).is_success
            except httpx.HTTPError:
                fine = False
            taken = time.perf_counter() - started
            heard.seconds.append(taken)
            heard.refused += not fine
            if ended.wait(max(0.0, _EVERY_S - taken)):
                break
    print(json.dumps({"seconds": heard.seconds, "refused": heard.refused}))


if __name__ == "__main__":
    _main()

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""How many searches may hold a PHP worker at once: Nextcloud keeps one waiting for each that came through its proxy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ex_app.domain import NotAvailable
from ex_app.search.question import Caller


class Busy(NotAvailable):
    """As many searches as we admit are under way; try again in a second."""


class Admission:
    """Admits `limit` relayed searches at a time; others are refused at once instead of queueing behind PHP."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._inside = 0

    @contextmanager
    def admit(self, caller: Caller) -> Iterator[None]:
        """Hold a place for the length of a search. Raises Busy."""
        if not caller.vouched:
            yield
            return
        if self._inside >= self._limit:
            raise Busy("Too many searches at once. Try again in a moment")
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

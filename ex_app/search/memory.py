# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What is remembered of users, of so many at once."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

V = TypeVar("V")


def keep(memory: OrderedDict[str, V], user: str, value: V, *, most: int) -> None:
    """Remember it as the newest; who was met longest ago is forgotten where there are more than `most`."""
    memory[user] = value
    memory.move_to_end(user)
    if len(memory) > most:
        memory.popitem(last=False)

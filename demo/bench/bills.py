# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""One question and hundreds of documents that answer it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

QUESTION = "What does a night in a hotel cost?"

_TOWNS = ("Lisbon", "Bergen", "Graz", "Leeds", "Turin", "Malmö", "Brest", "Gdansk", "Split", "Porto", "Ghent", "Cork")
_ROOMS = ("a single room", "a double room", "a suite", "a room under the roof", "a room to the courtyard")
_VISITS = (
    "the trade fair",
    "a site visit",
    "the annual meeting",
    "a training course",
    "an audit",
    "a lecture",
    "a job",
)


def bills() -> Iterator[tuple[str, str]]:
    """Titles and texts that all answer the question, no two of them alike enough to be shown as one: 420."""
    for number, (visit, room, town) in enumerate(product(_VISITS, _ROOMS, _TOWNS)):
        title = f"Hotel bill {number + 1}"
        text = (
            f"A night in the hotel in {town}: {room} cost {70 + number} euros. We went there for {visit} "
            f"and paid {8 + number % 9} euros more for breakfast, {number % 4} euros for the city tax."
        )
        yield title, text

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Who asks, and what."""

from __future__ import annotations

from dataclasses import dataclass, field

from ex_app.domain import BadRequest, Filters, Sparse

MAX_LIMIT = 100
MAX_TIME = 10**12  # seconds since 1970; beyond it engines and databases lose count
MAX_QUERY = 10_000  # characters; the model reads the first few hundred words anyway


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. vouched: Nextcloud itself authenticated this user for this very request, so the account is enabled."""

    user: str
    vouched: bool


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked; raises BadRequest when it cannot be answered. cursor: of the answer that is to be continued."""

    text: str
    limit: int = 10
    filters: Filters = field(default_factory=Filters)
    kinds: frozenset[str] = frozenset()  # of Place.kind; empty for all
    cursor: str = ""

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise BadRequest("The question is empty: say what you look for")
        if len(self.text) > MAX_QUERY:
            raise BadRequest(f"The question is too long: at most {MAX_QUERY} characters")
        if not 1 <= self.limit <= MAX_LIMIT:
            raise BadRequest(f"limit must be between 1 and {MAX_LIMIT}")
        times = (self.filters.modified_after or 0, self.filters.modified_before or 0)
        if any(abs(time) > MAX_TIME for time in times):
            raise BadRequest("since and until are seconds since 1970")


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A question as the index compares it: by meaning and by words."""

    dense: tuple[float, ...]
    sparse: Sparse

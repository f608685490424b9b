# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Where an answer goes on: sealed, for one user and one question, and only for a while.

A cursor says which documents were shown, not how many to skip: what comes and goes meanwhile neither repeats a hit nor
skips one. It grants nothing: every page is verified anew.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable

from cryptography.fernet import Fernet, InvalidToken

from ex_app.domain import BadRequest, DocumentKey
from ex_app.search.question import Question

# How long an answer can be continued.
_LIFETIME_S = 3600

# Hits that one question can be paged through; verifying ends at about as many documents.
_MOST_SHOWN = 200


class Cursors:
    """Seals and opens cursors with a key of 32 bytes that all processes share."""

    def __init__(self, key: bytes) -> None:
        self._seal = Fernet(base64.urlsafe_b64encode(key))

    def issue(self, user: str, question: Question, shown: Iterable[DocumentKey]) -> str:
        """A cursor that continues after these documents; empty when nobody pages that far."""
        keys = [str(key) for key in shown]
        if len(keys) > _MOST_SHOWN:
            return ""
        return self._seal.encrypt(json.dumps([_bound_to(user, question), *keys]).encode()).decode()

    def read(self, user: str, question: Question) -> frozenset[DocumentKey]:
        """What the question's cursor says was shown, nothing without one; raises BadRequest for anybody else's."""
        if not question.cursor:
            return frozenset()
        try:
            bound, *keys = json.loads(self._seal.decrypt(question.cursor, ttl=_LIFETIME_S))
        except (InvalidToken, ValueError) as error:
            raise BadRequest("The cursor is not one of ours or too old: search again without it") from error
        if bound != _bound_to(user, question):
            raise BadRequest("The cursor belongs to another search: search again without it")
        return frozenset(DocumentKey.parse(key) for key in keys)


def _bound_to(user: str, question: Question) -> str:
    """The limit may change from page to page; user, question and filters may not."""
    filters = question.filters
    parts = [
        user,
        question.text,
        sorted(question.kinds),
        sorted(filters.sources),
        filters.owner,
        filters.modified_after,
        filters.modified_before,
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

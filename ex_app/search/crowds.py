# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Folders full of documents that Nextcloud denies a user: for a minute they are looked at last.

An access rule or a group folder's permissions can close a folder within what is open to somebody. Its documents would
fill every round of verifying, and readable ones would never be asked about. This is a hint where to look first: it
grants nothing and hides nothing.
"""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Mapping

from ex_app.domain import DocumentKey, ScopeId
from ex_app.search.memory import keep

# How long a crowd is remembered.
_REMEMBERED_S = 60.0

# So many documents denied and not one granted make a crowd. Of a folder in which nine of ten are denied at random,
# thirty in a row are denied once in 24 times.
_CROWD = 30

_USERS = 2_000
_SCOPES = 32  # of one user


class Crowds:
    """What was denied throughout, per user."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: OrderedDict[str, dict[ScopeId, float]] = OrderedDict()

    def of(self, user: str) -> frozenset[ScopeId]:
        """The scopes to look at last."""
        now = self._clock()
        return frozenset(scope for scope, until in self._until.get(user, {}).items() if until > now)

    def note(self, user: str, scopes: Collection[ScopeId]) -> None:
        """Remember for a minute."""
        if not scopes:
            return
        now = self._clock()
        known = {scope: until for scope, until in self._until.get(user, {}).items() if until > now}
        known |= dict.fromkeys(scopes, now + _REMEMBERED_S)
        newest = dict(sorted(known.items(), key=lambda item: item[1])[-_SCOPES:])
        keep(self._until, user, newest, most=_USERS)


def denied_throughout(
    scopes: Mapping[DocumentKey, Collection[ScopeId]],
    denied: Collection[DocumentKey],
    granted: Collection[DocumentKey],
    *,
    within: Collection[ScopeId],
) -> frozenset[ScopeId]:
    """The smallest scopes in which many documents were denied and none was granted, below those of the reach."""
    inhabitants: dict[ScopeId, set[DocumentKey]] = defaultdict(set)
    for key in denied:
        for scope in scopes.get(key, ()):
            inhabitants[scope].add(key)
    for scope in {*within, *(scope for key in granted for scope in scopes.get(key, ()))}:
        inhabitants.pop(scope, None)
    crowds: set[ScopeId] = set()
    covered: set[DocumentKey] = set()
    for scope, keys in sorted(inhabitants.items(), key=lambda item: len(item[1])):
        if len(keys - covered) >= _CROWD:
            crowds.add(scope)
            covered |= keys
    return frozenset(crowds)

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Ask Nextcloud about all candidates, all sources at once, under one deadline. What is not granted is not shown."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import assert_never

from ex_app.domain import (
    DocumentKey,
    Granted,
    Missing,
    NextcloudUnavailable,
    NotPermitted,
    Refused,
    ScopeId,
    Verdict,
)
from ex_app.nextcloud.session import Session
from ex_app.sources import Source

Suspects = Mapping[DocumentKey, Collection[ScopeId]]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What Nextcloud granted, what it denied, whether it left a question open, and what of the denied is gone."""

    granted: Mapping[DocumentKey, Granted]
    denied: frozenset[DocumentKey]
    degraded: bool
    gone: frozenset[DocumentKey] = frozenset()


async def verify(sources: Mapping[str, Source], session: Session, suspects: Suspects, *, seconds: float) -> Verdicts:
    """A verdict for every suspect within `seconds`; a source that fails, is silent or unknown grants nothing."""
    by_source: dict[str, dict[DocumentKey, Collection[ScopeId]]] = {}
    for key, scopes in suspects.items():
        by_source.setdefault(key.source, {})[key] = scopes
    answers = await asyncio.gather(
        *(_ask(sources.get(name), session, batch, seconds=seconds) for name, batch in by_source.items())
    )
    return _sorted({key: verdict for answer in answers for key, verdict in answer.items()}, suspects)


async def _ask(
    source: Source | None, session: Session, batch: Suspects, *, seconds: float
) -> Mapping[DocumentKey, Verdict]:
    if source is None:
        return dict.fromkeys(batch, Refused.UNKNOWN)
    try:
        async with asyncio.timeout(seconds):
            return await source.verify(session, batch)
    except (TimeoutError, NextcloudUnavailable, NotPermitted, Missing):
        return dict.fromkeys(batch, Refused.UNKNOWN)


def _sorted(verdicts: Mapping[DocumentKey, Verdict], suspects: Suspects) -> Verdicts:
    granted: dict[DocumentKey, Granted] = {}
    denied: set[DocumentKey] = set()
    gone: set[DocumentKey] = set()
    degraded = False
    for key in suspects:
        match verdicts.get(key, Refused.UNKNOWN):
            case Granted() as grant:
                granted[key] = grant
            case Refused.DENIED:
                denied.add(key)
            case Refused.GONE:
                denied.add(key)
                gone.add(key)
            case Refused.UNKNOWN:
                degraded = True
            case other:
                assert_never(other)
    return Verdicts(granted, frozenset(denied), degraded, frozenset(gone))

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Search: reach, recall, registry, verify, rank. The index suggests, Nextcloud decides."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ex_app.domain import (
    Answer,
    BadRequest,
    Candidate,
    DocumentKey,
    Filters,
    Granted,
    Hit,
    Lane,
    Missing,
    NextcloudUnavailable,
    NotAvailable,
    Reach,
    Sparse,
)
from ex_app.nextcloud import ocs
from ex_app.nextcloud.session import Nextcloud
from ex_app.search.excerpt import excerpt
from ex_app.search.rank import Ranked, Scale, promising, rank
from ex_app.search.reach import Known, ReachBook
from ex_app.search.refresh import MAX_DOCUMENTS, Refresher
from ex_app.search.verify import Verdicts, verify
from ex_app.settings import Settings
from ex_app.sources import Source
from ex_app.store.documents import LiveRow, Status
from ex_app.store.registry import Due, Registry
from ex_app.store.vectors import Vectors

log = logging.getLogger(__name__)

MAX_LIMIT = 100
MAX_TIME = 10**12  # seconds since 1970; beyond it engines and databases lose count
MAX_QUERY = 10_000  # characters; the model reads the first few hundred words anyway

# Passages per leg and documents verified per round: one Nextcloud request for files and notes.
_PASSAGES = 200
_DOCUMENTS = 100
_ROUNDS = 3

# Pages grow to this many hits (Nextcloud's search bar asks for 5, 10 … 25). Gathering for the largest one every time
# keeps the order the same when a page grows.
_LARGEST_PAGE = 25

# When more than this share of a round is denied, the remembered reach is probably stale: ask again once.
_STARVED = 0.5


class Embeds(Protocol):
    """What search needs of the dense model."""

    async def query(self, text: str) -> tuple[float, ...]:
        """The vector of a question."""


class EncodesQueries(Protocol):
    """What search needs of the sparse encoder."""

    def encode_query(self, text: str) -> Sparse:
        """The BM25 vector of a question."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. vouched: Nextcloud itself authenticated this user for this very request, so the account is enabled."""

    user: str
    vouched: bool


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked; raises BadRequest when it cannot be answered."""

    text: str
    limit: int = 10
    filters: Filters = field(default_factory=Filters)
    kinds: frozenset[str] = frozenset()  # of Place.kind; empty for all

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
class _Vector:
    dense: tuple[float, ...]
    sparse: Sparse


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Unverified candidates for somebody who verifies them himself. more: the index may hold further ones."""

    candidates: tuple[Candidate, ...]
    live: Mapping[DocumentKey, LiveRow]
    more: bool


class Search:
    """The read path, wired once per process."""

    def __init__(
        self,
        settings: Settings,
        *,
        nextcloud: Nextcloud,
        sources: Mapping[str, Source],
        embedder: Embeds,
        encoder: EncodesQueries,
        vectors: Vectors,
        registry: Registry,
        scale: Scale,
        refresher: Refresher,
    ) -> None:
        self._settings = settings
        self._nextcloud = nextcloud
        self._sources = sources
        self._embedder = embedder
        self._encoder = encoder
        self._vectors = vectors
        self._registry = registry
        self.scale = scale
        self._refresher = refresher
        self._reaches = ReachBook(
            nextcloud, sources, ttl=settings.reach_ttl_s, seconds=settings.reach_deadline_s, epoch=registry.epoch
        )

    async def search(self, caller: Caller, question: Question) -> Answer:
        """Verified hits for this user now. Raises NotAvailable when the index or the model is away."""
        question = self._narrowed(question)
        if not caller.vouched:
            enabled = await self._is_enabled(caller.user)
            if not enabled:
                return Answer((), degraded=enabled is None)
        known = await self._reaches.of(caller.user)
        vector = _Vector(await self._embedder.query(question.text), self._encoder.encode_query(question.text))
        deadline = time.monotonic() + self._settings.search_deadline_s
        outcome = await self._rounds(caller, question, vector, known.reach, deadline=deadline)
        fresher = await self._fresher(caller, known, outcome)
        if fresher is not None:
            deadline = time.monotonic() + self._settings.search_deadline_s
            outcome = await self._rounds(caller, question, vector, fresher.reach, deadline=deadline)
        outcome = await self._scored_anew(question, vector, (fresher or known).reach, outcome)
        hits = await self._hits(caller, question, vector, outcome, deadline=deadline)
        return Answer(hits, degraded=outcome.degraded or (fresher or known).degraded)

    async def suggest(self, question: Question, reach: Reach, *, exclude: frozenset[DocumentKey]) -> Suggestions:
        """What the index suggests within a reach, superseded points dropped, most promising first; nothing verified.

        For the companion alone, which asks Nextcloud itself before anything is shown.
        """
        question = self._narrowed(question)
        vector = _Vector(await self._embedder.query(question.text), self._encoder.encode_query(question.text))
        found = await self._vectors.recall(
            vector.dense, vector.sparse, reach, question.filters, limit=_PASSAGES, exclude=exclude
        )
        live = await self._registry.live({candidate.document for candidate in found})
        current = promising([candidate for candidate in found if _is_live(candidate, live)], self.scale)
        chosen = set(list(dict.fromkeys(candidate.document for candidate in current))[:_DOCUMENTS])
        kept = tuple(candidate for candidate in current if candidate.document in chosen)
        return Suggestions(kept, live, more=len(found) >= _PASSAGES)

    async def _is_enabled(self, user: str) -> bool | None:
        """None when Nextcloud does not say."""
        try:
            async with asyncio.timeout(self._settings.search_deadline_s):
                return await ocs.is_enabled(self._nextcloud.as_user(user))
        except (TimeoutError, NextcloudUnavailable, Missing):
            return None

    def _narrowed(self, question: Question) -> Question:
        """The sources that can show the wanted kinds. Raises BadRequest for a kind that no source has."""
        if not question.kinds:
            return question
        all_kinds = frozenset[str]().union(*(source.kinds for source in self._sources.values()))
        if not question.kinds <= all_kinds:
            raise BadRequest(f"Unknown kind: use {', '.join(sorted(all_kinds))}")
        names = frozenset(name for name, source in self._sources.items() if source.kinds & question.kinds)
        return replace(question, filters=replace(question.filters, sources=names))

    async def _fresher(self, caller: Caller, known: Known, outcome: _Outcome) -> Known | None:
        """A newer reach when the remembered one has proved, or is likely, to be wrong."""
        if known.confirm is not None:
            confirmed = await known.confirm
            return confirmed if confirmed.reach != known.reach else None
        if not known.remembered or len(outcome.denied) <= _STARVED * outcome.asked:
            return None
        fresh = await self._reaches.fresh(caller.user)
        return fresh if fresh.reach != known.reach else None

    async def _rounds(
        self, caller: Caller, question: Question, vector: _Vector, reach: Reach, *, deadline: float
    ) -> _Outcome:
        """Recall and verify until the page is full, the index has no more, or three rounds are over."""
        outcome = _Outcome()
        for _ in range(_ROUNDS):
            found = await self._vectors.recall(
                vector.dense,
                vector.sparse,
                reach,
                question.filters,
                limit=_PASSAGES,
                exclude=outcome.done,
            )
            if not found:
                break
            outcome = outcome.plus(await self._judge(caller, found, deadline=deadline))
            full = outcome.showable(question.kinds) >= max(question.limit, _LARGEST_PAGE)
            if full or len(found) < _PASSAGES or time.monotonic() >= deadline:
                break
        return outcome

    async def _scored_anew(self, question: Question, vector: _Vector, reach: Reach, outcome: _Outcome) -> _Outcome:
        """BM25 knows how rare a word is among all that was in reach: what was not granted must have no say in that."""
        barred = outcome.done - outcome.granted.keys()
        if not barred or not outcome.granted:
            return outcome
        limit = max(_PASSAGES, len(outcome.candidates))
        found = await self._vectors.recall(
            vector.dense, vector.sparse, reach, question.filters, limit=limit, barred=barred
        )
        verified = {_point(candidate) for candidate in outcome.candidates if candidate.document in outcome.granted}
        return replace(outcome, candidates=tuple(candidate for candidate in found if _point(candidate) in verified))

    async def _judge(self, caller: Caller, found: Sequence[Candidate], *, deadline: float) -> _Judged:
        """Drop superseded points, then ask Nextcloud about the documents, most promising first."""
        live = await self._registry.live({candidate.document for candidate in found})
        current = promising([candidate for candidate in found if _is_live(candidate, live)], self.scale)
        scopes = {candidate.document: candidate.scopes for candidate in current}
        superseded = frozenset(candidate.document for candidate in found) - scopes.keys()
        chosen = dict(list(scopes.items())[:_DOCUMENTS])
        verdicts = await verify(
            self._sources,
            self._nextcloud.as_user(caller.user),
            chosen,
            seconds=max(0.05, deadline - time.monotonic()),
        )
        judged = tuple(candidate for candidate in current if candidate.document in chosen)
        return _Judged(judged, live, verdicts, done=superseded | chosen.keys())

    async def _hits(
        self, caller: Caller, question: Question, vector: _Vector, outcome: _Outcome, *, deadline: float
    ) -> tuple[Hit, ...]:
        page = self._page(question, outcome.candidates, outcome.granted)
        stale = [ranked for ranked in page if not _is_current(ranked, outcome.live)]
        if stale:
            await self._wish_for([ranked.document for ranked in stale], caller)
        present = await self._reread(caller, [r for r in stale if self._quotable(r)], vector, deadline)
        if present:
            # What was read on the spot competes with what it says now: its old text has no say any more.
            others = [candidate for candidate in outcome.candidates if candidate.document not in present]
            page = self._page(question, [*others, *present.values()], outcome.granted)
        hits = []
        for ranked in page:
            current = ranked.document in present or _is_current(ranked, outcome.live)
            hits.append(
                _quoted(ranked) if current and self._quotable(ranked) else _bare(ranked, refreshing=not current)
            )
        return tuple(hits)

    def _page(
        self, question: Question, candidates: Sequence[Candidate], granted: Mapping[DocumentKey, Granted]
    ) -> list[Ranked]:
        ordered = rank(candidates, granted, question.text, self.scale)
        if question.kinds:
            ordered = [ranked for ranked in ordered if ranked.grant.place.kind in question.kinds]
        return ordered[: question.limit]

    async def _wish_for(self, documents: Iterable[DocumentKey], caller: Caller) -> None:
        """Let the write path read them soon. A registry that is busy writing costs freshness, not the answer."""
        try:
            await self._registry.enqueue_many([Due(document, Lane.REFRESH, caller.user) for document in documents])
        except NotAvailable as error:
            log.warning("event=refresh_not_queued error=%s", error)

    async def _reread(
        self, caller: Caller, stale: Sequence[Ranked], vector: _Vector, deadline: float
    ) -> dict[DocumentKey, Candidate]:
        """The first few stale documents as they are now, as far as there is time."""
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            return {}
        session = self._nextcloud.as_user(caller.user)
        found = await asyncio.gather(
            *(
                self._refresher.anew(
                    session, r.grant, r.passage, dense=vector.dense, sparse=vector.sparse, seconds=seconds
                )
                for r in stale[:MAX_DOCUMENTS]
            )
        )
        return {candidate.document: candidate for candidate in found if candidate is not None}

    def _quotable(self, ranked: Ranked) -> bool:
        return ranked.grant.quotable or self._settings.view_only_excerpts


@dataclass(frozen=True, slots=True)
class _Judged:
    candidates: tuple[Candidate, ...]
    live: Mapping[DocumentKey, LiveRow]
    verdicts: Verdicts
    done: frozenset[DocumentKey]  # need not be found again


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What the rounds have gathered so far."""

    candidates: tuple[Candidate, ...] = ()
    granted: Mapping[DocumentKey, Granted] = field(default_factory=dict)
    live: Mapping[DocumentKey, LiveRow] = field(default_factory=dict)
    done: frozenset[DocumentKey] = frozenset()
    asked: int = 0
    denied: frozenset[DocumentKey] = frozenset()
    degraded: bool = False

    def plus(self, judged: _Judged) -> _Outcome:
        return replace(
            self,
            candidates=(*self.candidates, *judged.candidates),
            granted={**self.granted, **judged.verdicts.granted},
            live={**self.live, **judged.live},
            done=self.done | judged.done,
            asked=self.asked + len({candidate.document for candidate in judged.candidates}),
            denied=self.denied | judged.verdicts.denied,
            degraded=self.degraded or judged.verdicts.degraded,
        )

    def showable(self, kinds: frozenset[str]) -> int:
        """How many documents may be shown, of these kinds if any."""
        return sum(not kinds or grant.place.kind in kinds for grant in self.granted.values())


def _point(candidate: Candidate) -> tuple[DocumentKey, int, int]:
    return candidate.document, candidate.generation, candidate.chunk.ordinal


def _is_live(candidate: Candidate, live: Mapping[DocumentKey, LiveRow]) -> bool:
    row = live.get(candidate.document)
    return row is not None and row.status is Status.CURRENT and row.generation == candidate.generation


def _is_current(ranked: Ranked, live: Mapping[DocumentKey, LiveRow]) -> bool:
    """Whether what the index says is what Nextcloud has. An unsettled version may hide a second save: it is not."""
    row = live[ranked.document]
    return row.settled and row.version == ranked.grant.version


def _quoted(ranked: Ranked) -> Hit:
    passage = ranked.passage.chunk
    quote = excerpt(passage.text, ranked.words)
    return replace(
        _bare(ranked, refreshing=False),
        excerpt=quote.text,
        highlights=quote.highlights,
        page=passage.page,
        start=passage.start + quote.start,
        end=passage.start + quote.end,
    )


def _bare(ranked: Ranked, *, refreshing: bool) -> Hit:
    """Listed by its current title and place alone."""
    return Hit(
        document=ranked.document,
        place=ranked.grant.place,
        score=round(ranked.score, 4),
        mtime=ranked.grant.mtime,
        refreshing=refreshing,
    )

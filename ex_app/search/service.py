# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Search: reach, recall, registry, verify, rank. The index suggests, Nextcloud decides."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ex_app.domain import (
    Answer,
    BadRequest,
    Candidate,
    DocumentKey,
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
from ex_app.search.crowds import Crowds
from ex_app.search.cursor import Cursors
from ex_app.search.excerpt import excerpt
from ex_app.search.question import Caller, QueryVector, Question
from ex_app.search.rank import Ranked, Scale, rank
from ex_app.search.reach import Known, ReachBook
from ex_app.search.refresh import MAX_DOCUMENTS, Refresher
from ex_app.search.rounds import Outcome, Rounds
from ex_app.settings import Settings
from ex_app.sources import Source
from ex_app.store.documents import LiveRow
from ex_app.store.registry import Due, Registry
from ex_app.store.vectors import Vectors

log = logging.getLogger(__name__)

# Pages grow to this many hits (Nextcloud's search bar asks for 5, 10 … 25). Gathering for the largest one every time
# keeps the order the same when a page grows.
_LARGEST_PAGE = 25

# When more than this share of a round is denied, the remembered reach is probably stale: ask again once.
_STARVED = 0.5


class Embeds(Protocol):
    """What search needs of the dense model."""

    async def query(self, text: str, *, user: str) -> tuple[float, ...]:
        """The vector of a user's question."""


class EncodesQueries(Protocol):
    """What search needs of the sparse encoder."""

    def encode_query(self, text: str) -> Sparse:
        """The BM25 vector of a question."""


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
        self._registry = registry
        self.scale = scale
        self._refresher = refresher
        self._rounds = Rounds(nextcloud, sources, vectors, registry, scale, Crowds())
        self._cursors = Cursors(settings.key_for("cursors of answers"))
        self._reaches = ReachBook(
            nextcloud, sources, ttl=settings.reach_ttl_s, seconds=settings.reach_deadline_s, epoch=registry.epoch
        )

    async def search(self, caller: Caller, question: Question) -> Answer:
        """Verified hits for this user now. Raises NotAvailable when the index or the model is away."""
        question = self._narrowed(question)
        shown = self._cursors.read(caller.user, question)
        if not caller.vouched:
            enabled = await self._is_enabled(caller.user)
            if not enabled:
                return Answer((), degraded=enabled is None)
        known = await self._reaches.of(caller.user)
        looking = _Looking(caller, question, await self._vector(question, caller.user), shown, known.reach)
        looking = await self._look(looking)
        fresher = await self._fresher(caller, known, looking.outcome)
        if fresher is not None:
            known = fresher
            looking = await self._look(replace(looking, reach=known.reach, outcome=Outcome()))
        if looking.outcome.gone:
            await self._wish_for(looking.outcome.gone, caller)
        looking, ordered = await self._filled(looking)
        hits, rest = await self._hits(looking, ordered)
        cursor = self._cursors.issue(caller.user, question, shown.union(hit.document for hit in hits)) if rest else ""
        return Answer(hits, degraded=looking.outcome.degraded or known.degraded, cursor=cursor)

    async def suggest(
        self, user: str, question: Question, reach: Reach, *, exclude: frozenset[DocumentKey]
    ) -> Suggestions:
        """What the index suggests within a reach, superseded points dropped, most promising first; nothing verified.

        For the companion alone, which asks Nextcloud itself before anything is shown.
        """
        question = self._narrowed(question)
        vector = await self._vector(question, user)
        candidates, live, more = await self._rounds.suggest(question, vector, reach, exclude=exclude)
        return Suggestions(tuple(candidates), live, more)

    async def _vector(self, question: Question, user: str) -> QueryVector:
        dense = await self._embedder.query(question.text, user=user)
        return QueryVector(dense, self._encoder.encode_query(question.text))

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

    async def _fresher(self, caller: Caller, known: Known, outcome: Outcome) -> Known | None:
        """A newer reach when the remembered one has proved, or is likely, to be wrong."""
        if known.confirm is not None:
            fresh = await known.confirm
        elif known.remembered and len(outcome.denied) > _STARVED * outcome.asked:
            fresh = await self._reaches.doubted(caller.user)
        else:
            return None
        return fresh if fresh.reach != known.reach else None

    async def _look(self, looking: _Looking) -> _Looking:
        """Recall and verify for this page, its predecessors and the beginning of the next one."""
        deadline = time.monotonic() + self._settings.search_deadline_s
        wanted = max(len(looking.shown) + looking.question.limit + 1, _LARGEST_PAGE)
        return await self._gather(replace(looking, deadline=deadline), wanted)

    async def _gather(self, looking: _Looking, wanted: int) -> _Looking:
        outcome = await self._rounds.gather(
            looking.caller.user,
            looking.question,
            looking.vector,
            looking.reach,
            wanted=wanted,
            deadline=looking.deadline,
            so_far=looking.outcome,
        )
        return replace(looking, outcome=outcome)

    async def _filled(self, looking: _Looking) -> tuple[_Looking, list[Ranked]]:
        """Everything that answers, in order. Where copies left the page short, more is looked for."""
        while True:
            candidates = await self._rounds.scored_anew(looking.vector, looking.outcome)
            scored = replace(looking, candidates=candidates)
            ordered = self._ordered(scored, candidates)
            copies = sum(ranked.copies for ranked in ordered)
            short = len(ordered) <= len(looking.shown) + looking.question.limit
            if not (copies and short) or looking.outcome.ended:
                return scored, ordered
            looking = await self._gather(looking, looking.outcome.showable(looking.question.kinds) + copies)

    async def _hits(self, looking: _Looking, ordered: Sequence[Ranked]) -> tuple[tuple[Hit, ...], bool]:
        """The page, and whether anything comes after it."""
        page, rest = _page(looking, ordered)
        live = looking.outcome.live
        stale = [ranked for ranked in page if not _is_current(live[ranked.document], ranked.grant)]
        if stale:
            await self._wish_for([ranked.document for ranked in stale], looking.caller)
        present = await self._reread(looking, [ranked for ranked in stale if self._quotable(ranked)])
        if present:
            # What was read on the spot competes with what it says now: its old text has no say any more.
            others = [candidate for candidate in looking.candidates if candidate.document not in present]
            page, rest = _page(looking, self._ordered(looking, [*others, *present.values()], present=present.keys()))
        hits = []
        for ranked in page:
            current = ranked.document in present or _is_current(live[ranked.document], ranked.grant)
            hits.append(
                _quoted(ranked) if current and self._quotable(ranked) else _bare(ranked, refreshing=not current)
            )
        return tuple(hits), rest

    def _ordered(
        self, looking: _Looking, candidates: Sequence[Candidate], *, present: Collection[DocumentKey] = ()
    ) -> list[Ranked]:
        """present: documents whose candidates are their text as it was read just now."""
        kinds, granted = looking.question.kinds, looking.outcome.granted
        stale = {key for key, grant in granted.items() if not _is_current(looking.outcome.live[key], grant)}
        ordered = rank(candidates, granted, looking.question.text, self.scale, stale=stale.difference(present))
        return [ranked for ranked in ordered if not kinds or ranked.grant.place.kind in kinds]

    async def _wish_for(self, documents: Iterable[DocumentKey], caller: Caller) -> None:
        """Let the write path read them soon. A registry that is busy writing costs freshness, not the answer."""
        try:
            await self._registry.enqueue_many([Due(document, Lane.REFRESH, caller.user) for document in documents])
        except NotAvailable as error:
            log.warning("event=refresh_not_queued error=%s", error)

    async def _reread(self, looking: _Looking, stale: Sequence[Ranked]) -> dict[DocumentKey, Candidate]:
        """The first few stale documents as they are now, as far as there is time."""
        seconds = looking.deadline - time.monotonic()
        if seconds <= 0:
            return {}
        session = self._nextcloud.as_user(looking.caller.user)
        vector = looking.vector
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
class _Looking:
    """One search under way. shown: on earlier pages; deadline: on the monotonic clock."""

    caller: Caller
    question: Question
    vector: QueryVector
    shown: Collection[DocumentKey]
    reach: Reach
    outcome: Outcome = field(default_factory=Outcome)
    candidates: Sequence[Candidate] = ()
    deadline: float = 0.0


def _page(looking: _Looking, ordered: Sequence[Ranked]) -> tuple[list[Ranked], bool]:
    unseen = [ranked for ranked in ordered if ranked.document not in looking.shown]
    limit = looking.question.limit
    return unseen[:limit], len(unseen) > limit


def _is_current(row: LiveRow, grant: Granted) -> bool:
    """Whether what the index says is what Nextcloud has. An unsettled version may hide a second save: it is not."""
    return row.settled and row.version == grant.version


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

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Recall and verify, round after round, until a page is full. A round asks Nextcloud about 100 documents at most."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ex_app.domain import Candidate, DocumentKey, Filters, Granted, Reach, ScopeId
from ex_app.nextcloud.session import Nextcloud
from ex_app.search.crowds import Crowds, denied_throughout
from ex_app.search.left_out import suggestable, without_left_out
from ex_app.search.question import MAX_LIMIT, QueryVector, Question
from ex_app.search.rank import Scale, promising
from ex_app.search.verify import Verdicts, verify
from ex_app.sources import Source
from ex_app.store.documents import LiveRow, Status
from ex_app.store.registry import Registry
from ex_app.store.vectors import Vectors

# Passages per leg and documents verified per round: one Nextcloud request for files and notes, which has room for a
# hundred names and ids; one is the name of the file that excludes a folder. Who wants a hundred hits gets them for one
# request all the same: then the excluded folders known from the last reach decide.
PASSAGES = 200
DOCUMENTS = 99
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the rounds have gathered so far. ended: the index has no more, or there is no round or time left."""

    candidates: tuple[Candidate, ...] = ()
    granted: Mapping[DocumentKey, Granted] = field(default_factory=dict)
    live: Mapping[DocumentKey, LiveRow] = field(default_factory=dict)
    done: frozenset[DocumentKey] = frozenset()  # need not be found again
    asked: int = 0
    denied: frozenset[DocumentKey] = frozenset()
    gone: frozenset[DocumentKey] = frozenset()  # of the denied: not where the index remembers them
    degraded: bool = False
    rounds: int = 0
    ended: bool = False

    def plus(self, judged: Judged) -> Outcome:
        """With one more round."""
        return replace(
            self,
            candidates=(*self.candidates, *judged.candidates),
            granted={**self.granted, **judged.verdicts.granted},
            live={**self.live, **judged.live},
            done=self.done | judged.done,
            asked=self.asked + len({candidate.document for candidate in judged.candidates}),
            denied=self.denied | judged.verdicts.denied,
            gone=self.gone | judged.verdicts.gone,
            degraded=self.degraded or judged.verdicts.degraded,
            rounds=self.rounds + 1,
        )

    def showable(self, kinds: frozenset[str]) -> int:
        """How many documents may be shown, of these kinds if any."""
        return sum(not kinds or grant.place.kind in kinds for grant in self.granted.values())


@dataclass(frozen=True, slots=True)
class Judged:
    """What one round found out."""

    candidates: tuple[Candidate, ...]
    live: Mapping[DocumentKey, LiveRow]
    verdicts: Verdicts
    done: frozenset[DocumentKey]


@dataclass(frozen=True, slots=True)
class Rounds:
    """The first half of the read path: everything that comes before an order is made."""

    nextcloud: Nextcloud
    sources: Mapping[str, Source]
    vectors: Vectors
    registry: Registry
    scale: Scale
    crowds: Crowds

    async def gather(
        self,
        user: str,
        question: Question,
        vector: QueryVector,
        reach: Reach,
        *,
        wanted: int,
        deadline: float,
        so_far: Outcome | None = None,
    ) -> Outcome:
        """Go on until `wanted` documents may be shown or the outcome has ended. deadline: on the monotonic clock.

        Where everything was denied lately is looked at last, when nothing else is left.
        """
        outcome = so_far or Outcome()
        most = MAX_LIMIT if question.limit == MAX_LIMIT else DOCUMENTS
        last, looking_last = self.crowds.of(user), False
        while not outcome.ended and (outcome.rounds == 0 or outcome.showable(question.kinds) < wanted):
            found = await self._recall(vector, reach, question.filters, avoid=last, exclude=outcome.done)
            before = len(outcome.granted)
            if found:
                outcome = outcome.plus(await self._judge(user, found, most=most, deadline=deadline))
            exhausted = len(found) < PASSAGES and {candidate.document for candidate in found} <= outcome.done
            in_vain = looking_last and len(outcome.granted) == before
            over = outcome.rounds >= ROUNDS or time.monotonic() >= deadline
            outcome = replace(outcome, ended=over or in_vain or (exhausted and not last))
            crowded = self._crowded(user, outcome, reach)
            if exhausted:
                last, looking_last = frozenset(), True
            elif not looking_last:
                last |= crowded
        return outcome

    async def scored_anew(self, vector: QueryVector, outcome: Outcome) -> tuple[Candidate, ...]:
        """The candidates that were granted, scored as if there were no other documents.

        BM25 knows how rare a word is among all that is in reach, and not all of that may be read: access rules and
        group folders' permissions close parts of it. What was not granted must have no say in a score.
        """
        granted = [candidate for candidate in outcome.candidates if candidate.document in outcome.granted]
        return tuple(await self.vectors.rescored(granted, vector.sparse))

    async def suggest(
        self, question: Question, vector: QueryVector, reach: Reach, *, exclude: frozenset[DocumentKey]
    ) -> tuple[list[Candidate], Mapping[DocumentKey, LiveRow], bool]:
        """Unverified candidates, most promising first, their live rows, and whether the index may hold more."""
        found = await self._recall(vector, reach, question.filters, avoid=frozenset(), exclude=exclude)
        live = await self.registry.live({candidate.document for candidate in found})
        alive = [candidate for candidate in found if _is_live(candidate, live)]
        current = promising(await suggestable(self.registry, alive), self.scale)
        chosen = set(list(dict.fromkeys(candidate.document for candidate in current))[:DOCUMENTS])
        kept = [candidate for candidate in current if candidate.document in chosen]
        return kept, live, len(found) >= PASSAGES

    async def _recall(
        self,
        vector: QueryVector,
        reach: Reach,
        filters: Filters,
        *,
        avoid: frozenset[ScopeId],
        exclude: Collection[DocumentKey],
    ) -> list[Candidate]:
        return await self.vectors.recall(
            vector.dense,
            vector.sparse,
            reach,
            filters,
            limit=PASSAGES,
            exclude=exclude,
            avoid=avoid | reach.avoid,
        )

    async def _judge(self, user: str, found: Sequence[Candidate], *, most: int, deadline: float) -> Judged:
        """Drop superseded points, then ask Nextcloud about the documents, most promising first."""
        live = await self.registry.live({candidate.document for candidate in found})
        current = promising([candidate for candidate in found if _is_live(candidate, live)], self.scale)
        scopes = {candidate.document: candidate.scopes for candidate in current}
        superseded = frozenset(candidate.document for candidate in found) - scopes.keys()
        chosen = dict(list(scopes.items())[:most])
        verdicts = await verify(
            self.sources,
            self.nextcloud.as_user(user),
            chosen,
            seconds=max(0.05, deadline - time.monotonic()),
        )
        verdicts = await without_left_out(self.registry, verdicts)
        judged = tuple(candidate for candidate in current if candidate.document in chosen)
        return Judged(judged, live, verdicts, done=superseded | chosen.keys())

    def _crowded(self, user: str, outcome: Outcome, reach: Reach) -> frozenset[ScopeId]:
        scopes = {candidate.document: candidate.scopes for candidate in outcome.candidates}
        crowded = denied_throughout(scopes, outcome.denied, outcome.granted.keys(), within=reach.scopes)
        self.crowds.note(user, crowded)
        return crowded


def _is_live(candidate: Candidate, live: Mapping[DocumentKey, LiveRow]) -> bool:
    row = live.get(candidate.document)
    return row is not None and row.status is Status.CURRENT and row.generation == candidate.generation

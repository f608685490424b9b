# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""One hunted world from beginning to end: people do things, the app works by fits and starts, and somebody asks.

Registry, engine, parser, write path, verifier and doors are the real ones. Nextcloud is asked without a network, and
words are hashed instead of read by a model: neither decides who is shown what.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from leak_rules import Ear, Found, Judge, Moment, Tally, tokens
from leak_steps import COMMON, MUTATIONS, PEOPLE, PICTURE, Doings, possible, weighted
from leak_wire import Hashing, Wire, by_json, by_mcp, quick_folder
from test_write_stories import Death, Fuse, Mortal
from town import Stage, Town, living_town

from demo.habits import Failure, Request
from ex_app import house
from ex_app.domain import SemanticSearchError
from ex_app.extract.sandbox import Extractor
from ex_app.nextcloud.session import Nextcloud
from ex_app.search import reach
from ex_app.sources import file
from ex_app.store.engine import Address

Step = tuple[str, int]

# What the app does, and who asks; the world's own doings are MUTATIONS.
WORKINGS = {"sweep": 7, "work": 8, "settle": 5, "crash": 3, "haste": 2, "race_work": 4, "restart": 1}
TROUBLE = {"fault": 4, "heal": 5, "forget": 2}
ASKING = {"ask": 30, "ask_together": 8, "ask_racing": 8, "ask_working": 4}

_KINDS = [("dav", "SEARCH"), ("dav", "GET"), ("dav", "PROPFIND"), ("caldav", "REPORT"), ("caldav", "PROPFIND")]
_KINDS += [("ocs", "GET"), ("notes", "GET")]

_NONSENSE = ("xylophon quux", "the of and", "%%% ' OR 1=1 --", "ledger " * 40, "日本 語", "zq")


class _BeforeCleaning(Fuse):
    """Burns when the new text is published and the old one still lies beside it."""

    def burn(self, name: str) -> None:
        if name in ("keep_only", "drop"):
            raise Death


class Play(Doings):
    """A town, its judge, and everything that can happen."""

    def __init__(self, town: Town, wire: Wire, tally: Tally, ear: Ear) -> None:
        super().__init__(town.world, Judge(town.world), town.clock.forward)
        self.town = town
        self.wire = wire
        self.tally = tally
        self.ear = ear
        self.met: set[tuple[str, str]] = set()
        for uid in PEOPLE[3:]:
            self.world.add_user(uid)

    async def step(self, name: str, number: int) -> None:
        """One step of a list; raises Found."""
        r = Random(number)
        if name in MUTATIONS or name == "found":
            self.do(name, r)
            return
        await getattr(self, name)(r)
        if self.ear.heard:
            raise Found("leak", f"the log says {self.ear.heard[0]}")

    # --- the app at work

    async def sweep(self, _: Random) -> None:
        with suppress(SemanticSearchError):
            await self.town.sweep()

    async def work(self, r: Random) -> None:
        """Some of what is due."""
        for _ in range(r.randint(1, 8)):
            item = await self.town.claim()
            if item is None:
                return
            await self.town.worker.attempt(item)

    async def settle(self, _: Random) -> None:
        self.forward(3.0)
        with suppress(SemanticSearchError):
            await self.town.sweep()
        for _ in range(60):
            item = await self.town.claim()
            if item is None:
                return
            self.forward(await self.town.worker.attempt(item))

    async def crash(self, r: Random) -> None:
        """The worker's process ends in the middle of a document; somebody asks before or after the next one starts."""
        if r.random() < 0.7:
            self.do("edit", r)
            self.forward(3.0)
            await self.sweep(r)
        healthy = {"registry": self.town.worker.registry, "vectors": self.town.worker.vectors}
        fuse = r.choice([Fuse(r.randint(1, 16)), _BeforeCleaning(-1)])
        self.town.staff(**{name: Mortal(part, fuse) for name, part in healthy.items()})
        with suppress(Death):
            await self.work(r)
        self.town.staff(**healthy)
        self.forward(r.choice([0, 0, 301]))
        await self.ask_together(r)

    async def haste(self, r: Random) -> None:
        """Two saves within a second, of as many bytes each; the app reads between them, and somebody asks."""
        user, path = r.choice(PEOPLE), f"/{next(self.words)}.md"
        with self.changing(), possible():
            path = r.choice([path, *(seen.path for seen in self._files(user))])
            self._save(r, user, path, long=False, timed=False)
        await self.sweep(r)
        for _ in range(10):
            await self.work(r)
        with self.changing(), possible():
            self._save_alike(user, path)
        if r.random() < 0.5:
            self.forward(3.0)
            self.world.fail(lambda request: (request.kind, request.method) == ("dav", "GET"), times=2)
        await self.ask_together(r)

    async def race_work(self, r: Random) -> None:
        """People do things while the app looks at them."""
        with self._meanwhile(r, lambda: None):
            if r.random() < 0.4:
                await self.sweep(r)
            await self.work(r)

    async def restart(self, _: Random) -> None:
        with suppress(SemanticSearchError):
            await self.town.restart()

    # --- trouble

    async def fault(self, r: Random) -> None:
        """The next answers of some kind fail; now and then all of them, until somebody heals it."""
        wanted = r.choice(_KINDS)
        how: list[Failure] = [500, 503, 401, 403, 404, 423, 429, "timeout", "reset", "truncate", "garbage"]
        if wanted[0] == "ocs":
            how.remove(401)  # an app that is told twice that nobody knows it falls silent for long

        def is_wanted(request: Request) -> bool:
            return (request.kind, request.method) == wanted

        self.world.fail(is_wanted, status=r.choice(how), times=r.choice([1, 1, 1, 2, 3, 3, 3, None]))

    async def heal(self, _: Random) -> None:
        self.world.heal()

    async def forget(self, _: Random) -> None:
        """What is open to people has to be asked anew."""
        await self.town.registry.bump_epoch()

    # --- asking

    async def ask(self, r: Random) -> None:
        for user in r.sample(PEOPLE, r.choice([1, 2, 5])):
            await self._ask(r, user, [self.judge.now(user)], calm=self._calm)

    async def ask_together(self, r: Random) -> None:
        """Several people ask the same at once, so that they meet in whatever the app shares."""
        question, calm = self._question(r), self._calm
        asking = [(user, [self.judge.now(user)]) for user in PEOPLE]
        await _all(*(self._ask(r, user, moments, calm=calm, question=question) for user, moments in asking))

    async def ask_racing(self, r: Random) -> None:
        """Somebody does something while others are being answered."""
        self.tally.racing += 1
        people = r.sample(PEOPLE, r.choice([1, 2, 3]))
        moments: dict[str, list[Moment]] = {user: [self.judge.now(user)] for user in people}
        existed: set[str] = set()

        def remember() -> None:
            existed.update(self.world.all_documents())
            for user in people:
                moments[user].append(self.judge.kept(user))

        question = self._question(r)
        with self._meanwhile(r, remember):
            await _all(*(self._ask(r, user, moments[user], calm=False, question=question) for user in people))

    async def ask_working(self, r: Random) -> None:
        """The index changes while people are being answered."""
        people = r.sample(PEOPLE, 2)
        asking = [self._ask(r, user, [self.judge.now(user)], calm=False) for user in people]
        await _all(self.work(r), *asking)

    @property
    def _calm(self) -> bool:
        return not self.world._faults

    @contextmanager
    def _meanwhile(self, r: Random, remember: Callable[[], None]) -> Iterator[None]:
        """While the block lasts, some things happen, each before some request to Nextcloud."""
        names = weighted({name: weight for name, weight in MUTATIONS.items() if name != "clock"})
        plan = {r.randint(1, 9): (r.choice(names), r.randrange(2**16)) for _ in range(r.randint(1, 3))}
        count = 0

        def before() -> None:
            nonlocal count
            count += 1
            if count in plan:
                name, number = plan[count]
                remember()
                self.do(name, Random(number))

        self.wire.before = before
        try:
            yield
        finally:
            self.wire.before = lambda: None

    def _question(self, r: Random) -> str:
        """Mostly words that stand everywhere, else the very words of some document, whoever may read it."""
        written = list(self.judge.texts)
        if written and r.random() < 0.25:
            return " ".join(r.sample(written, min(len(written), r.choice([1, 1, 3, 20]))))
        return r.choice([COMMON, COMMON, COMMON, f"{COMMON} budget hotel", f"{COMMON} salary", r.choice(_NONSENSE)])

    async def _ask(
        self, r: Random, user: str, moments: list[Moment], *, calm: bool, question: str = "", limit: int = 0
    ) -> list[str]:
        """One search through one of the doors, held against the judge; returns the shown documents."""
        question = question or self._question(r)
        limit = limit or r.choice([100, 100, 100, 25, 5])
        enabled = self.world.people[user].enabled
        relayed = enabled and r.random() < 0.5
        narrow = {"kind": r.choice(["file", "note", "deck_card"])} if r.random() < 0.05 else {}
        through_mcp = r.random() < 0.15 and len(question) < 9_000
        ask = by_mcp if through_mcp else by_json
        answer, hits, degraded = await ask(self.town, user, question, limit, narrow, relayed=relayed)
        quoted = self.judge.check(user, answer, hits, moments)
        if degraded and calm:
            raise Found("degraded", f"{user} was told that Nextcloud did not answer, but it did")
        if self.world.people[user].enabled is enabled is False and hits:
            raise Found("leak", f"{user} is disabled")
        self.tally.searches += 1
        self.tally.checked += len(hits)
        self.tally.quoted += quoted
        self.tally.excused += self.judge.excuses
        self.judge.excuses = 0
        self.met |= {(user, hit["ref"]) for hit in hits}
        return [hit["ref"] for hit in hits]

    # --- in the end

    async def finish(self) -> None:
        """Once all is well again, everybody finds all that he may read, and the index holds nothing that is gone."""
        self.world.heal()
        with self.changing():
            for user in PEOPLE:
                self.world.enable(user)
            for number in self.blocked:
                self.world.unblock(number)
                self._rewrite_below(number)
        for _ in range(3):
            self.forward(4_000)
            await self.town.sweep()
            await self.town.work()
        if (pending := (await self.town.registry.progress()).pending) != 0:
            raise Found("lost", f"{pending} documents are never done")
        aside = {str(failure.key) for failure in await self.town.registry.failures()}
        self.tally.aside += len(aside)
        present = set(self.world.all_documents())
        held = {str(imprint.document) for imprint in [i async for i in self.town.vectors.digest()]}
        if gone := held - present:
            raise Found("ghost", f"the index holds {gone}")
        for user in PEOPLE:
            await self._finds_all(user, present - aside)
        self.tally.worlds += 1
        self.tally.pairs += len(self.met)

    async def _finds_all(self, user: str, present: set[str]) -> None:
        ought = {key for key in present if self._findable(user, key)}
        shown = await self._ask(Random(0), user, [self.judge.now(user)], calm=True, question=COMMON, limit=100)
        if missed := ought.difference(shown):
            raise Found("lost", f"{user} does not find {sorted(missed)}")
        for key in sorted(ought)[:3]:
            token = min(tokens(self.judge.present[key].letters))
            r = Random(1)
            shown = await self._ask(r, user, [self.judge.now(user)], calm=True, question=token, limit=100)
            if key not in shown:
                raise Found("lost", f"{user} does not find {key} by its own words")
        self.tally.recalled += len(ought)

    def _findable(self, user: str, key: str) -> bool:
        """May he read it, and is it within what docs/limits.md says can be found?"""
        if not self.world.readable(user, key) or COMMON not in self.judge.present[key].letters:
            return False
        number = int(key.partition(":")[2])
        if key.startswith("deck_card:"):
            card = self.world.cards[number]
            return not card.archived and not self.world.boards[self.world.stacks[card.stack].board].archived
        node = self.world.nodes[number]
        if node.mime == "image/png" or node.data.startswith(PICTURE):
            return False
        sightings = self.world.sightings(user, number)
        return any(not seen.is_mount_root or seen.path.count("/") == 1 for seen in sightings)

    def _rewrite_below(self, number: int) -> None:
        """A rule that was lifted changes no ETag: the content is looked at when it changes."""
        node = self.world.nodes[number]
        owner = node.owner
        for below in [node, *node.below()] if owner else []:
            if not below.is_folder:
                paths = [seen.path for seen in self.world.sightings(str(owner), below.id) if not seen.mount]
                self.world.touch(str(owner), paths[0], self.world.clock() - 100)


async def _all(*doings: Any) -> None:
    """Like gather, but nobody is left running when one fails."""
    for done in await asyncio.gather(*doings, return_exceptions=True):
        if isinstance(done, BaseException):
            raise done


@asynccontextmanager
async def _hunted_town(address: Address, extractor: Extractor, ttl: float) -> AsyncIterator[tuple[Town, Wire]]:
    stage = Stage()
    stage.url = "http://nextcloud"
    wire = Wire(stage)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hunt-", dir=quick_folder())))
        stack.enter_context(patch.object(house, "Embedder", Hashing))
        stack.enter_context(patch.object(house, "Nextcloud", partial(Nextcloud, transport=wire)))
        clock: list[Callable[[], float]] = []
        hours = SimpleNamespace(monotonic=lambda: clock[0]() if clock else 0.0)
        stack.enter_context(patch.object(reach, "time", hours))
        stack.enter_context(patch.object(reach, "_ILL_S", 0.0))  # who was healed is asked at once
        stack.enter_context(patch.object(file, "time", hours))
        made = living_town(
            folder,
            stage=stage,
            address=address,
            embed_socket=folder / "nobody",
            extractor=extractor,
            reach_ttl_s=ttl,
            proxied_searches=50,
        )
        async with made as town:
            clock.append(town.clock)
            yield town, wire


async def play(steps: Sequence[Step], tally: Tally, *, address: Address, extractor: Extractor, ttl: float) -> None:
    """Play a list of steps in a world of its own, look at how it ends, and count; raises Found."""
    ear = Ear()
    root = logging.getLogger()
    before = root.level
    root.addHandler(ear)
    root.setLevel(logging.INFO)
    try:
        async with _hunted_town(address, extractor, ttl) as (town, wire):
            hunted = Play(town, wire, tally, ear)
            for name, number in steps:
                await hunted.step(name, number)
            await hunted.finish()
    finally:
        root.removeHandler(ear)
        root.setLevel(before)

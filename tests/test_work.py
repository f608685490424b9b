# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The work table: nothing accepted is lost, nothing is done twice, nobody waits behind somebody else's heap."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from multiprocessing.queues import Queue
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies
from registries import DATABASES, Clock, file, fresh, seen

from ex_app.domain import DocumentKey, Lane, Reason, Version, Work
from ex_app.settings import Settings
from ex_app.store.registry import Due, Registry, open_registry
from ex_app.store.work import BACKOFF_MAX_S, BACKOFF_S, backoff

LEASE_S = 60.0


@pytest.fixture(params=DATABASES)
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    with fresh(request.param, tmp_path) as own:
        yield own


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def registry(installation: Settings, clock: Clock) -> AsyncIterator[Registry]:
    opened = await open_registry(installation, clock=clock)
    yield opened
    await opened.close()


async def only(registry: Registry) -> Work:
    """Claim the one document that is due."""
    (item,) = await registry.claim(10, LEASE_S)
    return item


async def publish(registry: Registry, item: Work, *, version: str = "etag-1", content_hash: str = "hash") -> bool:
    return await registry.publish(
        item,
        seen(item.key, version=version),
        content_hash=content_hash,
        chunks=1,
        settled=True,
        truncated=False,
    )


class TestChangesOfOneDocument:
    async def test_are_one_piece_of_work_for_its_newest_reader(self, registry: Registry) -> None:
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        await registry.enqueue(file(1), Lane.CONTENT, "bob")

        item = await only(registry)

        assert (item.key, item.reader, item.attempts) == (file(1), "bob", 1)

    async def test_are_one_piece_of_work_within_a_batch_too(self, registry: Registry) -> None:
        await registry.enqueue_many(
            [
                Due(file(1), Lane.BACKFILL, "alice"),
                Due(file(1), Lane.ACCESS, "bob"),
                Due(file(1), Lane.CONTENT, "carol"),
            ]
        )

        item = await only(registry)

        assert (item.lane, item.reader) == (Lane.ACCESS, "carol")
        assert item.reads, "a move and an edit"

    async def test_take_the_most_urgent_lane_whatever_their_order(self, registry: Registry) -> None:
        await registry.enqueue(file(1), Lane.BACKFILL, "alice")
        await registry.enqueue(file(1), Lane.REFRESH, "alice")
        await registry.enqueue(file(1), Lane.CONTENT, "alice")

        assert (await only(registry)).lane is Lane.REFRESH

    async def test_are_due_at_the_earliest_moment_asked_for(self, registry: Registry, clock: Clock) -> None:
        await registry.enqueue(file(1), Lane.CONTENT, "alice", not_before=clock() + 100)
        await registry.enqueue(file(1), Lane.CONTENT, "alice", not_before=clock() + 5)
        assert await registry.claim(1, LEASE_S) == []

        clock.forward(5)

        assert len(await registry.claim(1, LEASE_S)) == 1

    async def test_are_not_put_off_for_years_by_a_clock_that_was_wrong(self, registry: Registry, clock: Clock) -> None:
        clock.forward(3 * 365 * 24 * 3600)
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        clock.forward(-3 * 365 * 24 * 3600)

        assert (await only(registry)).key == file(1)

    async def test_that_arrive_while_it_is_in_work_are_done_afterwards(self, registry: Registry) -> None:
        await registry.enqueue(file(1), Lane.ACCESS, "alice")
        first = await only(registry)
        await registry.enqueue(file(1), Lane.BACKFILL, "bob")
        await registry.enqueue(file(1), Lane.CONTENT, "bob")
        assert await registry.claim(1, LEASE_S) == [], "one worker at a time"

        assert await registry.finish(first)
        second = await only(registry)

        assert (second.lane, second.reader, second.attempts) == (Lane.CONTENT, "bob", 1)
        assert second.generation > first.generation
        assert await registry.finish(second)
        assert (await registry.progress()).pending == 0

    async def test_come_before_a_look_that_was_asked_for_later(self, registry: Registry, clock: Clock) -> None:
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        item = await only(registry)
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        await registry.enqueue(file(1), Lane.CONTENT, "alice", not_before=clock() + 2)

        await registry.finish(item)

        assert (await only(registry)).key == file(1)

    async def test_wished_for_by_a_reader_while_it_is_in_work_are_done_afterwards(self, registry: Registry) -> None:
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        item = await only(registry)
        await registry.enqueue(file(1), Lane.REFRESH, "bob")

        await registry.finish(item)

        assert (await only(registry)).lane is Lane.REFRESH

    async def test_may_ask_for_another_look_a_moment_later(self, registry: Registry, clock: Clock) -> None:
        """An unsettled version is read again two seconds later: the worker itself asks, before it finishes."""
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        item = await only(registry)
        await registry.enqueue(file(1), Lane.CONTENT, "alice", not_before=clock() + 2)
        await registry.finish(item)
        assert await registry.claim(1, LEASE_S) == []

        clock.forward(2)

        assert (await only(registry)).key == file(1)

    @pytest.mark.parametrize("end", ["retry", "quarantine"])
    async def test_make_a_failure_in_the_meantime_old_news(self, registry: Registry, end: str) -> None:
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        item = await only(registry)
        await registry.enqueue(file(1), Lane.CONTENT, "alice")

        if end == "retry":
            assert await registry.retry(item, "Nextcloud answered 500", delay=1_000)
        else:
            assert await registry.quarantine(item, Reason.CORRUPT, "no end-of-file mark")

        assert (await only(registry)).attempts == 1


class TestOrder:
    async def test_lanes_are_served_by_urgency(self, registry: Registry) -> None:
        for number, lane in enumerate([Lane.BACKFILL, Lane.CONTENT, Lane.ACCESS, Lane.REFRESH]):
            await registry.enqueue(file(number), lane, "alice")

        claimed = [item.lane for item in await registry.claim(10, LEASE_S)]

        assert claimed == [Lane.ACCESS, Lane.REFRESH, Lane.CONTENT, Lane.BACKFILL]

    async def test_one_readers_heap_does_not_delay_anothers_edit(self, registry: Registry) -> None:
        await registry.enqueue_many(Due(file(n), Lane.CONTENT, "alice") for n in range(1_000))
        await registry.claim(16, LEASE_S)
        await registry.enqueue(file(5_000), Lane.CONTENT, "bob")

        claimed = await registry.claim(2, LEASE_S)

        assert file(5_000) in [item.key for item in claimed]

    async def test_two_heaps_advance_alike_although_one_came_later(self, registry: Registry) -> None:
        await registry.enqueue_many(Due(file(n), Lane.BACKFILL, "alice") for n in range(200))
        for item in await registry.claim(100, LEASE_S):
            await registry.finish(item)
        await registry.enqueue_many(Due(file(1_000 + n), Lane.BACKFILL, "bob") for n in range(200))

        readers = [item.reader for item in await registry.claim(40, LEASE_S)]

        assert abs(readers.count("alice") - readers.count("bob")) <= 2

    @pytest.mark.parametrize("end", ["finish", "release"])
    async def test_what_changed_while_in_work_stands_in_the_line_of_its_new_lane(
        self, registry: Registry, end: str
    ) -> None:
        """Given a heap of which the last document is in work, and wishes for it, the most urgent in between, then it
        comes after what its reader asked for before, and before what he asks for later."""
        await registry.enqueue_many(Due(file(n), Lane.BACKFILL, "alice") for n in range(50))
        *done, item = await registry.claim(50, LEASE_S)
        for other in done:
            await registry.finish(other)
        await registry.enqueue(file(100), Lane.CONTENT, "alice")
        await registry.enqueue(item.key, Lane.BACKFILL, "alice")
        await registry.enqueue(item.key, Lane.CONTENT, "alice")
        await registry.enqueue(item.key, Lane.BACKFILL, "alice")

        await (registry.finish(item) if end == "finish" else registry.release([item.token]))
        await registry.enqueue(file(101), Lane.CONTENT, "alice")

        order = [(await registry.claim(1, LEASE_S))[0].key for _ in range(3)]
        assert order == [file(100), item.key, file(101)]

    async def test_another_look_at_what_was_urgent_waits_behind_its_readers_heap(self, registry: Registry) -> None:
        await registry.enqueue(file(100), Lane.CONTENT, "alice")
        item = await only(registry)
        await registry.enqueue_many(Due(file(n), Lane.BACKFILL, "alice") for n in range(5))
        await registry.enqueue(item.key, Lane.BACKFILL, "alice")
        await registry.finish(item)

        claimed = [item.key for item in await registry.claim(10, LEASE_S)]

        assert claimed == [*(file(n) for n in range(5)), item.key]

    async def test_what_is_not_due_yet_holds_nobody_up(self, registry: Registry, clock: Clock) -> None:
        await registry.enqueue(file(1), Lane.ACCESS, "alice", not_before=clock() + 60)
        await registry.enqueue(file(2), Lane.BACKFILL, "alice")

        assert [item.key for item in await registry.claim(10, LEASE_S)] == [file(2)]


class TestLease:
    async def test_keeps_others_away_until_it_ends(self, registry: Registry, clock: Clock) -> None:
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        first = await only(registry)
        clock.forward(LEASE_S - 1)
        assert await registry.claim(1, LEASE_S) == []

        clock.forward(1)
        second = await only(registry)

        assert second.token != first.token
        assert second.generation > first.generation
        assert second.attempts == 2

    async def test_lasts_as_long_as_its_holder_lives(self, registry: Registry, clock: Clock) -> None:
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        item = await only(registry)
        for _ in range(5):
            clock.forward(LEASE_S - 1)
            assert await registry.heartbeat(item.token, LEASE_S)
            assert await registry.claim(1, LEASE_S) == []

    async def test_lost_leaves_the_late_worker_without_a_say(self, registry: Registry, clock: Clock) -> None:
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        late = await only(registry)
        clock.forward(LEASE_S)
        current = await only(registry)

        assert not await registry.heartbeat(late.token, LEASE_S)
        assert not await publish(registry, late)
        assert not await registry.confirm(late, seen(file(1)), settled=True)
        assert not await registry.place(seen(file(1)), item=late)
        assert not await registry.hide(file(1), item=late)
        assert not await registry.retry(late, "too late")
        assert not await registry.quarantine(late, Reason.FAILED, "too late")
        assert not await registry.finish(late)
        await registry.release([late.token])

        assert await registry.heartbeat(current.token, LEASE_S)
        assert await publish(registry, current)
        assert await registry.finish(current)

    async def test_covers_a_change_that_came_before_it_was_lost(self, registry: Registry, clock: Clock) -> None:
        """Whoever claims next reads the present, which includes the change: it is not done a third time."""
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        await only(registry)
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        clock.forward(LEASE_S)

        again = await only(registry)

        assert again.attempts == 1, "the change is news"
        await registry.finish(again)
        assert (await registry.progress()).pending == 0

    async def test_given_back_at_shutdown_costs_no_try(self, registry: Registry) -> None:
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        item = await only(registry)

        await registry.release([item.token])

        assert (await only(registry)).attempts == 1

    async def test_given_back_while_nextcloud_is_away_waits(self, registry: Registry, clock: Clock) -> None:
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        item = await only(registry)
        await registry.enqueue(file(1), Lane.ACCESS, "alice")

        await registry.release([item.token], delay=30)

        assert await registry.claim(1, LEASE_S) == []
        clock.forward(30)
        again = await only(registry)
        assert (again.attempts, again.lane) == (1, Lane.ACCESS)
        assert again.reads, "an edit and a move"

    async def test_taken_for_a_worker_that_is_stopped_meanwhile_is_given_back(self, installation: Settings) -> None:
        registry = await open_registry(installation)
        await registry.enqueue_many(Due(file(n), Lane.CONTENT, "alice") for n in range(20))
        for patience in range(20):
            with suppress(TimeoutError):
                claimed = await asyncio.wait_for(registry.claim(20, LEASE_S), patience / 2_000)
                await registry.release(item.token for item in claimed)

        claimed = await registry.claim(20, LEASE_S)

        assert [item.attempts for item in claimed] == [1] * 20
        await registry.close()


class TestFailure:
    async def test_is_tried_again_after_its_delay(self, registry: Registry, clock: Clock) -> None:
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        assert await registry.retry(await only(registry), "Nextcloud answered 500", delay=10)
        assert await registry.claim(1, LEASE_S) == []
        assert (await registry.progress()).last_error == "Nextcloud answered 500"

        clock.forward(10)

        assert (await only(registry)).attempts == 2

    async def test_waits_longer_each_time_and_never_in_step(self, registry: Registry, clock: Clock) -> None:
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        await registry.retry(await only(registry), "Nextcloud answered 500")
        assert await registry.claim(1, LEASE_S) == []
        clock.forward(BACKOFF_S)
        assert len(await registry.claim(1, LEASE_S)) == 1

        for attempts in range(1, 8):
            waits = {backoff(attempts) for _ in range(20)}
            assert len(waits) > 1
            assert max(waits) <= BACKOFF_S * 2 ** (attempts - 1)
            assert min(waits) >= BACKOFF_S * 2 ** (attempts - 1) / 2
        assert backoff(500) <= BACKOFF_MAX_S

    async def test_is_forgotten_by_a_change_but_not_by_a_reader_who_asks(
        self, registry: Registry, clock: Clock
    ) -> None:
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        await registry.retry(await only(registry), "Nextcloud answered 500", delay=100)

        await registry.enqueue(file(1), Lane.REFRESH, "bob")
        assert await registry.claim(1, LEASE_S) == []
        await registry.enqueue(file(1), Lane.CONTENT, "alice")

        assert (await only(registry)).attempts == 1

    async def test_for_good_is_kept_with_its_reason(self, registry: Registry, clock: Clock) -> None:
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        item = await only(registry)

        assert await registry.quarantine(item, Reason.CORRUPT, "no end-of-file mark", version=Version("etag-7"))

        clock.forward(10 * BACKOFF_MAX_S)
        assert await registry.claim(1, LEASE_S) == []
        (failure,) = await registry.failures()
        assert (failure.key, failure.reason, failure.detail) == (file(1), Reason.CORRUPT, "no end-of-file mark")
        row = await registry.document(file(1))
        assert row is not None
        assert (row.reason, row.failed_version) == (Reason.CORRUPT, "etag-7")
        progress = await registry.progress()
        assert (progress.failed, progress.pending, progress.reasons) == (1, 0, {"corrupt": 1})

    async def test_for_good_ends_with_a_change_but_not_with_a_reader_who_asks(self, registry: Registry) -> None:
        """Every search that finds its old text asks for a refresh: that must not re-read a broken file all day."""
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        await registry.quarantine(await only(registry), Reason.CORRUPT, version=Version("etag-7"))

        await registry.enqueue(file(1), Lane.REFRESH, "bob")
        assert await registry.claim(1, LEASE_S) == []
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        item = await only(registry)

        assert item.attempts == 1
        assert await publish(registry, item, version="etag-8")
        row = await registry.document(file(1))
        assert row is not None
        assert (row.reason, row.failed_version) == (None, "")
        assert (await registry.progress()).failed == 0

    async def test_is_not_excused_by_readers_who_asked_meanwhile(self, registry: Registry, clock: Clock) -> None:
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        item = await only(registry)
        await registry.enqueue(file(1), Lane.REFRESH, "bob")
        await registry.retry(item, "Nextcloud answered 500", delay=10)
        assert await registry.claim(1, LEASE_S) == []
        clock.forward(10)
        item = await only(registry)
        assert item.attempts == 2

        await registry.enqueue(file(1), Lane.REFRESH, "bob")
        await registry.quarantine(item, Reason.CORRUPT)

        assert await registry.claim(1, LEASE_S) == []

    async def test_for_want_of_a_reader_ends_when_a_reader_asks(self, registry: Registry) -> None:
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        await registry.quarantine(await only(registry), Reason.NO_READER)

        await registry.enqueue(file(1), Lane.REFRESH, "bob")

        assert (await only(registry)).reader == "bob"

    async def test_each_time_ends_in_quarantine(self, registry: Registry, clock: Clock, installation: Settings) -> None:
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        for _ in range(installation.max_attempts):
            assert await registry.failures() == []
            await registry.retry(await only(registry), "Nextcloud answered 403", reason=Reason.NO_READER)
            clock.forward(BACKOFF_MAX_S)

        assert await registry.claim(1, LEASE_S) == []
        (failure,) = await registry.failures()
        assert (failure.reason, failure.detail) == (Reason.NO_READER, "Nextcloud answered 403")

    async def test_that_takes_the_worker_down_each_time_ends(
        self, registry: Registry, clock: Clock, installation: Settings
    ) -> None:
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        await registry.enqueue(file(2), Lane.BACKFILL, "alice", not_before=clock() + 10 * LEASE_S)
        for _ in range(installation.max_attempts):
            assert (await only(registry)).key == file(1)
            clock.forward(LEASE_S)

        assert await registry.claim(10, LEASE_S) == []
        (failure,) = await registry.failures()
        assert (failure.key, failure.reason, failure.attempts) == (file(1), Reason.FAILED, installation.max_attempts)


# --- Several processes


def _drain(installation: Settings, worker: str, done: Queue[tuple[str, DocumentKey, int]]) -> None:
    """A worker process: claim, publish and finish until nothing is due."""

    async def run() -> None:
        registry = await open_registry(installation)
        while claimed := await registry.claim(7, LEASE_S):
            for item in claimed:
                assert await publish(registry, item)
                assert await registry.finish(item)
                done.put((worker, item.key, item.generation))
        await registry.close()

    asyncio.run(run())


def _claim_and_hang(installation: Settings, claimed: Queue[Work], lease_s: float) -> None:
    """A worker process that gets stuck with a document."""

    async def run() -> None:
        registry = await open_registry(installation)
        (item,) = await registry.claim(1, lease_s)
        claimed.put(item)
        await asyncio.Event().wait()

    asyncio.run(run())


async def _enqueue_for_ever(registry: Registry) -> None:
    while True:
        await registry.enqueue(file(1), Lane.CONTENT, "bob")


class TestProcesses:
    async def test_that_claim_at_once_never_get_the_same_document(self, installation: Settings) -> None:
        registry = await open_registry(installation)
        await registry.enqueue_many(Due(file(n), Lane.CONTENT, f"user{n % 3}") for n in range(300))
        spawn = multiprocessing.get_context("spawn")
        done: Queue[tuple[str, DocumentKey, int]] = spawn.Queue()
        workers = [spawn.Process(target=_drain, args=(installation, f"worker{n}", done)) for n in range(3)]
        for worker in workers:
            worker.start()

        reports = [await asyncio.to_thread(done.get, timeout=60) for _ in range(300)]
        for worker in workers:
            await asyncio.to_thread(worker.join, 60)

        assert [worker.exitcode for worker in workers] == [0, 0, 0]
        assert done.empty()
        assert len({key for _, key, _ in reports}) == 300
        progress = await registry.progress()
        assert (progress.indexed, progress.pending) == (300, 0)
        live = await registry.live(key for _, key, _ in reports)
        assert all(live[key].generation == generation for _, key, generation in reports)
        await registry.close()

    async def test_killed_with_a_document_in_hand_leave_it_to_the_next(self, installation: Settings) -> None:
        registry = await open_registry(installation)
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        spawn = multiprocessing.get_context("spawn")
        claimed: Queue[Work] = spawn.Queue()
        worker = spawn.Process(target=_claim_and_hang, args=(installation, claimed, 0.5))
        worker.start()
        lost = await asyncio.to_thread(claimed.get, timeout=60)

        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        await asyncio.to_thread(worker.join, 30)

        deadline = time.monotonic() + 20
        while not (again := await registry.claim(1, LEASE_S)):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        assert again[0].key == lost.key
        assert again[0].generation > lost.generation
        assert not await publish(registry, lost)
        assert await publish(registry, again[0])
        assert await registry.finish(again[0])
        await registry.close()

    async def test_abandoned_half_way_through_a_call_leave_no_lock_behind(
        self, installation: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A request that times out cancels whatever it awaits, at any point."""
        monkeypatch.setattr("ex_app.store.database.BUSY_TIMEOUT_S", 3.0)
        abandoned, other = await open_registry(installation), await open_registry(installation)
        for patience in range(40):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(_enqueue_for_ever(abandoned), patience / 10_000)
            await other.enqueue(file(patience), Lane.CONTENT, "alice")

        assert len(await abandoned.claim(100, LEASE_S)) == 40
        await abandoned.close()
        await other.close()


# --- Any order of events

EVENTS = strategies.lists(
    strategies.tuples(
        strategies.sampled_from(
            ["change", "change", "claim", "claim", "finish", "retry", "quarantine", "release", "crash", "refresh"]
        ),
        strategies.integers(0, 3),
    ),
    max_size=40,
)


@pytest.mark.parametrize("database", DATABASES)
@settings(max_examples=25, deadline=None)
@given(events=EVENTS)
def test_whatever_happens_a_change_is_read_after_it_came_or_quarantined_and_nothing_is_held_twice(
    tmp_path_factory: pytest.TempPathFactory, database: str, events: list[tuple[str, int]]
) -> None:
    with fresh(database, tmp_path_factory.mktemp("registry")) as installation:
        asyncio.run(_live_through(installation, events))


async def _live_through(installation: Settings, events: list[tuple[str, int]]) -> None:
    clock = Clock()
    registry = await open_registry(installation, clock=clock)
    unread: set[DocumentKey] = set()  # changed since somebody who then finished began to read
    held: dict[DocumentKey, Work] = {}
    for event, number in events:
        key = file(number)
        clock.forward(0.001)
        if event == "change":
            await registry.enqueue(key, Lane.CONTENT, f"user{number % 2}")
            unread.add(key)
        elif event == "refresh":
            await registry.enqueue(key, Lane.REFRESH, "reader")
        elif event == "claim":
            for item in await registry.claim(2, LEASE_S):
                assert item.key not in held, "held twice"
                held[item.key] = item
                unread.discard(item.key)
        elif event == "crash":
            clock.forward(LEASE_S)
            unread |= held.keys()
            held.clear()
        elif item := held.pop(key, None):
            if event == "finish":
                assert await registry.finish(item)
            elif event == "retry":
                assert await registry.retry(item, "failed", delay=1)
                unread.add(key)
            elif event == "quarantine":
                assert await registry.quarantine(item, Reason.FAILED, "failed")
            else:
                await registry.release([item.token])
                unread.add(key)
    clock.forward(LEASE_S)
    read = {item.key for item in await registry.claim(100, LEASE_S)}
    given_up = {failure.key for failure in await registry.failures()}
    await registry.close()
    assert unread <= read | given_up, "accepted and lost"
    assert not read & given_up

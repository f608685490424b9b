# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The registry: what counts as live, what is gone for good, and where and for whom it may be kept at all."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import multiprocessing
import shutil
import sqlite3
import stat
from collections.abc import AsyncIterator, Iterator
from multiprocessing.queues import Queue
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from registries import DATABASES, Clock, file, fresh, seen
from sqlalchemy import Connection, create_engine
from sqlalchemy.ext.asyncio import AsyncConnection

from ex_app.domain import Container, DocumentKey, Lane, NotAvailable, Reason, ScopeId, SemanticSearchError, Work
from ex_app.settings import Settings
from ex_app.store import database as database_module
from ex_app.store import work
from ex_app.store.database import FILE_NAME, file_system_of, open_database
from ex_app.store.registry import Due, Registry, Status, open_registry
from ex_app.store.tables import metadata

LEASE_S = 60.0
CARD = DocumentKey("deck_card", 7)


def is_open(descriptor: Path, file: Path) -> bool:
    """Whether a descriptor of ours is of this file."""
    with contextlib.suppress(FileNotFoundError):  # closed meanwhile
        return descriptor.readlink() == file
    return False


@pytest.fixture(params=DATABASES)
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    with fresh(request.param, tmp_path) as own:
        yield own


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Iterator[Settings]:
    with fresh("sqlite", tmp_path) as own:
        yield own


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def registry(installation: Settings, clock: Clock) -> AsyncIterator[Registry]:
    opened = await open_registry(installation, clock=clock)
    yield opened
    await opened.close()


async def begin(registry: Registry, key: DocumentKey, reader: str = "alice") -> Work:
    """Make a document due and claim it."""
    await registry.enqueue(key, Lane.ACCESS, reader)
    (item,) = await registry.claim(1, LEASE_S)
    return item


async def publish(
    registry: Registry, item: Work, *, version: str = "etag-1", reason: Reason | None = None, **place: str
) -> bool:
    return await registry.publish(
        item,
        seen(item.key, version=version, **place),
        content_hash=f"hash of {version}",
        chunks=0 if reason else 3,
        settled=True,
        truncated=False,
        reason=reason,
    )


async def index(registry: Registry, key: DocumentKey, **place: str) -> Work:
    """The whole way: due, claimed, published, finished."""
    item = await begin(registry, key)
    assert await publish(registry, item, **place)
    assert await registry.finish(item)
    return item


class TestPublishing:
    async def test_makes_a_generation_live(self, registry: Registry, clock: Clock) -> None:
        item = await begin(registry, file(1))
        before = (await registry.live([file(1)]))[file(1)]
        assert before.generation == 0

        assert await publish(registry, item)

        live = (await registry.live([file(1)]))[file(1)]
        assert (live.generation, live.version, live.status) == (item.generation, "etag-1", Status.CURRENT)
        assert (live.settled, live.content_hash, live.chunks) == (True, "hash of etag-1", 3)
        row = await registry.document(file(1))
        assert row is not None
        assert (row.title, row.path, row.parent) == ("Travel policy.md", "/Policies/Travel policy.md", "f:10")
        assert (row.scopes, row.owner, row.reader) == (("f:1", "f:10"), "alice", "alice")
        assert (row.indexed_at, row.seen_at) == (clock(), clock())

    async def test_by_a_late_writer_changes_nothing(self, registry: Registry, clock: Clock) -> None:
        late = await begin(registry, file(1))
        clock.forward(LEASE_S)
        (current,) = await registry.claim(1, LEASE_S)
        assert await publish(registry, current, version="etag-2")

        assert not await publish(registry, late, version="etag-1")

        live = (await registry.live([file(1)]))[file(1)]
        assert (live.generation, live.version) == (current.generation, "etag-2")

    async def test_by_a_late_writer_loses_even_when_the_other_has_not_published_yet(
        self, registry: Registry, clock: Clock
    ) -> None:
        late = await begin(registry, file(1))
        clock.forward(LEASE_S)
        await registry.claim(1, LEASE_S)

        assert not await publish(registry, late)
        assert (await registry.live([file(1)]))[file(1)].generation == 0

    async def test_waits_for_a_claim_that_is_under_way_and_loses(self, installation: Settings, clock: Clock) -> None:
        registry, other = await open_registry(installation, clock=clock), await open_database(installation)
        late = await begin(registry, file(1))
        clock.forward(LEASE_S)
        claimed, settled = asyncio.Event(), asyncio.Event()

        async def claim_slowly(connection: AsyncConnection) -> None:
            assert await work.claim(connection, now=clock(), limit=1, lease_s=LEASE_S, max_attempts=6)
            claimed.set()
            await settled.wait()

        claiming = asyncio.create_task(other.write(claim_slowly))
        await claimed.wait()
        publishing = asyncio.create_task(publish(registry, late))
        done, _ = await asyncio.wait([publishing], timeout=0.2)
        assert not done
        settled.set()
        await claiming

        assert not await publishing
        await registry.close()
        await other.close()

    async def test_after_finishing_is_too_late(self, registry: Registry) -> None:
        item = await begin(registry, file(1))
        await registry.finish(item)

        assert not await publish(registry, item)

    async def test_again_because_the_answer_was_lost_is_harmless(self, registry: Registry) -> None:
        item = await begin(registry, file(1))
        assert await publish(registry, item)

        assert await publish(registry, item)

        assert (await registry.live([file(1)]))[file(1)].generation == item.generation

    async def test_of_a_document_without_text_says_why(self, registry: Registry) -> None:
        item = await begin(registry, file(1))

        assert await publish(registry, item, reason=Reason.ENCRYPTED)

        row = await registry.document(file(1))
        assert row is not None
        assert (row.reason, row.chunks, row.live) == (Reason.ENCRYPTED, 0, item.generation)

    async def test_generations_only_grow_even_over_a_restored_backup(self, on_sqlite: Settings, clock: Clock) -> None:
        """Points carry the generations that were drawn after the backup: none of those may be drawn again."""
        registry = await open_registry(on_sqlite, clock=clock)
        await index(registry, file(1))
        await registry.close()
        backup = on_sqlite.data_dir / "backup.db"
        shutil.copy(on_sqlite.data_dir / FILE_NAME, backup)
        registry = await open_registry(on_sqlite, clock=clock)
        newest = max([(await index(registry, file(1))).generation for _ in range(5)])
        await registry.close()

        clock.forward(3_600)
        shutil.copy(backup, on_sqlite.data_dir / FILE_NAME)
        registry = await open_registry(on_sqlite, clock=clock)

        assert (await begin(registry, file(1))).generation > newest
        await registry.close()


class TestSeeingAgain:
    async def test_unchanged_content_under_a_new_version_keeps_its_generation(self, registry: Registry) -> None:
        first = await index(registry, file(1))
        item = await begin(registry, file(1), reader="bob")

        assert await registry.confirm(item, seen(file(1), version="etag-2", title="Renamed.md"), settled=False)

        row = await registry.document(file(1))
        assert row is not None
        assert (row.version, row.live, row.settled) == ("etag-2", first.generation, False)
        assert (row.title, row.reader, row.content_hash) == ("Renamed.md", "bob", "hash of etag-1")

    async def test_nothing_to_confirm_before_the_first_generation(self, registry: Registry) -> None:
        item = await begin(registry, file(1))

        assert not await registry.confirm(item, seen(file(1)), settled=True)

    async def test_a_move_changes_the_place_and_nothing_else(self, registry: Registry) -> None:
        first = await index(registry, file(1))
        moved = seen(file(1), version="etag-9", parent="f:20", title="Moved.md")

        assert await registry.place(moved)

        row = await registry.document(file(1))
        assert row is not None
        assert (row.parent, row.scopes, row.title) == ("f:20", ("f:1", "f:20"), "Moved.md")
        assert (row.version, row.live) == ("etag-1", first.generation), "its text is still that of the old version"
        assert not await registry.place(seen(file(404)))

    async def test_a_listing_tells_all_its_places_at_once(self, registry: Registry) -> None:
        for number in range(3):
            await index(registry, file(number))
        await registry.hide(file(2))

        await registry.place_many(seen(file(number), parent="f:20", title=f"{number}.md") for number in range(4))

        rows = await registry.by_parent("file", [ScopeId("f:20")])
        assert {row.key: row.title for row in rows} == {file(0): "0.md", file(1): "1.md"}
        assert await registry.document(file(3)) is None

    async def test_a_moved_folder_takes_its_documents_along(self, registry: Registry) -> None:
        for number in range(3):
            await index(registry, file(number), title=f"{number}.md")
        await index(registry, file(9), parent="f:99")
        await registry.erase(file(2))

        keys = await registry.rescope(
            "file", [Container(ScopeId("f:10"), "etag", "/Archive/2026", (ScopeId("f:1"), ScopeId("f:5")))]
        )

        assert keys == [file(0), file(1)]
        rows = {row.key: row for row in await registry.by_parent("file", [ScopeId("f:10"), ScopeId("f:99")])}
        assert rows[file(0)].scopes == ("f:1", "f:5", "f:10")
        assert rows[file(1)].path == "/Archive/2026/1.md"
        assert rows[file(9)].scopes == ("f:1", "f:99")
        assert rows[file(2)].path == ""


class TestFirstSight:
    async def test_makes_a_document_known_before_anything_of_it_is_indexed(self, registry: Registry) -> None:
        indexed = await index(registry, file(1))

        await registry.meet([seen(file(2), title="New.md", listed="2:64"), seen(file(1), title="Other.md")])

        row = await registry.document(file(2))
        assert row is not None
        assert (row.title, row.parent, row.owner, row.listed) == ("New.md", "f:10", "alice", "2:64")
        assert (row.live, row.version) == (0, ""), "its content is still unread"
        known = await registry.document(file(1))
        assert known is not None
        assert (known.title, known.live) == ("Travel policy.md", indexed.generation)
        assert (await registry.progress()).total == 2

    async def test_remembers_the_finer_version_of_the_last_listing(self, registry: Registry) -> None:
        item = await begin(registry, file(1))
        await registry.publish(
            item, seen(file(1), listed="1:64"), content_hash="h", chunks=1, settled=True, truncated=False
        )
        await registry.place(seen(file(1)))
        row = await registry.document(file(1))
        assert row is not None
        assert row.listed == "1:64", "a look that isn't a listing takes nothing away"

        await registry.place(seen(file(1), listed="2:64"))

        row = await registry.document(file(1))
        assert row is not None
        assert row.listed == "2:64"


class TestAnotherIndex:
    async def test_begins_empty_and_everything_is_to_be_indexed_again(self, registry: Registry) -> None:
        first = await index(registry, file(1))
        await registry.save_containers("file", "alice", [Container(ScopeId("f:10"), "etag", "/Policies")])
        await registry.set_pulse("file", "alice", "etag")
        assert await registry.adopt_index("model-a", points=0)
        again = await index(registry, file(1))
        assert not await registry.adopt_index("model-a", points=3)
        await registry.erase(file(2))
        (cleaning,) = await registry.claim(1, LEASE_S)
        await registry.finish(cleaning)

        assert await registry.adopt_index("model-b", points=0)

        row = await registry.document(file(1))
        assert row is not None
        assert (row.live, row.version, row.content_hash, row.title) == (0, "", "", "Travel policy.md")
        known = await registry.containers("file", "alice")
        assert [container.etag for container in known.values()] == [""], "to be listed again, or noticed as gone"
        assert await registry.pulse("file", "alice") is None
        assert (await registry.live([file(2)]))[file(2)].status is Status.ERASED
        assert first.generation < again.generation < (await begin(registry, file(1))).generation

    async def test_that_lost_its_points_is_noticed(self, registry: Registry) -> None:
        await registry.adopt_index("model-a", points=0)
        assert not await registry.adopt_index("model-a", points=0), "nothing was in it"
        await index(registry, file(1))

        assert await registry.adopt_index("model-a", points=0)

        assert (await registry.live([file(1)]))[file(1)].generation == 0


class TestHidden:
    async def test_documents_are_not_live_and_leave_no_words(self, registry: Registry) -> None:
        await index(registry, file(1))

        assert await registry.hide(file(1))

        row = await registry.document(file(1))
        assert row is not None
        assert (row.status, row.live, row.title, row.path) == (Status.HIDDEN, 0, "", "")
        assert (row.version, row.content_hash) == ("", "")
        assert row.parent == "f:10", "its walker must not take it for a new one"
        assert not await registry.hide(file(1))
        assert not await registry.place(seen(file(1)))

    async def test_documents_come_back_with_a_fresh_sighting(self, registry: Registry) -> None:
        first = await index(registry, file(1))
        await registry.hide(file(1))

        again = await index(registry, file(1))

        live = (await registry.live([file(1)]))[file(1)]
        assert (live.status, live.generation) == (Status.CURRENT, again.generation)
        assert again.generation > first.generation

    async def test_documents_are_forgotten_in_the_end_unless_work_is_due(
        self, registry: Registry, clock: Clock
    ) -> None:
        first = await index(registry, file(1))
        for number in (2, 3):
            await index(registry, file(number))
        for number in (1, 2):
            await registry.hide(file(number))
        await registry.enqueue(file(2), Lane.CONTENT, "alice")

        assert await registry.forget_hidden(before=clock()) == 0
        clock.forward(60)
        assert await registry.forget_hidden(before=clock()) == 1

        assert await registry.document(file(1)) is None
        assert await registry.document(file(2)) is not None
        assert await registry.document(file(3)) is not None
        assert (await begin(registry, file(1))).generation > first.generation


class TestErased:
    async def test_documents_are_gone_for_good(self, registry: Registry) -> None:
        await index(registry, file(1))
        in_work = await begin(registry, file(1))

        await registry.erase(file(1))

        assert not await publish(registry, in_work), "not even by who had begun before"
        await registry.finish(in_work)
        (cleaning,) = await registry.claim(10, LEASE_S)
        assert cleaning.key == file(1)
        row = await registry.document(file(1))
        assert row is not None
        assert (row.status, row.live, row.title, row.owner, row.reader) == (Status.ERASED, 0, "", "", "")
        assert not await publish(registry, cleaning)
        assert not await registry.hide(file(1))

    async def test_documents_need_not_have_been_known(self, registry: Registry) -> None:
        await registry.erase(file(1))

        assert not await publish(registry, await begin(registry, file(1)))

    async def test_documents_return_only_when_an_admin_lifts_it(self, registry: Registry) -> None:
        await registry.erase(file(1))

        assert await registry.lift(file(1))

        assert not await registry.lift(file(1))
        await index(registry, file(1))
        assert (await registry.live([file(1)]))[file(1)].status is Status.CURRENT

    @pytest.mark.parametrize("gone", ["erase", "hide"])
    async def test_words_are_in_no_file(self, on_sqlite: Settings, gone: str) -> None:
        """The proof of an erasure is a search of the data directory for its words."""
        registry = await open_registry(on_sqlite)
        for number in range(60):
            await index(registry, file(number), title=f"Warning letter Meyer-{number}-Schultheiss.docx")
            await index(registry, file(number), title=f"Second warning letter Meyer-{number}-Schultheiss.docx")
        for number in range(0, 60, 2):
            await (registry.erase(file(number)) if gone == "erase" else registry.hide(file(number)))
        assert await registry.scrub()

        found = words_in(on_sqlite.data_dir)

        assert not [number for number in range(0, 60, 2) if f"Meyer-{number}-Schultheiss".encode() in found]
        assert b"Meyer-1-Schultheiss" in found, "the search itself works"
        await registry.close()


def words_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


class TestAsking:
    async def test_for_many_at_once_gives_the_known_ones(self, registry: Registry) -> None:
        for key in (file(1), file(1_200), CARD):
            await index(registry, key)

        live = await registry.live([CARD, *(file(number) for number in range(1_500))])

        assert live.keys() == {file(1), file(1_200), CARD}
        assert await registry.live([]) == {}

    async def test_by_folder_gives_hidden_and_erased_ones_too(self, registry: Registry) -> None:
        """Its walker tells new ones from those it must leave alone."""
        for number, parent in [(1, "f:10"), (2, "f:10"), (3, "f:11"), (4, "f:12")]:
            await index(registry, file(number), parent=parent)
        await registry.hide(file(1))
        await registry.erase(file(2))

        rows = await registry.by_parent("file", [ScopeId("f:10"), ScopeId("f:11")])

        assert {row.key: row.status for row in rows} == {
            file(1): Status.HIDDEN,
            file(2): Status.ERASED,
            file(3): Status.CURRENT,
        }
        assert await registry.by_parent("deck_card", [ScopeId("f:10")]) == []

    async def test_how_far_indexing_is(self, registry: Registry) -> None:
        await index(registry, file(1))
        await index(registry, file(2), owner="bob")
        await publish(registry, item := await begin(registry, file(3)), reason=Reason.NO_TEXT)
        await registry.finish(item)
        await registry.quarantine(await begin(registry, file(4)), Reason.CORRUPT, "no end-of-file mark")
        await index(registry, file(5))
        await registry.hide(file(5))
        await registry.enqueue(file(6), Lane.BACKFILL, "alice")
        await registry.enqueue(file(1), Lane.CONTENT, "alice")

        progress = await registry.progress()

        assert (progress.total, progress.indexed, progress.pending, progress.failed) == (5, 2, 2, 2)
        assert progress.reasons == {"no_text": 1, "corrupt": 1}
        assert progress.last_error == "no end-of-file mark"
        bobs = await registry.progress_for("bob")
        assert (bobs.total, bobs.indexed, bobs.pending, bobs.last_error) == (1, 1, 0, "")


class TestWalkers:
    async def test_remember_containers_each_for_itself(self, registry: Registry) -> None:
        team = Container(ScopeId("f:10"), "etag-1", "/Team", (ScopeId("f:1"),))
        home = Container(ScopeId("f:1"), "etag-2", "/")
        await registry.save_containers("file", "alice", [team, home])
        await registry.save_containers("file", "bob", [team])
        newer = Container(ScopeId("f:10"), "etag-3", "/Renamed", (ScopeId("f:1"), ScopeId("f:2")))

        await registry.save_containers("file", "alice", [newer])
        await registry.drop_containers("file", "alice", [ScopeId("f:1"), ScopeId("f:404")])

        assert await registry.containers("file", "alice") == {"f:10": newer}
        assert await registry.containers("file", "bob") == {"f:10": team}
        assert await registry.containers("deck_card", "alice") == {}

    async def test_share_what_several_of_them_see(self, registry: Registry) -> None:
        await registry.save_containers("file", "alice", [Container(ScopeId("f:10"), "etag", "/Team")])
        await registry.save_containers("file", "bob", [Container(ScopeId("f:11"), "etag", "/Other")])

        assert await registry.taken("file", "bob") == {"f:10"}
        assert await registry.taken("deck_card", "bob") == frozenset()

    async def test_look_closely_again_when_told_to(self, registry: Registry) -> None:
        for source, user in [("file", "alice"), ("file", "bob"), ("deck_card", "alice")]:
            await registry.set_pulse(source, user, "etag")

        await registry.forget_pulses("file")

        assert await registry.pulse("file", "alice") is None
        assert await registry.pulse("file", "bob") is None
        assert await registry.pulse("deck_card", "alice") is not None

    async def test_remember_when_they_walked_and_what_it_looked_like(self, registry: Registry, clock: Clock) -> None:
        assert await registry.pulse("file", "alice") is None
        await registry.set_pulse("file", "alice", "etag-1")
        clock.forward(10)
        await registry.set_pulse("file", "alice", "etag-2")

        pulse = await registry.pulse("file", "alice")

        assert pulse is not None
        assert (pulse.value, pulse.walked_at) == ("etag-2", clock())
        assert await registry.pulse("file", "bob") is None


class TestAgreement:
    async def test_on_settings_and_epochs_between_processes(self, installation: Settings) -> None:
        web, worker = await open_registry(installation), await open_registry(installation)
        assert await web.get_setting("enabled") is None
        assert await web.epoch() == 0

        await web.set_setting("enabled", "1")
        await web.set_setting("enabled", "0")
        bumped = await asyncio.gather(*(one.bump_epoch() for one in (web, worker) * 5))

        assert await worker.get_setting("enabled") == "0"
        assert sorted(bumped) == list(range(1, 11))
        assert await web.epoch() == 10
        await web.close()
        await worker.close()

    async def test_on_whose_registry_it_is(self, installation: Settings) -> None:
        first = await open_registry(installation)
        assert await first.instance() is None
        await first.bind("oc1abcdef")
        await first.bind("oc1abcdef")
        await first.close()
        second = await open_registry(installation)

        with pytest.raises(SemanticSearchError, match=r"belongs to the Nextcloud instance 'oc1abcdef'.*of its own"):
            await second.bind("oc2another")

        await second.bind("oc1abcdef")
        assert await second.instance() == "oc1abcdef"
        await second.close()


class TestPlace:
    async def test_is_readable_by_us_alone(self, on_sqlite: Settings) -> None:
        registry = await open_registry(on_sqlite)
        await registry.bind("oc1abcdef")

        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in on_sqlite.data_dir.glob("registry*")}

        assert modes.keys() >= {FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"}
        assert set(modes.values()) == {0o600}
        await registry.close()

    @pytest.mark.parametrize("kind", ["nfs4", "cifs"])
    async def test_on_a_network_is_refused(
        self, on_sqlite: Settings, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        monkeypatch.setattr(database_module, "file_system_of", lambda path, mounts: kind)

        with pytest.raises(SemanticSearchError, match=rf"network file system \({kind}\).*local disk.*DATABASE_URL"):
            await open_registry(on_sqlite)

        assert not (on_sqlite.data_dir / FILE_NAME).exists()

    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("/", "ext4"),
            ("/srv/data", "ext4"),
            ("/srv/nextcloud", "nfs4"),
            ("/srv/nextcloud/semantic/search", "nfs4"),
            ("/srv/nextcloud2", "ext4"),
            ("/srv/nextcloud/local/registry", "xfs"),
            ("/mnt/My Share/data", "cifs"),
        ],
    )
    def test_lies_on_the_innermost_mount(self, path: str, kind: str) -> None:
        mounts = (
            "/dev/sda1 / ext4 rw 0 0\n"
            "nas:/export /srv/nextcloud nfs4 rw 0 0\n"
            "/dev/sdb1 /srv/nextcloud/local xfs rw 0 0\n"
            "//nas/share /mnt/My\\040Share cifs rw 0 0\n"
        )

        assert file_system_of(Path(path), mounts) == kind

    async def test_is_written_in_turns_by_all_processes(
        self, on_sqlite: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Given another process that writes, then ours waits for its turn, gives up some time, and goes on after it."""
        registry = await open_registry(on_sqlite)
        with (on_sqlite.data_dir / "registry.turn").open("w") as another:
            fcntl.flock(another, fcntl.LOCK_EX)
            waiting = asyncio.create_task(registry.enqueue(file(1), Lane.CONTENT, "alice"))
            done, _ = await asyncio.wait({waiting}, timeout=0.05)
            assert not done
            fcntl.flock(another, fcntl.LOCK_UN)
            await asyncio.wait_for(waiting, 5)

            fcntl.flock(another, fcntl.LOCK_EX)
            monkeypatch.setattr(database_module, "BUSY_TIMEOUT_S", 0.05)
            with pytest.raises(NotAvailable, match="Another process"):
                await registry.enqueue(file(2), Lane.CONTENT, "alice")
        monkeypatch.setattr(database_module, "BUSY_TIMEOUT_S", 5.0)
        await registry.enqueue(file(2), Lane.CONTENT, "alice")
        assert (await registry.progress()).pending == 2
        await registry.close()

    async def test_gives_away_a_turn_that_comes_when_whoever_waited_is_gone(self, on_sqlite: Settings) -> None:
        """Given a process that ends while it waits to write, when its turn comes, then it keeps nobody waiting."""
        registry = await open_registry(on_sqlite)
        turn = on_sqlite.data_dir / "registry.turn"
        with turn.open("w") as another:
            fcntl.flock(another, fcntl.LOCK_EX)
            waiting = registry.enqueue(file(1), Lane.CONTENT, "alice")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(waiting, 0.05)
            closing = asyncio.create_task(registry.close())
            await asyncio.sleep(0)
            closing.cancel()  # and with it, what it lets come to an end
            await asyncio.gather(closing, return_exceptions=True)
        async with asyncio.timeout(5):
            while any(is_open(descriptor, turn) for descriptor in Path("/proc/self/fd").iterdir()):
                await asyncio.sleep(0.01)
        await registry.close()

    async def test_that_is_busy_for_too_long_is_reported_as_such(
        self, on_sqlite: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(database_module, "BUSY_TIMEOUT_S", 0.05)
        registry = await open_registry(on_sqlite)
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        stuck = sqlite3.connect(on_sqlite.data_dir / FILE_NAME, isolation_level=None)
        stuck.execute("BEGIN IMMEDIATE")

        with pytest.raises(NotAvailable, match="locked"):
            await registry.enqueue(file(2), Lane.CONTENT, "alice")
        assert (await registry.progress()).pending == 1, "readers never wait"

        stuck.execute("ROLLBACK")
        stuck.close()
        await registry.enqueue(file(2), Lane.CONTENT, "alice")
        assert (await registry.progress()).pending == 2
        await registry.close()

    @pytest.mark.parametrize(
        ("address", "error", "message"),
        [
            ("mysql://root:hunter2@db/registry", SemanticSearchError, "we speak postgresql://"),
            ("hunter2 at home", SemanticSearchError, "DATABASE_URL cannot be read"),
            ("postgres://me:hunter2@127.0.0.1:1/registry?sslmode=disable", NotAvailable, "does not answer"),
        ],
    )
    async def test_by_address_is_explained_without_its_password(
        self, tmp_path: Path, address: str, error: type[SemanticSearchError], message: str
    ) -> None:
        elsewhere = Settings(app_secret="unused", app_persistent_storage=tmp_path, database_url=address)

        with pytest.raises(error, match=message) as raised:
            await open_registry(elsewhere)

        assert "hunter2" not in str(raised.value)


def _open_at_once(installation: Settings, ready: Queue[str], go: Queue[str]) -> None:
    async def run() -> None:
        ready.put("ready")
        await asyncio.to_thread(go.get)
        registry = await open_registry(installation)
        await registry.enqueue(file(1), Lane.CONTENT, "alice")
        await registry.close()

    asyncio.run(run())


class TestSchema:
    async def test_opened_again_keeps_what_is_there(self, installation: Settings) -> None:
        for _ in range(2):
            registry = await open_registry(installation)
            await registry.enqueue(file(1), Lane.CONTENT, "alice")
            assert (await registry.progress()).pending == 1
            await registry.close()

    async def test_is_made_once_when_all_processes_start_together(self, installation: Settings) -> None:
        spawn = multiprocessing.get_context("spawn")
        ready: Queue[str] = spawn.Queue()
        go: Queue[str] = spawn.Queue()
        processes = [spawn.Process(target=_open_at_once, args=(installation, ready, go)) for _ in range(4)]
        for process in processes:
            process.start()
        for _ in processes:
            await asyncio.to_thread(ready.get, timeout=60)

        for _ in processes:
            go.put("go")
        for process in processes:
            await asyncio.to_thread(process.join, 60)

        assert [process.exitcode for process in processes] == [0] * 4
        registry = await open_registry(installation)
        assert (await registry.progress()).pending == 1
        await registry.close()

    async def test_waits_for_a_process_that_is_making_it(
        self, on_sqlite: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(database_module, "MIGRATION_TIMEOUT_S", 0.2)
        with (on_sqlite.data_dir / "registry.lock").open("w") as another:
            fcntl.flock(another, fcntl.LOCK_EX)
            with pytest.raises(NotAvailable, match="Another process"):
                await open_registry(on_sqlite)

        await (await open_registry(on_sqlite)).close()

    async def test_is_what_the_migrations_make(self, installation: Settings) -> None:
        database = await open_database(installation)

        differences = await database.read(lambda connection: connection.run_sync(_differences))
        await database.close()

        assert differences == []

    async def test_of_a_newer_version_is_left_alone(self, on_sqlite: Settings) -> None:
        await (await open_registry(on_sqlite)).close()
        engine = create_engine(f"sqlite:///{on_sqlite.data_dir / FILE_NAME}")
        with engine.begin() as connection:
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
        engine.dispose()

        with pytest.raises(SemanticSearchError, match="newer version of this app"):
            await open_registry(on_sqlite)


def _differences(connection: Connection) -> list[object]:
    return list(compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata))


async def test_many_may_use_one_registry_at_once(registry: Registry) -> None:
    await asyncio.gather(
        *(registry.enqueue(file(number % 20), Lane.CONTENT, f"user{number}") for number in range(100)),
        *(registry.live([file(number)]) for number in range(100)),
        registry.enqueue_many(Due(file(number), Lane.BACKFILL, "alice") for number in range(600)),
    )

    assert (await registry.progress()).pending == 600

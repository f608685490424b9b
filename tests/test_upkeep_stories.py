# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""How an admin sees what goes on, finds what drifted apart, and gets rid of what has to go."""

from __future__ import annotations

import argparse
import copy
import io
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from engines import EngineProcess, settings_in
from qdrant_client import models
from registries import seen
from rich.console import Console
from town import Stage, Town, living_town

from demo.world import World
from ex_app import commands
from ex_app.domain import DocumentKey, Lane, NextcloudUnavailable, Parsed, Point, Reason, Sparse
from ex_app.extract.sandbox import Extractor
from ex_app.index.watchdog import Watchdog
from ex_app.store.documents import Status
from ex_app.store.vector_points import of_document

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
QUESTION = "hotel price limit for trips"
MANUAL = "\n\n".join(f"# Chapter {n}\n\n" + f"Sentence about subject number {n} of the manual. " * 20 for n in range(3))


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit status."""

    code: int
    text: str

    @property
    def json(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.text.splitlines()[-1])
        return said


async def command(town: Town, *words: str) -> Said:
    """An admin's command, beside the running app."""
    out = Console(file=io.StringIO(), width=200)
    asked: argparse.Namespace = commands.parser().parse_args(words)
    code = await commands.COMMANDS[asked.command](town.house, asked, out)
    assert isinstance(out.file, io.StringIO)
    return Said(code, out.file.getvalue())


async def digest(town: Town) -> list[tuple[str, str, int, str, tuple[str, ...]]]:
    """Document, version, ordinal, hash of the text and scopes of every passage."""
    held = [imprint async for imprint in town.vectors.digest()]
    live = await town.registry.live([imprint.document for imprint in held])
    return sorted(
        (str(i.document), live[i.document].version, i.ordinal, i.text_hash, tuple(sorted(i.scopes))) for i in held
    )


# --- Drift: each kind made by hand


def _file(town: Town) -> DocumentKey:
    return DocumentKey("file", town.world.resolve("alice", "/Papers/Manual.md").node.id)


async def _lose_all(town: Town) -> None:
    await town.vectors.drop(_file(town))


async def _lose_one(town: Town) -> None:
    second = models.FieldCondition(key="ordinal", range=models.Range(gte=1, lte=1))
    await town.vectors._delete(of_document(_file(town), second))


async def _leave_old_ones(town: Town) -> None:
    await _write(town, _file(town), generation=7)


async def _leave_newer_ones(town: Town) -> None:
    row = await town.registry.document(_file(town))
    assert row is not None
    await _write(town, _file(town), generation=row.live + 1)


async def _leave_a_strangers(town: Town) -> None:
    await _write(town, DocumentKey("file", 999_999), generation=1)


async def _leave_a_hidden_ones(town: Town) -> None:
    key = DocumentKey("file", 999_998)
    await town.registry.meet([seen(key)])
    await town.registry.hide(key)
    await _write(town, key, generation=1)


async def _put_elsewhere(town: Town) -> None:
    await town.vectors.set_place(_file(town), scopes=["f:999"], title="Manual.md", path="Papers/Manual.md")


async def _forget(town: Town) -> None:
    await town.registry.hide(_file(town))
    await town.vectors.drop(_file(town))
    assert await town.registry.forget_hidden(town.clock() + 1) == 1


async def _hide(town: Town) -> None:
    await town.registry.hide(_file(town))
    await town.vectors.drop(_file(town))


async def _make_up(town: Town) -> None:
    await town.registry.meet([seen(DocumentKey("file", 999_997))])


async def _edit(town: Town) -> None:
    town.write("alice", "/Papers/Manual.md", MANUAL + " And more.")
    town.clock.forward(3)


async def _rename(town: Town) -> None:
    town.world.move("alice", "/Papers/Manual.md", "/Papers/Handbook.md")


async def _move(town: Town) -> None:
    town.world.move("alice", "/Papers/Manual.md", "/Manual.md")


async def _write(town: Town, key: DocumentKey, *, generation: int) -> None:
    """A passage of somebody who died before he cleaned up."""
    row = await town.registry.document(_file(town))
    assert row is not None
    held, *_ = await town.vectors.passages_of(row.key, row.live)
    place = {"scopes": row.scopes, "title": row.title, "path": row.path, "mtime": row.mtime, "owner": row.owner}
    point = Point(key, generation, held.chunk, held.text_hash, held.dense, Sparse((), ()), **place)  # type: ignore[arg-type]
    await town.vectors.write([point])


@pytest.mark.parametrize(
    ("harm", "kind"),
    [
        (_lose_all, "points_missing"),
        (_lose_one, "points_missing"),
        (_leave_old_ones, "points_left_over"),
        (_leave_newer_ones, "points_left_over"),
        (_leave_a_strangers, "points_orphaned"),
        (_leave_a_hidden_ones, "points_orphaned"),
        (_put_elsewhere, "scopes_differ"),
        (_forget, "not_known"),
        (_hide, "not_known"),
        (_make_up, "not_there"),
        (_edit, "version_differs"),
        (_rename, "version_differs"),
        (_move, "place_differs"),
    ],
)
async def test_whatever_drifts_apart_is_named_and_set_right(
    town: Town, harm: Callable[[Town], Awaitable[None]], kind: str
) -> None:
    """Given an index in which all agrees, when one thing is harmed behind the app's back, then `check` names it and
    nothing else, and after `check --repair` and the work that this gives, without any sweep, all agrees again."""
    town.write("alice", "/Papers/Manual.md", MANUAL)
    town.write("bob", "/Lodging.md", HOTELS)
    board = town.world.add_board("alice", "Travel")
    town.world.add_card(board, "Lodging", description=HOTELS)
    await town.settle()
    whole = await digest(town)
    clean = await command(town, "check")
    assert (clean.code, clean.json) == (0, {"differences": 0, "kinds": {}, "repaired": False})

    await harm(town)
    found = await command(town, "check", "--repair")
    assert (found.code, found.json) == (1, {"differences": 1, "kinds": {kind: 1}, "repaired": True})
    assert "Manual" not in found.text
    assert "Handbook" not in found.text
    await town.work()

    assert (await command(town, "check")).json["kinds"] == {}
    if harm not in (_edit, _move):
        assert [(d, o, h, s) for d, _, o, h, s in await digest(town)] == [(d, o, h, s) for d, _, o, h, s in whole]


async def test_what_is_still_to_be_done_is_no_difference(town: Town) -> None:
    town.write("alice", "/Papers/Manual.md", MANUAL)
    town.clock.forward(3)
    await town.sweep()
    assert (await command(town, "check")).code == 0


async def test_an_index_made_afresh_is_the_same(town: Town) -> None:
    """Given documents that were edited, moved, renamed and deleted, when the index is lost, then it comes back as it
    was, and what vanished meanwhile does not."""
    for number in range(5):
        town.write("alice", f"/Papers/Paper {number}.md", f"{MANUAL} {number}")
    town.write("alice", "/Gone/Note.md", HOTELS)
    await town.settle()
    town.write("alice", "/Papers/Paper 0.md", HOTELS)
    town.world.move("alice", "/Papers/Paper 1.md", "/Papers/Second paper.md")
    town.world.move("alice", "/Papers/Paper 2.md", "/Paper 2.md")
    town.world.delete("alice", "/Papers/Paper 3.md")
    await town.settle()
    before = [row for row in await digest(town) if "Note" not in row[0]]
    await town.vectors.destroy()
    town.world.delete("alice", "/Gone")
    await town.restart()
    await town.settle()
    gone = set(before) - set(await digest(town))
    assert len({document for document, *_ in gone}) == 1
    assert set(await digest(town)) == set(before) - gone
    assert (await command(town, "check")).code == 0


# --- A Nextcloud that was restored from a backup


async def test_a_nextcloud_restored_from_a_backup_is_compared_anew_and_ids_that_came_again_are_no_trap(
    town: Town, caplog: pytest.LogCaptureFixture
) -> None:
    """Given files that were made after the backup, when the backup is played back and other people's files get their
    ids, then nobody finds the old ones, everybody the new ones, and every folder is looked at once."""
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    backup = _backup(town.world)
    secret = town.write("alice", "/Secret/Bees.md", "# Bees\n\nThe two hives gave eleven kilos of honey.")
    for number in range(4):
        town.write("alice", f"/Secret/Paper {number}.md", f"{MANUAL} {number}")
    await town.settle()
    _play_back(town.world, backup)
    again = town.write("bob", "/Lunch/Menu.md", "# Menu\n\nOn Tuesday there are dumplings with plum sauce.")
    assert int(again.partition(":")[2]) <= int(secret.partition(":")[2]) + 4, "this is what makes it a trap"
    with caplog.at_level(logging.WARNING):
        await town.settle()
        assert "event=ids_came_again" in caplog.text
        caplog.clear()
        town.world.reset_requests()
        await town.settle()
        listed = [request.path for request in town.world.requests if request.method == "PROPFIND"]
        assert any("Policies" in path for path in listed), "an unchanged folder is listed too"
        await town.settle()
        assert "event=ids_came_again" not in caplog.text
    assert (await town.search("alice", "how much honey did the hives give")).hits == []
    assert (await town.search("bob", "dumplings with plum sauce")).titles == ["Menu.md"]
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]
    assert (await command(town, "check")).code == 0


async def test_files_that_come_and_go_as_usual_let_nothing_be_compared_anew(
    town: Town, caplog: pytest.LogCaptureFixture
) -> None:
    first = town.write("carol", "/Papers/Old.md", HOTELS)
    town.world.people["carol"].last_login = 0
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    assert await town.row(first) is None
    town.world.people["carol"].last_login = int(town.clock())
    with caplog.at_level(logging.WARNING):
        await town.settle()
        town.write("alice", "/Policies/New.md", HOTELS)
        await town.settle()
        town.world.delete("alice", "/Policies/New.md")
        await town.settle()
    assert "event=ids_came_again" not in caplog.text
    assert await town.row(first) is not None


def _backup(world: World) -> dict[str, Any]:
    """What a backup of the server holds. ETags never come again: they are drawn at random."""
    return copy.deepcopy({name: vars(world)[name] for name in ("people", "nodes", "shares", "_targets", "_ids")})


def _play_back(world: World, backup: dict[str, Any]) -> None:
    vars(world).update(copy.deepcopy(backup))


# --- What an admin asks and tells


async def test_status_tells_how_far_indexing_is(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.write("alice", "/Policies/Empty.md", "")
    said = await command(town, "status")
    assert (said.code, said.json["state"]) == (1, "not running")
    await watchdog(town).look()
    town.clock.forward(3)
    await town.sweep()
    said = await command(town, "status")
    assert (said.code, said.json["state"], said.json["pending"]) == (0, "working", 2)
    await town.work()
    said = await command(town, "status", "--watch")
    assert "Lodging" not in said.text
    assert said.json["state"] == "all done"
    assert said.json["reasons"] == {"no_text": 1}
    assert (said.json["documents"], said.json["indexed"], said.json["pending"]) == (2, 1, 0)
    assert said.json["documents_per_minute"] > 0
    await town.house.set_enabled(False)
    assert (await command(town, "status")).json["state"] == "switched off"


class Stumbling:
    """A parser that stumbles over everything, until it is mended."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.mended = False

    async def extract(self, body: bytes, **about: str) -> Parsed:
        if not self.mended:
            raise RuntimeError("the text would stand here")
        parsed: Parsed = await self._real.extract(body, **about)
        return parsed


async def test_what_failed_is_named_and_tried_again_when_an_admin_asks(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    parser = Stumbling(town.worker.extractor)
    town.staff(extractor=parser)
    await town.settle()
    for _ in range(town.settings.max_attempts):
        town.clock.forward(7200)
        await town.work()
    said = await command(town, "failures")
    assert said.json == {"failures": 1, "reasons": {Reason.FAILED: 1}}
    assert key in said.text
    assert "Lodging" not in said.text
    assert (await command(town, "retry", "file:1")).code == 1

    parser.mended = True
    for words in ("--all", key):
        assert (await command(town, "retry", words)).code in (0, 1)
    await town.work()
    assert (await command(town, "failures")).json["failures"] == 0
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]


@pytest.mark.parametrize("words", [("--reason", "too_large"), ("{key}",)])
async def test_what_was_too_large_is_named_and_read_again_when_an_admin_allows_more(
    town: Town, words: tuple[str, ...]
) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS + " " * (1024 * 1024))
    other = town.write("alice", "/Policies/Scan.bin", b"\x00\x01\x02\x03" * 50)
    allowed = town.settings
    town.staff(settings=allowed.model_copy(update={"max_file_mb": 1}))
    await town.settle()
    said = await command(town, "failures", "--reason", "too_large")
    assert said.json == {"failures": 1, "reasons": {"too_large": 1}}
    assert (key in said.text, other in said.text) == (True, False)
    assert (await command(town, "failures")).json["failures"] == 0

    town.staff(settings=allowed)
    await town.settle()
    assert (await command(town, "failures", "--reason", "too_large")).json["failures"] == 1
    assert (await command(town, "retry", *(word.format(key=key) for word in words))).json == {"revived": 1}
    await town.settle()
    assert (await command(town, "failures", "--reason", "too_large")).json["failures"] == 0
    assert "120 euros" in (await town.search("alice", QUESTION)).hits[0]["excerpt"]


async def test_an_erased_document_comes_back_when_the_erasure_is_lifted(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    assert (await command(town, "lift", key)).code == 1
    said = await command(town, "erase", key)
    assert said.json == {"erased": 1, "engine": True, "database": True}
    await town.settle()
    assert (await town.search("alice", QUESTION)).hits == []
    assert await town.points(key) == []

    assert (await command(town, "lift", key)).code == 0
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]


async def test_all_that_a_person_owns_is_erased_and_nothing_else(town: Town) -> None:
    mine = [town.write("alice", f"/Policies/Paper {number}.md", HOTELS) for number in range(3)]
    other = town.write("bob", "/Lodging.md", HOTELS)
    await town.settle()
    assert (await command(town, "erase", "--user", "alice")).json["erased"] == 3
    for key in mine:
        row = await town.row(key)
        assert row is not None
        assert (row.status, row.title, row.path) == (Status.ERASED, "", "")
        assert await town.points(key) == []
    assert len(await town.points(other)) == 1


async def test_a_misspelled_user_does_not_look_like_an_erasure(town: Town) -> None:
    kept = town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    said = await command(town, "erase", "--user", "Alice Halden")
    assert (said.code, said.json["erased"]) == (1, 0)
    assert "user id" in said.text
    assert len(await town.points(kept)) == 1


# --- Nothing of it is left in any file


@pytest_asyncio.fixture(loop_scope="session")
async def own_town(
    tmp_path: Path,
    stage: Stage,
    embed_socket: Path,
    extractor: Extractor,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Town]:
    """A town whose engine lies in its own data directory, and whose log too."""
    monkeypatch.setenv("PATH", "")  # the embedded engine, even where a qdrant binary is installed
    process = EngineProcess(settings_in(tmp_path))
    log = logging.FileHandler(tmp_path / "app.log")
    logging.getLogger("ex_app").addHandler(log)
    level = logging.getLogger("ex_app").level
    logging.getLogger("ex_app").setLevel(logging.INFO)
    async with living_town(
        tmp_path, stage=stage, address=process.address, embed_socket=embed_socket, extractor=extractor
    ) as town:
        yield town
    logging.getLogger("ex_app").setLevel(level)
    logging.getLogger("ex_app").removeHandler(log)
    log.close()
    process.stop()


WORDS = ("Quillfeather", "Zephyrina", "Brambleworth")


def _unique(town: Town) -> str:
    """A document with words that stand nowhere else: in title and text."""
    text = f"The {WORDS[0]} lighthouse keeper buys his marzipan from {WORDS[1]} on Thursdays."
    return town.write("alice", f"/Papers/{WORDS[2]} ledger.md", text)


def _files_with(folder: Path, *words: str) -> list[str]:
    """All files below a folder that hold one of the words, in whatever case."""
    lower = [word.lower().encode() for word in words]
    return sorted(
        path.name
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and any(word in path.read_bytes().lower() for word in lower)
    )


async def test_words_of_an_erased_document_are_in_no_file_when_the_command_ends(own_town: Town) -> None:
    town = own_town
    key = _unique(town)
    town.write("alice", "/Papers/Lodging.md", HOTELS)
    await town.settle()
    data = town.settings.data_dir
    assert _files_with(data, *WORDS), "the proof would prove nothing"
    assert (await command(town, "erase", key)).json == {"erased": 1, "engine": True, "database": True}
    assert _files_with(data, *WORDS) == []
    assert _files_with(data, "accommodation")
    await town.settle()
    assert _files_with(data, *WORDS) == []


async def test_words_of_a_deleted_document_are_in_no_file_after_a_compaction(own_town: Town) -> None:
    town = own_town
    _unique(town)
    town.write("alice", "/Papers/Lodging.md", HOTELS)
    await town.settle()
    town.world.delete("alice", f"/Papers/{WORDS[2]} ledger.md")
    await town.settle()
    data = town.settings.data_dir
    assert _files_with(data, WORDS[1]), "deleting does not erase: this is what the compaction is for"
    assert (await command(town, "compact")).json == {"engine": True, "database": True}
    assert _files_with(data, *WORDS) == []
    assert (await town.search("alice", QUESTION)).titles == ["Lodging.md"]


async def test_words_of_an_edit_that_was_taken_back_are_in_no_file_after_a_compaction(own_town: Town) -> None:
    town = own_town
    town.write("alice", "/Papers/Lodging.md", f"{HOTELS} {WORDS[0]}")
    await town.settle()
    town.write("alice", "/Papers/Lodging.md", HOTELS)
    await town.settle()
    await command(town, "compact")
    assert _files_with(town.settings.data_dir, WORDS[0]) == []


async def test_an_index_that_is_no_longer_served_goes_with_all_its_words(own_town: Town) -> None:
    town = own_town
    _unique(town)
    await town.settle()
    assert (data := town.settings.data_dir / "qdrant-edge").exists()
    assert _files_with(data, WORDS[0])
    object.__setattr__(town.house, "settings", town.settings.model_copy(update={"document_chunk_size": 200}))
    await town.restart()
    assert _files_with(data, WORDS[0]) == []


# --- Work that is due and does not get done


def watchdog(town: Town, **parts: Any) -> Watchdog:
    return Watchdog(town.registry, parts, town.settings.stalled_after_minutes * 60)


async def _away() -> None:
    raise NextcloudUnavailable("Nextcloud does not answer")


async def test_a_standstill_is_said_once_with_what_it_waits_for_and_status_says_so(
    town: Town, caplog: pytest.LogCaptureFixture
) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.clock.forward(3)
    await town.sweep()
    dog = watchdog(town, Nextcloud=_away)
    with caplog.at_level(logging.WARNING):
        for _ in range(25):
            await dog.look()
            town.clock.forward(60)
    warnings = [record.getMessage() for record in caplog.records if "no_progress" in record.getMessage()]
    assert len(warnings) == 1
    assert "waits_for='Nextcloud: Nextcloud does not answer'" in warnings[0]
    said = await command(town, "status")
    assert (said.code, said.json["state"]) == (1, "stalled")
    assert "Nextcloud does not answer" in said.text
    assert "see that Nextcloud runs" in said.text
    await town.work()
    await dog.look()
    said = await command(town, "status")
    assert (said.code, said.json["state"]) == (0, "all done")


async def monitored(town: Town) -> dict[str, Any]:
    """What whoever watches over the server reads, of how indexing is."""
    answer = await town.ask("", "GET", "/progress", relayed=False)
    return {name: answer.json()[name] for name in ("state", "stalled_since", "waits_for", "to_do")}


async def test_monitoring_reads_whether_indexing_goes_on_and_what_to_do_if_not(town: Town) -> None:
    assert (await monitored(town))["state"] == "not running"
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.clock.forward(3)
    await town.sweep()
    dog = watchdog(town, Nextcloud=_away)
    await dog.look()
    went_on = {"stalled_since": None, "waits_for": "", "to_do": ""}
    assert await monitored(town) == {"state": "working", **went_on}
    since = town.clock()
    town.clock.forward(16 * 60)
    await dog.look()
    assert await monitored(town) == {
        "state": "stalled",
        "stalled_since": since,
        "waits_for": "Nextcloud: Nextcloud does not answer",
        "to_do": "see that Nextcloud runs and answers this machine; all goes on by itself then",
    }
    await town.work()
    await dog.look()
    assert await monitored(town) == {"state": "all done", **went_on}
    await town.house.set_enabled(False)
    assert await monitored(town) == {
        "state": "switched off",
        "stalled_since": None,
        "waits_for": "",
        "to_do": "enable the app in Nextcloud",
    }


async def test_a_document_that_hangs_is_named(town: Town) -> None:
    key = town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.clock.forward(3)
    await town.sweep()
    await town.claim()
    dog = watchdog(town)
    await dog.look()
    town.clock.forward(16 * 60)
    assert (await dog.look()).waits_for.startswith(key)


async def test_a_quiet_night_and_work_that_goes_on_are_no_standstill(town: Town) -> None:
    dog = watchdog(town, Nextcloud=_away)
    for _ in range(3):
        await dog.look()
        town.clock.forward(3600)
    for number in range(3):
        key = town.write("alice", f"/Policies/Paper {number}.md", HOTELS)
        town.clock.forward(600)
        await town.sweep()
        await town.work()
        await town.registry.enqueue(DocumentKey.parse(key), Lane.CONTENT, "alice")
        assert (await dog.look()).since is None

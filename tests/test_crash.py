# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The whole product as real processes beside the stand-in: what it survives, how it ends, what it writes to its log.

The stories share one installation and are told in the order in which they stand here.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from processes import (
    Heartbeats,
    Index,
    alive,
    descendants,
    eventually,
    heartbeats,
    kill,
    launch,
    lose_index,
    read_index,
    roles,
)

from demo.content import Paper, render
from demo.launch import APP_ID, Running, running
from demo.world import World
from ex_app.processes import owned

# Words that nobody else writes: none of them may ever be read in a log.
QUESTION = "Where does the Quillfeather lighthouse keeper buy marzipan?"
TITLE = "Brambleworth ledger"
TEXT = "The Quillfeather lighthouse keeper buys his marzipan from Zephyrina Oddlington on Thursdays."
TELLTALES = ("quillfeather", "marzipan", "brambleworth", "zephyrina", "oddlington")

_LONG_AGO = 1_700_000_000
_WORDS = (
    "harbour ledger tide lantern keeper rope barrel invoice quay winter storm bread letter oil glass stair window "
    "signal boat crew captain repair paint salt wind map garden wall engine fuel report visit order delivery price"
)


@dataclass(frozen=True)
class House:
    """The running product, its heartbeats during the first indexing, and what was in the index after it."""

    demo: Running
    beats: Heartbeats
    undisturbed: Index

    @property
    def supervisor(self) -> int:
        return self.demo.process.pid

    def when_indexed(self, number: int) -> None:
        """Wait until this many documents are indexed, or more."""
        eventually(lambda: self.demo.progress()["indexed"] >= number, within_s=60)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    world = World()
    furnish(world)
    # A dead worker's documents are free again after three seconds, and what is new is seen after two.
    with running(world, LEASE_S="3", RECONCILE_INTERVAL_S="2") as demo:
        with heartbeats(urlsplit(demo.app.url).port or 0) as beats:
            demo.wait_until_indexed()
        yield House(demo, beats, asyncio.run(read_index(demo.data)))


def furnish(world: World) -> None:
    """Ada's forty documents of four kinds, some of them shared with Ben, and a paper of hers with telling words."""
    world.add_user("ada")
    world.add_user("ben")
    dice = random.Random(7)
    for number in range(30):
        end = ("md", "txt", "pdf", "docx")[number % 4]
        path = f"/{'Shared' if number % 3 else 'Own'}/{end}/Paper {number}.{end}"
        text = "\n\n".join(_prose(dice) for _ in range(1 if number % 5 else 4))
        paper = Paper("ada", path, f"# Paper {number}\n\n{text}", _LONG_AGO + number)
        world.write("ada", path, render(paper), mtime=paper.mtime)
    world.write("ada", f"/Own/{TITLE}.md", f"# {TITLE}\n\n{TEXT}".encode(), mtime=_LONG_AGO)
    world.share("ada", "/Shared", with_user="ben")
    board = world.add_board("ada", "Lighthouse")
    world.share_board(board, with_user="ben")
    for number in range(9):
        world.add_card(board, f"Card {number}", description=_prose(dice))


def _prose(dice: random.Random) -> str:
    """A hundred words."""
    sentences = (" ".join(dice.choices(_WORDS.split(), k=10)).capitalize() for _ in range(10))
    return ". ".join(sentences) + "."


def test_the_heartbeat_answers_at_once_while_documents_are_indexed(house: House) -> None:
    assert len(house.beats.seconds) > 50
    assert house.beats.percentile(0.95) < 0.05


def test_after_the_first_indexing_every_passage_is_there_once(house: House) -> None:
    passages = house.undisturbed.passages
    assert len({document for document, *_ in passages}) == len(house.demo.served.world.all_documents()) == 40
    _assert_sound(house.undisturbed)
    assert house.demo.progress()["indexed"] == 40


def test_somebody_signs_in_and_finds_a_paper_in_the_page_of_the_app(house: House) -> None:
    """Given the stand-in's list of people, when Ada picks herself, then she lands on the search page, whose script and
    style come through the proxy; what she asks there is answered, and the answer's link opens the paper. Ben, who may
    not read it, is shown nothing of it."""
    proxy = f"/index.php/apps/app_api/proxy/{APP_ID}"
    with httpx.Client(base_url=house.demo.served.url, follow_redirects=True, timeout=30, trust_env=False) as browser:
        assert 'value="ada"' in browser.get("/").text
        page = browser.post("/session", data={"user": "ada"})
        assert page.url.path == f"/index.php/apps/app_api/embedded/{APP_ID}/search"
        parts = re.findall(r'(?:src|href)="([^"]+/ui/search\.(?:js|css))"', page.text)
        assert sorted(parts) == [f"{proxy}/ui/search.css", f"{proxy}/ui/search.js"]
        assert all(browser.get(part).status_code == 200 for part in parts)
        first, *_ = browser.get(f"{proxy}/api/search", params={"q": QUESTION}).json()["hits"]
        assert (first["title"], first["kind"]) == (f"{TITLE}.md", "file")
        assert TEXT in first["excerpt"]
        assert TEXT in browser.get(first["link"]).text

        browser.post("/session", data={"user": "ben"})
        hits = browser.get(f"{proxy}/api/search", params={"q": QUESTION}).json()["hits"]
        assert first["ref"] not in [hit["ref"] for hit in hits]
        assert browser.get(first["link"]).status_code == 404


def test_an_assistant_finds_the_paper_through_the_mcp_endpoint(house: House) -> None:
    demo = house.demo
    answer = httpx.post(
        f"{demo.served.url}/index.php/apps/app_api/proxy/{APP_ID}/mcp",
        json={
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "nc_semantic_search", "arguments": {"query": QUESTION, "limit": 3}},
        },
        headers={"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"},
        auth=("ada", demo.served.world.people["ada"].app_password),
        timeout=30,
        trust_env=False,
    )
    first, *_ = answer.json()["result"]["structuredContent"]["results"]
    assert (first["title"], first["doc_type"]) == (f"{TITLE}.md", "file")


def test_whatever_dies_while_indexing_the_index_comes_out_the_same(house: House) -> None:
    """Given an index that was lost, when worker, engine and model are killed at different moments while it is made
    again, then it holds in the end what an undisturbed indexing had made: nothing twice, nothing missing."""
    asyncio.run(lose_index(house.demo.data))
    kill(house.supervisor, "worker")
    eventually(lambda: house.demo.progress()["indexed"] == 0, within_s=30)  # it has noticed, and begins anew
    for indexed, victims in ((1, ["worker", "embed"]), (10, ["engine"]), (20, ["worker"])):
        house.when_indexed(indexed)
        kill(house.supervisor, *victims)
    house.when_indexed(40)
    house.demo.wait_until_indexed()

    index = asyncio.run(read_index(house.demo.data))
    _assert_sound(index)
    assert index.passages == house.undisturbed.passages
    progress = house.demo.progress()
    assert (progress["total"], progress["indexed"], progress["pending"], progress["failed"]) == (40, 40, 0, 0)
    assert _titles(house, "ada") == [f"{TITLE}.md"]


def test_a_second_instance_on_the_same_storage_is_refused(house: House) -> None:
    with launch(house.demo.data, APP_SECRET="another") as second:
        said, _ = second.communicate(timeout=30)
    assert second.returncode == 1
    assert f"in use by another process (pid {house.supervisor})" in said
    assert "Traceback" not in said
    assert set(roles(house.supervisor)) == {"engine", "embed", "worker", "web"}


def test_without_the_secret_it_says_what_is_missing(tmp_path: Path) -> None:
    with launch(tmp_path) as process:
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "APP_SECRET" in said
    assert "Traceback" not in said


def test_when_the_supervisor_is_killed_nothing_of_it_lives_on(tmp_path: Path) -> None:
    """Given the product with all its processes, when the supervisor alone gets kill -9, then within seconds all are
    gone, and the storage is free for the next start."""
    with launch(tmp_path, APP_SECRET="secret", APP_PORT="0") as supervisor:
        family = eventually(lambda: len(roles(supervisor.pid)) == 4 and descendants(supervisor.pid), within_s=30)
        supervisor.kill()
        try:
            supervisor.communicate(timeout=8)  # until the last of them has closed the output
            eventually(lambda: not alive(family), within_s=1)
        finally:
            for survivor in alive(family):
                os.kill(survivor, signal.SIGKILL)
    with owned(tmp_path):
        pass


def test_the_log_tells_neither_secrets_nor_what_people_wrote_or_asked(house: House) -> None:
    """Given everything that happened so far, searches and crashes, then the log at its usual level names the events
    and nothing of secrets, questions, titles or texts."""
    log = house.demo.log.read_text()
    assert "event=died role=worker" in log
    engine_key = re.search(r'"api_key": "([^"]+)"', (house.demo.data / "run" / "engine.json").read_text())
    assert engine_key is not None
    told = [word for word in (*TELLTALES, "Paper 7", "Card 3") if word.lower() in log.lower()]
    assert not told
    assert not [secret for secret in (house.demo.app.secret, engine_key[1]) if secret in log]


def test_asked_to_end_in_the_middle_of_work_it_ends_in_seconds(house: House) -> None:
    """Given documents that are being indexed, when the supervisor gets SIGTERM, then all processes end on their own
    within ten seconds, and the exit code says that all is well."""
    for number in range(20):
        house.demo.served.world.write("ada", f"/Own/New {number}.md", _prose(random.Random(number)).encode())
    eventually(lambda: house.demo.progress()["pending"] > 10, within_s=10)
    family = descendants(house.supervisor)
    started = time.monotonic()
    house.demo.process.send_signal(signal.SIGTERM)
    assert house.demo.process.wait(15) == 0
    assert time.monotonic() - started < 10
    assert not alive(family)
    assert "event=killed" not in house.demo.log.read_text()


def _assert_sound(index: Index) -> None:
    """Only live generations, every ordinal of every document once."""
    found: dict[str, list[int]] = {}
    for imprint in index.imprints:
        assert imprint.generation == index.live[imprint.document][0]
        found.setdefault(str(imprint.document), []).append(imprint.ordinal)
    for document, (_, passages) in index.live.items():
        assert sorted(found[str(document)]) == [*range(passages)]


def _titles(house: House, user: str) -> list[str]:
    answer = house.demo.get(user, "api/search", q=QUESTION)
    return [hit["title"] for hit in answer.json()["hits"]][:1]

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Something is taken away or overwritten, and the very first search after it must show nothing of it.

Played with the hands of the contract tests, so that the same scenes run on the stand-in and on a real Nextcloud. Every
scene first shows that its document was found, through the same door: else its row would mean nothing.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from rich.table import Table

from demo.bench.bills import QUESTION
from tests.contract.hands import ALICE, Board, Hand

_INDEXED_S = 240.0
_LIMIT = 100

# Forbids reading a file to everybody, as an access rule does: it stays listed.
Forbids = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client was given."""

    hits: list[dict[str, Any]]
    degraded: bool

    def mentioning(self, word: str) -> int:
        """In how many hits a word stands, be it in title, place or text."""
        return sum(word in json.dumps(hit) for hit in self.hits)


@dataclass(frozen=True, slots=True)
class Client:
    """People's clients before Nextcloud's proxy. asks: sends a request (user, method, path) with a user's password."""

    asks: Callable[..., httpx.Response]
    app: str = "semantic_search"

    def json(self, user: str) -> Answer:
        """The route of the search page."""
        answer = self._ask(user, "GET", "api/search", params={"q": QUESTION, "limit": _LIMIT}).json()
        return Answer(answer["hits"], answer["degraded"])

    def mcp(self, user: str) -> Answer:
        """The tool of assistants."""
        call = {"name": "nc_semantic_search", "arguments": {"query": QUESTION, "limit": _LIMIT}}
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        answer = self._ask(user, "POST", "mcp", json=body, headers=headers).json()["result"]
        if answer["isError"]:
            raise RuntimeError(f"the tool failed: {answer['content']}")
        return Answer(answer["structuredContent"]["results"], answer["structuredContent"]["degraded"])

    def pending(self, user: str) -> int:
        """How many of the user's documents the index has still to read."""
        number: int = self._ask(user, "GET", "api/status").json()["pending"]
        return number

    def _ask(self, user: str, method: str, path: str, **options: Any) -> httpx.Response:
        answer = self.asks(user, method, f"/index.php/apps/app_api/proxy/{self.app}/{path}", **options)
        answer.raise_for_status()
        return answer


Door = Callable[[str], Answer]


@dataclass(frozen=True, slots=True)
class Scene:
    """A change after which the reader may not be shown `word` any more, which he could read before."""

    what: str
    word: str
    change: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Row:
    """What one scene came to, at one door. found: hits with the word before; exposed: in the first answer after.

    complete: that answer holds what the reader may read, and doesn't say that something may be missing.
    """

    what: str
    found: int
    exposed: int
    complete: bool
    ms: float

    @property
    def clean(self) -> bool:
        """Found before, gone after, and that is not because hardly anything was answered."""
        return self.found > 0 and self.exposed == 0 and self.complete


@dataclass(frozen=True, slots=True)
class Play:
    """All scenes, once a door, for one reader, with a word in a document of his own that must always be found."""

    reader: str
    scenes: Mapping[str, list[Scene]]
    control: str


def prepare(hand: Hand, bills: Iterator[tuple[str, str]], forbid: Forbids | None) -> Play:
    """Write everything that the scenes are about. Without `forbid` there is no scene with an access rule."""
    reader, control = hand.user("reader"), _word()
    hand.log_in(reader)
    hand.write(reader, f"{hand.folder(reader)}/Hotel {control}.md", next(bills)[1])
    scenes = {door: list(_scenes(_Stage(hand, reader), bills, forbid)) for door in ("json", "mcp")}
    return Play(reader, scenes, control)


def wait(client: Client, play: Play) -> None:
    """Until the reader finds all of it and nothing is left to read. Raises TimeoutError."""
    words = [play.control, *(scene.word for scenes in play.scenes.values() for scene in scenes)]
    deadline = time.monotonic() + _INDEXED_S
    while time.monotonic() < deadline:
        found = client.json(play.reader)
        if all(found.mentioning(word) for word in words) and not client.pending(ALICE) + client.pending(play.reader):
            return
        time.sleep(1)
    raise TimeoutError(f"the reader does not find everything after {_INDEXED_S:.0f} s")


def perform(client: Client, play: Play) -> dict[str, list[Row]]:
    """Play every scene at its door."""
    doors: dict[str, Door] = {"json": client.json, "mcp": client.mcp}
    return {name: [_performed(doors[name], scene, play) for scene in play.scenes[name]] for name in doors}


def _performed(door: Door, scene: Scene, play: Play) -> Row:
    before = door(play.reader)
    scene.change()
    started = time.perf_counter()
    after = door(play.reader)
    ms = (time.perf_counter() - started) * 1000
    complete = after.mentioning(play.control) == 1 and not after.degraded
    return Row(scene.what, before.mentioning(scene.word), after.mentioning(scene.word), complete, ms)


def table_of(rows: Mapping[str, list[Row]]) -> Table:
    """One line a change, both doors beside each other."""
    table = Table(box=None)
    for head in (
        "then, at once, a search",
        "JSON: found before",
        "exposed",
        "ms",
        "MCP: found before",
        "exposed",
        "ms",
    ):
        table.add_column(head)
    for json_row, mcp_row in zip(rows["json"], rows["mcp"], strict=True):
        table.add_row(json_row.what, *_cells(json_row), *_cells(mcp_row))
    return table


def _cells(row: Row) -> tuple[str, str, str]:
    return str(row.found), f"{row.exposed}" if row.complete else f"{row.exposed}, incomplete", f"{row.ms:.0f}"


def is_clean(rows: Mapping[str, list[Row]]) -> bool:
    """Everything was found before, nothing was exposed, and every answer was complete."""
    return all(row.clean for door in rows.values() for row in door)


# --- the scenes


@dataclass(frozen=True, slots=True)
class _Stage:
    """Whose hand, and who reads."""

    hand: Hand
    reader: str


def _scenes(stage: _Stage, bills: Iterator[tuple[str, str]], forbid: Forbids | None) -> Iterator[Scene]:
    text = (bill for _, bill in bills)
    yield _file_unshared(stage, next(text))
    yield _folder_unshared(stage, next(text))
    yield _group_left(stage, next(text))
    yield _deleted(stage, next(text))
    yield _moved_out(stage, next(text))
    yield _edited(stage, next(text))
    if forbid is not None:
        yield _forbidden(stage, next(text), forbid)
    yield _board_unshared(stage, next(text))
    # One board for both: a card that is missing makes Deck refuse all, and then only a few boards are listed instead.
    board = stage.hand.board(ALICE)
    stage.hand.share_board(board, stage.reader)
    yield _card_moved(stage, board, next(text))
    yield _card_edited(stage, board, next(text))


def _file_unshared(stage: _Stage, text: str) -> Scene:
    word = _word()
    path = _written(stage, word, text)
    share = stage.hand.share(ALICE, path, with_user=stage.reader)
    return Scene("a file is no longer shared", word, lambda: stage.hand.unshare(ALICE, share))


def _folder_unshared(stage: _Stage, text: str) -> Scene:
    word = _word()
    path = _written(stage, word, text)
    share = stage.hand.share(ALICE, _folder_of(path), with_user=stage.reader)
    return Scene("a folder is no longer shared", word, lambda: stage.hand.unshare(ALICE, share))


def _group_left(stage: _Stage, text: str) -> Scene:
    word = _word()
    group = stage.hand.group(stage.reader)
    stage.hand.share(ALICE, _folder_of(_written(stage, word, text)), with_group=group)
    return Scene("the reader leaves the group", word, lambda: stage.hand.leave(stage.reader, group))


def _deleted(stage: _Stage, text: str) -> Scene:
    word = _word()
    path = _written(stage, word, text)
    stage.hand.share(ALICE, _folder_of(path), with_user=stage.reader)
    return Scene("a file is deleted", word, lambda: stage.hand.delete(ALICE, path))


def _moved_out(stage: _Stage, text: str) -> Scene:
    word = _word()
    path, elsewhere = _written(stage, word, text), stage.hand.folder(ALICE)
    stage.hand.share(ALICE, _folder_of(path), with_user=stage.reader)
    target = f"{elsewhere}/{path.rpartition('/')[2]}"
    return Scene("a file is moved out of a shared folder", word, lambda: stage.hand.move(ALICE, path, target))


def _edited(stage: _Stage, text: str) -> Scene:
    word = _word()
    path = f"{stage.hand.folder(ALICE)}/Hotel bill.md"
    stage.hand.write(ALICE, path, _with(word, text))
    stage.hand.share(ALICE, _folder_of(path), with_user=stage.reader)
    return Scene("a file is edited", word, lambda: stage.hand.write(ALICE, path, _with(_word(), text)))


def _forbidden(stage: _Stage, text: str, forbid: Forbids) -> Scene:
    word = _word()
    path = f"{stage.hand.folder(ALICE)}/Hotel {word}.md"
    fileid = stage.hand.write(ALICE, path, _with(word, text))
    stage.hand.share(ALICE, _folder_of(path), with_user=stage.reader)
    return Scene("an access rule forbids reading a file", word, lambda: forbid(fileid))


def _board_unshared(stage: _Stage, text: str) -> Scene:
    word, board = _word(), stage.hand.board(ALICE)
    stage.hand.card(board, f"Hotel {word}", text=_with(word, text))
    stage.hand.share_board(board, stage.reader)
    return Scene("a board is no longer shared", word, lambda: stage.hand.unshare_board(board, stage.reader))


def _card_moved(stage: _Stage, board: Board, text: str) -> Scene:
    word, hidden = _word(), stage.hand.board(ALICE)
    card = stage.hand.card(board, f"Hotel {word}", text=_with(word, text))
    return Scene("a card is moved to a hidden board", word, lambda: stage.hand.move_card(board, card, hidden))


def _card_edited(stage: _Stage, board: Board, text: str) -> Scene:
    word = _word()
    card = stage.hand.card(board, "Hotel bill", text=_with(word, text))
    now = _with(_word(), text)
    return Scene("a card is edited", word, lambda: stage.hand.edit_card(board, card, title="Hotel bill", text=now))


def _written(stage: _Stage, word: str, text: str) -> str:
    """A file of Alice's in a folder of its own, with the word in its name too: a title alone gives it away."""
    path = f"{stage.hand.folder(ALICE)}/Hotel {word}.md"
    stage.hand.write(ALICE, path, _with(word, text))
    return path


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _word() -> str:
    """A name that nothing else has."""
    return f"Palace{secrets.token_hex(4)}"


def _with(word: str, text: str) -> str:
    return f"The hotel was {word}. {text}"

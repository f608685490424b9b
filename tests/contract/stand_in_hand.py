# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Hands in the stand-in's world."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from demo import appapi, copies
from demo.gate import ExApp
from demo.server import Served
from demo.world import World
from tests.contract.hands import ALICE, BOB, CAROL, Board, Credentials, GroupFolder, Hand
from tests.contract.probe import ROUTES

ADMIN = "admin"


class Clock:
    """The time of day, which a test may put forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class StandInHand(Hand):
    """The world is changed directly where the stand-in has no route for it."""

    def __init__(self, served: Served, clock: Clock) -> None:
        self._served, self._clock = served, clock
        self._exapp = ExApp("contract_probe", "Probe", "1.0.0", secrets.token_hex(16), "http://127.0.0.1:9")
        self._exapp.enabled, self._exapp.routes = (
            True,
            [row | {"headers_to_exclude": json.dumps(row["headers_to_exclude"])} for row in ROUTES],
        )
        served.apps[self._exapp.id] = self._exapp
        people = (ALICE, BOB, CAROL)
        passwords = {uid: self._world.people[uid].password for uid in people}
        super().__init__(served.url, Credentials(self._exapp.id, self._exapp.secret, self._exapp.version), passwords)

    @property
    def _world(self) -> World:
        return self._served.world

    @property
    def admin(self) -> str:
        return ADMIN

    def copy(self, user: str, old: str, new: str) -> None:
        copies.copy(self._world, user, f"/{old}", f"/{new}")

    def touch(self, user: str, path: str, mtime: int) -> None:
        self._world.touch(user, f"/{path}", mtime)

    def restore(self, user: str, path: str, fileid: int) -> None:
        self._world.restore(user, f"/{path}", fileid)

    def accepts_by_hand(self, user: str) -> None:
        self._world.careful.add(user)

    def tag(self, user: str, fileid: int) -> str:
        name = f"{self.mark} <&> {secrets.token_hex(3)}"
        self._world.tag(fileid, name)
        return name

    def hidden_tag(self, fileid: int) -> str:
        name = self.tag(ADMIN, fileid)
        self._world.hidden_tags.add(name)
        return name

    def join(self, user: str, group: str) -> None:
        self._world.join(user, group)

    def leave(self, user: str, group: str) -> None:
        self._world.leave(user, group)

    def disable(self, user: str) -> None:
        self._world.disable(user)

    def set_notes_folder(self, user: str, path: str) -> None:
        self._world.set_notes_path(user, path)

    def _add_user(self, user: str, password: str) -> None:
        self._world.add_user(user)
        person = self._world.people[user]
        person.password, person.last_login = password, 0

    def _remove_user(self, user: str) -> None:
        pass  # the whole world goes

    def _add_group(self, group: str) -> None:
        self._world.add_group(group)

    def _remove_group(self, group: str) -> None:
        pass

    def group_folder(self, *groups: str) -> GroupFolder:
        name = f"{self.mark}-{secrets.token_hex(3)}"
        return GroupFolder(self._world.add_group_folder(name, *groups), name)

    def rule(self, folder: GroupFolder, path: str, group: str, *, read: bool) -> None:
        self._world.rule_by_hand(self._world.resolve(ALICE, f"/{path}").node.id, group, read=read)

    def board(self, owner: str) -> Board:
        title = f"{self.mark} {secrets.token_hex(3)}"
        board = self._world.add_board(owner, title)
        return Board(board, self._world.stacks_of(board)[0].id, owner, title)

    def share_board(self, board: Board, user: str) -> None:
        self._world.share_board(board.id, with_user=user)

    def unshare_board(self, board: Board, user: str) -> None:
        self._world.unshare_board(board.id, with_user=user)

    def card(self, board: Board, title: str, *, text: str = "", label: str = "") -> int:
        return self._world.add_card(board.stack, title, description=text, labels=[label] if label else [])

    def edit_card(self, board: Board, card: int, *, title: str, text: str) -> None:
        self._world.edit_card(card, title=title, description=text)

    def move_card(self, board: Board, card: int, target: Board) -> None:
        self._world.move_card(card, target.stack)

    def archive_card(self, board: Board, card: int) -> None:
        self._world.archive_card(card)

    def adopt(self, address: str) -> None:
        self._exapp.url = address
        asyncio.run(appapi.register(self._served.apps, self._exapp))

    def deliver(self, has_arrived: Callable[[], bool]) -> None:
        with ThreadPoolExecutor(1) as aside:  # whoever waits may be in an event loop
            aside.submit(lambda: asyncio.run(self._served.webhooks.deliver())).result()

    def now(self) -> float:
        return self._clock()

    def later(self, seconds: float) -> None:
        self._clock.ahead += seconds

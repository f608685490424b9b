# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""People's hands: what tests do to a Nextcloud, the same on every server.

Files and shares go over the public APIs everywhere. Accounts, groups and boards go over them on a real server; the
stand-in has no such routes for writing, so there the world is changed directly. The ExApp stands in for everybody, as
passwords are made to be slow; they are there for what depends on them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import httpx

from demo import appapi
from demo.gate import ExApp
from demo.server import Served
from demo.world import World
from tests.contract.probe import ROUTES

ALICE, BOB, CAROL = "alice", "bob", "carol"
_OCS = {"OCS-APIRequest": "true", "Accept": "application/json"}
_VIEW_ONLY = json.dumps([{"scope": "permissions", "key": "download", "value": False}])


class Clock:
    """The time of day, which a test may put forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@dataclass(frozen=True, slots=True)
class Credentials:
    """What an ExApp signs with. port: where Nextcloud expects it to listen."""

    id: str
    secret: str
    version: str
    port: int = 0


class Hand(ABC):
    """One Nextcloud, written as its people would. All names of a run carry `mark`, and `clean` takes them away."""

    def __init__(self, url: str, app: Credentials, passwords: dict[str, str]) -> None:
        self.url = url
        self.app = app
        self.mark = f"contract-{secrets.token_hex(4)}"
        self._passwords = passwords
        self._client = httpx.Client(base_url=url, timeout=60, trust_env=False)
        self._undo = ExitStack()
        self._undo.callback(self._client.close)

    # --- asking

    def ask(self, user: str | None, method: str, path: str, **options: Any) -> httpx.Response:
        """A request with this user's password, or as nobody."""
        self._client.cookies.clear()  # a session would outlive the user it is for
        auth = (user, self._passwords[user]) if user else None
        return self._client.request(method, path, auth=auth, **options)

    def ask_signed(
        self, user: str, method: str, path: str, *, secret: str | None = None, **options: Any
    ) -> httpx.Response:
        """A request that the ExApp signs for this user; for nobody when it is empty."""
        pair = base64.b64encode(f"{user}:{secret or self.app.secret}".encode()).decode()
        signature = {"EX-APP-ID": self.app.id, "EX-APP-VERSION": self.app.version, "AUTHORIZATION-APP-API": pair}
        headers = {**signature, "OCS-APIRequest": "true", **(options.pop("headers", None) or {})}
        self._client.cookies.clear()
        return self._client.request(method, path, headers=headers, **options)

    def proxied(self, user: str | None, method: str, path: str, **options: Any) -> httpx.Response:
        """A request to the ExApp through AppAPI's proxy; the path is sent as it is given."""
        address = httpx.URL(self.url).copy_with(raw_path=f"/index.php/apps/app_api/proxy/{self.app.id}/{path}".encode())
        self._client.cookies.clear()
        auth = (user, self._passwords[user]) if user else None
        return self._client.request(method, address, auth=auth, **options)

    # --- files and shares

    def folder(self, user: str) -> str:
        """A new, empty folder of this test alone, at the top of the user's files; its path."""
        path = f"{self.mark}-{secrets.token_hex(3)}"
        self.mkdir(user, path)
        self._undo.callback(self.ask_signed, user, "DELETE", _files(user, path))
        return path

    def mkdir(self, user: str, path: str) -> int:
        """Make a folder; its file id."""
        return _id_of(_done(self.ask_signed(user, "MKCOL", _files(user, path))))

    def write(self, user: str, path: str, body: str | bytes, *, headers: dict[str, str] | None = None) -> int:
        """Upload a file; its file id."""
        return _id_of(self.put(user, path, body, headers=headers))

    def put(self, user: str, path: str, body: str | bytes, *, headers: dict[str, str] | None = None) -> httpx.Response:
        """Upload a file; the whole answer."""
        return _done(self.ask_signed(user, "PUT", _files(user, path), content=body, headers=headers))

    def move(self, user: str, old: str, new: str) -> None:
        """Rename or move."""
        target = f"{self.url}{_files(user, new)}"
        _done(self.ask_signed(user, "MOVE", _files(user, old), headers={"Destination": target}))

    def delete(self, user: str, path: str) -> None:
        """To the trash."""
        _done(self.ask_signed(user, "DELETE", _files(user, path)))

    def share(self, owner: str, path: str, *, with_user: str = "", with_group: str = "", download: bool = True) -> str:
        """Let a user or a group read a file or folder; the share's id."""
        form = {
            "path": f"/{path}",
            "shareType": "0" if with_user else "1",
            "shareWith": with_user or with_group,
            "permissions": "1",
        }
        if not download:
            form["attributes"] = _VIEW_ONLY
        answer = self.ask_signed(owner, "POST", "/ocs/v2.php/apps/files_sharing/api/v1/shares", data=form, headers=_OCS)
        return str(_done(answer).json()["ocs"]["data"]["id"])

    def unshare(self, owner: str, share: str) -> None:
        """Take a share back."""
        _done(self.ask_signed(owner, "DELETE", f"/ocs/v2.php/apps/files_sharing/api/v1/shares/{share}", headers=_OCS))

    # --- accounts and groups

    def user(self, name: str = "") -> str:
        """A new account that never logged in; its id, which holds a space and an at sign."""
        uid = f"{self.mark} {name or 'person'}@{secrets.token_hex(3)}"
        self._passwords[uid] = secrets.token_urlsafe(18)
        self._add_user(uid, self._passwords[uid])
        self._undo.callback(self._remove_user, uid)
        return uid

    def group(self, *members: str) -> str:
        """A new group with these members; its id."""
        group = f"{self.mark}-{secrets.token_hex(3)}"
        self._add_group(group)
        self._undo.callback(self._remove_group, group)
        for member in members:
            self.join(member, group)
        return group

    def log_in(self, user: str) -> None:
        """The first thing that a person does."""
        _done(self.ask(user, "PROPFIND", _files(user, ""), headers={"Depth": "0"}))

    @abstractmethod
    def join(self, user: str, group: str) -> None:
        """Put a user into a group."""

    @abstractmethod
    def leave(self, user: str, group: str) -> None:
        """Take a user out of a group."""

    @abstractmethod
    def disable(self, user: str) -> None:
        """Switch an account off."""

    @abstractmethod
    def set_notes_folder(self, user: str, path: str) -> None:
        """Choose where a user's notes lie."""

    @abstractmethod
    def _add_user(self, user: str, password: str) -> None: ...

    @abstractmethod
    def _remove_user(self, user: str) -> None: ...

    @abstractmethod
    def _add_group(self, group: str) -> None: ...

    @abstractmethod
    def _remove_group(self, group: str) -> None: ...

    # --- boards

    @abstractmethod
    def board(self, owner: str) -> Board:
        """A new board with one stack."""

    @abstractmethod
    def share_board(self, board: Board, user: str) -> None:
        """Let a user read a board."""

    @abstractmethod
    def unshare_board(self, board: Board, user: str) -> None:
        """Take that back."""

    @abstractmethod
    def card(self, board: Board, title: str, *, text: str = "", label: str = "") -> int:
        """A new card in the board's stack; its id."""

    @abstractmethod
    def edit_card(self, board: Board, card: int, *, title: str, text: str) -> None:
        """Give a card another title and text."""

    @abstractmethod
    def move_card(self, board: Board, card: int, target: Board) -> None:
        """To another board."""

    @abstractmethod
    def archive_card(self, board: Board, card: int) -> None:
        """Put a card away."""

    # --- the ExApp, time, and the end

    @abstractmethod
    def adopt(self, address: str) -> None:
        """Let the server find the probe, which listens at this address."""

    @abstractmethod
    def now(self) -> float:
        """The server's time, in seconds since the epoch."""

    @abstractmethod
    def later(self, seconds: float) -> None:
        """Let time pass on the server."""

    def clean(self) -> None:
        """Undo what this run did, newest first."""
        self._undo.close()


@dataclass(frozen=True, slots=True)
class Board:
    """A board and its first stack."""

    id: int
    stack: int
    owner: str
    title: str


class StandInHand(Hand):
    """Hands in the stand-in's world."""

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

    def now(self) -> float:
        return self._clock()

    def later(self, seconds: float) -> None:
        self._clock.ahead += seconds


class RealHand(Hand):
    """Hands on a real server. Accounts and groups are made by an admin whom the ExApp stands in for."""

    def __init__(self, url: str, app: Credentials, passwords: dict[str, str], *, admin: str) -> None:
        super().__init__(url, app, passwords)
        self._admin = admin
        self._acl: dict[tuple[int, str], int] = {}
        for user in (ALICE, BOB, CAROL):
            self._undo.callback(self._empty_trash, user)  # last of all

    def join(self, user: str, group: str) -> None:
        self._administer("POST", f"users/{quote(user, safe='')}/groups", groupid=group)

    def leave(self, user: str, group: str) -> None:
        self._administer("DELETE", f"users/{quote(user, safe='')}/groups", groupid=group)

    def disable(self, user: str) -> None:
        self._administer("PUT", f"users/{quote(user, safe='')}/disable")

    def set_notes_folder(self, user: str, path: str) -> None:
        settings = "/index.php/apps/notes/api/v1/settings"
        _done(self.ask_signed(user, "PUT", settings, json={"notesPath": path}, headers=_OCS))

    def _add_user(self, user: str, password: str) -> None:
        self._administer("POST", "users", userid=user, password=password)

    def _remove_user(self, user: str) -> None:
        self._administer("DELETE", f"users/{quote(user, safe='')}")

    def _add_group(self, group: str) -> None:
        self._administer("POST", "groups", groupid=group)

    def _remove_group(self, group: str) -> None:
        self._administer("DELETE", f"groups/{quote(group, safe='')}")

    def _administer(self, method: str, path: str, **form: str) -> None:
        options: dict[str, Any] = {"params": form} if method == "DELETE" else {"data": form}
        _done(self.ask_signed(self._admin, method, f"/ocs/v2.php/cloud/{path}", **options))

    def board(self, owner: str) -> Board:
        title = f"{self.mark} {secrets.token_hex(3)}"
        board = self._deck(owner, "POST", "boards", title=title, color="0087C5")["id"]
        self._undo.callback(self._deck, owner, "DELETE", f"boards/{board}")
        stack = self._deck(owner, "POST", f"boards/{board}/stacks", title="To do", order=1)["id"]
        return Board(board, stack, owner, title)

    def share_board(self, board: Board, user: str) -> None:
        rights = dict.fromkeys(("permissionEdit", "permissionShare", "permissionManage"), False)
        made = self._deck(board.owner, "POST", f"boards/{board.id}/acl", type=0, participant=user, **rights)
        self._acl[board.id, user] = made["id"]

    def unshare_board(self, board: Board, user: str) -> None:
        self._deck(board.owner, "DELETE", f"boards/{board.id}/acl/{self._acl.pop((board.id, user))}")

    def card(self, board: Board, title: str, *, text: str = "", label: str = "") -> int:
        path = f"boards/{board.id}/stacks/{board.stack}/cards"
        card: int = self._deck(board.owner, "POST", path, title=title, type="plain", order=999, description=text)["id"]
        if label:
            made = self._deck(board.owner, "POST", f"boards/{board.id}/labels", title=label, color="31CC7C")
            self._deck(board.owner, "PUT", f"{path}/{card}/assignLabel", labelId=made["id"])
        return card

    def edit_card(self, board: Board, card: int, *, title: str, text: str) -> None:
        given = {"title": title, "description": text, "type": "plain", "owner": board.owner, "order": 999}
        self._deck(board.owner, "PUT", f"boards/{board.id}/stacks/{board.stack}/cards/{card}", duedate=None, **given)

    def move_card(self, board: Board, card: int, target: Board) -> None:
        path = f"boards/{board.id}/stacks/{board.stack}/cards/{card}/reorder"
        self._deck(board.owner, "PUT", path, stackId=target.stack, order=0)

    def archive_card(self, board: Board, card: int) -> None:
        self._deck(board.owner, "PUT", f"boards/{board.id}/stacks/{board.stack}/cards/{card}/archive")

    def _deck(self, user: str, method: str, path: str, **body: object) -> Any:
        answer = self.ask_signed(user, method, f"/index.php/apps/deck/api/v1.0/{path}", json=body, headers=_OCS)
        return _done(answer).json()

    def adopt(self, address: str) -> None:
        pass  # it was registered with the port on which the probe listens

    def now(self) -> float:
        return time.time()  # of the same machine, or at least of one that keeps time

    def later(self, seconds: float) -> None:
        time.sleep(seconds)  # a real server's clock cannot be put forward

    def _empty_trash(self, user: str) -> None:
        """Out of the trash too: what lies there is known by its name."""
        root = f"/remote.php/dav/trashbin/{user}/trash/"
        listed = ElementTree.fromstring(_done(self.ask_signed(user, "PROPFIND", root, headers={"Depth": "1"})).content)
        for href in (element.text or "" for element in listed.iter("{DAV:}href")):
            if href.removeprefix(root).startswith(self.mark):
                self.ask_signed(user, "DELETE", href)


def _files(user: str, path: str) -> str:
    return f"/remote.php/dav/files/{quote(user, safe='')}/{quote(path)}"


def _done(answer: httpx.Response) -> httpx.Response:
    assert answer.is_success, f"{answer.request.method} {answer.request.url} {answer.status_code} {answer.text[:500]}"
    return answer


def _id_of(answer: httpx.Response) -> int:
    """The file id, with which OC-FileId begins."""
    padded = re.match(r"\d+", answer.headers["oc-fileid"])
    assert padded
    return int(padded[0])

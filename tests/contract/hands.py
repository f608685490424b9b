# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""People's hands: what tests do to a Nextcloud, the same on every server.

Files and shares go over the public APIs everywhere. Accounts, groups and boards go over them on a real server; the
stand-in has no such routes for writing, so there the world is changed directly. The ExApp stands in for everybody, as
passwords are made to be slow; they are there for what depends on them.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

ALICE, BOB, CAROL = "alice", "bob", "carol"
OCS_HEADERS = {"OCS-APIRequest": "true", "Accept": "application/json"}
_VIEW_ONLY = json.dumps([{"scope": "permissions", "key": "download", "value": False}])


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
        self._undo.callback(self.ask_signed, user, "DELETE", files(user, path))
        return path

    def mkdir(self, user: str, path: str) -> int:
        """Make a folder; its file id."""
        return _id_of(done(self.ask_signed(user, "MKCOL", files(user, path))))

    def write(self, user: str, path: str, body: str | bytes, *, headers: dict[str, str] | None = None) -> int:
        """Upload a file; its file id."""
        return _id_of(self.put(user, path, body, headers=headers))

    def put(self, user: str, path: str, body: str | bytes, *, headers: dict[str, str] | None = None) -> httpx.Response:
        """Upload a file; the whole answer."""
        return done(self.ask_signed(user, "PUT", files(user, path), content=body, headers=headers))

    def move(self, user: str, old: str, new: str) -> None:
        """Rename or move."""
        target = f"{self.url}{files(user, new)}"
        done(self.ask_signed(user, "MOVE", files(user, old), headers={"Destination": target}))

    def delete(self, user: str, path: str) -> None:
        """To the trash."""
        done(self.ask_signed(user, "DELETE", files(user, path)))

    @abstractmethod
    def copy(self, user: str, old: str, new: str) -> None:
        """Make a copy."""

    @abstractmethod
    def touch(self, user: str, path: str, mtime: int) -> None:
        """Give a file another time of last change, as sync clients do."""

    @abstractmethod
    def restore(self, user: str, path: str, fileid: int) -> None:
        """Out of the trash, to where it lay."""

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
        answer = self.ask_signed(
            owner, "POST", "/ocs/v2.php/apps/files_sharing/api/v1/shares", data=form, headers=OCS_HEADERS
        )
        return str(done(answer).json()["ocs"]["data"]["id"])

    def unshare(self, owner: str, share: str) -> None:
        """Take a share back."""
        done(
            self.ask_signed(
                owner, "DELETE", f"/ocs/v2.php/apps/files_sharing/api/v1/shares/{share}", headers=OCS_HEADERS
            )
        )

    def accept(self, user: str, share: str) -> None:
        """Take what was given to somebody who accepts by hand."""
        pending = f"/ocs/v2.php/apps/files_sharing/api/v1/shares/pending/{share}"
        done(self.ask_signed(user, "POST", pending, headers=OCS_HEADERS))

    @abstractmethod
    def accepts_by_hand(self, user: str) -> None:
        """Let nothing appear among a user's files before he accepts it."""

    # --- tags

    @property
    @abstractmethod
    def admin(self) -> str:
        """The id of somebody who administers the server."""

    @abstractmethod
    def tag(self, user: str, fileid: int) -> str:
        """Give a file or folder a new tag that all may see; the tag's name."""

    @abstractmethod
    def hidden_tag(self, fileid: int) -> str:
        """Give a file or folder of the admin's a new tag that only admins see; the tag's name."""

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
        done(self.ask(user, "PROPFIND", files(user, ""), headers={"Depth": "0"}))

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

    # --- group folders

    @abstractmethod
    def group_folder(self, *groups: str) -> GroupFolder:
        """A new group folder of these groups, of which the first is Alice's; she may set its rules."""

    @abstractmethod
    def rule(self, folder: GroupFolder, path: str, group: str, *, read: bool) -> None:
        """As Alice, let the members of a group read something in it, or not. path: within her files."""

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
    def deliver(self, has_arrived: Callable[[], bool]) -> None:
        """Let the server send off the webhooks that wait, until what is waited for is there, or two minutes."""

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
class GroupFolder:
    """A group folder. path: where its members have it; id: the app's, no file id."""

    id: int
    path: str


@dataclass(frozen=True, slots=True)
class Board:
    """A board and its first stack."""

    id: int
    stack: int
    owner: str
    title: str


def files(user: str, path: str) -> str:
    """The URL path of a user's file."""
    return f"/remote.php/dav/files/{quote(user, safe='')}/{quote(path)}"


def done(answer: httpx.Response) -> httpx.Response:
    """The answer, which must be a success."""
    assert answer.is_success, f"{answer.request.method} {answer.request.url} {answer.status_code} {answer.text[:500]}"
    return answer


def _id_of(answer: httpx.Response) -> int:
    """The file id, with which OC-FileId begins."""
    padded = re.match(r"\d+", answer.headers["oc-fileid"])
    assert padded
    return int(padded[0])

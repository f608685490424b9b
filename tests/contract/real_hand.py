# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Hands on a real server."""

from __future__ import annotations

import secrets
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from tests.contract.hands import ALICE, BOB, CAROL, OCS_HEADERS, Board, Credentials, GroupFolder, Hand, done, files

# What waits for other apps may be in the way.
_DELIVERY_S = 120.0


class RealHand(Hand):
    """Accounts and groups are made by an admin whom the ExApp stands in for."""

    def __init__(self, url: str, app: Credentials, passwords: dict[str, str], *, admin: str, occ: str = "") -> None:
        super().__init__(url, app, passwords)
        self._occ = shlex.split(occ)
        self._admin = admin
        self._acl: dict[tuple[int, str], int] = {}
        for user in (ALICE, BOB, CAROL):
            self._undo.callback(self._empty_trash, user)  # last of all

    @property
    def admin(self) -> str:
        return self._admin

    def copy(self, user: str, old: str, new: str) -> None:
        target = f"{self.url}{files(user, new)}"
        done(self.ask_signed(user, "COPY", files(user, old), headers={"Destination": target}))

    def touch(self, user: str, path: str, mtime: int) -> None:
        body = (
            '<d:propertyupdate xmlns:d="DAV:"><d:set><d:prop>'
            f"<d:lastmodified>{mtime}</d:lastmodified></d:prop></d:set></d:propertyupdate>"
        )
        answer = done(self.ask_signed(user, "PROPPATCH", files(user, path), content=body))
        assert "200 OK" in answer.text, answer.text

    def restore(self, user: str, path: str, fileid: int) -> None:
        name = path.rpartition("/")[2]
        (href,) = (href for href in self._trash(user) if href.startswith(f"{_trash(user)}{quote(name)}.d"))
        target = f"{self.url}/remote.php/dav/trashbin/{user}/restore/{quote(name)}"
        done(self.ask_signed(user, "MOVE", href, headers={"Destination": target}))

    def accepts_by_hand(self, user: str) -> None:
        done(
            self.ask_signed(user, "PUT", "/index.php/apps/files_sharing/settings/defaultAccept", json={"accept": False})
        )

    def tag(self, user: str, fileid: int) -> str:
        return self._tag(user, fileid, userVisible=True, userAssignable=True)

    def hidden_tag(self, fileid: int) -> str:
        return self._tag(self._admin, fileid, userVisible=False, userAssignable=False)

    def _tag(self, user: str, fileid: int, **rights: bool) -> str:
        name, root = f"{self.mark} <&> {secrets.token_hex(3)}", "/remote.php/dav/systemtags"
        made = done(self.ask_signed(self._admin, "POST", f"{root}/", json={"name": name, **rights}))
        number = made.headers["content-location"].rpartition("/")[2]
        self._undo.callback(self.ask_signed, self._admin, "DELETE", f"{root}/{number}")
        done(self.ask_signed(user, "PUT", f"{root}-relations/files/{fileid}/{number}"))
        return name

    def join(self, user: str, group: str) -> None:
        self._administer("POST", f"users/{quote(user, safe='')}/groups", groupid=group)

    def leave(self, user: str, group: str) -> None:
        self._administer("DELETE", f"users/{quote(user, safe='')}/groups", groupid=group)

    def disable(self, user: str) -> None:
        self._administer("PUT", f"users/{quote(user, safe='')}/disable")

    def set_notes_folder(self, user: str, path: str) -> None:
        settings = "/index.php/apps/notes/api/v1/settings"
        done(self.ask_signed(user, "PUT", settings, json={"notesPath": path}, headers=OCS_HEADERS))

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
        done(self.ask_signed(self._admin, method, f"/ocs/v2.php/cloud/{path}", **options))

    def group_folder(self, *groups: str) -> GroupFolder:
        name = f"{self.mark}-{secrets.token_hex(3)}"
        made = self._manage("POST", "", mountpoint=name)
        folder = GroupFolder(int(made["id"]), name)
        self._undo.callback(self._manage, "DELETE", f"/{folder.id}")
        for group in groups:
            self._manage("POST", f"/{folder.id}/groups", group=group)
        self._manage("POST", f"/{folder.id}/acl", acl=1)
        self._manage("POST", f"/{folder.id}/manageACL", mappingType="user", mappingId=ALICE, manageAcl=1)
        # A path of a new group folder is unknown to its members until all their mounts are set up anew.
        for user in (ALICE, BOB, CAROL):
            done(self.ask_signed(user, "PROPFIND", files(user, ""), headers={"Depth": "1"}))
        return folder

    def rule(self, folder: GroupFolder, path: str, group: str, *, read: bool) -> None:
        rule = (
            "<nc:acl><nc:acl-mapping-type>group</nc:acl-mapping-type>"
            f"<nc:acl-mapping-id>{group}</nc:acl-mapping-id><nc:acl-mask>1</nc:acl-mask>"
            f"<nc:acl-permissions>{int(read)}</nc:acl-permissions></nc:acl>"
        )
        body = (
            '<d:propertyupdate xmlns:d="DAV:" xmlns:nc="http://nextcloud.org/ns"><d:set><d:prop>'
            f"<nc:acl-list>{rule}</nc:acl-list></d:prop></d:set></d:propertyupdate>"
        )
        answer = done(self.ask_signed(ALICE, "PROPPATCH", files(ALICE, path), content=body))
        assert "200 OK" in answer.text, answer.text

    def _manage(self, method: str, path: str, **form: object) -> Any:
        address = f"/index.php/apps/groupfolders/folders{path}"
        answer = done(self.ask_signed(self._admin, method, address, json=form, headers=OCS_HEADERS))
        data = answer.json()
        return data["ocs"]["data"] if "ocs" in data else data

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
        # It depends on the apps installed whether the stack in the address counts or the one in the body.
        path = f"boards/{target.id}/stacks/{target.stack}/cards/{card}/reorder"
        self._deck(board.owner, "PUT", path, stackId=target.stack, order=0)

    def archive_card(self, board: Board, card: int) -> None:
        self._deck(board.owner, "PUT", f"boards/{board.id}/stacks/{board.stack}/cards/{card}/archive")

    def _deck(self, user: str, method: str, path: str, **body: object) -> Any:
        answer = self.ask_signed(user, method, f"/index.php/apps/deck/api/v1.0/{path}", json=body, headers=OCS_HEADERS)
        return done(answer).json()

    def adopt(self, address: str) -> None:
        pass  # it was registered with the port on which the probe listens

    def deliver(self, has_arrived: Callable[[], bool]) -> None:
        """By a worker of ours where we were told how to run occ; otherwise by the server's own."""
        job = "OCA\\WebhookListeners\\BackgroundJobs\\WebhookCall"
        worker = (
            subprocess.Popen([*self._occ, "background-job:worker", job], stdout=subprocess.DEVNULL)
            if self._occ
            else None
        )
        try:
            end = time.monotonic() + _DELIVERY_S
            while not has_arrived() and time.monotonic() < end:
                time.sleep(0.1)
        finally:
            if worker:
                worker.send_signal(signal.SIGINT)  # it finishes what it does
                worker.wait(_DELIVERY_S)

    def now(self) -> float:
        return time.time()  # of the same machine, or at least of one that keeps time

    def later(self, seconds: float) -> None:
        time.sleep(seconds)  # a real server's clock cannot be put forward

    def _trash(self, user: str) -> list[str]:
        """What lies in somebody's trash."""
        answer = done(self.ask_signed(user, "PROPFIND", _trash(user), headers={"Depth": "1"}))
        return [element.text or "" for element in ElementTree.fromstring(answer.content).iter("{DAV:}href")]

    def _empty_trash(self, user: str) -> None:
        """Out of the trash too: what lies there is known by its name."""
        for href in self._trash(user):
            if href.removeprefix(_trash(user)).startswith(self.mark):
                self.ask_signed(user, "DELETE", href)


def _trash(user: str) -> str:
    return f"/remote.php/dav/trashbin/{user}/trash/"

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""External storages on each server: a folder of this machine, or of the stand-in's world."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import httpx
import pytest

from demo.world import World
from tests.contract.hands import OCS_HEADERS, Hand, done, files
from tests.contract.stand_in_hand import StandInHand
from tests.contract.wire import search

_STORAGES = "/index.php/apps/files_external/globalstorages"
_APP = "/ocs/v2.php/cloud/apps/files_external"
_NEARBY = {"127.0.0.1", "localhost", "::1"}


class Storage(Protocol):
    """An external storage. path: where those who have it find it."""

    path: str

    def vanish(self) -> None:
        """Let it not answer any more."""

    def come_back(self) -> None:
        """As it was."""

    def give_to(self, *users: str) -> None:
        """Let these have it, and nobody else."""


@contextmanager
def external_storage(hand: Hand, *users: str) -> Iterator[Storage]:
    """A new, empty one that these have. Skips where a server is elsewhere: it could not read our folder."""
    if isinstance(hand, StandInHand):
        imagined = _InWorld(hand._world, f"{hand.mark}-{secrets.token_hex(3)}", users)
        try:
            yield imagined
        finally:
            imagined.give_to()
        return
    if httpx.URL(hand.url).host not in _NEARBY:
        pytest.skip("the server does not share a disk with the tests")
    on = "files_external" in _administer(hand, "GET", "/ocs/v2.php/cloud/apps?filter=enabled").text
    if not on:
        _administer(hand, "POST", _APP)
    folder = Path(tempfile.mkdtemp(prefix="contract-storage-"))
    storage = _OnDisk(hand, folder, users)
    try:
        yield storage
    finally:
        storage.remove()
        shutil.rmtree(folder, ignore_errors=True)
        if not on:
            _administer(hand, "DELETE", _APP)


class _InWorld:
    def __init__(self, world: World, name: str, users: tuple[str, ...]) -> None:
        self.path = name
        self._storage = world.storage(world.add_external(name, users=users))

    def vanish(self) -> None:
        self._storage.dead = self._storage.away = True

    def come_back(self) -> None:
        self._storage.dead = self._storage.away = False

    def give_to(self, *users: str) -> None:
        self._storage.users.clear()
        self._storage.users.update(users)


class _OnDisk:
    def __init__(self, hand: Hand, folder: Path, users: tuple[str, ...]) -> None:
        self.path = f"{hand.mark}-{secrets.token_hex(3)}"
        self._hand, self._folder, self._users = hand, folder, users
        folder.chmod(0o777)  # the server may be somebody else
        self._settings = {
            "mountPoint": f"/{self.path}",
            "backend": "local",
            "authMechanism": "null::null",
            "backendOptions": {"datadir": str(folder)},
            "mountOptions": {"filesystem_check_changes": 1},
            "applicableUsers": [*users],
            "applicableGroups": [],
            "priority": 100,
        }
        self._id = int(_administer(hand, "POST", _STORAGES, json=self._settings).json()["id"])
        self._look()

    def vanish(self) -> None:
        self._folder.rename(f"{self._folder}-away")

    def come_back(self) -> None:
        Path(f"{self._folder}-away").rename(self._folder)

    def give_to(self, *users: str) -> None:
        self._users = users
        told = {**self._settings, "applicableUsers": [*users], "id": self._id}
        _administer(self._hand, "PUT", f"{_STORAGES}/{self._id}", json=told)
        self._look()

    def remove(self) -> None:
        """Take it from everybody, and forget it."""
        _administer(self._hand, "DELETE", f"{_STORAGES}/{self._id}")

    def _look(self) -> None:
        """New to the server until somebody lists the folder that it lies in; by path until all mounts are set up."""
        for user in self._users:
            done(self._hand.ask_signed(user, "PROPFIND", files(user, ""), headers={"Depth": "1"}))
            done(search(self._hand, user, "<d:is-collection/>", "oc:fileid"))


def _administer(hand: Hand, method: str, path: str, **options: object) -> httpx.Response:
    return done(hand.ask_signed(hand.admin, method, path, headers=OCS_HEADERS, **options))

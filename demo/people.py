# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The people of the world, their homes, and what listeners hear."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from demo.habits import Habits
from demo.tree import Node, NotFoundHere


@dataclass(slots=True)
class Person:
    """An account. deck_opened: Deck made its "Personal" board; last_login: seconds since the epoch, 0 for never."""

    uid: str
    display_name: str
    home: Node
    password: str
    app_password: str
    enabled: bool = True
    notes_path: str = "Notes"
    deck_opened: bool = False
    deck_calendar: bool = True
    last_login: int = 1_700_000_000


@dataclass(frozen=True, slots=True)
class Event:
    """What a PHP listener would hear: short class name, acting user, payload as webhook_listeners serialises it."""

    name: str
    uid: str | None
    payload: dict[str, object] = field(default_factory=dict)
    time: int = 0


class People(Habits):
    """Accounts and groups. clock: seconds since the epoch."""

    def __init__(self, clock: Callable[[], float], instance_id: str) -> None:
        super().__init__()
        self.clock = clock
        self.instance_id = instance_id
        self.lock = threading.RLock()
        self.people: dict[str, Person] = {}
        self.groups: dict[str, set[str]] = {"admin": set()}
        self.nodes: dict[int, Node] = {}
        self.events: list[Event] = []
        self._ids = itertools.count(101)
        self._etags = itertools.count(0x6B0D8ED000000)

    def add_user(self, uid: str, display_name: str | None = None, groups: Iterable[str] = ()) -> None:
        """A new account with an empty home; passwords are "<uid>-password" and "<uid>-app-password"."""
        with self.lock:
            home = self._new_node("files", None, folder=True)
            home.home_of = uid
            self.people[uid] = Person(uid, display_name or uid, home, f"{uid}-password", f"{uid}-app-password")
            for group in groups:
                self.join(uid, group)

    def add_group(self, group: str) -> None:
        self.groups.setdefault(group, set())

    def join(self, uid: str, group: str) -> None:
        self.person(uid)
        self.groups.setdefault(group, set()).add(uid)

    def leave(self, uid: str, group: str) -> None:
        self.groups[group].discard(uid)

    def disable(self, uid: str) -> None:
        self.person(uid).enabled = False

    def enable(self, uid: str) -> None:
        self.person(uid).enabled = True

    def set_notes_path(self, uid: str, path: str) -> None:
        self.person(uid).notes_path = path.strip("/")

    def person(self, uid: str) -> Person:
        """Raises NotFoundHere for a stranger."""
        if uid not in self.people:
            raise NotFoundHere(f"no user {uid}")
        return self.people[uid]

    def groups_of(self, uid: str) -> list[str]:
        return sorted(group for group, members in self.groups.items() if uid in members)

    def _new_node(self, name: str, parent: Node | None, *, folder: bool = False) -> Node:
        etag = self._new_etag() if folder else ""
        node = Node(next(self._ids), name, None, etag, int(self.clock()), {} if folder else None)
        self.nodes[node.id] = node
        if parent:
            self._attach(node, parent)
        return node

    def _attach(self, node: Node, parent: Node) -> None:
        assert parent.children is not None
        parent.children[node.name], node.parent = node, parent

    def _new_etag(self) -> str:
        return f"{next(self._etags):x}"

    def _touched(self, folder: Node | None) -> None:
        """A write gives every folder up to the home one new ETag; readers' roots include their mounts'."""
        etag = self._new_etag()
        for node in folder.lineage() if folder else ():
            node.etag, node.mtime = etag, int(self.clock())

    def _emit(self, name: str, uid: str | None, payload: dict[str, object]) -> None:
        self.events.append(Event(name, uid, payload, int(self.clock())))

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""A change that Nextcloud tells of becomes work. It is a hint, never a fact: the worker reads the present.

What it is about is known by id alone. The paths in an event are those of whoever acted, and may be of any tree.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ex_app.domain import DocumentKey, Lane, ScopeId, SemanticSearchError
from ex_app.store.registry import Due, Registry

log = logging.getLogger(__name__)

_FILE = "file"
_CARD = "deck_card"

# Whatever an event names more of is left to the next sweep: nobody tags so many files at once by hand.
_MOST_IDS = 1000

_LARGEST_ID = 10**18


class NotUnderstood(SemanticSearchError):
    """An event that means nothing to us; the message is one of a few words, none of them from the event."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something happened to these. tree: to whom the path in the event belongs, which decides nothing."""

    lane: Lane
    files: tuple[int, ...] = ()
    cards: tuple[int, ...] = ()
    boards: tuple[int, ...] = ()
    tree: str = ""


Body = Mapping[str, Any]


def read_event(payload: bytes) -> Change:
    """What webhook_listeners sent. Raises NotUnderstood."""
    try:
        told = json.loads(payload)
    except (ValueError, RecursionError):
        raise NotUnderstood("no JSON") from None
    event = told.get("event") if isinstance(told, dict) else None
    if not isinstance(event, dict):
        raise NotUnderstood("no event")
    reader = _READERS.get(str(event.get("class", "")).lstrip("\\"))
    if reader is None:
        raise NotUnderstood("unknown class")
    return reader(event)


class Intake:
    """Turns changes into work and wishes to walk. misunderstood: how often events of which kind meant nothing to us."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.misunderstood: Counter[str] = Counter()

    async def take(self, payload: bytes, *, actor: str) -> None:
        """Note an event; durable on return. actor: the user who did it, empty for somebody with a public link.

        Raises NotAvailable. An event that means nothing is counted, and logged when its kind is met for the first time.
        """
        try:
            change = read_event(payload)
        except NotUnderstood as error:
            self.dismiss(str(error))
            return
        await self._files(change, actor)
        if change.cards or change.boards:
            await self._boards(change, actor)

    def dismiss(self, kind: str) -> None:
        """Count an event of which nothing is made."""
        self.misunderstood[kind] += 1
        if self.misunderstood[kind] == 1:
            log.warning("event=event_not_understood kind=%r", kind)

    async def _files(self, change: Change, actor: str) -> None:
        """Files become work. Of a folder its walker looks what became of it: nobody tells of what lies in it."""
        dues: list[Due] = []
        wishes: set[str] = set()
        for fileid in change.files:
            key = DocumentKey(_FILE, fileid)
            walkers = await self._registry.walkers(_FILE, ScopeId(f"f:{fileid}"))
            if walkers:
                wishes.update(walkers, (actor,))
            elif actor or await self._is_known(key):
                dues.append(Due(key, change.lane, actor))
            elif change.tree in await self._registry.everybody():
                # Somebody without an account left something: only a walk can tell whose it is.
                wishes.add(change.tree)
        await self._registry.enqueue_many(dues)
        await self._registry.wishes.add(wishes - {""})

    async def _boards(self, change: Change, actor: str) -> None:
        """A card is read, and its board walked: when a card moved, Deck may name another one."""
        boards = {ScopeId(f"deck:{board}") for board in change.boards}
        wishes = {actor}
        for card in change.cards:
            row = await self._registry.document(DocumentKey(_CARD, card))
            boards |= {row.parent} if row and row.parent else set()
        for board in sorted(boards):
            wishes.update(await self._registry.walkers(_CARD, board))
        await self._registry.enqueue_many([Due(DocumentKey(_CARD, card), change.lane, actor) for card in change.cards])
        await self._registry.wishes.add(wishes - {""})

    async def _is_known(self, key: DocumentKey) -> bool:
        row = await self._registry.document(key)
        return row is not None and bool(row.parent)


def _node(part: str, lane: Lane) -> Callable[[Body], Change]:
    """Of an event about a file or folder; part: which of those that it names it is about."""

    def read(event: Body) -> Change:
        node = event.get(part)
        if not isinstance(node, dict):
            raise NotUnderstood("no file")
        if "id" not in node:
            return Change(lane)  # newer servers do not know it any more once the file is gone, and named it before
        path = node.get("path")
        tree = path.split("/")[1] if isinstance(path, str) and path.startswith("/") else ""
        return Change(lane, files=(_id(node["id"]),), tree=tree)

    return read


def _tags(event: Body) -> Change:
    if event.get("objectType") != "files":
        return Change(Lane.ACCESS)
    ids = event.get("objectIds")
    if not isinstance(ids, list) or len(ids) > _MOST_IDS:
        raise NotUnderstood("no list of files")
    return Change(Lane.ACCESS, files=tuple(map(_id, ids)))


def _card(lane: Lane) -> Callable[[Body], Change]:
    def read(event: Body) -> Change:
        card = event.get("card")
        if not isinstance(card, dict):
            raise NotUnderstood("no card")
        return Change(lane, cards=(_id(card.get("id")),))

    return read


def _acl(event: Body) -> Change:
    acl = event.get("acl")
    return _board(acl if isinstance(acl, dict) else {})


def _board(event: Body) -> Change:
    return Change(Lane.ACCESS, boards=(_id(event.get("boardId")),))


def _id(value: object) -> int:
    """An id of Nextcloud's, as number or as text. Raises NotUnderstood."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len(str(_LARGEST_ID)):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < _LARGEST_ID:
        raise NotUnderstood("no id")
    return value


_READERS: Mapping[str, Callable[[Body], Change]] = {
    **{f"OCP\\Files\\Events\\Node\\Node{name}Event": _node("node", Lane.CONTENT) for name in ("Created", "Written")},
    "OCP\\Files\\Events\\Node\\NodeTouchedEvent": _node("node", Lane.CONTENT),
    "OCP\\Files\\Events\\Node\\NodeCopiedEvent": _node("target", Lane.CONTENT),
    "OCP\\Files\\Events\\Node\\NodeRenamedEvent": _node("target", Lane.ACCESS),
    "OCP\\Files\\Events\\Node\\NodeDeletedEvent": _node("node", Lane.ACCESS),
    "OCP\\Files\\Events\\Node\\BeforeNodeDeletedEvent": _node("node", Lane.ACCESS),
    "OCP\\SystemTag\\TagAssignedEvent": _tags,
    "OCP\\SystemTag\\TagUnassignedEvent": _tags,
    "OCA\\Deck\\Event\\CardCreatedEvent": _card(Lane.CONTENT),
    "OCA\\Deck\\Event\\CardUpdatedEvent": _card(Lane.CONTENT),
    "OCA\\Deck\\Event\\CardDeletedEvent": _card(Lane.ACCESS),
    **{f"OCA\\Deck\\Event\\Acl{name}Event": _acl for name in ("Created", "Updated", "Deleted")},
    "OCA\\Deck\\Event\\BoardUpdatedEvent": _board,
}

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The Deck part of the world: boards, stacks, cards and who may read them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from demo.people import People

_COLOURS = ("31CC7C", "317CCC", "FF7A66", "F1DB50")


@dataclass(eq=False, slots=True)
class Acl:
    """A participant of a board: a user or a group."""

    id: int
    with_user: str | None
    with_group: str | None


@dataclass(eq=False, slots=True)
class Board:
    """A board. last_modified: whole seconds, 0 until something happens in it."""

    id: int
    owner: str
    title: str
    colour: str = "0087C5"
    acl: list[Acl] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    archived: bool = False
    deleted_at: int = 0
    last_modified: int = 0


@dataclass(eq=False, slots=True)
class Stack:
    """A list of a board."""

    id: int
    board: int
    title: str
    order: int
    last_modified: int = 0


@dataclass(eq=False, slots=True)
class Card:
    """A card; all edits within one second share one last_modified and so one ETag."""

    id: int
    stack: int
    title: str
    description: str
    labels: tuple[str, ...]
    due: datetime | None
    owner: str
    created: int
    last_modified: int
    archived: bool = False
    deleted_at: int = 0


class Boards(People):
    """People and their boards."""

    def __init__(self, clock: Callable[[], float], instance_id: str) -> None:
        super().__init__(clock, instance_id)
        self.boards: dict[int, Board] = {}
        self.stacks: dict[int, Stack] = {}
        self.cards: dict[int, Card] = {}
        self._deck_ids = itertools.count(1)

    def add_board(self, owner: str, title: str) -> int:
        """A board with one stack "To do"; its owner has used Deck from now on."""
        with self.lock:
            self.person(owner).deck_opened = True
            board = Board(next(self._deck_ids), owner, title, last_modified=int(self.clock()))
            self.boards[board.id] = board
            self.add_stack(board.id, "To do")
            return board.id

    def add_stack(self, board: int, title: str) -> int:
        with self.lock:
            order = sum(stack.board == board for stack in self.stacks.values())
            stack = Stack(next(self._deck_ids), board, title, order)
            self.stacks[stack.id] = stack
            self._board_changed(board)
            return stack.id

    def share_board(self, board: int, *, with_user: str | None = None, with_group: str | None = None) -> int:
        """Let a user or a group read a board; returns the ACL id."""
        with self.lock:
            acl = Acl(next(self._deck_ids), with_user, with_group)
            self.boards[board].acl.append(acl)
            self._board_changed(board)
            self._emit("AclCreated", self.boards[board].owner, {"acl": {"id": acl.id, "boardId": board}})
            return acl.id

    def unshare_board(self, board: int, *, with_user: str | None = None, with_group: str | None = None) -> None:
        with self.lock:
            kept = [a for a in self.boards[board].acl if (a.with_user, a.with_group) != (with_user, with_group)]
            self.boards[board].acl = kept
            self._board_changed(board)
            self._emit("AclDeleted", self.boards[board].owner, {"acl": {"boardId": board}})

    def archive_board(self, board: int) -> None:
        self.boards[board].archived = True
        self._board_changed(board)

    def delete_board(self, board: int) -> None:
        """Softly; Deck tells nobody."""
        self.boards[board].deleted_at = int(self.clock())

    def add_card(
        self,
        where: int,
        title: str,
        *,
        description: str = "",
        labels: Iterable[str] = (),
        due: datetime | None = None,
    ) -> int:
        """A card in a stack, or in a board's first stack; returns its id."""
        with self.lock:
            stack = where if where in self.stacks else min(s.id for s in self.stacks.values() if s.board == where)
            board, now = self.boards[self.stacks[stack].board], int(self.clock())
            card = Card(next(self._deck_ids), stack, title, description, tuple(labels), due, board.owner, now, now)
            self.cards[card.id] = card
            self._card_changed(card, "CardCreated")
            return card.id

    def edit_card(
        self,
        card_id: int,
        *,
        title: str | None = None,
        description: str | None = None,
        labels: Iterable[str] | None = None,
    ) -> None:
        """Change what is given."""
        with self.lock:
            card = self.cards[card_id]
            card.title = card.title if title is None else title
            card.description = card.description if description is None else description
            card.labels = card.labels if labels is None else tuple(labels)
            self._card_changed(card, "CardUpdated")

    def move_card(self, card_id: int, stack: int) -> None:
        """Also to another board: only the target board looks changed, and the event names that stack's last card."""
        with self.lock:
            card = self.cards[card_id]
            last = max((c.id for c in self.cards.values() if c.stack == stack), default=card_id)
            card.stack = stack
            self._card_changed(card, "CardUpdated", named=last)

    def archive_card(self, card_id: int) -> None:
        with self.lock:
            self.cards[card_id].archived = True
            self._card_changed(self.cards[card_id], "CardUpdated")

    def unarchive_card(self, card_id: int) -> None:
        with self.lock:
            self.cards[card_id].archived = False
            self._card_changed(self.cards[card_id], "CardUpdated")

    def delete_card(self, card_id: int) -> None:
        """Softly, as Deck does."""
        with self.lock:
            self.cards[card_id].deleted_at = int(self.clock())
            self._card_changed(self.cards[card_id], "CardDeleted")

    def open_deck(self, uid: str) -> None:
        """What any first Deck call of a user does: make the board "Personal" with three cards."""
        with self.lock:
            if self.person(uid).deck_opened:
                return
            board = self.add_board(uid, "Personal")
            self.stacks[max(self.stacks)].title = "To do"
            stacks = [max(self.stacks), self.add_stack(board, "Doing"), self.add_stack(board, "Done")]
            for number, stack in zip((3, 2, 1), stacks, strict=True):
                self.add_card(stack, f"Example Task {number}")

    def board_readable(self, uid: str, board_id: int) -> bool:
        """By ownership or ACL; a deleted board is nobody's."""
        board = self.boards.get(board_id)
        if not board or board.deleted_at:
            return False
        mine = self.groups_of(uid)
        return board.owner == uid or any(acl.with_user == uid or acl.with_group in mine for acl in board.acl)

    def card_alive(self, card_id: int) -> bool:
        """Neither it nor its board was deleted."""
        card = self.cards.get(card_id)
        return card is not None and not card.deleted_at and not self.boards[self.stacks[card.stack].board].deleted_at

    def card_readable(self, uid: str, card_id: int) -> bool:
        return self.card_alive(card_id) and self.board_readable(uid, self.stacks[self.cards[card_id].stack].board)

    def boards_of(self, uid: str) -> list[Board]:
        """Boards a user may read, archived ones included."""
        return [board for board in self.boards.values() if self.board_readable(uid, board.id)]

    def cards_of(self, stack: int) -> list[Card]:
        """Cards of a stack that are neither archived nor deleted."""
        return [c for c in self.cards.values() if c.stack == stack and not c.archived and not c.deleted_at]

    def stacks_of(self, board: int) -> list[Stack]:
        return [stack for stack in self.stacks.values() if stack.board == board]

    def label(self, board: Board, title: str) -> dict[str, object]:
        """A label as Deck's REST shows it; ids and colours are made when first used."""
        label_id = board.labels.setdefault(title, len(board.labels) + board.id * 100)
        return {"id": label_id, "title": title, "color": _COLOURS[label_id % len(_COLOURS)], "boardId": board.id}

    def _card_changed(self, card: Card, event: str, *, named: int | None = None) -> None:
        stack = self.stacks[card.stack]
        card.last_modified = stack.last_modified = int(self.clock())
        self._board_changed(stack.board)
        told = self.cards[named or card.id]
        payload = {"id": told.id, "title": told.title, "description": told.description, "stackId": told.stack}
        self._emit(event, card.owner, {"card": payload})

    def _board_changed(self, board: int) -> None:
        self.boards[board].last_modified = int(self.clock())

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What people do in a hunted world: one method a doing, all of its choices made by one number.

A doing that is not possible as things stand is left out, so that any part of a list of steps can be played by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from leak_rules import Judge

from demo.tree import ALL, READ, Conflicting, NotAllowed, NotFoundHere, Seen, join, split
from demo.world import World

PEOPLE = ("alice", "bob", "carol", "dora", "emil")
GROUPS = ("staff", "board", "guests")

# Every text has the first word, so that one question finds all that a user may read.
COMMON = "ledger"
_VOCABULARY = ["budget", "hotel", "travel", "invoice", "supplier", "contract", "meeting", "garden", "kitchen", "window"]
_VOCABULARY += ["bridge", "harvest", "engine", "paper", "salary", "holiday", "server", "backup", "printer", "lunch"]
_VOCABULARY += ["museum", "river", "station", "market", "letter", "carpet", "mirror", "blanket"]

# How a file begins whose words nobody can read.
PICTURE = b"\x89PNG\r\n\x1a\n"

# With more a page of 100 hits would not hold all that somebody may read.
_DOCUMENTS = 85
_CARDS = 12  # an answer with cards takes long to read
_DISABLED = 2

# With what a world begins: folders for others, files and cards.
_BUILDING = ["write"] * 16 + ["team"] * 5 + ["mkdir"] + ["share"] * 2 + ["join_group"] * 4
_BUILDING += ["add_board"] * 2 + ["add_card"] * 6 + ["share_board"] * 4

IMPOSSIBLE = (NotFoundHere, NotAllowed, Conflicting, LookupError)


class Doings:
    """The steps that change the world alone; the app is not told."""

    def __init__(self, world: World, judge: Judge, forward: Callable[[float], None]) -> None:
        self.world = world
        self.judge = judge
        self.forward = forward
        self.words: Iterator[str] = _distinct_words()
        self.deleted: list[tuple[str, str, int]] = []
        self.blocked: set[int] = set()
        self._mounts = world.mounts  # half of the stand-in's time goes into these

    def do(self, name: str, r: Random) -> None:
        """Do one of MUTATIONS, as far as it is possible."""
        with self.changing(), suppress(*IMPOSSIBLE):
            getattr(self, name)(r)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """While the world changes nobody's mounts are remembered, nor those from before it did."""
        self.world.mounts = self._mounts  # type: ignore[method-assign]
        yield
        self.world.mounts = cache(self._mounts)  # type: ignore[method-assign]

    def found(self, r: Random) -> None:
        """Some doings with which a world begins."""
        for _ in range(14):
            self.do(r.choice(_BUILDING), r)

    # --- files

    def write(self, r: Random) -> None:
        """A new file, a note, an upload; now and then where one was deleted."""
        if len(self.world.all_documents()) >= _DOCUMENTS:
            return
        user = r.choice(PEOPLE)
        name = f"{r.choice(_VOCABULARY)} {next(self.words)}.{r.choice(['md', 'md', 'md', 'txt', 'txt', 'png'])}"
        path = join(r.choice(self._folders(user) or ["/"]) if r.random() < 0.8 else r.choice(["/", "/Notes"]), name)
        if self.deleted and r.random() < 0.25:
            user, path, _ = r.choice(self.deleted)
        self._save(r, user, path, long=r.random() < 0.02)

    def edit(self, r: Random) -> None:
        """New text, often within the second of the last one; sometimes by a client that sets a time or a checksum."""
        user, seen = self._some_file(r)
        self._save(r, user, seen.path, long=len(seen.node.data) > 20_000)

    def edit_twice(self, r: Random) -> None:
        user, seen = self._some_file(r)
        for _ in range(2):
            self._save(r, user, seen.path, long=False)

    def edit_alike(self, r: Random) -> None:
        """Other bytes of the same number, perhaps within the same second."""
        user, seen = self._some_file(r)
        self._save_alike(user, seen.path)

    def overwrite_unnoticed(self, r: Random) -> None:
        """The known limit: other bytes of the same number under the old time, without a checksum."""
        user, seen = self._some_file(r)
        self._save_alike(user, seen.path, mtime=seen.node.mtime, via="dav")

    def rename(self, r: Random) -> None:
        user, seen = self._some_file(r)
        name = f"{r.choice(_VOCABULARY)} {next(self.words)}.{seen.path.rpartition('.')[2]}"
        self._move(user, seen.path, join(split(seen.path)[0], name))

    def move(self, r: Random) -> None:
        """A file to any folder of this user's, received ones included."""
        user, seen = self._some_file(r)
        self._move(user, seen.path, join(r.choice([*self._folders(user), "/"]), split(seen.path)[1]))

    def move_folder(self, r: Random) -> None:
        user = r.choice(PEOPLE)
        folders = self._folders(user)
        old = r.choice(folders)
        name = r.choice([split(old)[1], next(self.words)])
        self._move(user, old, join(r.choice([*folders, "/"]), name))

    def swap(self, r: Random) -> None:
        """Two files exchange their places: what a path says is not what a document is."""
        user, one = self._some_file(r)
        other = r.choice([seen for seen in self._files(user) if seen.node is not one.node])
        aside = join(split(one.path)[0], f"aside {next(self.words)}.md")
        self._move(user, one.path, aside)
        self._move(user, other.path, one.path)
        self._move(user, aside, other.path)

    def mkdir(self, r: Random) -> None:
        user = r.choice(PEOPLE)
        self.world.mkdir(user, join(r.choice([*self._folders(user), "/"]), next(self.words)))

    def team(self, r: Random) -> None:
        """A folder of somebody's for others to read, or to write to."""
        owner, path = r.choice(PEOPLE), f"/{next(self.words)}"
        self.world.mkdir(owner, path)
        for _ in range(2):
            self._share(r, owner, path)

    def delete(self, r: Random) -> None:
        user, seen = self._some_file(r)
        self.world.delete(user, seen.path)
        self.deleted.append((user, seen.path, seen.node.id))

    def delete_folder(self, r: Random) -> None:
        user = r.choice(PEOPLE)
        path = r.choice(self._folders(user))
        inside = [(user, seen.path, seen.node.id) for seen in self.world.walk(user, path) if not seen.node.is_folder]
        if len(inside) <= 8:
            self.world.delete(user, path)
            self.deleted += inside

    def restore(self, r: Random) -> None:
        """Out of the trash, where nothing took its place."""
        self.world.restore(*r.choice(self.deleted))

    def touch(self, r: Random) -> None:
        user, seen = self._some_file(r)
        self.world.touch(user, seen.path, self.world.clock() - r.choice([0, 1, 3600, -3600]))
        key = f"file:{seen.node.id}"
        self.judge.present[key] = replace(self.judge.present[key], timed=True)

    def block(self, r: Random) -> None:
        """A rule forbids reading a file or all in a folder: listed without G."""
        user = r.choice(PEOPLE)
        number = r.choice([*self.world.walk(user)]).node.id
        self.world.block(number)
        self.blocked.add(number)

    def unblock(self, r: Random) -> None:
        self.world.unblock(r.choice(sorted(self.blocked)))

    # --- who may see it

    def share(self, r: Random) -> None:
        owner = r.choice(PEOPLE)
        seen = r.choice([seen for seen in self.world.walk(owner) if not seen.mount])
        self._share(r, owner, seen.path)

    def unshare(self, r: Random) -> None:
        self.world.unshare(r.choice(sorted(self.world.shares)))

    def leave_share(self, r: Random) -> None:
        user, mount = self._some_mount(r)
        self.world.leave_share(user, mount.shares[0].id)

    def move_mount(self, r: Random) -> None:
        """A recipient puts what he received elsewhere in his own tree."""
        user, mount = self._some_mount(r)
        self.world.move(user, mount.path, join(r.choice([*self._folders(user), "/"]), next(self.words)))

    def join_group(self, r: Random) -> None:
        self.world.join(r.choice(PEOPLE), r.choice(GROUPS))

    def leave_group(self, r: Random) -> None:
        self.world.leave(r.choice(PEOPLE), r.choice(GROUPS))

    def disable(self, r: Random) -> None:
        if sum(not person.enabled for person in self.world.people.values()) < _DISABLED:
            self.world.disable(r.choice(PEOPLE))

    def enable(self, r: Random) -> None:
        self.world.enable(r.choice(PEOPLE))

    # --- boards

    def add_board(self, r: Random) -> None:
        if len(self.world.boards) < 6:
            self.world.add_board(r.choice(PEOPLE), f"Board {next(self.words)}")

    def add_card(self, r: Random) -> None:
        if len(self._cards()) >= _CARDS:
            return
        token = next(self.words)
        title = f"{r.choice(_VOCABULARY)} {token}"
        card = self.world.add_card(r.choice(self._boards()), title, description=_prose(r, token))
        self.judge.note(f"deck_card:{card}", token)

    def edit_card(self, r: Random) -> None:
        card, token = r.choice(self._cards()), next(self.words)
        title = f"{r.choice(_VOCABULARY)} {token}" if r.random() < 0.5 else None
        self.world.edit_card(card, title=title, description=_prose(r, token))
        self.judge.note(f"deck_card:{card}", token)

    def move_card(self, r: Random) -> None:
        stacks = [stack.id for board in self._boards() for stack in self.world.stacks_of(board)]
        self.world.move_card(r.choice(self._cards()), r.choice(stacks))

    def archive_card(self, r: Random) -> None:
        card = r.choice(self._cards())
        if self.world.cards[card].archived:
            self.world.unarchive_card(card)
        else:
            self.world.archive_card(card)

    def delete_card(self, r: Random) -> None:
        self.world.delete_card(r.choice(self._cards()))

    def share_board(self, r: Random) -> None:
        to = r.choice([{"with_user": r.choice(PEOPLE)}, {"with_group": r.choice(GROUPS)}])
        self.world.share_board(r.choice(self._boards()), **to)

    def unshare_board(self, r: Random) -> None:
        board, acl = r.choice([(board, acl) for board in self._boards() for acl in self.world.boards[board].acl])
        self.world.unshare_board(board, with_user=acl.with_user, with_group=acl.with_group)

    def end_board(self, r: Random) -> None:
        r.choice([self.world.archive_board, self.world.delete_board])(r.choice(self._boards()))

    # --- time

    def clock(self, r: Random) -> None:
        self.forward(r.choice([0.4, 1.0, 1.0, 2.1, 3.0, 5.0, 61.0, 130.0, 700.0, 90_000.0]))

    # --- choices

    def _save_alike(self, user: str, path: str, **more: Any) -> None:
        """Only the recognisable word changes."""
        node = self.world.resolve(user, path).node
        old, new = self.judge.present[f"file:{node.id}"].token, next(self.words)
        number = self.world.write(user, path, node.data.replace(old.encode(), new.encode()), **more)
        self.judge.note(f"file:{number}", new, timed="mtime" in more)

    def _save(self, r: Random, user: str, path: str, *, long: bool, timed: bool | None = None) -> None:
        token = next(self.words)
        data = _prose(r, token, words=4_000 if long else r.randint(12, 60)).encode()
        if path.endswith(".png"):
            data = PICTURE + data
        timed, uploaded = r.random() < 0.2 if timed is None else timed, r.random() < 0.4
        mtime = int(self.world.clock()) - r.choice([0, 1, 60, 86_400]) if timed else None
        number = self.world.write(user, path, data, mtime=mtime, via="dav" if uploaded else "app")
        if uploaded and r.random() < 0.5:
            self.world.nodes[number].checksum = f"SHA1:{token}"
        self.judge.note(f"file:{number}", token, timed=timed)

    def _share(self, r: Random, owner: str, path: str) -> None:
        given: dict[str, Any] = {"with_group": r.choice(GROUPS)}
        if r.random() < 0.5:
            given = {"with_user": r.choice([user for user in PEOPLE if user != owner])}
        self.world.share(owner, path, permissions=r.choice([READ, READ, ALL]), download=r.random() < 0.75, **given)

    def _move(self, user: str, old: str, new: str) -> None:
        if old != new:
            self.world.move(user, old, new)

    def _folders(self, user: str) -> list[str]:
        return [seen.path for seen in self.world.walk(user) if seen.node.is_folder]

    def _files(self, user: str) -> list[Seen]:
        return [seen for seen in self.world.walk(user) if not seen.node.is_folder]

    def _some_file(self, r: Random) -> tuple[str, Seen]:
        user = r.choice(PEOPLE)
        return user, r.choice(self._files(user))

    def _some_mount(self, r: Random) -> tuple[str, Any]:
        return r.choice([(user, mount) for user in PEOPLE for mount in self.world.mounts(user)])

    def _boards(self) -> list[int]:
        return [board.id for board in self.world.boards.values() if not board.deleted_at]

    def _cards(self) -> list[int]:
        return [card for card in self.world.cards if self.world.card_alive(card)]


# How often each is done, in relation to the others.
MUTATIONS = {
    "write": 6,
    "edit": 6,
    "edit_twice": 1,
    "edit_alike": 1,
    "overwrite_unnoticed": 2,
    "rename": 2,
    "move": 4,
    "move_folder": 2,
    "swap": 1,
    "mkdir": 1,
    "team": 1,
    "delete": 2,
    "delete_folder": 1,
    "restore": 2,
    "touch": 1,
    "block": 1,
    "unblock": 1,
    "share": 5,
    "unshare": 4,
    "leave_share": 1,
    "move_mount": 1,
    "join_group": 3,
    "leave_group": 2,
    "disable": 1,
    "enable": 2,
    "add_board": 1,
    "add_card": 2,
    "edit_card": 2,
    "move_card": 2,
    "archive_card": 1,
    "delete_card": 1,
    "share_board": 2,
    "unshare_board": 2,
    "end_board": 1,
    "clock": 8,
}


def weighted(table: dict[str, int]) -> list[str]:
    """Each name as often as it weighs."""
    return [name for name, weight in table.items() for _ in range(weight)]


def _distinct_words() -> Iterator[str]:
    """Words that look alike to nobody: their beginnings differ, too."""
    number = 1
    while True:
        number = number * 48_271 % 2_147_483_647
        yield "zq" + "".join(chr(97 + number // 26**place % 26) for place in range(6))


def _prose(r: Random, token: str, *, words: int = 40) -> str:
    """Sentences in which every sixth word says whose they are."""
    chosen = [token if at % 6 == 0 else r.choice(_VOCABULARY) for at in range(words)]
    sentences = [" ".join([COMMON, *chosen[at : at + 12]]) for at in range(0, words, 12)]
    return ". ".join(sentences) + "."


@contextmanager
def possible() -> Iterator[None]:
    """Leave out the rest of what is not possible as things stand."""
    with suppress(*IMPOSSIBLE):
        yield

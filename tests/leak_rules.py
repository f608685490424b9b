# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What an answer may show, by the stand-in's own permission model: the judge of the leak hunt.

Every text, title, folder and board of a hunted world holds words that stand nowhere else ("zq" and six letters), so
that whatever escapes is recognised wherever it turns up.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from demo.tree import Node
from demo.world import World

_TOKEN = re.compile(r"zq[a-z]{6}")
_NOTE_SUFFIXES = (".md", ".txt")


class Found(AssertionError):
    """The hunt found something; kind: leak, superseded, ghost, place, degraded, broken, lost."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(f"{kind}: {what}")
        self.kind = kind


@dataclass
class Tally:
    """What was checked. pairs: of a user and a document that he was shown; excused: old text within the known limit."""

    checked: int = 0
    worlds: int = 0
    searches: int = 0
    pairs: int = 0
    recalled: int = 0
    quoted: int = 0
    racing: int = 0
    excused: int = 0
    aside: int = 0  # documents that failures had put into quarantine: not expected to be found
    found: dict[str, int] = field(default_factory=dict)

    def plus(self, other: Mapping[str, Any]) -> None:
        for name, value in other.items():
            if name == "found":
                self.found = {kind: self.found.get(kind, 0) + value.get(kind, 0) for kind in {*self.found, *value}}
            else:
                setattr(self, name, getattr(self, name) + value)


@dataclass(frozen=True)
class Written:
    """A text as somebody saved it. identity: all that SEARCH tells of a version; timed: the client set its mtime."""

    key: str
    token: str
    letters: str
    identity: tuple[str, int, str] | None
    timed: bool


@dataclass(frozen=True)
class View:
    """A document as one user may see it at one moment. shown: (kind, title, place) at each of his paths."""

    quotable: bool
    letters: str
    shown: frozenset[tuple[str, str, str]]
    names: frozenset[str]  # recognisable words in its titles and places
    identity: tuple[str, int, str] | None
    timed: bool


Moment = Callable[[str], View | None]


def tokens(text: str) -> set[str]:
    """The recognisable words in a text."""
    return set(_TOKEN.findall(text))


def letters(text: str) -> str:
    """A text by its letters and digits alone."""
    return "".join(filter(str.isalnum, text))


def identity(node: Node) -> tuple[str, int, str]:
    """What tells two versions of a file apart in the answer that grants access."""
    return node.etag, len(node.data), node.checksum


class Judge:
    """Knows every text that was ever written in a world, and asks the world who may see what now."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.texts: dict[str, Written] = {}
        self.present: dict[str, Written] = {}
        self.excuses = 0

    def note(self, key: str, token: str, *, timed: bool = False) -> None:
        """A document's text was written, with this word in it."""
        node = self.world.nodes[int(key[5:])] if key.startswith("file:") else None
        body = letters(self.world.body(key).decode("utf-8", "replace"))
        written = Written(key, token, body, identity(node) if node else None, timed)
        self.texts[token] = self.present[key] = written

    def view(self, user: str, key: str) -> View | None:
        """What the user may see of a document now; None for nothing."""
        if not self.world.readable(user, key):
            return None
        number = int(key.partition(":")[2])
        if key.startswith("file:"):
            paths = [seen.path for seen in self.world.sightings(user, number) if seen.readable]
            shown = {place for path in paths for place in _places(path, self.world.people[user].notes_path)}
            ident: tuple[str, int, str] | None = identity(self.world.nodes[number])
            names = tokens(" ".join(paths))
        else:
            card = self.world.cards[number]
            board = self.world.boards[self.world.stacks[card.stack].board].title
            shown, ident, names = {("deck_card", card.title, board)}, None, tokens(f"{card.title} {board}")
        body = letters(self.world.body(key).decode("utf-8", "replace"))
        timed = key in self.present and self.present[key].timed
        return View(self.world.quotable(user, key), body, frozenset(shown), frozenset(names), ident, timed)

    def now(self, user: str) -> Moment:
        """This user's view of whatever is asked for, at the time of asking."""
        return lambda key: self.view(user, key)

    def kept(self, user: str) -> Moment:
        """This user's view as it is at this moment, for later."""
        views = {key: self.view(user, key) for key in self.world.all_documents()}
        return lambda key: views.get(key)

    def check(self, user: str, answer: str, hits: list[dict[str, Any]], moments: Iterable[Moment]) -> int:
        """Hold an answer against every moment at which it may have been true. Returns how many quotes; raises Found."""
        moments = list(moments)
        names: set[str] = set()
        for hit in hits:
            names |= self._check_hit(user, hit, moments)
        for token in tokens(answer):
            written = self.texts.get(token)
            if written is None:
                if token not in names:
                    raise Found("leak", f"{user} was told the name {token}")
                continue
            views = [view for moment in moments if (view := moment(written.key))]
            if not any(view.quotable or token in view.names for view in views):
                raise Found("leak", f"{user} was shown {token} of {written.key}")
            if not any(token in view.letters or token in view.names for view in views):
                self._excuse(written, views, f"{user} was shown {token} of {written.key}")
        return sum(bool(hit["excerpt"]) for hit in hits)

    def excused(self, key: str, quote: str, views: Iterable[View]) -> bool:
        """Old text of the very version that Nextcloud reports now, overwritten by a client that set the old time."""
        same = [view for view in views if view.timed and view.identity is not None]
        return any(
            written.key == key and written.identity == view.identity and quote in written.letters
            for view in same
            for written in self.texts.values()
        )

    def _check_hit(self, user: str, hit: dict[str, Any], moments: list[Moment]) -> frozenset[str]:
        key = hit["ref"]
        views = [view for moment in moments if (view := moment(key))]
        if not views:
            kind = "leak" if key in self.world.all_documents() else "ghost"
            raise Found(kind, f"{user} was shown {key}")
        if not any((hit["kind"], hit["title"], hit["place"]) in view.shown for view in views):
            raise Found("place", f"{user} was shown {key} as {hit['title']} in {hit['place']}, not {views}")
        if not hit["link"].endswith(key.partition(":")[2]):
            raise Found("place", f"{user} was sent to {hit['link']} for {key}")
        quote = letters(hit["excerpt"])
        if quote:
            allowed = [view for view in views if view.quotable]
            if not allowed:
                raise Found("leak", f"{user} was quoted {key}, which he may only view")
            if not any(quote in view.letters for view in allowed) and not self.excused(key, quote, allowed):
                raise Found("superseded", f"{user} was quoted of {key}: {hit['excerpt']}")
        return frozenset().union(*(view.names for view in views))

    def _excuse(self, written: Written, views: list[View], what: str) -> None:
        if not any(view.timed and view.identity == written.identity for view in views):
            raise Found("superseded", what)
        self.excuses += 1


def _places(path: str, notes: str) -> Iterator[tuple[str, str, str]]:
    """How a file at this path may be called: a note is a file where the Notes app did not answer."""
    *folders, name = path.strip("/").split("/")
    yield "file", name, " / ".join(folders)
    inside = notes.split("/")
    if folders[: len(inside)] == inside and name.endswith(_NOTE_SUFFIXES):
        yield "note", name.rpartition(".")[0], " / ".join(folders[len(inside) :])


class Ear(logging.Handler):
    """Hears what the app logs at INFO and above, as it does in service, and keeps the recognisable words."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(logging.Formatter("%(name)s %(message)s"))
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        quiet = record.name.split(".")[0] in ("httpx", "httpcore", "mcp", "alembic", "hypothesis")
        line = self.format(record)
        if tokens(line) and not (quiet and record.levelno < logging.WARNING):
            self.heard.append(line)

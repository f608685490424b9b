# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""People who do things to a stand-in while the product reads it, and what the index ought to hold of it in the end."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from leak_rules import Judge, tokens
from leak_steps import COMMON, MUTATIONS, PEOPLE, PICTURE, Doings, weighted
from processes import read_index

from demo.launch import Running, running
from demo.world import World
from ex_app.settings import Settings
from ex_app.store.documents import Status
from ex_app.store.registry import open_registry

# Not what docs/limits.md says the index cannot know, and nobody is away in the end.
DOINGS = {
    name: weight
    for name, weight in MUTATIONS.items()
    if name not in ("overwrite_unnoticed", "block", "unblock", "disable", "enable", "clock")
}
_NAMES = weighted(DOINGS)

_FEW = 60  # documents

_REMEMBERED_S = 65.0

# Document, version, ordinal, hash of the text, scopes.
Line = tuple[str, str, int, str, tuple[str, ...]]


class People(Doings):
    """Everybody's doings in a world of their own, by dice."""

    def __init__(self, seed: int) -> None:
        world = World()
        for person in PEOPLE:
            world.add_user(person)
        super().__init__(world, Judge(world), lambda _: None)
        self.dice = Random(seed)
        for _ in range(2):
            self.do("found", self.dice)

    def do_something(self) -> None:
        """One doing; where little is left somebody writes something besides."""
        self.do(self.dice.choice(_NAMES), self.dice)
        if len(self.world.all_documents()) < _FEW:
            self.do("write", self.dice)

    def do_everything(self) -> None:
        """Each doing once, some more often, in any order."""
        names = [*DOINGS, "add_card", "edit_card", "edit", *["write"] * 6]
        self.dice.shuffle(names)
        for name in names:
            self.do(name, self.dice)


@dataclass(frozen=True)
class Held:
    """What an installation has in its index. doubled: documents with more than their one live generation."""

    lines: Counter[Line]
    places: Mapping[str, tuple[str, str]]
    doubled: frozenset[str]

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(sorted(self.lines.elements())).encode()).hexdigest()

    def differences(self, other: Held) -> dict[str, str]:
        """Documents of which the two hold anything else, with what it is: here, then there."""
        here, there = self.lines - other.lines, other.lines - self.lines
        keys = {line[0] for line in [*here, *there]}
        keys |= {key for key in {*self.places, *other.places} if self.places.get(key) != other.places.get(key)}
        told: dict[str, str] = {}
        for key in sorted(keys):
            sides = [
                f"{held.places.get(key)} {[line[1:] for line in lines if line[0] == key]}"
                for held, lines in ((self, here), (other, there))
            ]
            told[key] = " against ".join(sides)
        return told


async def _held(data: Path) -> Held:
    index = await read_index(data)
    registry = await open_registry(Settings(app_secret="unused", app_persistent_storage=data, database_url=""))
    try:
        rows = {key: row for key in index.live if (row := await registry.document(key)) is not None}
    finally:
        await registry.close()
    versions = {key: str(row.version) for key, row in rows.items()}
    lines = Counter(
        (str(i.document), versions.get(i.document, ""), i.ordinal, i.text_hash, tuple(sorted(map(str, i.scopes))))
        for i in index.imprints
    )
    found = Counter((i.document, i.ordinal) for i in index.imprints)
    doubled = {str(document) for (document, _), number in found.items() if number > 1}
    doubled |= {str(i.document) for i in index.imprints if i.generation != index.live[i.document][0]}
    places = {str(key): (row.title, row.path) for key, row in rows.items() if row.status is Status.CURRENT}
    return Held(lines, places, frozenset(doubled))


def held(demo: Running) -> Held:
    """By the product's own registry and vectors."""
    return asyncio.run(_held(demo.data))


def undisturbed(world: World) -> Held:
    """What another installation makes of the same world, where nothing happens."""
    with running(world) as demo:
        demo.wait_until_indexed()
        return held(demo)


def not_found(people: People, demo: Running) -> list[str]:
    """Who does not find what by its own words, of all that he may read and that can be found.

    What is open to somebody is remembered for a minute, so that whatever is missed is asked for again after it.
    """
    everything = [
        (user, key) for user in PEOPLE for key in people.world.all_documents() if _findable(people, user, key)
    ]
    missed = [(user, key) for user, key in everything if not _finds(people, demo, user, key)]
    if missed:
        time.sleep(_REMEMBERED_S)
    return [f"{user} {key}" for user, key in missed if not _finds(people, demo, user, key)]


def _finds(people: People, demo: Running, user: str, key: str) -> bool:
    word = min(tokens(people.world.body(key).decode("utf-8", "replace")))
    answer = demo.get(user, "api/search", q=word, limit=100)
    answer.raise_for_status()
    return key in [hit["ref"] for hit in answer.json()["hits"]]


def _findable(people: People, user: str, key: str) -> bool:
    """May he read it, has it text, and is it within what docs/limits.md says can be found?"""
    world, number = people.world, int(key.partition(":")[2])
    if not world.readable(user, key) or COMMON.encode() not in world.body(key):
        return False
    if key.startswith("deck_card:"):
        card = world.cards[number]
        return not card.archived and not world.boards[world.stacks[card.stack].board].archived
    node = world.nodes[number]
    if node.mime == "image/png" or node.data.startswith(PICTURE):
        return False
    return any(not seen.is_mount_root or seen.path.count("/") == 1 for seen in world.sightings(user, number))

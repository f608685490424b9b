# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What is forbidden may cost an answer neither its best documents nor its calm: recall, rounds, and silence."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from town import Town

from ex_app.domain import Chunk, Parsed, Point
from ex_app.index.points import embedded_text, make_points

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUESTIONS = ("What does a night in a hotel cost?", "Where did we stay overnight, and for how many euros?")
BREAKFAST = "How much was breakfast at the hotel?"

TOWNS = ("Lisbon", "Bergen", "Graz", "Leeds", "Turin", "Malmö", "Brest", "Gdansk", "Split", "Porto", "Ghent", "Cork")
ROOMS = ("a single room", "a double room", "a suite", "a room under the roof", "a room to the courtyard")
VISITS = ("the trade fair", "a site visit", "the meeting", "a course", "an audit", "a lecture", "a job", "a wedding")
TELLINGS = (
    "A night in the hotel in {town}: {room} cost {euros} euros. We went there for {visit}.",
    "For {visit} we stayed in {town}, where {room} was {euros} euros a night, breakfast included.",
)

WANTED = 20

Vector = npt.NDArray[np.float32]


def bills() -> Iterator[str]:
    """Texts that all answer the question, some better than others, no two of them copies."""
    for number, (visit, room, town, telling) in enumerate(product(VISITS, ROOMS, TOWNS, TELLINGS)):
        yield telling.format(town=town, room=room, euros=70 + number, visit=visit)


async def read_in(town: Town, user: str, texts: list[str]) -> list[str]:
    """A user saves so many short files in one folder, and they are indexed; their references.

    As the worker does it but all at once and without the parser, of which these stories tell nothing.
    """
    folder = f"/Bills {len(town.world.nodes)}"
    written = [town.write(user, f"{folder}/Bill {number}.md", text) for number, text in enumerate(texts)]
    town.clock.forward(3)
    await town.sweep()
    parent = f"f:{town.world.resolve(user, folder).node.id}"
    source, session = town.worker.sources["file"], town.house.nextcloud.as_user(user)
    [container] = [one for one in await source.containers(session) if str(one.scope) == parent]
    sightings = {str(sighting.key): sighting for sighting in await source.listing(session, container)}
    works = {str(item.key): item for item in await town.registry.claim(len(texts), town.settings.lease_s)}
    chunks = {key: Chunk(0, text, 0, len(text)) for key, text in zip(written, texts, strict=True)}
    reader = AtOnce(await passages(town, [embedded_text(sightings[key], chunks[key]) for key in written]))
    points: list[Point] = []
    for key in written:
        points += await make_points(
            sightings[key],
            Parsed(chunks[key].text, (chunks[key],)),
            generation=works[key].generation,
            known={},
            embedder=reader,
            encoder=town.worker.encoder,
        )
    await town.vectors.write(points)
    for key in written:
        await town.registry.publish(
            works[key], sightings[key], content_hash=key, chunks=1, settled=True, truncated=False
        )
        await town.registry.finish(works[key])
    return written


class AtOnce:
    """Knows the vectors of all passages beforehand: the model is quicker with many at a time."""

    def __init__(self, rows: Mapping[str, Vector]) -> None:
        self._rows = rows

    async def documents(self, texts: Sequence[str]) -> Vector:
        return np.stack([self._rows[text] for text in texts])


async def passages(town: Town, texts: list[str]) -> dict[str, Vector]:
    return dict(zip(texts, await town.embedder.documents(texts), strict=True))


def fileid(key: str) -> int:
    return int(key.partition(":")[2])


def forbid_all_but(town: Town, keys: Iterable[str], permitted: Set[str]) -> None:
    """Access rules, of which no index knows: what they forbid stays in everybody's reach."""
    for key in keys:
        town.world.nodes[fileid(key)].blocked = key not in permitted


async def who_has_only(town: Town, permitted: Set[str]) -> str:
    """A new person, with whom Alice shares each of these files and nothing else."""
    reader = f"reader-{len(town.world.people)}"
    town.world.add_user(reader)
    for key in permitted:
        [path] = town.world.path_for("alice", fileid(key))
        town.world.share("alice", path, with_user=reader)
    return reader


async def refs(town: Town, user: str, question: str, *, limit: int) -> list[str]:
    return [hit["ref"] for hit in (await town.search(user, question, limit=limit)).hits]


async def test_where_nine_of_ten_are_forbidden_the_best_of_the_others_are_found_all_the_same(town: Town) -> None:
    """Given 600 documents that answer, when rules forbid 540 of them, then three rounds find the 20 best that are left.

    Who has nothing but the permitted ones is asked for comparison: his are verified in one round, so his answer is
    exact. Half of the documents have the one word that counts for breakfast; how rare a word is depends on what else is
    in reach, so there the best are gathered, but may stand in another order.
    """
    rng = random.Random(7)
    keys = await read_in(town, "alice", list(bills())[:600])
    gathered = {BREAKFAST: 100}  # the length of the page on which they must be
    shares = []
    for question in (*QUESTIONS, BREAKFAST) * 8:
        permitted = set(rng.sample(keys, len(keys) // 10))
        forbid_all_but(town, keys, permitted)
        exact = await refs(town, await who_has_only(town, permitted), question, limit=WANTED)
        town.world.reset_requests()
        found = await refs(town, "alice", question, limit=gathered.get(question, WANTED))
        assert town.world.counted()["SEARCH", "dav"] <= 3 + 1, "three rounds, and a look at what is in reach"
        assert len(exact) == WANTED
        assert set(found) <= permitted
        shares.append(len(set(found) & set(exact)) / WANTED)
    assert sum(shares) / len(shares) >= 0.99, shares
    forbid_all_but(town, keys, set())
    assert await refs(town, "alice", QUESTIONS[0], limit=WANTED) == [], "it was the permissions that decided"


async def test_a_hundred_forbidden_documents_do_not_end_the_search_before_the_fifty_behind_them(town: Town) -> None:
    """Of 150 documents, fewer than a round recalls, the hundred that answer best are forbidden."""
    keys = await read_in(town, "alice", list(bills())[:150])
    best = set(await refs(town, "alice", QUESTIONS[0], limit=100))
    forbid_all_but(town, keys, set(keys) - best)
    found = set(await refs(town, "alice", QUESTIONS[0], limit=100))
    assert found <= set(keys) - best
    assert len(found) > 40, "but for a few that answer too little"


async def test_an_exclusion_holds_from_the_next_search_on_also_where_hundreds_of_documents_answer(town: Town) -> None:
    keys = await read_in(town, "alice", list(bills())[:150])
    assert len(await refs(town, "alice", QUESTIONS[0], limit=99)) == 99
    [path] = town.world.path_for("alice", fileid(keys[0]))
    town.world.write("alice", f"{path.rpartition('/')[0]}/.noindex", b"")
    assert await refs(town, "alice", QUESTIONS[0], limit=99) == []


async def test_what_strangers_add_costs_nextcloud_neither_a_request_nor_a_round_more(town: Town) -> None:
    texts = list(bills())
    keys = await read_in(town, "alice", texts[:250])
    forbid_all_but(town, keys, set(keys[:5]))
    before = await asked(town, "alice", QUESTIONS[0])
    assert before["SEARCH", "dav"] > 1, "more than one round, as most are forbidden"
    await read_in(town, "carol", [f"{QUESTIONS[0]} {text}" for text in texts[250:350]])
    assert await refs(town, "carol", QUESTIONS[0], limit=WANTED), "they answer the question, for those who may read"
    assert await asked(town, "alice", QUESTIONS[0]) == before


async def test_what_strangers_write_does_not_make_me_an_answer_where_i_had_none(town: Town) -> None:
    """Nor takes one away: the floor looks at nothing that is not mine."""
    await read_in(town, "alice", list(bills())[:10])
    unanswered = "Which fungus rots the roots of spruces?"
    before = await town.ask("alice", "GET", "/api/search", params={"q": QUESTIONS[0]})
    assert (await town.search("alice", unanswered)).hits == []
    await read_in(town, "carol", [f"Roots of spruces rot by fungus number {number}." for number in range(20)])
    await read_in(town, "carol", list(bills())[10:60])
    assert (await town.search("carol", unanswered)).hits != []
    assert (await town.search("alice", unanswered)).hits == []
    after = await town.ask("alice", "GET", "/api/search", params={"q": QUESTIONS[0]})
    assert after.json() == before.json(), "order, scores, quotes"


async def asked(town: Town, user: str, question: str) -> Counter[tuple[str, str]]:
    """What a search asks of Nextcloud once the reach is known, and has been looked at again for all the denials."""
    for _ in range(2):
        await town.search(user, question)
    town.world.reset_requests()
    await town.search(user, question)
    return town.world.counted()

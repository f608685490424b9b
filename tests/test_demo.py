# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""`make demo-check` can say no: answers are doctored in every way that it promises to notice.

That the demo itself works, its pages and all, is told in test_crash.py, where the product runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from demo.check import is_fine, is_ghost, is_leak, tally
from demo.content import furnish, name_of
from demo.questions import Question
from demo.world import World

Hit = Callable[..., dict[str, Any]]

HOTEL = Question("bob", "What may a hotel cost?", "Travel policy 2026.pdf", "", page=2)
NOTHING = Question("bob", "Whose salaries were increased?", None, "")


@pytest.fixture(scope="module")
def world() -> World:
    house = World()
    furnish(house)
    return house


@pytest.fixture(scope="module")
def hit(world: World) -> Hit:
    """A hit on the document of this name, quoting nothing."""
    keys = {name_of(world, key): key for key in world.all_documents()}

    def make(name: str, excerpt: str = "", page: int | None = None) -> dict[str, Any]:
        return {"ref": keys[name], "excerpt": excerpt, "page": page, "score": 0.5}

    return make


def test_an_honest_answer_is_fine(world: World, hit: Hit) -> None:
    found = [hit("Travel policy 2026.pdf", "Travel policy 2026", page=2), hit("Allergen list.md")]
    counts = tally(world, [(HOTEL, {"hits": found}), (NOTHING, {"hits": []})])
    assert counts == {"questions": 2, "right": 2, "leaks": 0, "ghosts": 0}
    assert is_fine(counts)


@pytest.mark.parametrize(
    ("question", "names", "page"),
    [
        pytest.param(HOTEL, ["Allergen list.md", "Travel policy 2026.pdf"], 2, id="another document comes first"),
        pytest.param(HOTEL, ["Travel policy 2026.pdf"], 1, id="another page is quoted"),
        pytest.param(HOTEL, ["Travel policy 2026.pdf"], None, id="no page is named"),
        pytest.param(HOTEL, [], None, id="nothing shows"),
        pytest.param(NOTHING, ["Allergen list.md"], None, id="something shows where nothing should"),
    ],
)
def test_a_wrong_answer_is_not_right(
    world: World, hit: Hit, question: Question, names: list[str], page: int | None
) -> None:
    counts = tally(world, [(question, {"hits": [hit(name, page=page) for name in names]})])
    assert (counts["right"], counts["leaks"], counts["ghosts"]) == (0, 0, 0)
    assert not is_fine(counts)


def test_a_hit_that_its_user_may_not_read_is_a_leak_wherever_it_stands(world: World, hit: Hit) -> None:
    found = [hit("Travel policy 2026.pdf", page=2), hit("Allergen list.md"), hit("Salary review 2026.md")]
    counts = tally(world, [(HOTEL, {"hits": found})])
    assert (counts["right"], counts["leaks"]) == (1, 1)
    assert not is_fine(counts)
    assert not is_leak(world, "carol", hit("Salary review 2026.md"))


def test_a_quote_from_what_may_only_be_viewed_is_a_leak_and_its_name_alone_is_none(world: World, hit: Hit) -> None:
    assert is_leak(world, "bob", hit("Fee negotiation notes.docx", "the council"))
    assert not is_leak(world, "bob", hit("Fee negotiation notes.docx"))
    assert not is_leak(world, "alice", hit("Fee negotiation notes.docx", "the council"))


@pytest.mark.parametrize("name", ["Allergen list.md", "Travel policy 2026.pdf", "Will and executors.docx"])
def test_a_quote_of_other_words_than_the_document_has_is_a_ghost(world: World, hit: Hit, name: str) -> None:
    assert is_ghost(world, hit(name, "Nobody ever wrote this sentence."))
    assert not is_ghost(world, hit(name))


def test_quotes_are_compared_without_marks_and_line_breaks(world: World, hit: Hit) -> None:
    said = hit("Travel policy 2026.pdf")
    assert not is_ghost(world, {**said, "excerpt": "Travel policy\n2026"})
    assert is_ghost(world, {**said, "excerpt": "Travel policy 2023"})


def test_a_card_is_quoted_with_its_labels(world: World) -> None:
    card = next(card for card in world.cards.values() if card.labels)
    said = {"ref": f"deck_card:{card.id}", "excerpt": f"{card.title}\n\n{card.description}"}
    assert not is_ghost(world, said)
    assert not is_ghost(world, {**said, "excerpt": f"{card.description}\n\n{', '.join(sorted(card.labels))}"})
    assert is_ghost(world, {**said, "excerpt": f"{card.title} tomorrow"})


def test_a_hit_on_what_was_deleted_or_never_was_is_a_ghost() -> None:
    world = World()
    world.add_user("ada")
    number = world.write("ada", "/Draft.md", b"A draft")
    said = {"ref": f"file:{number}", "excerpt": "A draft"}
    assert not is_ghost(world, said)
    world.write("ada", "/Draft.md", b"The final version")
    assert is_ghost(world, said)
    world.delete("ada", "/Draft.md")
    assert is_ghost(world, {**said, "excerpt": ""})
    assert is_ghost(world, {"ref": "file:99999", "excerpt": ""})


def test_no_questions_prove_nothing(world: World) -> None:
    assert not is_fine(tally(world, []))

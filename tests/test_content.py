# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The sample world keeps what it promises to the demo, the tests and the measurements."""

from __future__ import annotations

import io
import re
import unicodedata
from collections import Counter, defaultdict

import pytest
from docx import Document
from pypdf import PdfReader

from demo.content import CONTENT, Paper, furnish, name_of, papers, render
from demo.questions import ABSENT, ARCHIVE, CARD, NO_SHARED_WORD, NOTE, QUESTIONS, RESTRICTED, VIEW_ONLY, Question
from demo.world import World

# Little words that say nothing about a subject.
STOPWORDS = """
    a about after again all am an and any are as at be because been before being but by can could did do does down
    during each few for from had has have he her here his how i if in into is it its just many may me might more most
    much must my no nor not of off on once only or other our out over own s same she should so some such than that the
    their them then there these they this those through to too under until up us very was we were what when where which
    while who whom whose why will with would you your
"""

# Words that betray their language and no other of these.
MARKERS = {
    "english": {"the", "and", "with", "of", "is"},
    "german": {"der", "und", "nicht", "das", "ist"},
    "french": {"le", "et", "les", "du", "une"},
    "spanish": {"el", "y", "los", "una", "por"},
}


@pytest.fixture(scope="module")
def world() -> World:
    """Given: the furnished sample world."""
    world = World()
    furnish(world)
    return world


@pytest.fixture(scope="module")
def by_name(world: World) -> dict[str, str]:
    """Document keys by name; every name is used once, so that a question can mean one document only."""
    keys = world.all_documents()
    found = {name_of(world, key): key for key in keys}
    assert len(found) == len(keys)
    return found


@pytest.fixture(scope="module")
def texts(world: World) -> dict[str, str]:
    """Everything a search could match of each document: its path and its text before rendering."""
    sources = {paper.name: f"{paper.path}\n{paper.text}" for paper in papers()}
    cards = {
        f"deck_card:{card.id}": f"{card.title}\n{card.description}\n{' '.join(card.labels)}"
        for card in world.cards.values()
    }
    return {key: cards[key] if key in cards else sources[name_of(world, key)] for key in world.all_documents()}


def stem(word: str) -> str:
    """Enough of English that "pay" meets "pays" and "paying"."""
    for ending in ("ing", "ied", "ies", "ed", "es", "ly", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


def content_words(text: str) -> set[str]:
    little = set(STOPWORDS.split())
    return {stem(word) for word in re.findall(r"[^\W_]+", text.lower()) if word not in little}


def language(text: str) -> str:
    """By script, else by the most little words."""
    scripts = Counter(unicodedata.name(letter).split()[0] for letter in text if letter.isalpha())
    if "HIRAGANA" in scripts:
        return "japanese"
    if scripts["GREEK"] > scripts["LATIN"]:
        return "greek"
    words = Counter(re.findall(r"\w+", text.lower()))
    return max(MARKERS, key=lambda name: sum(words[marker] for marker in MARKERS[name]))


def mean(question: Question) -> str:
    return f"{question.user}: {question.text}"


def test_there_is_enough_to_search_in(world: World) -> None:
    kinds = Counter(paper.name.rpartition(".")[2] for paper in papers())
    assert sum(kinds.values()) >= 90
    assert len(world.cards) >= 15
    assert all(kinds[kind] >= 8 for kind in ("md", "txt", "pdf", "docx"))


def test_people_write_in_six_languages(texts: dict[str, str]) -> None:
    spoken = Counter(language(text) for text in texts.values())
    assert spoken["english"] >= 60
    assert all(spoken[name] >= 6 for name in ("german", "french", "spanish"))
    assert spoken["greek"] >= 4
    assert spoken["japanese"] >= 2


def test_every_paper_says_something_of_readable_length() -> None:
    for paper in papers():
        written = sum(unicodedata.name(letter, "").startswith(("HIRAGANA", "CJK")) for letter in paper.text)
        words = len(paper.text.split()) + written // 2
        assert 60 <= words <= 420, paper.path


@pytest.mark.parametrize("paper", [p for p in papers() if p.name.endswith(".pdf")], ids=lambda paper: paper.name)
def test_a_pdf_has_its_pages_where_the_source_has_them(paper: Paper) -> None:
    pages = PdfReader(io.BytesIO(render(paper))).pages
    assert len(pages) == len(paper.pages) >= 2
    for shown, written in zip(pages, paper.pages, strict=True):
        assert content_words(written) <= content_words(shown.extract_text())
    assert render(paper) == render(paper)


def test_word_documents_hold_their_text() -> None:
    documents = [paper for paper in papers() if paper.name.endswith(".docx")]
    for paper in documents:
        text = "\n".join(paragraph.text for paragraph in Document(io.BytesIO(render(paper))).paragraphs)
        assert content_words(paper.text) == content_words(text), paper.path


def test_sources_are_composed_unicode_and_free_of_licence_headers() -> None:
    for source in (path for path in CONTENT.rglob("*") if path.is_file()):
        assert "SPDX" not in source.read_text("utf-8")
        assert unicodedata.is_normalized("NFC", source.name)
        assert unicodedata.is_normalized("NFC", source.read_text("utf-8"))


def test_bob_keeps_his_notes_in_a_german_folder_with_categories(world: World) -> None:
    notes = [paper.path for paper in papers() if paper.owner == "bob" and paper.path.startswith("/Notizen/")]
    assert world.person("bob").notes_path == "Notizen"
    assert len({path.split("/")[2] for path in notes}) >= 4


def test_salaries_are_carols_alone(world: World, by_name: dict[str, str]) -> None:
    key = by_name["Salary review 2026.md"]
    assert [uid for uid in world.people if world.readable(uid, key)] == ["carol"]


def test_everybody_reads_the_current_travel_policy_and_only_carol_the_old_ones(
    world: World, by_name: dict[str, str]
) -> None:
    readers = {
        year: {uid for uid in world.people if world.readable(uid, by_name[f"Travel policy {year}.pdf"])}
        for year in (2023, 2024, 2026)
    }
    assert readers == {2023: {"carol"}, 2024: {"carol"}, 2026: {"alice", "bob", "carol"}}


def test_boards_are_private_or_shared(world: World) -> None:
    readers = [sum(world.board_readable(uid, board) for uid in world.people) for board in world.boards]
    assert readers.count(1) >= 2
    assert len(readers) - readers.count(1) >= 2


def test_there_are_questions_of_every_sort() -> None:
    sorts = Counter(question.why for question in QUESTIONS)
    assert len(QUESTIONS) >= 30
    assert len(set(QUESTIONS)) == len(QUESTIONS)
    assert sorts[NO_SHARED_WORD] >= 10
    assert sorts[RESTRICTED] >= 3
    assert sorts[ABSENT] >= 3
    assert all(sorts[sort] for sort in ("german", "french", "spanish", "greek", "japanese", CARD, NOTE, VIEW_ONLY))
    assert sorts[ARCHIVE]
    assert {question.user for question in QUESTIONS} == {"alice", "bob", "carol"}


def test_the_same_question_gets_different_answers(by_name: dict[str, str]) -> None:
    answers: dict[str, set[str | None]] = defaultdict(set)
    for question in QUESTIONS:
        answers[question.text].add(question.expected)
    assert sum(len(found) > 1 for found in answers.values()) >= 4


@pytest.mark.parametrize("question", [q for q in QUESTIONS if q.expected], ids=mean)
def test_an_expected_document_exists_and_its_asker_may_read_it(
    question: Question, world: World, by_name: dict[str, str]
) -> None:
    assert question.expected
    key = by_name[question.expected]
    assert world.readable(question.user, key)
    assert world.quotable(question.user, key) == (question.why != VIEW_ONLY)
    if question.why == CARD:
        assert key.startswith("deck_card:")
    if question.page:
        assert question.page <= len(next(p for p in papers() if p.name == question.expected).pages)


@pytest.mark.parametrize("question", [q for q in QUESTIONS if q.why == NO_SHARED_WORD], ids=mean)
def test_some_questions_share_no_content_word_with_their_answer(
    question: Question, by_name: dict[str, str], texts: dict[str, str]
) -> None:
    assert question.expected
    assert content_words(question.text)
    assert not content_words(question.text) & content_words(texts[by_name[question.expected]])


@pytest.mark.parametrize("question", [q for q in QUESTIONS if q.expected is None], ids=mean)
def test_where_nothing_may_show_not_even_a_word_is_shared(
    question: Question, world: World, texts: dict[str, str]
) -> None:
    words = content_words(question.text)
    readable = [text for key, text in texts.items() if world.readable(question.user, key)]
    assert not words & set().union(*map(content_words, readable))
    elsewhere = any(
        words & content_words(text) for key, text in texts.items() if not world.readable(question.user, key)
    )
    assert elsewhere == (question.why == RESTRICTED)

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The search page, as somebody in front of a browser sees it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pytest
from embedded_page import MOUNTS, ROOT, UI, Person, Stage, browsing, found, hit, served
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

_BUSY = (429, {"error": "Too many searches at once. Try again in a moment"})
_DEGRADED = "A part of Nextcloud did not answer just now, so something may be missing."

# A browser in which an abort comes too late: every answer arrives, and the page is told which have.
_LATE_ABORTS = """
const reallyFetch = window.fetch
window.arrived = []
window.signals = []
window.fetch = async (url, { signal, ...rest } = {}) => {
    window.signals.push(signal)
    const answer = await reallyFetch(url, rest)
    const copy = new Response(await answer.text(), { status: answer.status, headers: answer.headers })
    window.arrived.push(new URL(url).searchParams.get('q'))
    return copy
}
"""

# The timers of one page keep their order however slow the machine is.
_TYPING = """
const [field, word, done] = arguments
const type = (length) => {
    field.value = word.slice(0, length)
    field.dispatchEvent(new InputEvent('input'))
    if (length < word.length) setTimeout(type, 30, length + 1)
    else done()
}
type(1)
"""


@pytest.fixture(scope="module")
def nextcloud() -> Iterator[Stage]:
    with served() as stage:
        yield stage


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with browsing(tmp_path_factory.mktemp("chromium")) as chrome:
        yield chrome


@pytest.fixture
def stage(nextcloud: Stage) -> Stage:
    """The same Nextcloud, with nothing in its memory."""
    nextcloud.forget()
    return nextcloud


@pytest.fixture
def person(browser: webdriver.Chrome, stage: Stage) -> Person:
    return Person(browser, stage)


def test_highlights_count_characters_as_people_do(person: Person, stage: Stage) -> None:
    """Given an excerpt with emoji before the match, then exactly the matching words are marked."""
    text = "🏨🧳👩‍🚀 The hotel limit is 140 € 🌙, the limit abroad 190 €."
    spans = [[m.start(), m.end()] for m in re.finditer("hotel limit|limit", text)]
    stage.will_answer("hotel", found(hit(excerpt=text, highlights=spans)))
    person.opens("q=hotel")
    person.sees("Travel policy.pdf")
    assert [mark.text for mark in person.all("mark")] == ["hotel limit", "limit"]
    assert person.all(".sem-excerpt")[0].get_property("textContent") == text


def test_text_of_documents_never_becomes_markup(person: Person, stage: Stage) -> None:
    """Given a document whose words are HTML and whose link is a script, then they are read, not obeyed."""
    hostile = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
    marks = [[0, 4], [2, 99], [5000, 6000]]
    bad = hit(hostile, place=hostile, excerpt=hostile, highlights=marks, link="javascript:document.title='taken'")
    elsewhere = hit("Elsewhere", link="//evil.example/f/12")
    stage.will_answer("x", found(bad, elsewhere))
    person.opens("q=x")
    person.sees(hostile, "Elsewhere")
    assert person.all(".sem-facts bdi")[0].text == hostile
    assert person.all(".sem-excerpt")[0].get_property("textContent") == hostile
    assert person.all("img, script, [onerror], a[href]") == []
    assert person.browser.title == "x – Nextcloud"


def test_an_older_answer_never_replaces_a_newer_one(person: Person, stage: Stage) -> None:
    """Given a first search that is slow and whose abort is lost, when its answer comes last, then it isn't shown."""
    stage.gates["hotel"] = threading.Event()
    stage.will_answer("hotel", found(hit("Older")))
    stage.will_answer("hotel limit", found(hit("Newer")))
    late = {"source": _LATE_ABORTS}
    script = person.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", late)["identifier"]
    try:
        person.opens()
        person.types("hotel")
        person.waits(lambda: stage.asked)
        person.types(" limit")
        person.sees("Newer")
        stage.gates["hotel"].set()
        arrived = "return window.arrived.filter((question) => question !== null)"
        person.waits(lambda: person.browser.execute_script(arrived) == ["hotel limit", "hotel"])
        person.browser.execute_async_script("setTimeout(arguments[0], 50)")
        person.sees("Newer")
        aborted = person.browser.execute_script("return window.signals.map((signal) => signal.aborted)")
        assert aborted[-2:] == [True, False], "the page also asks the browser to give the older one up"
    finally:
        person.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script})


def test_the_page_takes_the_place_of_the_empty_frame(person: Person) -> None:
    """Given Nextcloud's #content with AppAPI's empty one inside, then only the heading stays, in our page."""
    person.opens()
    person.reads("Find it by what it means")
    left = "return [...document.querySelectorAll('body [id=content], body [id=content] > *, h1')].map((e) => e.id)"
    assert person.browser.execute_script(left) == ["content", "semantic-search", "page-heading-level-1"]
    assert person.focused == "sem-question"


def test_typing_asks_once(person: Person, stage: Stage) -> None:
    """Given somebody who types a letter each 30 ms, then the page asks for the whole word only."""
    stage.will_answer("lisbon", found(hit("Lisbon trip")))
    person.opens()
    person.browser.execute_async_script(_TYPING, person.field, "lisbon")
    person.sees("Lisbon trip")
    assert [query["q"] for query in stage.asked] == [["lisbon"]]


def test_a_degraded_answer_says_so_and_can_be_asked_again(person: Person, stage: Stage) -> None:
    """Given that a part of Nextcloud did not answer, when it does on Retry, then the sentence goes away."""
    stage.will_answer("hotel", found(hit("Partly"), degraded=True), found(hit("Partly"), hit("The rest")))
    person.opens("q=hotel")
    person.sees("Partly")
    assert _DEGRADED in person.panel
    person.clicks("Retry")
    person.sees("Partly", "The rest")
    assert _DEGRADED not in person.panel


def test_nothing_found_while_degraded_claims_no_more_than_is_known(person: Person, stage: Stage) -> None:
    stage.will_answer("hotel", found(degraded=True))
    stage.will_answer("motel", found())
    person.opens("q=hotel")
    person.reads(_DEGRADED)
    assert "Nothing that you can open" not in person.panel
    person.opens("q=motel")
    person.reads("Nothing that you can open answers this")


def test_a_busy_server_is_asked_once_more_in_silence(person: Person, stage: Stage) -> None:
    """Given a server that is busy for a moment, then the person sees results and no complaint."""
    stage.will_answer("hotel", _BUSY, found(hit()))
    person.opens("q=hotel")
    person.sees("Travel policy.pdf")
    assert len(stage.asked) == 2
    assert person.all(".sem-trouble") == []


def test_a_server_that_stays_busy_is_left_in_peace(person: Person, stage: Stage) -> None:
    """Given a server that stays busy, then the page says so after its second try and waits for the person."""
    stage.will_answer("hotel", _BUSY, _BUSY, found(hit()))
    person.opens("q=hotel")
    person.reads("Many searches are running just now.")
    assert len(stage.asked) == 2
    person.clicks("Retry")
    person.sees("Travel policy.pdf")


@pytest.mark.parametrize("mount", range(len(MOUNTS)), ids=["proxy", "proxy without index.php", "HaRP"])
def test_links_lead_to_this_nextcloud(person: Person, stage: Stage, mount: int) -> None:
    """Given a Nextcloud below /cloud, then results link below /cloud, however the app is reached."""
    stage.will_answer("hotel", found(hit()))
    person.opens(f"mount={mount}&q=hotel")
    person.sees("Travel policy.pdf")
    assert person.all(".sem-title")[0].get_attribute("href") == f"{stage.origin}/cloud/index.php/f/12"


@pytest.mark.parametrize(
    ("answer", "sentence", "remedies"),
    [
        ((400, {"error": "The question is too long"}), "The question is too long", []),
        ((503, {"error": "The engine does not answer"}), "still starting up", ["Retry"]),
        ((500, {"error": "Boom"}), "did not work", ["Retry"]),
        ((401, {"error": "Sign in to Nextcloud first"}), "sign in again", ["Reload the page"]),
        ((404, "<p>Page not found</p>"), "sign in again", ["Reload the page"]),
        ((200, "<p>Log in</p>"), "sign in again", ["Reload the page"]),
        ((200, {"hits": None}), "did not work", ["Retry"]),
    ],
)
def test_trouble_has_a_sentence_and_a_way_out(
    person: Person, stage: Stage, answer: tuple[int, Any], sentence: str, remedies: list[str]
) -> None:
    stage.will_answer("hotel", answer)
    person.opens("q=hotel")
    person.reads(sentence)
    assert [button.text for button in person.all(".sem-panel button")] == remedies
    assert sentence in str(person.all("[role=status]")[0].get_property("textContent")), "it is spoken as well"


def test_the_search_goes_on_when_the_connection_is_back(person: Person, stage: Stage) -> None:
    stage.will_answer("hotel", found(hit()))
    person.opens()
    calm = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    person.browser.execute_cdp_cmd("Network.enable", {})
    person.browser.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": True, **calm})
    person.types("hotel")
    person.reads("You are offline.")
    person.browser.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": False, **calm})
    person.sees("Travel policy.pdf")


def test_a_text_that_just_changed_is_announced_and_not_quoted(person: Person, stage: Stage) -> None:
    stage.will_answer("hotel", found(hit(excerpt="Up to 120 €", refreshing=True)))
    person.opens("q=hotel")
    person.reads("Changed just now; its new text is being read")
    assert "120" not in person.panel


def test_the_keyboard_is_enough(person: Person, stage: Stage) -> None:
    """Given two results, then "/", arrows, Escape and Enter lead through them."""
    stage.will_answer("hotel", found(hit("One", link="/index.php/f/1"), hit("Two", link="/index.php/f/2")))
    person.opens("q=hotel")
    person.sees("One", "Two")
    walk = [(Keys.ARROW_DOWN, "One"), (Keys.ARROW_DOWN, "Two"), (Keys.ARROW_DOWN, "Two"), (Keys.ARROW_UP, "One")]
    walk += [(Keys.ARROW_UP, "sem-question"), (Keys.ARROW_DOWN, "One"), (Keys.ESCAPE, "sem-question")]
    walk += [(Keys.TAB, ""), (Keys.TAB, "All"), ("/", "sem-question"), (Keys.ARROW_DOWN, "One")]
    for key, expected in walk:
        person.presses(key)
        assert person.focused == expected
    person.presses(Keys.ENTER)
    person.waits(lambda: person.browser.title == "Document 1")


def test_a_search_is_an_address(person: Person, stage: Stage) -> None:
    """Given two searches and an opened result, then Back leads through all of them."""
    stage.will_answer("hotel", found(hit("Hotels")))
    stage.will_answer("lisbon", found(hit("Lisbon trip")))
    person.opens("q=hotel")
    person.sees("Hotels")
    person.types(f"{Keys.CONTROL}a{Keys.NULL}lisbon{Keys.ENTER}")
    person.sees("Lisbon trip")
    assert parse_qs(urlsplit(person.browser.current_url).query)["q"] == ["lisbon"]
    person.all(".sem-tile")[0].click()
    person.waits(lambda: person.browser.title == "Document 12")
    person.browser.back()
    person.sees("Lisbon trip")
    person.browser.back()
    person.sees("Hotels")
    assert person.field.get_property("value") == "hotel"


def test_filters_narrow_what_is_asked(person: Person, stage: Stage) -> None:
    stage.will_answer("hotel", found(hit()), found())
    person.opens("q=hotel&when=week")
    person.sees("Travel policy.pdf")
    person.clicks("Notes")
    person.reads("Nothing that you can open answers this")
    assert stage.asked[1]["kind"] == ["note"]
    assert stage.asked[1]["since"], "the period from the address still counts"
    person.clicks("Remove the filters")
    person.waits(lambda: len(stage.asked) == 3)
    assert stage.asked[2].keys() == {"q", "limit"}


def test_more_results_follow_on_request(person: Person, stage: Stage) -> None:
    """Given a full page, when more are asked for, then the first new one has the focus."""
    many = [hit(f"Document {number}") for number in range(13)]
    stage.will_answer("hotel", found(*many[:10], cursor="more"), found(*many))
    person.opens("q=hotel")
    person.clicks("Show more")
    person.sees(*(one["title"] for one in many))
    person.waits(lambda: person.focused == "Document 10")
    assert stage.asked[1]["limit"] == ["20"]


@pytest.mark.parametrize(
    ("status", "language", "sentence"),
    [
        ({"total": 1, "indexed": 1, "pending": 0}, "en", "1 of your documents is indexed"),
        ({"total": 1204, "indexed": 1204, "pending": 0}, "en-GB", "1,204 of your documents are indexed"),
        ({"total": 4, "indexed": 1, "pending": 3}, "de-DE", "1 von 4 Dokumenten sind erfasst."),
        ({"total": 0, "indexed": 0, "pending": 0}, "fr", "Aucun de vos documents"),
        ({"total": 2, "indexed": 2, "pending": 0}, "es", "2 de tus documentos están indexados"),
        ({"total": 2, "indexed": 2, "pending": 0}, "tlh", "2 of your documents are indexed"),
    ],
)
def test_the_start_tells_how_far_indexing_is(
    person: Person, stage: Stage, status: dict[str, int], language: str, sentence: str
) -> None:
    stage.status = status
    person.opens(f"lang={language}")
    person.reads(sentence)
    assert len(person.all("[role=progressbar]")) == (1 if status["pending"] else 0)


def test_a_phone_is_wide_enough(person: Person, stage: Stage) -> None:
    """Given 360 pixels and words without a break, then nothing is wider than the screen."""
    endless = "Donaudampfschifffahrtsgesellschaftskapitän" * 4
    stage.will_answer("hotel", found(hit(endless, place=endless, excerpt=endless, page=3), degraded=True))
    phone = {"width": 360, "height": 640, "deviceScaleFactor": 1, "mobile": True}
    person.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        person.opens("q=hotel")
        person.sees(endless)
        shown = person.all(
            ".sem-field, .sem-notice, .sem-hit, .sem-title, .sem-facts, .sem-excerpt, .sem-relevance, .sem-mine"
        )
        assert [element.rect for element in shown if element.rect["x"] + element.rect["width"] > 360] == []
    finally:
        person.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def switch(person: Person) -> Any:
    """The switch for one's own files, once the page knows how it stands."""
    shown = person.waits(lambda: [one for one in person.all("[role=switch]") if one.is_displayed()])
    return shown[0]


def outcome(person: Person) -> str:
    return person.all(".sem-mine-outcome")[0].text


def test_a_person_leaves_their_files_out_and_takes_it_back(person: Person, stage: Stage) -> None:
    """Given results, when the switch is turned by keyboard, then it is saved, said, and the results are asked anew."""
    stage.will_answer("hotel", found(hit("Mine")), found(), found(hit("Mine")))
    person.opens("q=hotel")
    person.sees("Mine")
    mine = switch(person)
    assert (mine.accessible_name, mine.aria_role, mine.is_selected()) == ("My files can be found", "switch", True)
    person.browser.execute_script("arguments[0].focus()", mine)
    person.presses(Keys.SPACE)
    person.waits(lambda: outcome(person).startswith("Saved. Your files and notes are no longer shown"))
    person.reads("Nothing that you can open answers this")
    described = person.all(f"#{mine.get_attribute('aria-describedby')}")[0].text
    assert described.startswith("Your files and notes are left out of Semantic Search")
    assert person.focused == "sem-mine"
    person.presses(Keys.SPACE)
    person.waits(lambda: outcome(person).startswith("Saved. Your files and notes are being read again"))
    person.sees("Mine")
    assert stage.wishes == [{"indexed": False}, {"indexed": True}]


def test_a_wish_on_its_way_is_said_and_not_sent_twice(person: Person, stage: Stage) -> None:
    stage.gates["/api/me"] = threading.Event()
    person.opens()
    mine = switch(person)
    mine.click()
    person.waits(lambda: outcome(person) == "Saving…" and stage.wishes)
    mine.click()
    assert (mine.is_selected(), mine.get_attribute("aria-busy")) == (False, "true")
    stage.gates["/api/me"].set()
    person.waits(lambda: outcome(person).startswith("Saved."))
    assert stage.wishes == [{"indexed": False}]


def test_a_wish_that_was_not_noted_is_taken_back_with_what_to_do(person: Person, stage: Stage) -> None:
    """Given a server that fails, then the switch shows how things stand; an answer that got lost is a success."""
    stage.noted = lambda _: (503, {"error": "The database does not answer"})
    person.opens()
    mine = switch(person)
    mine.click()
    person.waits(lambda: outcome(person).startswith("This could not be saved. Try again"))
    assert mine.is_selected()
    stage.me = (200, {"indexed": False})
    mine.click()
    person.waits(lambda: outcome(person).startswith("Saved."))
    assert not mine.is_selected()


def test_without_knowing_how_it_stands_the_page_shows_no_switch(person: Person, stage: Stage) -> None:
    stage.me = (503, {"error": "The database does not answer"})
    stage.will_answer("hotel", found(hit()))
    person.opens("q=hotel")
    person.sees("Travel policy.pdf")
    assert not any(one.is_displayed() for one in person.all("[role=switch]"))


@pytest.mark.parametrize(("wish", "told"), [(True, True), (False, False)])
def test_who_is_left_out_is_not_told_that_nothing_is_indexed_yet(
    person: Person, stage: Stage, wish: bool, told: bool
) -> None:
    stage.me = (200, {"indexed": wish})
    person.opens()
    assert switch(person).is_selected() == wish
    sentence = "return document.querySelector('.sem-status')?.textContent"
    person.waits(lambda: person.browser.execute_script(sentence))
    assert ("None of your documents is indexed yet" in person.panel) == told


def test_every_language_says_everything() -> None:
    """Given the table of words, then all languages have the same sentences with the same blanks."""
    script = (UI / "search.js").read_text()
    languages = re.findall(r"^\t\t(\w\w): \{\n(.*?)^\t\t\},$", script, re.MULTILINE | re.DOTALL)
    tables = {
        language: {
            key: set(re.findall(r"\{(\w+)\}", words))
            for key, words in re.findall(r"^\t\t\t(\w+): (.+),$", block, re.MULTILINE)
        }
        for language, block in languages
    }
    assert tables.keys() == {"en", "de", "fr", "es"}
    assert all(table == tables["en"] for table in tables.values())
    assert len(tables["en"]) > 30


def test_the_script_has_no_way_to_make_markup_from_text() -> None:
    script = (UI / "search.js").read_text()
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval(", "setHTML"):
        assert way not in script


@pytest.mark.parametrize(("name", "fill"), [("app.svg", "#fff"), ("app-dark.svg", "#000")])
def test_the_menu_and_the_app_share_one_icon(name: str, fill: str) -> None:
    drawing = (UI / name).read_bytes()
    assert drawing == (ROOT / "img" / name).read_bytes()
    assert ElementTree.fromstring(drawing).get("fill") == fill

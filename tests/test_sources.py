# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Each kind of content as Nextcloud really keeps it: names, places, notes, boards, and verdicts on what was indexed."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from town import Town

from ex_app.domain import DocumentKey, Granted, Refused, ScopeId
from ex_app.nextcloud import dav
from ex_app.nextcloud.session import Session
from ex_app.search.verify import verify
from ex_app.sources import SOURCES, open_sources

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
SECRETS = "# Lodging\n\nThe board has reserved ninety thousand euros for the settlement with the former manager."
QUESTION = "hotel price limit for trips"

NAMES = (
    "50% off, 100%25 sure.md",
    "a+b & <c> \"d\" 'e'.md",
    "what? #1; [x] {y} ^z~.md",
    "Größe – naïve façade.md",
    "e\u0301te\u0301 decomposed.md",
    "🏨 Hotel 🇪🇸.md",
    "مرحبا بالعالم.md",
    "שלום עולם.md",
    "京都の宿.md",
    "  spaces  inside  .md",
    ".hidden.md",
    "no suffix",
    "%2e%2e%2fescape.md",
    "x" * 200 + ".md",
)
PEOPLE = ("anna maria", "jürgen@example.org", "o'hara", "user+tag", "ünïcödé", "50%")


# --- Names


async def test_files_of_any_name_are_found_and_linked(town: Town) -> None:
    keys = {name: town.write("alice", f"/Odd & 100% ünusual/{name}", f"{HOTELS} {name}") for name in NAMES}
    await town.settle()
    page = await town.search("alice", "accommodation 120 euros per night", limit=50)
    assert {hit["title"]: hit["ref"] for hit in page.hits} == {name.strip("/"): key for name, key in keys.items()}
    assert {hit["place"] for hit in page.hits} == {"Odd & 100% ünusual"}
    assert all(hit["excerpt"] for hit in page.hits)
    assert {hit["link"] for hit in page.hits} == {f"/index.php/f/{key.partition(':')[2]}" for key in keys.values()}


async def test_people_of_any_name_find_their_own_documents_and_boards(town: Town) -> None:
    for user in PEOPLE:
        town.world.add_user(user)
        town.write(user, "/Policies/Lodging.md", f"{HOTELS} {user}")
        board = town.world.add_board(user, "Travel")
        town.world.add_card(board, "Lodging card", description=HOTELS.replace("120", "150"))
    await town.settle()
    for user in PEOPLE:
        page = await town.search(user, QUESTION)
        assert sorted(page.titles) == ["Lodging card", "Lodging.md"], user
        assert all(hit["excerpt"] for hit in page.hits), user


async def test_a_folder_received_under_another_name_and_moved_is_shown_where_its_reader_has_it(town: Town) -> None:
    town.world.mkdir("bob", "/Policies")
    town.world.mkdir("bob", "/Archive")
    town.write("alice", "/Policies/Hotels/Lodging.md", HOTELS)
    town.world.share("alice", "/Policies", with_user="bob")
    await town.settle()
    assert (await town.search("bob", QUESTION))["Lodging.md"]["place"] == "Policies (2) / Hotels"
    town.world.move("bob", "/Policies (2)", "/Archive/From Alice")
    assert (await town.search("bob", QUESTION))["Lodging.md"]["place"] == "Archive / From Alice / Hotels"
    assert (await town.search("alice", QUESTION))["Lodging.md"]["place"] == "Policies / Hotels"


async def test_a_single_file_received_is_found(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    town.write("alice", "/Policies/Salaries.md", SECRETS)
    town.world.share("alice", "/Policies/Lodging.md", with_user="bob")
    await town.settle()
    assert (await town.search("bob", QUESTION)).titles == ["Lodging.md"]
    assert (await town.search("bob", "settlement with the former manager")).hits == []


# --- Notes


async def test_a_note_is_a_note_for_its_owner_and_a_file_for_whom_it_is_shared_with(town: Town) -> None:
    town.world.set_notes_path("bob", "Notizen")
    key = town.write("bob", "/Notizen/Reise/Hotels.md", HOTELS)
    town.write("bob", "/Notes/Not a note of his.md", HOTELS.replace("120", "90"))
    town.world.share("bob", "/Notizen", with_user="alice")
    await town.settle()
    number = key.partition(":")[2]
    note = (await town.search("bob", QUESTION))["Hotels"]
    assert (note["kind"], note["place"], note["link"]) == ("note", "Reise", f"/index.php/apps/notes/note/{number}")
    assert (await town.search("bob", QUESTION))["Not a note of his.md"]["kind"] == "file"
    file = (await town.search("alice", QUESTION))["Hotels.md"]
    assert (file["kind"], file["place"], file["link"]) == ("file", "Notizen / Reise", f"/index.php/f/{number}")


async def test_without_the_notes_app_a_note_is_a_file(town: Town) -> None:
    town.write("alice", "/Notes/Hotels.md", HOTELS)
    await town.settle()
    town.world.fail(lambda request: request.kind == "notes", status=404)
    page = await town.search("alice", QUESTION)
    assert [(hit["title"], hit["kind"], page.degraded) for hit in page.hits] == [("Hotels.md", "file", False)]


# --- Verdicts, on what the indexer wrote


async def suspects(town: Town, *keys: str) -> dict[DocumentKey, frozenset[ScopeId]]:
    return {point.document: point.scopes for key in keys for point in await town.points(key)}


def session_of(town: Town, user: str) -> Session:
    return town.house.nextcloud.as_user(user)


async def test_every_source_grants_what_is_readable_and_denies_what_is_not(town: Town) -> None:
    file = town.write("alice", "/Policies/Lodging.md", HOTELS)
    board = town.world.add_board("alice", "Travel")
    card = f"deck_card:{town.world.add_card(board, 'Lodging', description=HOTELS)}"
    await town.settle()
    asked = await suspects(town, file, card)
    assert {key.source for key in asked} == {source.name for source in SOURCES}, "a source without a story"
    for key, scopes in asked.items():
        source = open_sources()[key.source]
        mine = await source.verify(session_of(town, "alice"), {key: scopes})
        theirs = await source.verify(session_of(town, "bob"), {key: scopes})
        row = await town.row(str(key))
        assert row is not None
        assert isinstance(mine[key], Granted)
        assert mine[key].version == row.version
        assert theirs[key] is Refused.DENIED
    verdicts = await verify(open_sources(), session_of(town, "alice"), asked, seconds=20)
    assert (set(verdicts.granted), verdicts.denied, verdicts.degraded) == (set(asked), frozenset(), False)


async def test_a_source_that_is_not_known_any_more_grants_nothing(town: Town) -> None:
    file = town.write("alice", "/Policies/Lodging.md", HOTELS)
    board = town.world.add_board("alice", "Travel")
    card = f"deck_card:{town.world.add_card(board, 'Lodging', description=HOTELS)}"
    await town.settle()
    asked = await suspects(town, file, card)
    only_files = {"file": open_sources()["file"]}
    verdicts = await verify(only_files, session_of(town, "alice"), asked, seconds=20)
    assert set(map(str, verdicts.granted)) == {file}
    assert verdicts.degraded


async def test_a_hundred_and_one_files_are_two_questions(town: Town) -> None:
    keys = [DocumentKey.parse(town.write("alice", f"/Many/{number}.md", "x")) for number in range(101)]
    town.world.reset_requests()
    verdicts = await verify(open_sources(), session_of(town, "alice"), dict.fromkeys(keys, ()), seconds=20)
    assert set(verdicts.granted) == set(keys)
    assert town.world.count(method="SEARCH") == 2


async def test_a_hundred_cards_on_many_boards_are_two_questions(town: Town) -> None:
    expected: dict[DocumentKey, tuple[ScopeId, ...]] = {}
    for number in range(10):
        board = town.world.add_board("alice", f"Board {number}")
        for _ in range(10):
            card = town.world.add_card(board, "Lodging", description=HOTELS)
            expected[DocumentKey("deck_card", card)] = (ScopeId(f"deck:{board}"),)
    town.world.reset_requests()
    verdicts = await verify(open_sources(), session_of(town, "alice"), expected, seconds=20)
    assert set(verdicts.granted) == set(expected)
    assert len(town.world.requests) == 2


async def test_one_missing_card_hides_none_of_the_others(town: Town) -> None:
    cards: dict[str, str] = {}
    for name in ("Travel", "Office", "Garden"):
        board = town.world.add_board("alice", name)
        cards[name] = f"deck_card:{town.world.add_card(board, f'Lodging {name}', description=f'{HOTELS} {name}')}"
    await town.settle()
    town.world.delete_card(int(cards["Office"].partition(":")[2]))
    page = await town.search("alice", QUESTION)
    assert sorted(page.titles) == ["Lodging Garden", "Lodging Travel"]
    assert not page.degraded


async def test_one_card_that_left_spoils_no_search_over_many_boards_and_is_soon_found_where_it_is(town: Town) -> None:
    boards = [town.world.add_board("alice", f"Board {number}") for number in range(12)]
    cards = [town.world.add_card(board, f"Lodging {number}", description=HOTELS) for number, board in enumerate(boards)]
    await town.settle()
    town.world.move_card(cards[11], town.world.cards[cards[0]].stack)
    page = await town.search("alice", QUESTION, limit=25)
    assert not page.degraded
    assert len(page.hits) >= 11
    await town.settle()
    town.world.reset_requests()
    page = await town.search("alice", QUESTION, limit=25)
    assert page["Lodging 11"]["place"] == "Board 0"
    assert town.world.count(method="REPORT") == 1


async def test_labels_of_a_card_are_no_secret_and_stacks_are_no_cards(town: Town) -> None:
    board = town.world.add_board("alice", "Travel")
    town.world.add_stack(board, "Hotel price limit for trips")
    town.world.add_card(board, "Lodging", description=HOTELS)
    await town.settle()
    assert (await town.search("alice", QUESTION)).titles == ["Lodging"]


async def test_a_file_put_in_anothers_place_between_verdict_and_reading_is_not_quoted_as_it(town: Town) -> None:
    town.write("alice", "/Policies/Lodging.md", HOTELS)
    await town.settle()
    town.write("alice", "/Private/Board minutes.md", HOTELS.replace("at most 120", "ninety thousand"))
    town.write("alice", "/Policies/Lodging.md", HOTELS.replace("120", "130"))
    nextcloud = town.stage.app
    assert nextcloud is not None

    async def swapped(scope: Scope, receive: Receive, send: Send) -> None:
        town.world.move("alice", "/Private/Board minutes.md", "/Policies/Lodging.md")
        await nextcloud(scope, receive, send)

    def instead(scope: Scope) -> ASGIApp | None:
        reading = scope["method"] == "GET" and unquote(scope["path"]).endswith("/Policies/Lodging.md")
        return swapped if reading else None

    town.stage.instead = instead
    answer = await town.ask("alice", "GET", "/api/search", params={"q": QUESTION})
    assert "ninety thousand" not in answer.text
    assert [(hit["title"], hit["refreshing"]) for hit in answer.json()["hits"]] == [("Lodging.md", True)]


@pytest.mark.parametrize("year", ["12345", "292277026596", "9" * 30])
async def test_a_time_that_no_calendar_holds_is_no_time(year: str) -> None:
    """People set the time of a file that they share as they like; it must not end the search of whoever receives it."""
    assert dav.http_time(f"Sun, 04 Dec {year} 15:30:07 GMT") == 0

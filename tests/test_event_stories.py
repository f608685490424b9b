# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What Nextcloud tells by itself is found without a sweep; what it forgets to tell is found by the next one."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from town import SECRET, Town

from demo.appapi import signed
from demo.copies import copy, restore_version
from ex_app.domain import DocumentKey, Lane, NextcloudUnavailable, NotAvailable
from ex_app.index.intake import Intake, NotUnderstood, read_event
from ex_app.index.wishes import attend, grant_wishes
from ex_app.nextcloud import webhooks
from ex_app.nextcloud.webhooks import PROOF_HEADER, arrange, keep_arranged, proof

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOTELS = "# Lodging\n\nStaff may spend at most 120 euros per night on accommodation when they are away on business."
DEARER = HOTELS.replace("120", "175")
QUESTION = "hotel price limit for trips"
NODE = "OCP\\Files\\Events\\Node\\"


@pytest_asyncio.fixture(loop_scope="session")
async def alert(town: Town) -> AsyncIterator[Town]:
    """A town in which everything was looked at once and Nextcloud tells of changes from now on."""
    town.world.mkdir("alice", "/Policies")
    town.world.mkdir("carol", "/Papers")
    await town.settle()
    await town.listen()
    yield town


def told(event: str, user: str | None = "alice", **parts: Any) -> bytes:
    """The body of a webhook."""
    who = {"uid": user, "displayName": user} if user else None
    return json.dumps({"event": {**parts, "class": event}, "user": who, "time": 1_800_000_000}).encode()


async def tell(
    town: Town, body: bytes, *, user: str = "alice", carrying: str | None = None, relayed: bool = False, **more: Any
) -> httpx.Response:
    """One call of Nextcloud's, with the proof that it was registered with unless told otherwise."""
    carried = {PROOF_HEADER: proof(town.settings) if carrying is None else carrying}
    headers = {**carried, **more.pop("headers", {})}
    return await town.ask(user, "POST", "/events", content=body, headers=headers, relayed=relayed, **more)


# --- What is told


async def test_an_upload_is_found_without_a_sweep(alert: Town) -> None:
    alert.write("alice", "/Policies/Lodging.md", HOTELS)
    await alert.react()
    assert (await alert.search("alice", QUESTION)).titles == ["Lodging.md"]


async def test_an_upload_into_a_new_folder_is_found_too(alert: Town) -> None:
    alert.write("alice", "/Policies/2026/Travel/Lodging.md", HOTELS)
    await alert.react()
    assert (await alert.search("alice", QUESTION)).titles == ["Lodging.md"]


async def test_what_lies_where_nobody_walks_is_left_to_the_walk_of_its_owner(alert: Town) -> None:
    """What belongs into the index is decided where folders are listed."""
    key = alert.write("alice", "/New/Lodging.md", HOTELS)
    alert.clock.forward(3)
    await alert.hear()
    await alert.work()
    assert await alert.points(key) == []
    assert [wish.user for wish in await alert.registry.wishes.due()] == ["alice"]
    await alert.react()
    assert len(await alert.points(key)) == 1


async def test_what_somebody_leaves_in_a_folder_shared_with_him_is_read_as_its_owner(alert: Town) -> None:
    alert.world.share("alice", "/Policies", with_user="bob", permissions=31)
    key = alert.write("bob", "/Policies/Lodging.md", HOTELS)
    await alert.react()
    row = await alert.row(key)
    assert row is not None
    assert (row.owner, row.path) == ("alice", "Policies/Lodging.md")
    assert (await alert.search("bob", QUESTION)).titles == ["Lodging.md"]


async def test_what_comes_through_a_public_link_is_found_by_a_walk(alert: Town) -> None:
    alert.write("carol", "/Papers/Lodging.md", HOTELS)
    event = alert.webhooks.take()[-1]
    await tell(alert, told(f"{NODE}NodeWrittenEvent", None, **event.payload), user="")
    await alert.react()
    assert (await alert.search("carol", QUESTION)).titles == ["Lodging.md"]


async def test_an_edit_is_found_without_a_sweep(alert: Town) -> None:
    alert.write("alice", "/Policies/Lodging.md", HOTELS)
    await alert.react()
    alert.write("alice", "/Policies/Lodging.md", DEARER)
    await alert.react()
    assert "175 euros" in (await alert.search("alice", QUESTION))["Lodging.md"]["excerpt"]


async def test_an_older_version_that_comes_back_is_found_though_nobody_wrote_it(alert: Town) -> None:
    alert.write("alice", "/Policies/Lodging.md", HOTELS, mtime=1_700_000_000)
    alert.write("alice", "/Policies/Lodging.md", DEARER, mtime=1_700_000_100)
    await alert.react()
    restore_version(alert.world, "alice", "/Policies/Lodging.md", HOTELS.encode(), 1_700_000_000)
    await alert.react()
    assert "120 euros" in (await alert.search("alice", QUESTION))["Lodging.md"]["excerpt"]


@pytest.mark.parametrize("newer", [False, True])
async def test_a_deleted_file_leaves_the_index_without_a_sweep_and_comes_back_from_the_trash(
    alert: Town, newer: bool
) -> None:
    """Newer servers know its id only before it is gone."""
    alert.webhooks.newer = newer
    key = alert.write("alice", "/Policies/Lodging.md", HOTELS)
    await alert.react()
    assert len(await alert.points(key)) == 1
    alert.world.delete("alice", "/Policies/Lodging.md")
    await alert.react()
    assert await alert.points(key) == []
    alert.world.restore("alice", "/Policies/Lodging.md", DocumentKey.parse(key).id)
    await alert.react()
    assert (await alert.search("alice", QUESTION)).titles == ["Lodging.md"]


async def test_of_a_folder_that_was_copied_all_that_lies_in_it_is_found(alert: Town) -> None:
    for year in ("2025", "2026"):
        alert.write("alice", f"/Policies/{year}/Lodging {year}.md", f"{HOTELS} {year}")
    await alert.react()
    copy(alert.world, "alice", "/Policies", "/Archive")
    await alert.react()
    for year in ("2025", "2026"):
        found = alert.world.resolve("alice", f"/Archive/{year}/Lodging {year}.md").node
        assert len(await alert.points(f"file:{found.id}")) == 1
    assert (await alert.registry.progress()).indexed == 4


async def test_of_a_folder_that_was_deleted_nothing_is_left(alert: Town) -> None:
    keys = [alert.write("alice", f"/Policies/2025/Lodging {number}.md", f"{HOTELS} {number}") for number in range(3)]
    await alert.react()
    alert.world.delete("alice", "/Policies")
    await alert.react()
    assert [await alert.points(key) for key in keys] == [[], [], []]


@pytest.mark.parametrize("path", ["/Policies/Lodging.md", "/Policies"])
async def test_newer_servers_tell_of_a_rename(alert: Town, path: str) -> None:
    alert.webhooks.newer = True
    key = alert.write("alice", "/Policies/Lodging.md", HOTELS)
    await alert.react()
    alert.world.move("alice", path, path.replace("Policies", "Rules") if path == "/Policies" else "/Policies/Beds.md")
    await alert.react()
    row = await alert.row(key)
    assert row is not None
    assert row.path == ("Rules/Lodging.md" if path == "/Policies" else "Policies/Beds.md")


async def test_newer_decks_tell_of_cards_and_the_board_is_walked(alert: Town) -> None:
    """Deck names the last card of a stack when another one moved into it."""
    alert.webhooks.newer = True
    await alert.listen()
    board = alert.world.add_board("alice", "Travel")
    done = alert.world.add_stack(board, "Done")
    card = alert.world.add_card(board, "Beds", description=HOTELS)
    alert.world.share_board(board, with_user="bob")
    await alert.react()
    assert (await alert.search("bob", QUESTION)).titles == ["Beds"]
    alert.world.edit_card(card, description=DEARER)
    await alert.react()
    assert "175 euros" in (await alert.search("bob", QUESTION))["Beds"]["excerpt"]
    other = alert.world.add_card(done, "Trains", description="Trains are booked a month ahead.")
    alert.world.move_card(card, done)
    alert.world.delete_card(other)
    await alert.react()
    assert await alert.points(f"deck_card:{other}") == []


async def test_newer_servers_tell_of_tags(alert: Town) -> None:
    alert.webhooks.newer = True
    await alert.listen()
    key = alert.write("alice", "/Policies/Lodging.md", HOTELS)
    await alert.react()
    alert.world.tag(DocumentKey.parse(key).id, "confidential")
    await alert.hear()
    claimed = await alert.claim()
    assert claimed is not None
    assert (str(claimed.key), claimed.lane) == (key, Lane.ACCESS)


# --- What is not told, told twice, too late or too early


async def test_an_event_that_was_lost_is_made_good_by_the_next_sweep(alert: Town) -> None:
    key = alert.write("alice", "/Policies/Lodging.md", HOTELS)
    assert alert.webhooks.take()
    await alert.react()
    assert await alert.points(key) == []
    await alert.settle()
    assert len(await alert.points(key)) == 1


async def test_while_the_app_is_off_events_are_dropped_and_the_sweep_after_it_finds_what_they_were_about(
    alert: Town,
) -> None:
    key = alert.write("alice", "/Policies/Lodging.md", HOTELS)
    await alert.house.set_enabled(False)
    assert await alert.hear() > 0
    assert await alert.claim() is None
    await alert.house.set_enabled(True)
    await alert.settle()
    assert len(await alert.points(key)) == 1


async def test_events_that_come_again_and_in_another_order_do_no_harm(alert: Town) -> None:
    keys = [alert.write("alice", f"/Policies/Lodging {number}.md", f"{HOTELS} {number}") for number in range(3)]
    alert.write("alice", "/Policies/Lodging 0.md", DEARER)
    alert.world.delete("alice", "/Policies/Lodging 2.md")
    events = alert.webhooks.take()
    alert.clock.forward(3)
    for event in [*reversed(events), *events]:
        body = told(f"{NODE}{event.name}Event", **event.payload)
        assert (await tell(alert, body)).status_code == 204
        await alert.work()
    await alert.react()
    assert [len(await alert.points(key)) for key in keys] == [1, 1, 0]
    assert "175 euros" in (await alert.search("alice", QUESTION))["Lodging 0.md"]["excerpt"]


async def test_an_event_from_before_a_delete_revives_nothing(alert: Town) -> None:
    key = alert.write("alice", "/Policies/Lodging.md", HOTELS)
    queued = alert.webhooks.take()
    await alert.settle()
    alert.world.delete("alice", "/Policies/Lodging.md")
    await alert.react()
    for event in queued:
        await tell(alert, told(f"{NODE}{event.name}Event", **event.payload))
    await alert.react()
    assert await alert.points(key) == []
    assert (await alert.search("alice", QUESTION)).hits == []


async def test_who_left_the_own_files_out_stays_out_whatever_is_told(alert: Town) -> None:
    await alert.registry.opt_outs.leave("alice")
    await alert.settle()
    alert.embedder.read.clear()
    alert.world.share("alice", "/Policies", with_user="bob", permissions=31)
    alert.write("alice", "/Policies/Lodging.md", HOTELS)
    alert.write("bob", "/Policies/Beds.md", HOTELS)
    await alert.react()
    await alert.react()
    assert alert.embedder.read == []
    assert (await alert.search("bob", QUESTION)).hits == []


async def test_a_change_that_was_told_before_it_was_made_is_looked_for_once_more(alert: Town) -> None:
    """The server tells of a deletion before it deletes, and of nothing afterwards that has an id."""
    key = alert.write("alice", "/Policies/Lodging.md", HOTELS)
    await alert.react()
    fileid = DocumentKey.parse(key).id
    node = {"id": fileid, "path": "/alice/files/Policies/Lodging.md"}
    await tell(alert, told(f"{NODE}BeforeNodeDeletedEvent", node=node))
    await alert.work()
    assert len(await alert.points(key)) == 1
    alert.world.delete("alice", "/Policies/Lodging.md")
    alert.webhooks.take()
    alert.clock.forward(6)
    await alert.work()
    assert await alert.points(key) == []


async def test_a_change_that_is_never_made_is_looked_for_once_only(alert: Town) -> None:
    key = alert.write("alice", "/Policies/Lodging.md", HOTELS)
    await alert.react()
    node = {"id": DocumentKey.parse(key).id, "path": "/alice/files/Policies/Lodging.md"}
    await tell(alert, told(f"{NODE}NodeTouchedEvent", node=node))
    alert.world.reset_requests()
    for _ in range(4):
        await alert.work()
        alert.clock.forward(6)
    assert alert.world.count(method="GET", kind="dav") == 2


# --- Wishes to walk


async def test_many_changes_of_one_person_are_one_walk(alert: Town) -> None:
    for number in range(20):
        alert.world.mkdir("alice", f"/New {number}")
    await alert.hear()
    await alert.work()
    assert [wish.user for wish in await alert.registry.wishes.due()] == ["alice"]
    alert.world.reset_requests()
    await grant_wishes(alert.registry, alert.indexing.reconciler.visit, asyncio.Event())
    assert alert.world.count(user="carol") == 0
    assert await alert.registry.wishes.due() == []


async def test_a_wish_that_comes_during_its_walk_is_walked_again(alert: Town) -> None:
    await alert.registry.wishes.add(["alice"])

    async def visit(user: str) -> None:
        await alert.registry.wishes.add([user])

    await grant_wishes(alert.registry, visit, asyncio.Event())
    assert [wish.user for wish in await alert.registry.wishes.due()] == ["alice"]


async def test_a_walk_that_nextcloud_cannot_answer_is_wished_for_until_it_can(alert: Town) -> None:
    await alert.registry.wishes.add(["alice", "carol"])
    alert.world.fail(lambda request: request.user == "alice" and request.kind == "dav", status=500)
    await grant_wishes(alert.registry, alert.indexing.reconciler.visit, asyncio.Event())
    assert await alert.registry.wishes.due() == []
    alert.clock.forward(16)
    assert [wish.user for wish in await alert.registry.wishes.due()] == ["alice"]
    alert.world.heal()
    await grant_wishes(alert.registry, alert.indexing.reconciler.visit, asyncio.Event())
    alert.clock.forward(16)
    assert await alert.registry.wishes.due() == []


async def test_a_server_that_asks_for_rest_is_not_asked_for_the_next_wish(alert: Town) -> None:
    await alert.registry.wishes.add(["alice", "carol"])
    asked = []

    async def visit(user: str) -> None:
        asked.append(user)
        raise NextcloudUnavailable("busy", retry_after=60)

    with pytest.raises(NextcloudUnavailable):
        await grant_wishes(alert.registry, visit, asyncio.Event())
    assert asked == ["alice"]
    assert [wish.user for wish in await alert.registry.wishes.due()] == ["carol"]


async def test_a_home_that_breaks_our_code_is_not_walked_for_ever(alert: Town) -> None:
    await alert.registry.wishes.add(["alice"])

    async def visit(user: str) -> None:
        raise ValueError("nobody thought of this")

    await attend(alert.registry, visit, asyncio.Event(), seconds=0.01)
    assert await alert.registry.wishes.due() == []


# --- What is refused


@pytest.mark.parametrize("user", ["alice", ""])
async def test_an_event_without_the_proof_is_refused_whoever_signed_it(alert: Town, user: str) -> None:
    """An admin can have any user's signature put under any request to an app."""
    body = told(f"{NODE}NodeWrittenEvent", node={"id": 12, "path": "/alice/files/x"})
    good = proof(alert.settings)
    for carrying in ("", SECRET, good[:-1], f"{good}x", good.upper()):
        assert (await tell(alert, body, user=user, carrying=carrying)).status_code == 404
    assert (await tell(alert, body, user=user, relayed=True)).status_code == 404
    unsigned = {**signed(alert.app, user), "AUTHORIZATION-APP-API": "Om5vdCBpdA=="}
    assert (await tell(alert, body, user=user, headers=unsigned)).status_code == 401
    assert await alert.claim() is None
    assert (await tell(alert, body, user=user)).status_code == 204


HOSTILE = {
    "nothing": b"",
    "no JSON": b"<event/>",
    "no text": b"\xff\xfe\x00",
    "deep": b"[" * 100_000,
    "a number too long to read": b'{"event": {"id": ' + b"9" * 10_000 + b"}}",
    "a list": b"[]",
    "no event": b'{"user": null}',
    "event is text": b'{"event": "NodeWritten"}',
    "unknown class": told("OCP\\Files\\Events\\Node\\NodeRestoredEvent"),
    "class is a list": b'{"event": {"class": ["x"]}}',
    "no node": told(f"{NODE}NodeWrittenEvent"),
    "node is text": told(f"{NODE}NodeWrittenEvent", node="12"),
    "id is true": told(f"{NODE}NodeWrittenEvent", node={"id": True}),
    "id is negative": told(f"{NODE}NodeWrittenEvent", node={"id": -1}),
    "id is a fraction": told(f"{NODE}NodeWrittenEvent", node={"id": 1.5}),
    "id is a path": told(f"{NODE}NodeWrittenEvent", node={"id": "../12"}),
    "id is too large": told(f"{NODE}NodeWrittenEvent", node={"id": 2**63}),
    "card without id": told("OCA\\Deck\\Event\\CardUpdatedEvent", card={"title": "x"}),
    "board without id": told("OCA\\Deck\\Event\\BoardUpdatedEvent"),
    "too many tags": told("OCP\\SystemTag\\TagAssignedEvent", objectType="files", objectIds=["1"] * 5000),
    "too large": b" " * (5 * 1024 * 1024),
}


async def test_nonsense_is_answered_kindly_counted_and_logged_once_without_its_words(
    alert: Town, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="ex_app"):
        for _ in range(2):
            for name, body in HOSTILE.items():
                assert (await tell(alert, body)).status_code == 204, name
    lines = [record.getMessage() for record in caplog.records if "event_not_understood" in record.getMessage()]
    assert len(lines) == len(set(lines)) >= 5
    assert not any("NodeRestored" in line or "12" in line for line in lines)
    assert await alert.claim() is None


async def test_what_is_not_understood_is_counted_by_its_kind(alert: Town) -> None:
    intake = Intake(alert.registry)
    for body in HOSTILE.values():
        await intake.take(body, actor="alice")
    assert intake.misunderstood.total() == len(HOSTILE)
    assert intake.misunderstood["no id"] == 7
    with pytest.raises(NotUnderstood):
        read_event(b"null")


async def test_paths_decide_nothing(alert: Town) -> None:
    """The path of another's file, of a stranger or of nothing: what counts is the id, asked for as whoever acted."""
    key = alert.write("carol", "/Papers/Lodging.md", HOTELS)
    alert.webhooks.take()
    fileid = DocumentKey.parse(key).id
    for path in ("/carol/files/Papers/Lodging.md", "/nobody/files/x", "//", "/", "../../x", "\0", 12, None):
        await tell(alert, told(f"{NODE}NodeWrittenEvent", node={"id": fileid, "path": path}), user="bob")
    for path in ("/nobody/files/x", "//", "/", "../../x", "/", 12, None):
        await tell(alert, told(f"{NODE}NodeWrittenEvent", None, node={"id": fileid + 1000, "path": path}), user="")
    assert await alert.registry.wishes.due() == []
    await alert.react()
    assert await alert.points(key) == []


async def test_an_event_that_cannot_be_noted_is_not_taken(alert: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: Any, **__: Any) -> None:
        raise NotAvailable("the database is busy")

    monkeypatch.setattr(Intake, "take", away)
    body = told(f"{NODE}NodeWrittenEvent", node={"id": 12, "path": "/alice/files/x"})
    assert (await tell(alert, body)).status_code == 503


# --- Registrations


async def test_looking_at_the_registrations_again_changes_nothing(town: Town) -> None:
    app = town.house.nextcloud.as_user("")
    first = await arrange(app, town.settings)
    assert len(first.added) == 7
    assert all("Deck" in name or "Tag" in name for name in first.rejected)
    second = await arrange(app, town.settings)
    assert (second.added, second.removed, second.rejected) == ((), (), first.rejected)
    assert len(town.webhooks.hooks) == 7
    names = {hook.event.rpartition("\\")[2] for hook in town.webhooks.hooks.values()}
    assert {name for name in names if name.startswith("Before")} == {"BeforeNodeDeletedEvent"}
    assert not any("Restored" in name for name in webhooks.CLASSES)


async def test_stale_registrations_and_doubles_go_and_those_of_others_stay(town: Town) -> None:
    app = town.house.nextcloud.as_user("")
    await arrange(app, town.settings)
    hooks = town.webhooks.hooks
    some = list(hooks.values())
    stranger = type(town.app)("another", "Another", "1.0", "x", "http://another", enabled=True)
    hooks[100] = _like(some[0], 100)
    hooks[101] = _like(some[1], 101, uri="/hook/old")
    hooks[102] = _like(some[2], 102, app=stranger, uri="/theirs")
    some[3].headers["X-Semantic-Search-Mark"] = "of an earlier secret"
    some[4].auth = None
    some[5].user_filter = "alice"
    some[6].http_method = "PUT"
    done = await arrange(app, town.settings)
    assert set(done.removed) == {100, 101, *(hook.id for hook in some[3:7])}
    assert len(done.added) == 4
    assert 102 in hooks
    assert len(hooks) == 8


def _like(hook: Any, number: int, **other: Any) -> Any:
    values = {name: getattr(hook, name) for name in type(hook).__slots__}
    return type(hook)(**{**values, "id": number, **other})


async def test_the_proof_stands_in_no_listing_and_in_no_log(town: Town, caplog: pytest.LogCaptureFixture) -> None:
    app = town.house.nextcloud.as_user("")
    with caplog.at_level(logging.DEBUG):
        await arrange(app, town.settings)
        shown = await app.request(
            "GET", "/ocs/v2.php/apps/webhook_listeners/api/v1/webhooks", params={"format": "json"}
        )
    secret = proof(town.settings)
    assert secret[:16].encode() not in shown.body
    assert secret[:16] not in caplog.text
    assert SECRET not in shown.body.decode()


@pytest.mark.parametrize("status", [404, 403, 500])
async def test_without_the_app_that_tells_of_changes_sweeping_goes_on(
    town: Town, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    town.write("carol", "/Papers/Lodging.md", HOTELS)
    town.world.fail(lambda request: "webhook_listeners" in request.path, status=status)
    stop = asyncio.Event()
    with caplog.at_level(logging.INFO, logger="ex_app"):
        keeping = asyncio.create_task(keep_arranged(town.house.nextcloud.as_user(""), town.settings, stop))
        async with asyncio.timeout(10):
            while not any("webhooks" in record.getMessage() for record in caplog.records):
                await asyncio.sleep(0.01)
    stop.set()
    await keeping
    assert len([record for record in caplog.records if "webhooks" in record.getMessage()]) == 1
    await town.settle()
    assert (await town.search("carol", QUESTION)).titles == ["Lodging.md"]

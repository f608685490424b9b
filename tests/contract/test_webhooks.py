# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""webhook_listeners: who may register what, and what is said of which change.

Of what is heard only the calls about files of the test itself count: people may be at work on a real server.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ex_app.domain import Lane, NotPermitted
from ex_app.index.intake import Change, read_event
from ex_app.nextcloud import webhooks
from ex_app.nextcloud.session import Nextcloud
from ex_app.nextcloud.webhooks import MARK_HEADER, PATH, PROOF_HEADER, arrange
from ex_app.settings import Settings
from tests.contract.hands import ALICE, BOB, Hand, done
from tests.contract.probe import PLEASE_FAIL, probing

_API = "/ocs/v2.php/apps/webhook_listeners/api/v1/webhooks"
_NODE = "OCP\\Files\\Events\\Node\\"
_TOLD = (
    "BeforeNodeDeleted",
    "NodeCopied",
    "NodeCreated",
    "NodeDeleted",
    "NodeRenamed",
    "NodeTouched",
    "NodeWritten",
)

Call = dict[str, Any]


@pytest.fixture(scope="module")
def heard(hand: Hand) -> Iterator[list[Call]]:
    """Given: an ExApp that notes what Nextcloud calls it for."""
    calls: list[Call] = []
    with probing(hand.app.port, calls) as address:
        hand.adopt(address)
        yield calls


@pytest.fixture
def settings(hand: Hand) -> Settings:
    return Settings(app_id=hand.app.id, app_secret=hand.app.secret, app_version=hand.app.version)


@pytest.fixture(autouse=True)
def nothing_registered(hand: Hand) -> Iterator[None]:
    """Given: no registration of ours; nor is there one afterwards."""
    yield
    for row in _rows(hand):
        done(_ask(hand, "DELETE", f"/{row['id']}"))


def _ask(hand: Hand, method: str, path: str = "", *, user: str = "", **given: object) -> httpx.Response:
    """A request to webhook_listeners; by the app itself unless a user is named."""
    options: dict[str, Any] = {"json": given} if given else {}
    return hand.ask_signed(user, method, f"{_API}{path}?format=json", **options)


def _rows(hand: Hand) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = done(_ask(hand, "GET")).json()["ocs"]["data"]
    return [row for row in listed if row["appId"] == hand.app.id]


def _register(hand: Hand, *, user: str = "", **changes: object) -> httpx.Response:
    """As it was always done, before anybody asked for more."""
    plain = {"httpMethod": "POST", "uri": PATH, "event": f"{_NODE}NodeWrittenEvent", "authMethod": "none"}
    empty: dict[str, object] = {"eventFilter": {}, "userIdFilter": "", "headers": {}, "authData": {}}
    return _ask(hand, "POST", user=user, **plain | empty | changes)


def _short(event: str) -> str:
    return event.rpartition("\\")[2].removesuffix("Event")


# --- registering


async def test_each_class_that_is_known_is_registered_once(
    hand: Hand, nextcloud: Nextcloud, settings: Settings
) -> None:
    first = await arrange(nextcloud.as_user(""), settings)
    assert sorted(map(_short, first.added)) == sorted(_TOLD)
    assert {*first.added, *first.rejected} == {*webhooks.CLASSES}
    rows = _rows(hand)
    assert sorted(row["event"] for row in rows) == sorted(first.added)
    again = await arrange(nextcloud.as_user(""), settings)
    assert (again.added, again.removed, again.rejected) == ((), (), first.rejected)
    assert [row["id"] for row in _rows(hand)] == [row["id"] for row in rows]


async def test_a_registration_shows_its_mark_and_hides_its_proof(
    hand: Hand, nextcloud: Nextcloud, settings: Settings
) -> None:
    await arrange(nextcloud.as_user(""), settings)
    for row in _rows(hand):
        assert (row["uri"], row["httpMethod"], row["authMethod"]) == (PATH, "POST", "header")
        assert (row["eventFilter"], row["userIdFilter"], row["userId"]) == ([], "", None)
        assert list(row["headers"]) == [MARK_HEADER]
        assert webhooks.proof(settings) not in json.dumps(row)


async def test_doubles_strangers_and_old_marks_are_removed(
    hand: Hand, nextcloud: Nextcloud, settings: Settings
) -> None:
    """Nextcloud takes whatever is registered twice, and would say everything twice."""
    first = await arrange(nextcloud.as_user(""), settings)
    kept = {row["id"] for row in _rows(hand)}
    double = {"headers": _rows(hand)[0]["headers"], "authMethod": "header", "authData": {PROOF_HEADER: "x"}}
    stale = [
        done(_register(hand, **change)).json()["ocs"]["data"]["id"]
        for change in (
            double | {"event": first.added[0]},
            {"headers": {MARK_HEADER: "of another secret"}, "authMethod": "header", "authData": {PROOF_HEADER: "x"}},
            {"uri": "/elsewhere"},
            {"event": f"{_NODE}BeforeNodeTouchedEvent"},
        )
    ]
    assert len({*stale, *kept}) == len(stale) + len(kept)
    second = await arrange(nextcloud.as_user(""), settings)
    assert (second.added, sorted(second.removed)) == ((), sorted(stale))
    assert {row["id"] for row in _rows(hand)} == kept


async def test_what_was_removed_by_hand_comes_back(hand: Hand, nextcloud: Nextcloud, settings: Settings) -> None:
    await arrange(nextcloud.as_user(""), settings)
    lost = _rows(hand)[0]
    assert done(_ask(hand, "DELETE", f"/{lost['id']}")).json()["ocs"]["data"] is True
    assert done(_ask(hand, "DELETE", f"/{lost['id']}")).json()["ocs"]["data"] is False
    second = await arrange(nextcloud.as_user(""), settings)
    assert (second.added, second.removed) == ((lost["event"],), ())


@pytest.mark.parametrize(
    "event",
    [
        "OCP\\SystemTag\\TagAssignedEvent",
        "OCA\\Deck\\Event\\CardUpdatedEvent",
        "OCA\\Deck\\Event\\AclCreatedEvent",
        "OCP\\Share\\Events\\ShareCreatedEvent",
        "OCP\\Group\\Events\\UserRemovedEvent",
        "No\\Such\\Class",
    ],
)
def test_a_class_that_cannot_be_told_is_a_bad_request(hand: Hand, event: str) -> None:
    answer = _register(hand, event=event)
    assert answer.status_code == 400
    assert "is not an event class compatible with webhooks" in answer.json()["ocs"]["meta"]["message"]
    assert not _rows(hand)


async def test_no_user_registers_for_us(hand: Hand, nextcloud: Nextcloud, settings: Settings) -> None:
    for method in ("GET", "POST"):
        assert _ask(hand, method, user=ALICE).status_code == 403
    with pytest.raises(NotPermitted):
        await arrange(nextcloud.as_user(ALICE), settings)
    assert not _rows(hand)


# --- what is told


async def _listen(hand: Hand, nextcloud: Nextcloud, settings: Settings, calls: list[Call]) -> None:
    """What was queued before goes first, as far as anybody is left to hear it."""
    await arrange(nextcloud.as_user(""), settings)
    calls.clear()


def _event(call: Call) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(call["body"])["event"]
    return event


def _path(call: Call) -> str:
    """Where that lies, as its actor sees it, of which we were told."""
    event = _event(call)
    return str(event["target" if "target" in event else "node"]["path"])


def _told(calls: list[Call], path: str) -> list[Call]:
    return [call for call in [*calls] if call["path"] == PATH and _path(call) == path]


def _events(calls: list[Call], path: str) -> Counter[str]:
    """How often which class was told of what lies there."""
    return Counter(_short(_event(call)["class"]) for call in _told(calls, path))


async def test_a_call_is_signed_for_who_did_it_and_carries_our_proof(
    hand: Hand, nextcloud: Nextcloud, settings: Settings, heard: list[Call]
) -> None:
    await _listen(hand, nextcloud, settings, heard)
    folder = hand.folder(ALICE)
    fileid = hand.write(ALICE, f"{folder}/a b ä.md", "x")
    path = f"/{ALICE}/files/{folder}/a b ä.md"
    hand.deliver(lambda: _events(heard, path).total() >= 2)
    assert _events(heard, path) == Counter(["NodeCreated", "NodeWritten"])
    for call in _told(heard, path):
        assert (call["method"], call["path"], call["query"]) == ("POST", PATH, "")
        headers = call["headers"]
        assert base64.b64decode(headers["authorization-app-api"]).decode() == f"{ALICE}:{hand.app.secret}"
        assert (headers["ex-app-id"], headers["ex-app-version"]) == (hand.app.id, hand.app.version)
        assert headers[PROOF_HEADER.lower()] == webhooks.proof(settings)
        assert headers[MARK_HEADER.lower()]
        assert "content-type" not in headers
        assert "x-origin-ip" not in headers
        assert int(headers["content-length"]) == len(call["body"])
        told = json.loads(call["body"])
        assert told.keys() == {"event", "user", "time"}
        assert told["event"] == {"node": {"id": fileid, "path": path}, "class": told["event"]["class"]}
        assert told["user"].keys() == {"uid", "displayName"}
        assert told["user"]["uid"] == ALICE
        assert abs(told["time"] - hand.now()) < 300
        assert read_event(call["body"].encode()) == Change(Lane.CONTENT, files=(fileid,), tree=ALICE)


async def test_what_is_told_of_which_change(
    hand: Hand, nextcloud: Nextcloud, settings: Settings, heard: list[Call]
) -> None:
    """Of what is renamed, shared or tagged nothing (31.0.6). The id is that of the file, all the way.

    A copied file is written twice.
    """
    await _listen(hand, nextcloud, settings, heard)
    folder = hand.folder(ALICE)
    made = ("NodeCreated", "NodeWritten")
    expected = {
        "folder": made,
        "saved.md": (*made, "NodeWritten"),
        "touched.md": (*made, "NodeTouched"),
        "copy": ("NodeCopied", *made),
        "copy.md": ("NodeCopied", *made, "NodeWritten"),
        "deleted.md": (*made, "BeforeNodeDeleted", "NodeDeleted"),
        f"{folder}.md": (*made, "BeforeNodeDeleted", "NodeDeleted", "NodeTouched"),
        "old.md": made,
        "new.md": (),
        "last.md": made,
    }
    ids = {"folder": hand.mkdir(ALICE, f"{folder}/folder")}
    for name in ("saved.md", "touched.md", "deleted.md", f"{folder}.md", "old.md"):
        ids[name] = hand.write(ALICE, f"{folder}/{name}", "x")
    hand.write(ALICE, f"{folder}/saved.md", "y")
    hand.touch(ALICE, f"{folder}/touched.md", 1_700_000_000)
    hand.copy(ALICE, f"{folder}/folder", f"{folder}/copy")
    hand.copy(ALICE, f"{folder}/old.md", f"{folder}/copy.md")
    hand.delete(ALICE, f"{folder}/deleted.md")
    hand.delete(ALICE, f"{folder}/{folder}.md")
    hand.restore(ALICE, f"{folder}/{folder}.md", ids[f"{folder}.md"])
    hand.move(ALICE, f"{folder}/old.md", f"{folder}/new.md")
    hand.unshare(ALICE, hand.share(ALICE, f"{folder}/new.md", with_user=BOB))
    hand.tag(ALICE, ids["old.md"])
    ids["last.md"] = hand.write(ALICE, f"{folder}/last.md", "x")
    paths = {name: f"/{ALICE}/files/{folder}/{name}" for name in expected}
    hand.deliver(lambda: all(_events(heard, paths[name]) >= Counter(told) for name, told in expected.items()))
    assert {name: _events(heard, path) for name, path in paths.items()} == {
        name: Counter(told) for name, told in expected.items()
    }
    for name, fileid in ids.items():
        told = {read_event(call["body"].encode()).files for call in _told(heard, paths[name])}
        assert told == {(fileid,)}


async def test_who_writes_into_what_he_received_is_told_with_his_own_path(
    hand: Hand, nextcloud: Nextcloud, settings: Settings, heard: list[Call]
) -> None:
    await _listen(hand, nextcloud, settings, heard)
    group = hand.group(ALICE, BOB)
    shared = hand.group_folder(group)
    fileid = hand.write(BOB, f"{shared.path}/b.md", "x")
    hand.write(ALICE, f"{shared.path}/b.md", "y")
    told = {user: f"/{user}/files/{shared.path}/b.md" for user in (ALICE, BOB)}
    hand.deliver(lambda: all(_events(heard, path) for path in told.values()))
    for user, path in told.items():
        changes = [read_event(call["body"].encode()) for call in _told(heard, path)]
        assert changes
        assert {(change.files, change.tree) for change in changes} == {((fileid,), user)}


async def test_what_could_not_be_delivered_is_never_told_again(
    hand: Hand, nextcloud: Nextcloud, settings: Settings, heard: list[Call]
) -> None:
    """Why there is a sweep. An app that is gone, busy or wrong hears nothing of it later."""
    await _listen(hand, nextcloud, settings, heard)
    folder = hand.folder(ALICE)
    first, second = (f"/{ALICE}/files/{folder}/{name}" for name in (f"{PLEASE_FAIL}.md", "b.md"))
    hand.write(ALICE, f"{folder}/{PLEASE_FAIL}.md", "x")
    hand.deliver(lambda: _events(heard, first).total() >= 2)
    hand.write(ALICE, f"{folder}/b.md", "x")
    hand.deliver(lambda: _events(heard, second).total() >= 2)
    assert _events(heard, first) == _events(heard, second) == Counter(["NodeCreated", "NodeWritten"])

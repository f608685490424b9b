# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Who may act, as Nextcloud tells an ExApp, and the Notes app's settings."""

from __future__ import annotations

import pytest

from ex_app.nextcloud import dav, ocs
from ex_app.nextcloud.session import Nextcloud
from tests.contract.hands import ALICE, BOB, CAROL, Hand
from tests.contract.wire import hrefs, propfind

_ME = "/ocs/v2.php/cloud/user?format=json"
_NOTES = "/index.php/apps/notes/settings"


def test_the_exapp_acts_as_anybody_and_must_say_so(hand: Hand) -> None:
    answer = hand.ask_signed(ALICE, "GET", _ME)
    data = answer.json()["ocs"]["data"]
    assert (answer.status_code, data["id"], data["enabled"]) == (200, ALICE, True)
    # CSRF protection is on for OCS, also for ExApps
    bare = {name: value for name, value in answer.request.headers.items() if name != "ocs-apirequest"}
    assert hand.ask(None, "GET", _ME, headers=bare).status_code == 412


def test_strangers_and_nobody_are_refused(hand: Hand) -> None:
    assert hand.ask_signed(f"{hand.mark}-stranger", "GET", _ME).status_code == 401
    assert hand.ask_signed("", "GET", _ME).status_code == 401
    assert hand.ask(None, "GET", _ME, headers={"OCS-APIRequest": "true"}).status_code == 401


@pytest.mark.parametrize(
    ("user", "method", "path"),
    [
        (ALICE, "GET", _ME),
        (BOB, "PROPFIND", f"/remote.php/dav/files/{BOB}/"),
        ("", "GET", "/ocs/v2.php/apps/app_api/ex-app/state?format=json"),
    ],
)
def test_a_wrong_secret_is_refused_everywhere(hand: Hand, user: str, method: str, path: str) -> None:
    """Once each: more of them lock our address out. The right one for the same user afterwards makes up for it."""
    assert hand.ask_signed(user, method, path, secret="wrong").status_code == 401
    assert hand.ask_signed(user, method, path).is_success


async def test_a_disabled_account_is_known_by_ocs_alone(hand: Hand, nextcloud: Nextcloud) -> None:
    person = hand.user()
    hand.log_in(person)
    session = nextcloud.as_user(person)
    assert await ocs.is_enabled(session)
    hand.disable(person)
    assert hand.ask_signed(person, "GET", _ME).status_code == 401
    assert not await ocs.is_enabled(session)
    assert len(await dav.propfind(session, "", depth=0)) == 1  # WebDAV answers as if nothing had happened
    assert person in await ocs.user_ids(nextcloud.as_user(""))


async def test_the_app_itself_learns_every_user_id(hand: Hand, nextcloud: Nextcloud) -> None:
    person = hand.user()
    users = await ocs.user_ids(nextcloud.as_user(""))
    assert {ALICE, BOB, CAROL, person} <= set(users)
    assert len(users) == len(set(users))


async def test_only_a_persons_own_login_counts_as_one(hand: Hand, nextcloud: Nextcloud) -> None:
    """Given an account that was never used, when the ExApp looks at it, then it is still unused."""
    person = hand.user()
    session = nextcloud.as_user(person)
    for _ in range(2):
        assert await ocs.is_enabled(session)
        assert not await ocs.has_content(session)
        assert await dav.search_folders(session) == []
    hand.log_in(person)
    assert await ocs.has_content(session)


def test_the_notes_settings_want_the_header_of_a_client(hand: Hand) -> None:
    told = hand.ask_signed(ALICE, "GET", _NOTES)
    assert (told.status_code, "notesPath" in told.json()) == (200, True)
    bare = {name: value for name, value in told.request.headers.items() if name != "ocs-apirequest"}
    assert hand.ask(None, "GET", _NOTES, headers=bare).status_code == 412


def test_asking_for_the_notes_settings_makes_no_folder(hand: Hand) -> None:
    person = hand.user()
    hand.log_in(person)
    before = hrefs(propfind(hand, person, "", "oc:fileid", depth=1))
    assert hand.ask_signed(person, "GET", _NOTES).json()["notesPath"] == "Notes"
    assert hrefs(propfind(hand, person, "", "oc:fileid", depth=1)) == before
    assert not any(href.endswith("/Notes/") for href in before)


def test_the_notes_settings_tell_where_a_persons_notes_lie(hand: Hand) -> None:
    person = hand.user()
    hand.log_in(person)
    hand.set_notes_folder(person, "Papiere/Notizen")
    assert hand.ask_signed(person, "GET", _NOTES).json()["notesPath"] == "Papiere/Notizen"

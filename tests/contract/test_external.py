# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""External storages: one tree for all who have them, which may stop to answer."""

from __future__ import annotations

import pytest

from ex_app.domain import Container, DocumentKey, Granted, LeftOut, Missing, NextcloudUnavailable, Refused
from ex_app.nextcloud import ocs
from ex_app.nextcloud.session import Nextcloud
from ex_app.sources.file import FileSource
from tests.contract.hands import ALICE, BOB, CAROL, Hand, files
from tests.contract.storages import external_storage
from tests.contract.wire import hrefs, propfind, rows, search, search_ids

_FOLDERS = "<d:is-collection/>"
_ASKED = ("oc:fileid", "nc:mount-type", "oc:owner-id", "nc:is-mount-root", "oc:permissions", "d:getetag")


def _file(fileid: int) -> DocumentKey:
    return DocumentKey("file", fileid)


def _etag(hand: Hand, user: str) -> str:
    return rows(propfind(hand, user, "", "d:getetag"))[0].found["d:getetag"]


async def _at(source: FileSource, nextcloud: Nextcloud, user: str, path: str) -> Container | None:
    seen = await source.containers(nextcloud.as_user(user))
    return next((container for container in seen if container.path == path), None)


# --- what the server tells


def test_its_nodes_have_one_id_for_all_and_belong_to_whoever_asks(hand: Hand) -> None:
    with external_storage(hand, ALICE, BOB) as storage:
        hand.mkdir(ALICE, f"{storage.path}/deep")
        fileid = hand.write(ALICE, f"{storage.path}/deep/a.md", "x")
        etags = set()
        for user in (ALICE, BOB):
            (row,) = rows(search_ids(hand, user, [fileid], *_ASKED))
            told = row.found
            etags.add(told["d:getetag"])
            assert (told["nc:mount-type"], told["oc:owner-id"], told["nc:is-mount-root"]) == ("external", user, "false")
            assert "G" in told["oc:permissions"]
            roots = [r for r in rows(search(hand, user, _FOLDERS, *_ASKED)) if r.href.endswith(f"/{storage.path}/")]
            assert [(r.found["nc:mount-type"], r.found["nc:is-mount-root"]) for r in roots] == [("external", "true")]
            top = [r for r in rows(propfind(hand, user, "", *_ASKED, depth=1)) if r.href.endswith(f"/{storage.path}/")]
            assert [r.found["oc:fileid"] for r in top] == [roots[0].found["oc:fileid"]]
        assert len(etags) == 1
        assert hrefs(search_ids(hand, CAROL, [fileid])) == []


def test_a_change_by_one_changes_the_root_etag_of_all_who_have_it(hand: Hand) -> None:
    with external_storage(hand, ALICE, BOB) as storage:
        hand.write(ALICE, f"{storage.path}/a.md", "x")
        before = [_etag(hand, user) for user in (ALICE, BOB, CAROL)]
        hand.later(1.1)
        hand.write(BOB, f"{storage.path}/b.md", "x")
        after = [_etag(hand, user) for user in (ALICE, BOB, CAROL)]
        assert [new != old for new, old in zip(after, before, strict=True)] == [True, True, False]


async def test_one_that_is_away_is_hidden_but_still_told_to_be_mounted(hand: Hand, nextcloud: Nextcloud) -> None:
    with external_storage(hand, ALICE) as storage:
        fileid = hand.write(ALICE, f"{storage.path}/a.md", "x")
        before = _etag(hand, ALICE)
        storage.vanish()
        assert hrefs(search_ids(hand, ALICE, [fileid])) == []
        assert not [href for href in hrefs(search(hand, ALICE, _FOLDERS, "oc:fileid")) if storage.path in href]
        assert propfind(hand, ALICE, storage.path, "oc:fileid").status_code == 404
        assert hand.ask_signed(ALICE, "GET", files(ALICE, f"{storage.path}/a.md")).status_code == 404
        assert _etag(hand, ALICE) != before
        top = [r for r in rows(propfind(hand, ALICE, "", *_ASKED, depth=1)) if r.href.endswith(f"/{storage.path}/")]
        assert [(r.found["oc:fileid"], r.found["nc:mount-type"], r.found["oc:permissions"]) for r in top] == [
            ("-1", "external", "MG")
        ]
        assert storage.path in await ocs.external_storages(nextcloud.as_user(ALICE))
        storage.come_back()
        assert len(hrefs(search_ids(hand, ALICE, [fileid]))) == 1
        assert _etag(hand, ALICE) == before


# --- what our source makes of it


async def test_all_who_have_it_see_the_same_and_it_is_nobodys(hand: Hand, nextcloud: Nextcloud) -> None:
    source = FileSource(index_external=True)
    with external_storage(hand, ALICE, BOB) as storage:
        hand.mkdir(ALICE, f"{storage.path}/deep")
        fileid = hand.write(ALICE, f"{storage.path}/deep/a.md", "some text")
        sightings = []
        for user in (ALICE, BOB):
            session = nextcloud.as_user(user)
            container = await _at(source, nextcloud, user, f"{storage.path}/deep")
            assert container is not None
            assert (container.common, container.left_out, len(container.scopes)) == (True, False, 2)
            sightings += await source.listing(session, container)
            fetched = await source.fetch(session, _file(fileid), (), limit=100)
            assert (fetched.body, fetched.sighting.owner) == (b"some text", "")
            assert fetched.sighting.scopes == container.scopes
            verdict = (await source.verify(session, {_file(fileid): ()}))[_file(fileid)]
            assert isinstance(verdict, Granted)
            assert container.scopes[0] in (await source.reach(session)).scopes
        assert len(sightings) == 2
        assert sightings[0] == sightings[1]
        assert (await source.verify(nextcloud.as_user(CAROL), {_file(fileid): ()}))[_file(fileid)] is Refused.DENIED


async def test_left_out_it_is_neither_walked_nor_read_nor_granted(hand: Hand, nextcloud: Nextcloud) -> None:
    source, session = FileSource(), nextcloud.as_user(ALICE)
    with external_storage(hand, ALICE) as storage:
        fileid = hand.write(ALICE, f"{storage.path}/a.md", "x")
        container = await _at(source, nextcloud, ALICE, storage.path)
        assert container is None or container.left_out
        with pytest.raises(LeftOut):
            await source.fetch(session, _file(fileid), (), limit=100)
        assert (await source.verify(session, {_file(fileid): ()}))[_file(fileid)] is Refused.DENIED


async def test_away_it_is_not_missing_and_taken_back_it_is(hand: Hand, nextcloud: Nextcloud) -> None:
    source, session = FileSource(index_external=True), nextcloud.as_user(ALICE)
    with external_storage(hand, ALICE) as storage:
        fileid = hand.write(ALICE, f"{storage.path}/a.md", "x")
        container = await _at(source, nextcloud, ALICE, storage.path)
        assert container is not None
        storage.vanish()
        away = await _at(source, nextcloud, ALICE, storage.path)
        assert away is not None
        assert away.away
        with pytest.raises(NextcloudUnavailable):
            await source.locate(session, _file(fileid), container.scopes)
        assert (await source.verify(session, {_file(fileid): container.scopes}))[_file(fileid)] is Refused.DENIED
        storage.come_back()
        assert (await source.locate(session, _file(fileid), container.scopes)).scopes == container.scopes
        storage.give_to(BOB)
        assert await _at(source, nextcloud, ALICE, storage.path) is None
        with pytest.raises(Missing):
            await source.locate(session, _file(fileid), container.scopes)

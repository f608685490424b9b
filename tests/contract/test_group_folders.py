# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Group folders: whose they are, what their rules hide, and which ETags they change."""

from __future__ import annotations

import pytest

from ex_app.domain import Container, DocumentKey, Granted, Missing, Refused
from ex_app.nextcloud.session import Nextcloud
from ex_app.sources.file import FileSource
from tests.contract.hands import ALICE, BOB, GroupFolder, Hand
from tests.contract.wire import hrefs, propfind, rows, search

_FILES = "/remote.php/dav/files"
_FOLDERS = "<d:is-collection/>"


def _id(fileid: int) -> str:
    return f"<d:eq><d:prop><oc:fileid/></d:prop><d:literal>{fileid}</d:literal></d:eq>"


def _etag(hand: Hand, user: str, path: str = "") -> str:
    return rows(propfind(hand, user, path, "d:getetag"))[0].found["d:getetag"]


def _above(hand: Hand, folder: GroupFolder) -> list[str]:
    return [_etag(hand, user, path) for user in (ALICE, BOB) for path in ("", folder.path)]


def _file(fileid: int) -> DocumentKey:
    return DocumentKey("file", fileid)


async def _folder(source: FileSource, nextcloud: Nextcloud, user: str, path: str) -> Container | None:
    seen = await source.containers(nextcloud.as_user(user))
    return next((container for container in seen if container.path == path), None)


# --- what the server tells


def test_its_nodes_have_one_id_for_all_and_belong_to_whoever_asks(hand: Hand) -> None:
    folder = hand.group_folder(hand.group(ALICE, BOB))
    fileid = hand.write(ALICE, f"{folder.path}/a.md", "x")
    asked = ("oc:fileid", "nc:mount-type", "oc:owner-id", "nc:is-mount-root", "oc:permissions")
    for user in (ALICE, BOB):
        (row,) = rows(search(hand, user, _id(fileid), *asked))
        told = row.found
        assert (told["nc:mount-type"], told["oc:owner-id"], told["nc:is-mount-root"]) == ("group", user, "false")
        assert "G" in told["oc:permissions"]
        roots = [row for row in rows(search(hand, user, _FOLDERS, *asked)) if row.href.endswith(f"/{folder.path}/")]
        assert [(row.found["nc:mount-type"], row.found["nc:is-mount-root"]) for row in roots] == [("group", "true")]


def test_rules_hide_at_once_and_change_the_etags_above_for_everybody(hand: Hand) -> None:
    others = hand.group(BOB)
    folder = hand.group_folder(hand.group(ALICE), others)
    hand.mkdir(ALICE, f"{folder.path}/closed")
    fileid = hand.write(ALICE, f"{folder.path}/closed/a.md", "x")
    assert hrefs(search(hand, BOB, _id(fileid), "oc:fileid")) == [f"{_FILES}/{BOB}/{folder.path}/closed/a.md"]
    own, before = _etag(hand, ALICE, f"{folder.path}/closed"), _above(hand, folder)
    hand.rule(folder, f"{folder.path}/closed", others, read=False)
    ruled = _above(hand, folder)
    assert all(new != old for new, old in zip(ruled, before, strict=True))
    assert _etag(hand, ALICE, f"{folder.path}/closed") == own
    assert hrefs(search(hand, BOB, _id(fileid), "oc:fileid")) == []
    assert f"{_FILES}/{BOB}/{folder.path}/closed/" not in hrefs(search(hand, BOB, _FOLDERS, "oc:fileid"))
    assert hand.ask_signed(BOB, "GET", f"{_FILES}/{BOB}/{folder.path}/closed/a.md").status_code == 404
    assert len(hrefs(search(hand, ALICE, _id(fileid), "oc:fileid"))) == 1
    hand.write(ALICE, f"{folder.path}/closed/b.md", "x")
    assert all(new != old for new, old in zip(_above(hand, folder), ruled, strict=True)), "whoever may see it or not"


# --- what our source makes of it


async def test_its_folders_are_common_and_what_lies_in_them_is_nobodys(hand: Hand, nextcloud: Nextcloud) -> None:
    folder, source = hand.group_folder(hand.group(ALICE, BOB)), FileSource()
    hand.mkdir(ALICE, f"{folder.path}/deep")
    fileid = hand.write(ALICE, f"{folder.path}/deep/a.md", "x")
    sightings = []
    for user in (ALICE, BOB):
        container = await _folder(source, nextcloud, user, f"{folder.path}/deep")
        assert container is not None
        assert (container.common, len(container.scopes)) == (True, 2)
        (listed,) = await source.listing(nextcloud.as_user(user), container)
        for known in ((), container.scopes):
            located = await source.locate(nextcloud.as_user(user), _file(fileid), known)
            assert (located.owner, located.scopes) == ("", container.scopes)
        sightings.append(listed)
        verdict = (await source.verify(nextcloud.as_user(user), {_file(fileid): ()}))[_file(fileid)]
        assert isinstance(verdict, Granted)
        assert verdict.owner == ""
        assert container.scopes[0] in (await source.reach(nextcloud.as_user(user))).scopes
    assert sightings[0] == sightings[1]


async def test_a_walk_sees_what_the_rules_show_its_walker(hand: Hand, nextcloud: Nextcloud) -> None:
    others, source = hand.group(BOB), FileSource()
    folder = hand.group_folder(hand.group(ALICE), others)
    hand.mkdir(ALICE, f"{folder.path}/closed")
    inside = hand.write(ALICE, f"{folder.path}/closed/a.md", "x")
    single = hand.write(ALICE, f"{folder.path}/b.md", "x")
    for path in ("closed", "b.md"):
        hand.rule(folder, f"{folder.path}/{path}", others, read=False)
    assert await _folder(source, nextcloud, ALICE, f"{folder.path}/closed") is not None
    assert await _folder(source, nextcloud, BOB, f"{folder.path}/closed") is None
    root = await _folder(source, nextcloud, BOB, folder.path)
    assert root is not None
    assert await source.listing(nextcloud.as_user(BOB), root) == []
    for fileid in (inside, single):
        with pytest.raises(Missing):
            await source.locate(nextcloud.as_user(BOB), _file(fileid), ())
        verdicts = await source.verify(nextcloud.as_user(BOB), {_file(fileid): ()})
        assert verdicts[_file(fileid)] is Refused.DENIED

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Tags, files named ".noindex" and received single files: what the server tells, and what our source makes of it."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest

from ex_app.domain import DocumentKey, Granted, LeftOut, Refused
from ex_app.nextcloud import dav
from ex_app.nextcloud.session import Nextcloud, Session
from ex_app.sources.file import FileSource
from tests.contract.hands import ALICE, BOB, CAROL, OCS_HEADERS, Hand, done
from tests.contract.wire import hrefs, propfind, rows, search

_FILES = "/remote.php/dav/files"
_NAMED = "<d:eq><d:prop><d:displayname/></d:prop><d:literal>.noindex</d:literal></d:eq>"


def _ids(*ids: int) -> str:
    return "".join(f"<d:eq><d:prop><oc:fileid/></d:prop><d:literal>{fileid}</d:literal></d:eq>" for fileid in ids)


def _received(hand: Hand, user: str) -> list[dict[str, Any]]:
    path = "/ocs/v2.php/apps/files_sharing/api/v1/shares"
    answer = hand.ask_signed(user, "GET", path, params={"shared_with_me": "true"}, headers=OCS_HEADERS)
    data: list[dict[str, Any]] = done(answer).json()["ocs"]["data"]
    return data


def _file(fileid: int) -> DocumentKey:
    return DocumentKey("file", fileid)


async def _refused(source: FileSource, session: Session, *ids: int) -> set[int]:
    """Which of these are not granted."""
    verdicts = await source.verify(session, {_file(fileid): () for fileid in ids})
    assert all(isinstance(verdict, Granted) or verdict is Refused.DENIED for verdict in verdicts.values())
    return {key.id for key, verdict in verdicts.items() if verdict is Refused.DENIED}


# --- what the server tells


def test_a_name_may_be_asked_for_beside_ninety_nine_ids_and_beside_all_folders(hand: Hand) -> None:
    folder = hand.folder(ALICE)
    hand.mkdir(ALICE, f"{folder}/deep")
    fileid = hand.write(ALICE, f"{folder}/a.md", "x")
    hand.write(ALICE, f"{folder}/deep/.noindex", "")
    hand.write(ALICE, f"{folder}/deep/not.noindex", "")
    strangers = range(900_000_000, 900_000_098)
    found = hrefs(search(hand, ALICE, f"<d:or>{_ids(fileid, *strangers)}{_NAMED}</d:or>", "oc:fileid"))
    here = f"{_FILES}/{ALICE}/{folder}"
    assert [href for href in found if href.startswith(here)] == [f"{here}/a.md", f"{here}/deep/.noindex"]
    assert search(hand, ALICE, f"<d:or>{_ids(fileid, *strangers, 1)}{_NAMED}</d:or>", "oc:fileid").status_code == 500
    folders = hrefs(search(hand, ALICE, f"<d:or><d:is-collection/>{_NAMED}</d:or>", "oc:fileid"))
    assert [href for href in folders if href.startswith(here)] == [f"{here}/", f"{here}/deep/", f"{here}/deep/.noindex"]


def test_a_recipient_does_not_see_what_lies_above_the_share(hand: Hand) -> None:
    folder = hand.folder(ALICE)
    name = f"{folder}-deep"
    hand.mkdir(ALICE, f"{folder}/{name}")
    hand.write(ALICE, f"{folder}/.noindex", "")
    hand.share(ALICE, f"{folder}/{name}", with_user=BOB)
    shown = hrefs(search(hand, BOB, f"<d:or><d:is-collection/>{_NAMED}</d:or>", "oc:fileid"))
    assert f"{_FILES}/{BOB}/{name}/" in shown
    assert not any(folder in href and href.endswith(".noindex") for href in shown)


def test_a_search_and_a_listing_tell_the_tags_of_files_and_folders_to_each_reader(hand: Hand) -> None:
    folder = hand.folder(ALICE)
    inner, fileid = hand.mkdir(ALICE, f"{folder}/inner"), hand.write(ALICE, f"{folder}/inner/a.md", "x")
    hand.share(ALICE, folder, with_user=BOB)
    tag = hand.tag(ALICE, inner)
    assert rows(propfind(hand, ALICE, f"{folder}/inner", "nc:system-tags"))[0].found == {"nc:system-tags": tag}
    for user in (ALICE, BOB):
        told = rows(search(hand, user, f"<d:or>{_ids(inner, fileid)}</d:or>", "oc:fileid", "nc:system-tags"))
        assert {row.found["oc:fileid"]: row.found["nc:system-tags"] for row in told} == {
            str(inner): tag,
            str(fileid): "",  # a file does not tell the tags of its folder
        }


def test_a_hidden_tag_is_told_to_admins_alone(hand: Hand) -> None:
    folder = hand.folder(hand.admin)
    fileid = hand.write(hand.admin, f"{folder}/a.md", "x")
    hand.share(hand.admin, folder, with_user=BOB)
    tag = hand.hidden_tag(fileid)
    told = [rows(search(hand, user, _ids(fileid), "nc:system-tags"))[0].found for user in (hand.admin, BOB)]
    assert told == [{"nc:system-tags": tag}, {"nc:system-tags": ""}]


def test_received_shares_are_listed_wherever_they_lie_and_not_before_they_are_accepted(hand: Hand) -> None:
    folder, reader = hand.folder(ALICE), hand.user("careful")
    hand.log_in(reader)
    hand.accepts_by_hand(reader)
    inner, fileid = hand.mkdir(ALICE, f"{folder}/inner"), hand.write(ALICE, f"{folder}/a.md", "x")
    shares = [hand.share(ALICE, f"{folder}/{name}", with_user=reader) for name in ("a.md", "inner")]
    assert _received(hand, reader) == []
    assert hrefs(search(hand, reader, _ids(fileid), "oc:fileid")) == []
    for share in shares:
        hand.accept(reader, share)
    hand.mkdir(reader, "sub")
    hand.mkdir(reader, "sub/deep")
    hand.move(reader, "a.md", "sub/deep/other.md")
    hand.share(ALICE, f"{folder}/a.md", with_group=hand.group(reader))
    told = {(row["item_type"], row["file_source"], row["path"]) for row in _received(hand, reader)}
    assert told >= {("file", fileid, "/sub/deep/other.md"), ("folder", inner, "/inner")}
    assert {source for _, source, _ in told} == {fileid, inner}
    (href,) = hrefs(search(hand, reader, _ids(fileid), "oc:fileid"))
    assert unquote(href).endswith("/sub/deep/other.md")


def test_a_received_share_lies_in_no_other_and_a_folder_with_one_is_shared_with_nobody(hand: Hand) -> None:
    folder, mine = hand.folder(ALICE), hand.folder(BOB)
    one, two = f"{folder}-one", f"{folder}-two"
    for name in (one, two):
        hand.mkdir(ALICE, f"{folder}/{name}")
        hand.share(ALICE, f"{folder}/{name}", with_user=BOB)
    target = {"Destination": f"{hand.url}{_FILES}/{BOB}/{one}/{two}"}
    assert hand.ask_signed(BOB, "MOVE", f"{_FILES}/{BOB}/{two}", headers=target).status_code == 403
    hand.move(BOB, two, f"{mine}/{two}")
    form = {"path": f"/{mine}", "shareType": "0", "shareWith": ALICE, "permissions": "1"}
    path = "/ocs/v2.php/apps/files_sharing/api/v1/shares"
    assert hand.ask_signed(BOB, "POST", path, data=form, headers=OCS_HEADERS).status_code == 403


# --- what our source makes of it


async def test_a_noindex_file_hides_its_folder_and_all_below_from_everybody_who_sees_it(
    hand: Hand, nextcloud: Nextcloud
) -> None:
    folder = hand.folder(ALICE)
    inner = hand.mkdir(ALICE, f"{folder}/inner")
    hand.mkdir(ALICE, f"{folder}/inner/deep")
    beside = hand.write(ALICE, f"{folder}/a.md", "x")
    below = [hand.write(ALICE, f"{folder}/inner/{name}.md", "x") for name in ("a", "deep/a")]
    hand.share(ALICE, folder, with_user=BOB)
    hand.mkdir(ALICE, f"{folder}/.noindex")  # a folder of that name says nothing
    for user in (ALICE, BOB):
        assert await _refused(FileSource(), nextcloud.as_user(user), beside, *below) == set()
    hand.write(ALICE, f"{folder}/inner/.noindex", "")
    for user in (ALICE, BOB):
        assert await _refused(FileSource(), nextcloud.as_user(user), beside, *below) == set(below)
        assert f"f:{inner}" in (await FileSource().reach(nextcloud.as_user(user))).avoid
    hand.delete(ALICE, f"{folder}/inner/.noindex")
    for user in (ALICE, BOB):
        assert await _refused(FileSource(), nextcloud.as_user(user), beside, *below) == set()


async def test_a_hundred_suspects_are_judged_by_the_folders_of_the_last_reach(hand: Hand, nextcloud: Nextcloud) -> None:
    folder, source, alice = hand.folder(ALICE), FileSource(), nextcloud.as_user(ALICE)
    fileid = hand.write(ALICE, f"{folder}/a.md", "x")
    hand.write(ALICE, f"{folder}/.noindex", "")
    many = (fileid, *range(900_000_000, 900_000_099))
    assert fileid not in await _refused(source, alice, *many)
    await source.reach(alice)
    assert fileid in await _refused(source, alice, *many)


async def test_tags_hide_files_and_what_lies_in_tagged_folders(hand: Hand, nextcloud: Nextcloud) -> None:
    folder = hand.folder(ALICE)
    inner = hand.mkdir(ALICE, f"{folder}/inner")
    tagged, beside = (hand.write(ALICE, f"{folder}/{name}.md", "x") for name in ("tagged", "beside"))
    below = hand.write(ALICE, f"{folder}/inner/a.md", "x")
    hand.share(ALICE, folder, with_user=BOB)
    names = [hand.tag(ALICE, fileid) for fileid in (tagged, inner)]
    for user in (ALICE, BOB):
        session, source = nextcloud.as_user(user), FileSource(excluded_tags=f"other, {names[0].upper()} ,{names[1]}")
        assert await _refused(source, session, tagged, beside, below) == {tagged}
        reach = await source.reach(session)
        assert f"f:{inner}" in reach.avoid
        assert await _refused(source, session, tagged, beside, below) == {tagged, below}
        assert await _refused(FileSource(), session, tagged, beside, below) == set()


async def test_a_received_file_that_was_moved_comes_with_the_late_reach(hand: Hand, nextcloud: Nextcloud) -> None:
    folder, mine, source, bob = hand.folder(ALICE), hand.folder(BOB), FileSource(), nextcloud.as_user(BOB)
    name = f"{folder}-single.md"
    fileid = hand.write(ALICE, f"{folder}/{name}", "x")
    assert _file(fileid) not in (await source.late_reach(bob)).documents
    share = hand.share(ALICE, f"{folder}/{name}", with_user=BOB)
    hand.move(BOB, name, f"{mine}/other.md")
    assert _file(fileid) not in (await source.reach(bob)).documents
    late = await source.late_reach(bob)
    assert (_file(fileid) in late.documents, late.scopes) == (True, frozenset())
    hand.unshare(ALICE, share)
    assert _file(fileid) not in (await source.late_reach(bob)).documents


async def test_what_carries_a_tag_is_told_by_its_id_and_for_each_user(hand: Hand, nextcloud: Nextcloud) -> None:
    folder = hand.folder(ALICE)
    inner, fileid = hand.mkdir(ALICE, f"{folder}/inner"), hand.write(ALICE, f"{folder}/a.md", "x")
    hand.write(ALICE, f"{folder}/inner/b.md", "x")
    hand.share(ALICE, folder, with_user=BOB)
    names = {node: hand.tag(ALICE, node) for node in (inner, fileid)}
    for user, mount in ((ALICE, ""), (BOB, "shared")):
        session = nextcloud.as_user(user)
        ids = {name: tag for tag, name in (await dav.tag_ids(session)).items()}
        for node, name in names.items():
            told = [(found.fileid, found.mount_type) for found in await dav.tagged(session, ids[name])]
            assert told == [(node, mount)], "what lies in a tagged folder is not told"
    assert await dav.tagged(nextcloud.as_user(CAROL), ids[names[inner]]) == []
    assert await dav.tagged(nextcloud.as_user(ALICE), 999_999_999) == []


async def test_a_walk_and_a_look_leave_out_what_is_excluded(hand: Hand, nextcloud: Nextcloud) -> None:
    folder, alice = hand.folder(ALICE), nextcloud.as_user(ALICE)
    for name in ("quiet", "quiet/deep", "tagged", "Backup", "open"):
        hand.mkdir(ALICE, f"{folder}/{name}")
    hand.write(ALICE, f"{folder}/quiet/.noindex", "")
    paths = ("quiet/a.md", "quiet/deep/a.md", "tagged/a.md", "Backup/a.md", "open/a.bak", "open/a.csv", "open/b.md")
    out = {path: hand.write(ALICE, f"{folder}/{path}", "x") for path in paths}
    kept = hand.write(ALICE, f"{folder}/open/a.md", "x")
    tagged = next(node.fileid for node in await dav.propfind(alice, f"{folder}/tagged", depth=0))
    tags = [hand.tag(ALICE, node) for node in (tagged, out["open/b.md"])]
    source = FileSource(
        excluded_tags=",".join(tags), excluded_paths=f"/{folder}/Backup/, *.bak", excluded_types="text/csv"
    )
    mine = [one for one in await source.containers(alice) if one.path.startswith(folder)]
    here = {one.path.removeprefix(folder).strip("/"): one for one in mine}
    assert {path for path, one in here.items() if one.left_out} == {"quiet", "quiet/deep", "tagged", "Backup"}
    assert [sighting.key.id for sighting in await source.listing(alice, here["open"])] == [kept]
    for path, fileid in out.items():
        for scopes in ((), here[path.rpartition("/")[0]].scopes):
            with pytest.raises(LeftOut):
                await source.locate(alice, _file(fileid), scopes)
    assert (await source.locate(alice, _file(kept), ())).scopes == here["open"].scopes
    before = here["open"].etag
    hand.tag(ALICE, kept)
    assert await _etag_of(source, alice, here["open"].path) == before, "it is another tag"
    source = FileSource(excluded_tags=tags[0])
    assert await _etag_of(source, alice, here["open"].path) != before, "the tagged file does not count now"


async def _etag_of(source: FileSource, session: Session, path: str) -> str:
    return next(one.etag for one in await source.containers(session) if one.path == path)

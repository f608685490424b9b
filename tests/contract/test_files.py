# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Files over WebDAV: who finds what by id, and what the answers tell."""

from __future__ import annotations

from urllib.parse import quote, unquote

from tests.contract.hands import ALICE, BOB, CAROL, Hand
from tests.contract.wire import hrefs, propfind, rows, search, search_ids

_FILES = "/remote.php/dav/files"
_VIEW_ONLY = '[{"scope":"permissions","key":"download","value":false}]'


def _paths(hand: Hand, user: str, *ids: int) -> list[str]:
    """Decoded paths at which a SEARCH by id shows files to a user."""
    prefix = f"{_FILES}/{user}/"
    return [unquote(href).removeprefix(prefix) for href in hrefs(search_ids(hand, user, ids))]


# --- who finds what


def test_a_search_by_id_shows_the_readable_ones_alone(hand: Hand) -> None:
    mine, theirs = hand.folder(ALICE), hand.folder(BOB)
    open_one, closed = hand.write(ALICE, f"{mine}/open.md", "a"), hand.write(ALICE, f"{mine}/closed.md", "b")
    bobs = hand.write(BOB, f"{theirs}/own.md", "c")
    hand.share(ALICE, f"{mine}/open.md", with_user=BOB)
    assert _paths(hand, BOB, open_one, closed, bobs) == [f"{theirs}/own.md", "open.md"]
    assert _paths(hand, CAROL, open_one, closed, bobs) == []


def test_a_file_shared_twice_is_found_at_each_of_its_paths(hand: Hand) -> None:
    folder = hand.folder(ALICE)
    name = f"{folder}-twice.md"
    fileid = hand.write(ALICE, f"{folder}/{name}", "x")
    hand.share(ALICE, folder, with_user=BOB)
    hand.share(ALICE, f"{folder}/{name}", with_user=BOB)
    assert _paths(hand, BOB, fileid) == sorted([f"{folder}/{name}", name])


def test_what_was_taken_back_moved_out_or_deleted_is_gone_from_the_next_search(hand: Hand) -> None:
    folder, private, group = hand.folder(ALICE), hand.folder(ALICE), hand.group(CAROL)
    kept, moved, deleted = (hand.write(ALICE, f"{folder}/{name}.md", name) for name in ("kept", "moved", "deleted"))
    share = hand.share(ALICE, folder, with_user=BOB)
    hand.share(ALICE, folder, with_group=group)
    assert len(_paths(hand, BOB, kept, moved, deleted)) == len(_paths(hand, CAROL, kept, moved, deleted)) == 3
    hand.move(ALICE, f"{folder}/moved.md", f"{private}/moved.md")
    hand.delete(ALICE, f"{folder}/deleted.md")
    assert _paths(hand, BOB, kept, moved, deleted) == [f"{folder}/kept.md"]
    assert sorted(_paths(hand, ALICE, kept, moved, deleted)) == sorted([f"{folder}/kept.md", f"{private}/moved.md"])
    hand.unshare(ALICE, share)
    assert _paths(hand, BOB, kept) == []
    assert _paths(hand, CAROL, kept) == [f"{folder}/kept.md"]
    hand.leave(CAROL, group)
    assert _paths(hand, CAROL, kept) == []
    hand.join(CAROL, group)
    assert _paths(hand, CAROL, kept) == [f"{folder}/kept.md"]


def test_a_shared_note_appears_among_the_recipients_notes(hand: Hand) -> None:
    """Given a note and a file beside the notes, when both are shared, then only the note is put into a folder."""
    writer, reader = hand.user("writer"), hand.user("reader")
    hand.log_in(writer)
    hand.log_in(reader)
    hand.set_notes_folder(reader, "Mes notes")
    hand.mkdir(writer, "Notes")
    hand.mkdir(writer, "Notes/Kitchen")
    note, file = hand.write(writer, "Notes/Kitchen/cake.md", "x"), hand.write(writer, "cake.md", "x")
    hand.share(writer, "Notes/Kitchen/cake.md", with_user=reader)
    hand.share(writer, "cake.md", with_user=reader)
    assert _paths(hand, reader, note) == ["Mes notes/cake.md"]
    assert _paths(hand, reader, file) == ["cake.md"]
    hand.share(writer, "Notes/Kitchen/cake.md", with_group=hand.group(BOB))
    assert _paths(hand, BOB, note) == ["cake.md"]


def test_any_share_with_a_person_makes_his_notes_folder(hand: Hand) -> None:
    """Nextcloud's own doing: a folder that appears by itself is not ours."""
    folder, reader = hand.folder(ALICE), hand.user("reader")
    hand.log_in(reader)
    assert len(rows(propfind(hand, reader, "", "oc:fileid", depth=1))) == 1
    hand.share(ALICE, folder, with_user=reader)
    shown = hrefs(propfind(hand, reader, "", "oc:fileid", depth=1))
    home = f"{_FILES}/{quote(reader, safe='')}/"
    assert [unquote(href) for href in shown] == [unquote(home) + name for name in ("", "Notes/", f"{folder}/")]


def test_a_recipient_may_put_a_received_folder_elsewhere(hand: Hand) -> None:
    folder, mine = hand.folder(ALICE), hand.folder(BOB)
    fileid = hand.write(ALICE, f"{folder}/a.md", "x")
    hand.share(ALICE, folder, with_user=BOB)
    hand.move(BOB, folder, f"{mine}/received")
    assert _paths(hand, BOB, fileid) == [f"{mine}/received/a.md"]
    assert _paths(hand, ALICE, fileid) == [f"{folder}/a.md"]


def test_somebody_elses_root_exists_and_shows_nothing(hand: Hand) -> None:
    folder = hand.folder(BOB)
    hand.write(BOB, f"{folder}/b.md", "x")
    root = hand.ask_signed(ALICE, "PROPFIND", f"{_FILES}/{BOB}/", headers={"Depth": "1"})
    assert hrefs(root) == [f"{_FILES}/{BOB}/"]
    below = hand.ask_signed(ALICE, "GET", f"{_FILES}/{BOB}/{folder}/b.md")
    assert below.status_code == 404


# --- the limits of a SEARCH


def test_a_search_takes_a_hundred_ids_and_breaks_on_one_more(hand: Hand) -> None:
    folder = hand.folder(ALICE)
    fileid = hand.write(ALICE, f"{folder}/a.md", "x")
    strangers = range(900_000_000, 900_000_099)
    assert hrefs(search_ids(hand, ALICE, [fileid, *strangers])) == [f"{_FILES}/{ALICE}/{folder}/a.md"]
    assert search_ids(hand, ALICE, [fileid, *strangers, 900_000_099]).status_code == 500


def test_a_search_never_shows_the_home_itself(hand: Hand) -> None:
    home = rows(propfind(hand, ALICE, "", "oc:fileid"))[0].found["oc:fileid"]
    assert hrefs(search_ids(hand, ALICE, [home])) == []
    folders = search(hand, ALICE, "<d:is-collection/>", "oc:fileid")
    assert home not in {row.found["oc:fileid"] for row in rows(folders)}


# --- what an answer tells


def test_hrefs_are_percent_encoded_and_folders_end_in_a_slash(hand: Hand) -> None:
    folder = hand.folder(ALICE)
    names = ("Ä & ü", "50 % off; #1 (new)", "q?a=b+c", "日本", "it's [odd]~")
    ids = [hand.mkdir(ALICE, f"{folder}/{name}") for name in names]
    ids.append(hand.write(ALICE, f"{folder}/{names[0]}/file €.md", "x"))
    found = hrefs(search_ids(hand, ALICE, ids))
    listed = hrefs(propfind(hand, ALICE, folder, "oc:fileid", depth=1))
    expected = [*(f"{_FILES}/{ALICE}/{folder}/{name}/" for name in names)]
    assert sorted(unquote(href) for href in listed) == sorted([f"{_FILES}/{ALICE}/{folder}/", *expected])
    assert sorted(unquote(href) for href in found) == sorted([*expected, f"{expected[0]}file €.md"])
    assert f"{_FILES}/{ALICE}/{folder}/%c3%84%20%26%20%c3%bc/file%20%e2%82%ac.md" in found
    assert set(listed) - {f"{_FILES}/{ALICE}/{folder}/"} == {href for href in found if href.endswith("/")}


def test_a_user_id_with_a_space_and_an_at_sign_is_found_in_scope_and_hrefs(hand: Hand) -> None:
    person = hand.user()
    hand.log_in(person)
    fileid = hand.write(person, "päper.md", "x")
    found = hrefs(search_ids(hand, person, [fileid]))
    assert [unquote(href) for href in found] == [f"{_FILES}/{person}/päper.md"]
    assert found == hrefs(propfind(hand, person, "päper.md", "oc:fileid"))
    got = hand.ask_signed(person, "GET", f"{_FILES}/{quote(person, safe='')}/{quote('päper.md')}")
    assert (got.status_code, got.content) == (200, b"x")


def test_folders_tell_whether_they_were_received(hand: Hand) -> None:
    folder, own = hand.folder(ALICE), hand.folder(BOB)
    hand.mkdir(ALICE, f"{folder}/inner")
    hand.share(ALICE, folder, with_user=BOB)
    hand.move(BOB, folder, f"{own}/received")
    told = ("nc:is-mount-root", "nc:mount-type", "oc:permissions", "oc:owner-id")
    found = {row.href: row.found for row in rows(search(hand, BOB, "<d:is-collection/>", *told))}
    kinds = {
        href.removeprefix(f"{_FILES}/{BOB}/{own}"): (
            row["nc:is-mount-root"],
            row["nc:mount-type"],
            row["oc:owner-id"],
            "G" in row["oc:permissions"],
        )
        for href, row in found.items()
        if href.startswith(f"{_FILES}/{BOB}/{own}")
    }
    assert kinds == {
        "/": ("false", "", BOB, True),
        "/received/": ("true", "shared", ALICE, True),
        "/received/inner/": ("false", "shared", ALICE, True),
    }
    listed = {row.href: row.found for row in rows(propfind(hand, BOB, own, *told, depth=1))}
    received = listed[f"{_FILES}/{BOB}/{own}/received/"]
    assert (received["nc:is-mount-root"], received["nc:mount-type"]) == ("true", "shared")


def test_a_received_file_at_the_top_is_a_mount_of_its_own(hand: Hand) -> None:
    folder = hand.folder(ALICE)
    name = f"{folder}-single.md"
    fileid = hand.write(ALICE, f"{folder}/{name}", "x")
    hand.share(ALICE, f"{folder}/{name}", with_user=BOB)
    told = ("oc:fileid", "nc:is-mount-root", "nc:mount-type")
    top = [row.found for row in rows(propfind(hand, BOB, "", *told, depth=1)) if row.href.endswith(f"/{name}")]
    assert top == [{"oc:fileid": str(fileid), "nc:is-mount-root": "true", "nc:mount-type": "shared"}]


def test_upload_time_is_told_by_a_listing_and_not_by_a_search(hand: Hand) -> None:
    folder = hand.folder(ALICE)
    fileid = hand.write(ALICE, f"{folder}/a.md", "x", headers={"X-OC-MTime": "1500000000"})
    listed = rows(propfind(hand, ALICE, f"{folder}/a.md", "nc:upload_time", "d:getlastmodified"))[0].found
    assert int(listed["nc:upload_time"]) > 1_600_000_000
    assert listed["d:getlastmodified"] == "Fri, 14 Jul 2017 02:40:00 GMT"
    searched = rows(search_ids(hand, ALICE, [fileid], "nc:upload_time", "d:getlastmodified"))[0].found
    assert searched == {"nc:upload_time": "0", "d:getlastmodified": "Fri, 14 Jul 2017 02:40:00 GMT"}


def test_the_checksum_is_the_last_uploaders_word(hand: Hand) -> None:
    folder = hand.folder(ALICE)
    url = f"{folder}/a.md"
    fileid = hand.write(ALICE, url, "x", headers={"OC-Checksum": "SHA1:11f6ad8ec52a2984abaafd7c3b516503785c2072"})
    searched = rows(search_ids(hand, ALICE, [fileid], "oc:checksums"))[0].found
    assert searched == {"oc:checksums": "SHA1:11f6ad8ec52a2984abaafd7c3b516503785c2072"}
    assert rows(propfind(hand, ALICE, url, "oc:checksums"))[0].found == searched
    hand.write(ALICE, url, "y")
    assert not rows(search_ids(hand, ALICE, [fileid], "oc:checksums"))[0].found.get("oc:checksums")


def test_the_global_id_is_the_padded_file_id_and_the_instance(hand: Hand) -> None:
    instances = set()
    for user in (ALICE, BOB):
        root = rows(propfind(hand, user, "", "oc:id", "oc:fileid"))[0].found
        padded = root["oc:fileid"].rjust(8, "0")
        assert root["oc:id"].startswith(padded)
        instances.add(root["oc:id"].removeprefix(padded))
    assert len(instances) == 1
    assert instances != {""}


def test_bytes_come_with_the_etag_that_a_search_tells(hand: Hand) -> None:
    folder = hand.folder(ALICE)
    fileid = hand.write(ALICE, f"{folder}/a.md", "naïve")
    hand.share(ALICE, folder, with_user=BOB)
    got = hand.ask_signed(BOB, "GET", f"{_FILES}/{BOB}/{folder}/a.md")
    assert got.text == "naïve"
    assert got.headers["etag"].startswith('"')
    for user in (ALICE, BOB):
        found = rows(search_ids(hand, user, [fileid], "d:getetag", "oc:size"))[0].found
        assert found == {"d:getetag": got.headers["etag"], "oc:size": "6"}
    assert got.headers["date"].endswith("GMT")


def test_a_view_only_share_is_listed_and_refused(hand: Hand) -> None:
    folder = hand.folder(ALICE)
    fileid = hand.write(ALICE, f"{folder}/a.md", "x")
    hand.share(ALICE, folder, with_user=BOB, download=False)
    told = ("nc:share-attributes", "oc:permissions")
    found = rows(search_ids(hand, BOB, [fileid], *told))[0].found
    assert found["nc:share-attributes"] == _VIEW_ONLY
    assert "G" in found["oc:permissions"]
    assert rows(propfind(hand, BOB, f"{folder}/a.md", *told))[0].found["nc:share-attributes"] == _VIEW_ONLY
    assert hand.ask_signed(BOB, "GET", f"{_FILES}/{BOB}/{folder}/a.md").status_code == 403
    own = rows(search_ids(hand, ALICE, [fileid], *told))[0].found
    assert own["nc:share-attributes"] in ("", "[]")
    assert hand.ask_signed(ALICE, "GET", f"{_FILES}/{ALICE}/{folder}/a.md").status_code == 200

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What ETags tell of changes, and what they hide."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.contract.hands import ALICE, BOB, CAROL, Hand
from tests.contract.wire import propfind, rows, search, search_ids

# Two uploads miss each other's second now and then.
_TRIES = 8


def _root(hand: Hand, user: str) -> str:
    return rows(propfind(hand, user, "", "d:getetag"))[0].found["d:getetag"]


def _changes_root(hand: Hand, user: str, act: Callable[[], object]) -> bool:
    before = _root(hand, user)
    act()
    return _root(hand, user) != before


def _told(hand: Hand, user: str, fileid: int) -> tuple[str, str]:
    found = rows(search_ids(hand, user, [fileid], "d:getetag", "d:getlastmodified"))[0].found
    return found["d:getetag"], found["d:getlastmodified"]


# --- files


@pytest.mark.parametrize("second", ["two", "another"])
def test_two_saves_in_one_second_share_an_etag(hand: Hand, second: str) -> None:
    """Given two uploads whose time is the same whole second, then nothing but the bytes (and their number) differs."""
    folder = hand.folder(ALICE)
    for _ in range(_TRIES):
        fileid = hand.write(ALICE, f"{folder}/a.md", "one")
        hand.later(1 - hand.now() % 1)
        hand.write(ALICE, f"{folder}/a.md", "one")
        before = _told(hand, ALICE, fileid)
        hand.write(ALICE, f"{folder}/a.md", second)
        after = _told(hand, ALICE, fileid)
        if before[1] == after[1]:
            break
    assert after == before
    assert hand.ask_signed(ALICE, "GET", f"/remote.php/dav/files/{ALICE}/{folder}/a.md").text == second
    hand.later(1.1)
    hand.write(ALICE, f"{folder}/a.md", second)
    assert _told(hand, ALICE, fileid)[0] != before[0]


@pytest.mark.parametrize(("second", "kept"), [("two", True), ("another", False)])
def test_a_client_that_sets_the_time_keeps_the_etag_while_the_size_is_the_same(
    hand: Hand, second: str, kept: bool
) -> None:
    """A listing betrays it by the time of the upload; a search does not."""
    folder, stamp = hand.folder(ALICE), {"X-OC-MTime": "1700000000"}
    fileid = hand.write(ALICE, f"{folder}/a.md", "one", headers=stamp)
    before = _told(hand, ALICE, fileid), _uploaded(hand, folder)
    hand.later(1.1)
    hand.write(ALICE, f"{folder}/a.md", second, headers=stamp)
    after = _told(hand, ALICE, fileid), _uploaded(hand, folder)
    assert (after[0] == before[0]) is kept
    assert after[0][1] == before[0][1]
    assert after[1] > before[1]


def _uploaded(hand: Hand, folder: str) -> int:
    return int(rows(propfind(hand, ALICE, f"{folder}/a.md", "nc:upload_time"))[0].found["nc:upload_time"])


def test_a_rename_a_move_and_a_share_keep_a_files_id_and_etag(hand: Hand) -> None:
    folder, other = hand.folder(ALICE), hand.folder(ALICE)
    fileid = hand.write(ALICE, f"{folder}/a.md", "x")
    before = _told(hand, ALICE, fileid)
    hand.later(1.1)
    hand.move(ALICE, f"{folder}/a.md", f"{folder}/b.md")
    hand.move(ALICE, f"{folder}/b.md", f"{other}/b.md")
    hand.share(ALICE, other, with_user=BOB)
    assert _told(hand, ALICE, fileid) == _told(hand, BOB, fileid) == before


# --- folders


def test_a_write_deep_down_changes_every_folder_above_and_no_other(hand: Hand) -> None:
    folder = hand.folder(ALICE)
    ids = [hand.mkdir(ALICE, f"{folder}/{name}") for name in ("a", "a/b", "c")]
    hand.write(ALICE, f"{folder}/a/b/deep.md", "x")

    def etags() -> list[str]:
        found = rows(search(hand, ALICE, "<d:is-collection/>", "oc:fileid", "d:getetag"))
        by_id = {row.found["oc:fileid"]: row.found["d:getetag"] for row in found}
        return [by_id[str(fileid)] for fileid in ids]

    before = etags()
    hand.write(ALICE, f"{folder}/a/b/deep.md", "y")  # even within the second in which the file's own ETag stays
    after = etags()
    assert [one != other for one, other in zip(before, after, strict=True)] == [True, True, False]


def test_the_root_etag_follows_whatever_changes_in_a_home(hand: Hand) -> None:
    folder = hand.folder(ALICE)
    hand.mkdir(ALICE, f"{folder}/b")
    assert _changes_root(hand, ALICE, lambda: hand.write(ALICE, f"{folder}/b/deep.md", "x"))
    assert _changes_root(hand, ALICE, lambda: hand.write(ALICE, f"{folder}/b/deep.md", "y"))
    assert _changes_root(hand, ALICE, lambda: hand.move(ALICE, f"{folder}/b/deep.md", f"{folder}/b/other.md"))
    assert _changes_root(hand, ALICE, lambda: hand.move(ALICE, f"{folder}/b", f"{folder}/c"))
    assert _changes_root(hand, ALICE, lambda: hand.delete(ALICE, f"{folder}/c/other.md"))
    assert not _changes_root(hand, ALICE, lambda: hand.share(ALICE, folder, with_user=CAROL))


def test_the_root_etag_of_a_recipient_follows_what_he_receives_and_loses(hand: Hand) -> None:
    folder, group = hand.folder(ALICE), hand.group(BOB)
    hand.mkdir(ALICE, f"{folder}/b")
    hand.mkdir(ALICE, f"{folder}/c")
    hand.write(ALICE, f"{folder}/b/deep.md", "x")
    shares: list[str] = []
    assert _changes_root(hand, BOB, lambda: shares.append(hand.share(ALICE, f"{folder}/b", with_user=BOB)))
    assert _changes_root(hand, BOB, lambda: hand.write(ALICE, f"{folder}/b/deep.md", "y"))
    assert _changes_root(hand, BOB, lambda: hand.move(ALICE, f"{folder}/b/deep.md", f"{folder}/b/other.md"))
    assert _changes_root(hand, BOB, lambda: hand.unshare(ALICE, shares[0]))
    assert _changes_root(hand, BOB, lambda: hand.share(ALICE, f"{folder}/c", with_group=group))
    assert _changes_root(hand, BOB, lambda: hand.leave(BOB, group))
    assert not _changes_root(hand, BOB, lambda: hand.write(ALICE, f"{folder}/c/new.md", "x"))

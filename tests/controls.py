# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Which control stands behind which promise, each with the story that fails without it.

`make controls` plays every story twice, as designed and with its control switched off, and prints what it saw.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import switches as off
import test_access_stories as access
import test_attacks as attacks
import test_companion_door as companion
import test_doors as doors
import test_opt_out as opt_out
import test_paging_stories as paging
import test_search_stories as search
import test_sources as sources
import test_write_stories as writing
from control_play import Control, Half, Switch
from rich.console import Console
from rich.table import Table

from ex_app.sources.deck_card import DeckCardSource
from ex_app.sources.file import FileSource

BOTH_HALVES = "both_halves"
_WIDTH = 150  # columns of the table where the terminal is narrower or none


def _denied(source: type) -> Switch:
    return lambda: off.denied_is_granted(source)


CONTROLS: tuple[Control, ...] = (
    # Nextcloud's word at the moment of reading
    Control(
        "stale scopes: each document is asked about, not its folder",
        search.test_a_file_moved_out_of_a_shared_folder_is_gone_at_once,
        _denied(FileSource),
    ),
    Control(
        "moved out of a shared folder with all its folder: verdict",
        access.test_a_folder_moved_out_of_a_shared_one_takes_its_documents_along_at_once,
        _denied(FileSource),
    ),
    Control(
        "unshared: verdict",
        search.test_what_is_unshared_is_gone_with_the_very_next_search_though_the_index_still_holds_it,
        _denied(FileSource),
    ),
    Control(
        "edited after it was unshared: verdict",
        access.test_what_is_written_after_bob_has_lost_it_never_reaches_him,
        _denied(FileSource),
    ),
    Control(
        "left the group: verdict", search.test_who_leaves_a_group_is_not_shown_what_it_may_read, _denied(FileSource)
    ),
    Control("deleted, still in the index: verdict", search.test_a_deleted_file_is_gone_at_once, _denied(FileSource)),
    Control(
        "board no longer shared: verdict",
        search.test_a_board_that_is_no_longer_shared_is_gone_at_once,
        _denied(DeckCardSource),
    ),
    Control(
        "card moved to a hidden board: verdict",
        search.test_a_card_moved_to_a_board_that_bob_does_not_see_is_gone_at_once,
        _denied(DeckCardSource),
    ),
    Control(
        "access rule: the letter G",
        search.test_listed_is_not_readable_without_the_letter_g_nothing_is_shown,
        off.listed_is_readable,
    ),
    Control(
        "view-only: no excerpt",
        search.test_a_view_only_share_is_listed_without_a_word_of_its_text,
        off.everything_is_downloadable,
    ),
    Control(
        "excluded tag: seen at verify",
        access.test_what_carries_an_excluded_tag_is_gone_at_once,
        off.no_tag_excludes,
    ),
    Control(
        "excluded folder (.noindex): seen at verify",
        access.test_what_lies_beside_a_noindex_file_is_gone_at_once,
        off.no_file_excludes,
    ),
    Control(
        "owner opted out: the registry is asked after the verdict",
        opt_out.test_the_next_search_shows_nothing_of_his_to_himself_or_to_recipients,
        off.wishes_wait_for_the_sweep,
    ),
    Control(
        "owner opted out, candidates for the companion: the registry",
        opt_out.test_the_companion_is_suggested_nothing_of_his,
        off.wishes_wait_for_the_sweep,
    ),
    Control(
        "disabled user: OCS is asked where nobody vouches",
        search.test_a_disabled_account_is_shown_nothing_though_webdav_still_answers_it,
        off.everybody_is_enabled,
    ),
    # Unsure is not shown
    Control(
        "no answer in time: unknown is not shown",
        search.test_a_nextcloud_that_does_not_answer_is_given_up_in_time,
        off.unsure_is_granted,
    ),
    Control(
        "error or half an answer: unknown is not shown",
        search.test_when_nextcloud_cannot_be_asked_nothing_is_shown_and_the_answer_says_so,
        off.unsure_is_granted,
    ),
    Control(
        "malformed answer: unknown is not shown",
        search.test_a_document_of_entities_is_no_answer,
        off.unsure_is_granted,
    ),
    Control(
        "XML entities: no document type is read",
        search.test_a_document_of_entities_is_no_answer,
        off.entities_are_told,
    ),
    Control(
        "unknown source: unknown is not shown",
        sources.test_a_source_that_is_not_known_any_more_grants_nothing,
        off.unsure_is_granted,
    ),
    Control(
        "an answer about somebody else's file: its path is the asker's",
        attacks.test_an_answer_that_lies_breaks_nothing,
        off.anybodys_path_is_mine,
        {"lie": "somebody else's file"},
    ),
    # Nothing superseded
    Control(
        "edited and not read again yet: the granted version is compared",
        search.test_an_edited_long_document_is_listed_without_its_old_text_until_it_has_been_read_again,
        off.any_version_is_current,
    ),
    Control(
        "two saves in one second: unsettled counts as outdated",
        search.test_two_saves_within_a_second_share_an_etag_and_are_never_quoted_wrongly,
        off.young_is_settled,
    ),
    Control(
        "same time and size: the checksum is part of the version",
        access.test_an_overwrite_that_keeps_time_and_size_is_told_by_its_checksum,
        off.no_checksum_in_versions,
    ),
    Control(
        "clean-up failed: the registry names the live generation",
        access.test_points_that_were_left_behind_are_never_quoted,
        off.any_generation_is_live,
    ),
    Control(
        "erased, still in the index: the registry (status and generation)",
        writing.test_an_erased_document_is_gone_and_stays_away,
        off.any_generation_is_live,
    ),
    Control(
        "another file in its place: bytes are held against the granted version",
        sources.test_a_file_put_in_anothers_place_between_verdict_and_reading_is_not_quoted_as_it,
        off.any_bytes_at_the_path,
    ),
    Control(
        "moved while it was read: second look at its place",
        writing.test_a_move_while_the_document_is_being_read_leaves_no_old_place_behind,
        off.no_second_look_at_the_place,
    ),
    Control(
        "late writer: publishes under its lease only",
        writing.test_a_writer_whose_lease_ran_out_loses_and_takes_its_points_away,
        off.a_late_writer_publishes,
    ),
    Control(
        "event from before a delete: the worker reads the present",
        access.test_an_event_from_before_a_delete_brings_nothing_back,
        off.the_past_is_believed,
    ),
    Control(
        "back from the trash: a fresh sighting lifts hidden",
        access.test_what_comes_back_from_the_trash_is_found_again,
        off.hidden_for_good,
    ),
    # What is denied hides nothing
    Control(
        "a denied folder crowds the top: it is looked at last",
        paging.test_a_closed_folder_full_of_better_answers_does_not_hide_the_readable_ones,
        off.closed_folders_are_like_others,
    ),
    # Nothing of others in answers and scores
    Control(
        "another user's question: no answer is kept for others",
        access.test_an_answer_that_alice_got_is_not_bobs_though_he_asks_the_same,
        lambda: off.answers_are_kept(by=lambda _, question: question.text),
    ),
    Control(
        "the same question after unsharing: no answer is kept",
        search.test_what_is_unshared_is_gone_with_the_very_next_search_though_the_index_still_holds_it,
        lambda: off.answers_are_kept(by=lambda caller, question: (caller.user, question.text)),
    ),
    Control(
        "answers kept by browsers and proxies: no-store",
        doors.test_no_answer_of_any_kind_may_be_kept,
        off.answers_may_be_kept,
    ),
    Control(
        "next page of another user: the cursor is bound to user and question",
        paging.test_a_cursor_is_good_for_one_user_and_one_question,
        off.a_cursor_is_anybodys,
    ),
    Control(
        "next page after unsharing: verdict anew",
        paging.test_every_page_is_verified_anew,
        _denied(FileSource),
    ),
    Control(
        "strangers' words: BM25 statistics over the reach",
        access.test_what_strangers_write_moves_nobodys_scores,
        off.everybodys_words_count,
    ),
    Control(
        "denied documents' words: scored anew without them",
        access.test_what_alice_may_not_read_in_her_own_home_moves_none_of_her_scores,
        off.denied_words_count,
    ),
    # Who asks
    Control(
        "wrong secret: the signature",
        doors.test_without_the_right_signature_every_door_is_shut,
        off.any_secret,
    ),
    Control(
        "unmapped identity: the user id as signed, letter by letter",
        access.test_who_is_unknown_to_nextcloud_is_not_taken_for_somebody_alike,
        off.the_like_is_the_same,
        {"stranger": "Alice"},
    ),
    Control(
        "unknown to Nextcloud: empty reach finds nothing, refused is not shown (both off)",
        access.test_who_is_unknown_to_nextcloud_is_not_taken_for_somebody_alike,
        off.nobodys_reach_is_everything,
        {"stranger": "mallory"},
    ),
    Control(
        "user named in the query: signature only",
        doors.test_a_user_cannot_name_another_one,
        lambda: off.named_by("query"),
    ),
    Control(
        "user named in a header: signature only",
        access.test_who_asks_is_read_from_the_signature_and_from_no_other_place,
        lambda: off.named_by("header"),
        {"where": "a header"},
    ),
    Control(
        "user named in a cookie: signature only",
        access.test_who_asks_is_read_from_the_signature_and_from_no_other_place,
        lambda: off.named_by("cookie"),
        {"where": "a cookie"},
    ),
    Control(
        "user named in a tool call's body: signature only",
        access.test_an_assistant_cannot_name_another_user_in_what_it_sends,
        off.named_by_the_body,
    ),
    # Which door
    Control(
        "%2e%2e through the proxy: exact table (relayed and signed for a user)",
        doors.test_nothing_internal_is_reached_by_climbing_through_nextclouds_proxy,
        off.users_may_knock_where_nextcloud_does,
    ),
    Control(
        "candidates with a valid signature (HaRP's shape): proof",
        companion.test_a_valid_signature_without_proof_gets_nothing,
        off.no_proof_is_demanded,
    ),
    Control(
        "candidates for an admin's request to the app: proof",
        access.test_an_admins_request_to_the_app_gets_no_candidates_in_anybodys_name,
        off.no_proof_is_demanded,
    ),
    Control(
        "proof used again for another user: the user is signed",
        companion.test_a_proof_is_bound_to_user_body_and_moment,
        lambda: off.proof_of(user=""),
    ),
    Control(
        "proof used again for another question: the body is signed",
        companion.test_a_proof_is_bound_to_user_body_and_moment,
        lambda: off.proof_of(body=b""),
    ),
    Control(
        "proof with another time: the time is signed",
        companion.test_a_proof_is_bound_to_user_body_and_moment,
        lambda: off.proof_of(moment=0),
    ),
    Control(
        "proof used again after 30 s: its age",
        companion.test_a_proof_is_bound_to_user_body_and_moment,
        off.proofs_last_for_ever,
    ),
    Control(
        "proof relayed by the PHP proxy: second line",
        companion.test_even_proof_does_not_pass_through_the_proxy,
        off.relayed_is_not_noticed,
    ),
    Control(
        "more relayed searches than PHP can bear: admission",
        doors.test_more_relayed_searches_than_admitted_are_refused_at_once,
        off.everybody_is_admitted,
    ),
)


class Ledger:
    """A pytest plugin that notes how each half went."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], str] = {}
        self.good: set[tuple[str, str]] = set()

    def pytest_addoption(self, parser: pytest.Parser) -> None:
        parser.addoption("--both-halves", dest=BOTH_HALVES, action="store_true", help="as designed, too")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = dict(report.user_properties)
        if "control" not in told or (report.when != "call" and report.passed):
            return
        row = (str(told["control"]), str(told["half"]))
        reason = getattr(getattr(report.longrepr, "reprcrash", None), "message", str(report.longrepr))
        self.seen[row] = str(told.get("seen", reason.splitlines()[0] if reason else report.outcome))
        if report.passed:
            self.good.add(row)
        else:
            self.good.discard(row)

    def bears(self, control: Control) -> bool:
        """Whether both halves went as they must."""
        return all((control.name, half) in self.good for half in Half)

    def table(self) -> Table:
        """One row a control."""
        table = Table("control", "story", *Half, show_lines=False)
        for control in CONTROLS:
            halves = [
                f"[{'green' if (row := (control.name, str(half))) in self.good else 'bold red'}]"
                + self.seen.get(row, "was not played").replace("[", r"\[")
                for half in Half
            ]
            table.add_row(control.name, control.story.__name__.removeprefix("test_").replace("_", " "), *halves)
        return table


def main() -> int:
    """The command line; 1 when a control is not load-bearing."""
    ledger = Ledger()
    told = Path(__file__).with_name("test_controls.py")
    options = ["-n0", "-q", "--tb=no", "--no-header", "--no-summary", "-p", "no:cacheprovider", "--both-halves"]
    code = pytest.main([*options, str(told)], plugins=[ledger])
    Console(width=max(_WIDTH, Console().width)).print(ledger.table())
    bearing = sum(map(ledger.bears, CONTROLS))
    sys.stdout.write(f"controls: {bearing}/{len(CONTROLS)} load-bearing\n")
    return 0 if bearing == len(CONTROLS) and code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())

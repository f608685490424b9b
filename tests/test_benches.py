# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What the benches and the soak conclude from what they saw."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from crash_orders import orders
from crash_steps import STEPS
from freshness import Found
from soak import growth
from soak_world import Held, Line, People

from demo.bench import weighing
from demo.bench.processes import Usage, Watch, usage
from ex_app.extract.detect import detect

LINE: Line = ("file:1", "etag/64/", 0, "hash", ("f:1", "f:2"))


def test_a_role_that_grew_is_seen_and_one_that_was_just_killed_is_not_taken_for_a_shrunken_one() -> None:
    samples = [{"web": Usage(rss_mb=100 + at, fds=20), "embed": Usage(rss_mb=800, fds=9)} for at in range(30)]
    samples[28] = {"web": samples[28]["web"]}
    assert growth(samples, lambda taken: taken.rss_mb) == pytest.approx((124.5 + 800) / (104.5 + 800))
    assert growth(samples, lambda taken: taken.fds) == 1.0


def test_processor_time_of_a_process_that_made_way_counts_on() -> None:
    watch = Watch([{"parser": Usage(cpu_s=at)} for at in (1.0, 3.0, 0.5, 2.0)])
    assert watch.cpu() == {"parser": 4.0}


def test_we_ourselves_have_memory_and_open_files() -> None:
    ours = usage(os.getpid())["supervisor"]
    assert ours.peak_mb >= ours.rss_mb > 1
    assert ours.fds > 2


def test_what_is_never_found_is_no_part_of_the_seconds_but_is_told() -> None:
    found = Found("webhook")
    found.seconds["edit"], found.never["share"] = [float(second) for second in range(1, 101)], 2
    figures = found.figures()
    assert (figures["n"], figures["p50"], figures["p95"], figures["max"], figures["never"]) == (102, 50, 95, 100, 2)
    assert (figures["share"]["n"], figures["share"]["p50"]) == (2, None)


def test_another_version_scope_or_place_is_a_difference_and_changes_what_is_compared() -> None:
    held = Held(Counter([LINE]), {"file:1": ("a.md", "/a.md")}, frozenset())
    assert held.differences(held) == {}
    other_scopes = Held(Counter([(*LINE[:4], ("f:1",))]), held.places, frozenset())
    twice = Held(Counter([LINE, LINE]), held.places, frozenset())
    renamed = Held(held.lines, {"file:1": ("b.md", "/b.md")}, frozenset())
    for other in (other_scopes, twice, renamed):
        assert [*held.differences(other)] == ["file:1"]
    assert len({one.digest for one in (held, other_scopes, twice)}) == 3


def test_an_order_to_die_is_withdrawn_and_the_doings_of_a_seed_are_the_same(tmp_path: Path) -> None:
    with orders(tmp_path) as told:
        assert told.is_done
        told.die(STEPS[0], "before")
        assert not told.is_done
        told.withdraw()
        assert told.is_done
    one, other = People(3), People(3)
    for people in (one, other):
        people.do_everything()
    assert one.world.all_documents() == other.world.all_documents() != []


def test_the_large_files_are_large_and_what_their_names_say() -> None:
    for path, data in weighing.large_ones(7, 1):
        assert 0.98 * 1024 * 1024 < len(data) <= 1024 * 1024, path
        assert detect(data, name=path, mime="").value in (path.rpartition(".")[2], "text", "markdown")

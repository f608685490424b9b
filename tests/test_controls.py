# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Each control carries its story: switched off, the story fails. That it passes otherwise it shows by itself."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

import pytest
from control_play import Control, Half, Idle, Misleading, play
from controls import BOTH_HALVES, CONTROLS
from test_companion_door import policy  # noqa: F401  some stories begin with it
from test_paging_stories import small_rounds  # noqa: F401  likewise
from town import Town

from ex_app.search.service import Search

pytestmark = pytest.mark.asyncio(loop_scope="session")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "half" not in metafunc.fixturenames:
        return
    halves = list(Half) if metafunc.config.getoption(BOTH_HALVES, default=False) else [Half.SWITCHED_OFF]
    rows = [
        pytest.param(control, half, id=f"{control.name}-{half}", marks=control.marks)
        for control in CONTROLS
        for half in halves
    ]
    metafunc.parametrize(("control", "half"), rows)


@pytest.fixture
def given(request: pytest.FixtureRequest, control: Control) -> dict[str, Any]:
    """What the story begins with."""
    wanted = inspect.signature(control.story).parameters.keys() - control.params.keys()
    return {**control.params, **{name: request.getfixturevalue(name) for name in sorted(wanted)}}


async def test_the_control_decides(
    town: Town,
    control: Control,
    half: Half,
    given: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
    record_property: Any,
) -> None:
    record_property("control", control.name)
    record_property("half", str(half))
    record_property("seen", await play(control, half, town=town, given=given, log=caplog))


async def story_that_holds_anyway(town: Town) -> None:
    assert (await town.search("alice", "hotels")).hits == []


async def story_with_a_crash(town: Town) -> None:
    answer = await town.ask("alice", "GET", "/api/search", params={"q": "hotels"})
    assert answer.status_code == 404


def broken() -> AbstractContextManager[Any]:
    return patch.object(Search, "search", lambda: None)


async def test_a_control_that_decides_nothing_is_told(town: Town, caplog: pytest.LogCaptureFixture) -> None:
    idle = Control("nothing", story_that_holds_anyway, nullcontext)
    with pytest.raises(Idle):
        await play(idle, Half.SWITCHED_OFF, town=town, given={"town": town}, log=caplog)


async def test_a_switch_that_breaks_the_app_proves_nothing(town: Town, caplog: pytest.LogCaptureFixture) -> None:
    for story in (story_that_holds_anyway, story_with_a_crash):
        wrong = Control("a wrong patch", story, broken)
        with pytest.raises(Misleading):
            await play(wrong, Half.SWITCHED_OFF, town=town, given={"town": town}, log=caplog)


async def test_no_two_controls_have_the_same_name() -> None:
    assert len({control.name for control in CONTROLS}) == len(CONTROLS)

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""How a control is put to the test: its story is played with the control switched off, and must fail."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from traceback import extract_tb
from typing import Any

import httpx
import pytest
from town import Town

Switch = Callable[[], AbstractContextManager[Any]]

# What our processes say when our own code broke, which they survive.
_BROKE = ("event=document_failed", "event=walk_broke")


class Half(StrEnum):
    """How a story is played."""

    AS_DESIGNED = "as designed"
    SWITCHED_OFF = "switched off"


class Idle(Exception):
    """The story holds without its control, so the control carries nothing or the story does not ask for it."""


class Misleading(Exception):
    """The story failed, but not by what it asserts: the switch broke something else."""


@dataclass(frozen=True)
class Control:
    """name: what is controlled, and by what. params: of a story that is told several times, the one to play."""

    name: str
    story: Callable[..., Awaitable[None]]
    switch: Switch
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def marks(self) -> list[pytest.Mark]:
        """The settings of the story's town."""
        return [mark for mark in getattr(self.story, "pytestmark", []) if mark.name == "town"]


async def play(
    control: Control, half: Half, *, town: Town, given: Mapping[str, Any], log: pytest.LogCaptureFixture
) -> str:
    """Play the story; returns what was seen. Switched off it must fail by what it asserts.

    Raises Idle or Misleading where it does not; as designed, whatever the story raises.
    """
    if half is Half.AS_DESIGNED:
        await control.story(**given)
        return "passes"
    crashes: list[int] = []

    async def note(response: httpx.Response) -> None:
        crashes.extend([response.status_code] if response.status_code == 500 else [])

    town.browser.event_hooks = {"response": [note]}
    try:
        with control.switch():
            await control.story(**given)
    except AssertionError as error:
        frame = extract_tb(error.__traceback__)[-1]
        if frame.filename != inspect.getsourcefile(control.story):
            raise Misleading(f"it failed in {Path(frame.filename).name}:{frame.lineno}") from error
        broke = [record.getMessage() for record in log.records if record.getMessage().startswith(_BROKE)]
        if crashes or broke:
            raise Misleading(f"our code broke: {broke or crashes}") from error
        return f"fails: {linecache.getline(frame.filename, frame.lineno or 0).strip()}"
    except Exception as error:
        raise Misleading(f"it broke: {type(error).__name__}: {error}") from error
    raise Idle("the story holds without it")

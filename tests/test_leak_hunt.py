# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""A short leak hunt, and proof that a hunt can find something. `make leak-hunt` is the long one."""

from __future__ import annotations

from random import Random

import pytest
from leak_hunt import SABOTAGE, all_doings
from leak_play import Step, play
from leak_rules import Found, Tally
from leak_steps import weighted

from ex_app.extract.sandbox import Extractor
from ex_app.store.engine import Address

pytestmark = pytest.mark.asyncio(loop_scope="session")

_BEGINNING: list[Step] = [("found", number) for number in range(6)] + [("settle", 0)]


async def test_a_random_world_tells_nobody_anything_that_he_may_not_read(
    shared_engine: Address, extractor: Extractor
) -> None:
    r, names, tally = Random(7), weighted(all_doings()), Tally()
    steps = [*_BEGINNING, *((r.choice(names), r.randrange(2**16)) for _ in range(40))]
    await play(steps, tally, address=shared_engine, extractor=extractor, ttl=60.0)
    assert tally.checked > 100
    assert tally.recalled > 20


@pytest.mark.parametrize(("control", "kind"), [("grant-all", "leak"), ("quote-all", "leak")])
async def test_without_a_control_the_hunt_finds_what_it_held_back(
    shared_engine: Address, extractor: Extractor, control: str, kind: str
) -> None:
    asking = [(doing, number) for number in range(12) for doing in ("edit", "unshare", "ask")]
    with SABOTAGE[control](), pytest.raises(Found) as found:
        await play([*_BEGINNING, *asking], Tally(), address=shared_engine, extractor=extractor, ttl=60.0)
    assert found.value.kind == kind

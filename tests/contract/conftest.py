# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""A hand on each server that there is."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from demo.server import serving
from demo.world import World
from ex_app.nextcloud.session import Nextcloud
from ex_app.settings import Settings
from tests.contract.hands import ALICE, BOB, CAROL, Credentials, Hand
from tests.contract.real_hand import RealHand
from tests.contract.stand_in_hand import ADMIN, Clock, StandInHand

_STAND_IN, _REAL = "stand-in", "nextcloud"
_SERVERS = [_STAND_IN, _REAL] if os.environ.get("NEXTCLOUD_TEST_URL") else [_STAND_IN]


@pytest.fixture(scope="module", params=_SERVERS)
def hand(request: pytest.FixtureRequest) -> Iterator[Hand]:
    """Given: a Nextcloud with alice, bob and carol, who begin with nothing that matters here."""
    if request.param == _REAL:
        real = RealHand(
            os.environ["NEXTCLOUD_TEST_URL"],
            Credentials(
                os.environ["NEXTCLOUD_TEST_APP_ID"],
                os.environ["NEXTCLOUD_TEST_APP_SECRET"],
                os.environ["NEXTCLOUD_TEST_APP_VERSION"],
                int(os.environ["NEXTCLOUD_TEST_APP_PORT"]),
            ),
            {user: os.environ[f"NEXTCLOUD_TEST_{user.upper()}_PASSWORD"] for user in (ALICE, BOB, CAROL)},
            admin=os.environ.get("NEXTCLOUD_TEST_ADMIN", "admin"),
            occ=os.environ.get("NEXTCLOUD_TEST_OCC", ""),
        )
        yield real
        real.clean()
        return
    clock = Clock()
    world = World(clock=clock)
    for user in (ALICE, BOB, CAROL):
        world.add_user(user)
    world.add_user(ADMIN, groups=["admin"])
    with serving(world) as served:
        stand_in = StandInHand(served, clock)
        yield stand_in
        stand_in.clean()


@pytest.fixture
async def nextcloud(hand: Hand) -> AsyncIterator[Nextcloud]:
    """Our own connection to that server, signing as the ExApp."""
    settings = Settings(
        app_id=hand.app.id,
        app_secret=hand.app.secret,
        app_version=hand.app.version,
        nextcloud_url=hand.url,
    )
    async with Nextcloud(settings) as connection:
        yield connection

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The scenes of `exposure` on a real Nextcloud, when the environment names one as the contract tests want it.

Semantic Search itself must be registered there as well, under NEXTCLOUD_TEST_SEARCH_APP (default: semantic_search).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from demo.bench.exposure import Client, Row, perform, prepare, wait
from tests.contract.hands import ALICE, BOB, CAROL, Credentials
from tests.contract.real_hand import RealHand


def is_configured() -> bool:
    """Whether there is a real Nextcloud to ask."""
    return bool(os.environ.get("NEXTCLOUD_TEST_URL"))


def rows(bills: Iterator[tuple[str, str]]) -> dict[str, list[Row]]:
    """Play all scenes there, but for the access rule, which needs an app that no server brings along; then tidy up."""
    environment = os.environ
    url = environment["NEXTCLOUD_TEST_URL"].rstrip("/")
    passwords = {user: environment[f"NEXTCLOUD_TEST_{user.upper()}_PASSWORD"] for user in (ALICE, BOB, CAROL)}
    probe = Credentials(
        environment["NEXTCLOUD_TEST_APP_ID"],
        environment["NEXTCLOUD_TEST_APP_SECRET"],
        environment["NEXTCLOUD_TEST_APP_VERSION"],
    )
    hand = RealHand(url, probe, passwords, admin=environment.get("NEXTCLOUD_TEST_ADMIN", "admin"))
    try:
        client = Client(hand.ask, environment.get("NEXTCLOUD_TEST_SEARCH_APP", "semantic_search"))
        play = prepare(hand, bills, None)
        wait(client, play)
        return perform(client, play)
    finally:
        hand.clean()

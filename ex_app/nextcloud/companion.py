# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The companion, our thin app inside Nextcloud: whether it is there, and the key with which it proves itself."""

from __future__ import annotations

import binascii
from dataclasses import dataclass, field

from ex_app.domain import Missing, NextcloudUnavailable, NotPermitted
from ex_app.nextcloud import ocs
from ex_app.nextcloud.session import Session

# The API versions that we speak; the companion names the range that it speaks.
API_VERSION = 1

_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Handshake:
    """What the companion said of itself. key: with it the companion signs what only it may ask."""

    oldest_api: int
    newest_api: int
    key: bytes = field(repr=False)

    @property
    def fits(self) -> bool:
        """Whether we understand each other."""
        return self.oldest_api <= API_VERSION <= self.newest_api


async def handshake(app: Session) -> Handshake | None:
    """Meet the companion, as the app itself (it answers only to our EX-APP-ID); None when it is not installed.

    GET apps/semantic_search_companion/api/v1/handshake. Raises NextcloudUnavailable when the answer makes no sense.
    """
    try:
        data = await ocs.call(app, "apps/semantic_search_companion/api/v1/handshake")
    except (Missing, NotPermitted):
        return None
    try:
        key = binascii.unhexlify(data["key"])
        met = Handshake(int(data["oldest_api"]), int(data["newest_api"]), key)
    except (KeyError, TypeError, ValueError) as error:
        raise NextcloudUnavailable("The companion app's handshake makes no sense") from error
    if len(key) < _KEY_BYTES:
        raise NextcloudUnavailable("The companion app's key is too short")
    return met

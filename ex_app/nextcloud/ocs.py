# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""OCS calls: who exists, who is enabled, which single files somebody received."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ex_app.domain import NextcloudUnavailable, NotPermitted
from ex_app.nextcloud.session import Session


async def call(session: Session, path: str, **params: str) -> Any:
    """GET an OCS route and return its `data`; raises NextcloudUnavailable when the answer has another shape."""
    reply = await session.request("GET", f"/ocs/v2.php/{path}", params={"format": "json", **params})
    try:
        return json.loads(reply.body)["ocs"]["data"]
    except (ValueError, KeyError, TypeError) as error:
        raise NextcloudUnavailable("Nextcloud's answer is not OCS JSON") from error


async def user_ids(app: Session) -> list[str]:
    """Ids of all users, asked as the app (GET apps/app_api/api/v1/users). Includes disabled users."""
    data = await call(app, "apps/app_api/api/v1/users")
    if not isinstance(data, list):
        raise NextcloudUnavailable("Nextcloud's list of users is no list")
    return [str(user) for user in data]


async def is_enabled(session: Session) -> bool:
    """Whether this user may act now. WebDAV still answers for a disabled user; OCS does not."""
    return bool(await _account(session))


@dataclass(frozen=True, slots=True)
class Account:
    """A user. has_content: is enabled and has ever logged in; before that a home has nothing in it."""

    has_content: bool
    groups: frozenset[str]


async def account(session: Session) -> Account:
    """Who this user is now; of who is disabled nothing is told."""
    data = await _account(session)
    groups = data.get("groups")
    return Account(bool(data.get("lastLogin")), frozenset(groups if isinstance(groups, list) else ()))


async def has_content(session: Session) -> bool:
    """As told by account."""
    return (await account(session)).has_content


async def received_files(session: Session) -> frozenset[int]:
    """Ids of all single files that others share with this user, wherever he keeps them; not those he did not accept.

    GET apps/files_sharing/api/v1/shares takes Nextcloud some milliseconds for each share, folders included.
    """
    data = await call(session, "apps/files_sharing/api/v1/shares", shared_with_me="true")
    try:
        return frozenset(int(row["file_source"]) for row in data if row["item_type"] == "file")
    except (KeyError, TypeError, ValueError) as error:
        raise NextcloudUnavailable("Nextcloud's list of shares has another shape") from error


async def external_storages(session: Session) -> frozenset[str]:
    """Paths at which external storages are mounted for this user, whether they answer or not; raises Missing without
    their app.
    """
    data = await call(session, "apps/files_external/api/v1/mounts")
    try:
        return frozenset(f"{row['path']}/{row['name']}".strip("/") for row in data)
    except (KeyError, TypeError) as error:
        raise NextcloudUnavailable("Nextcloud's list of external storages has another shape") from error


async def _account(session: Session) -> dict[str, Any]:
    """GET cloud/user; empty when the user is disabled or does not exist."""
    try:
        data = await call(session, "cloud/user")
    except NotPermitted:
        return {}
    return data if isinstance(data, dict) and data.get("id") == session.user else {}

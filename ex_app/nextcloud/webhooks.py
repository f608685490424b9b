# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Which changes Nextcloud tells us of: our registrations with its app webhook_listeners.

Nextcloud checks for no duplicates and an admin may remove any, so what is there is compared with what we want.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ex_app.domain import Missing, NextcloudUnavailable, NotPermitted
from ex_app.nextcloud import ocs
from ex_app.nextcloud.session import Session
from ex_app.settings import Settings

log = logging.getLogger(__name__)

# Where we hear of changes.
PATH = "/events"

# Nextcloud keeps the proof encrypted and shows it to nobody. By the mark, which it shows, we know which proof it is.
PROOF_HEADER = "X-Semantic-Search-Proof"
MARK_HEADER = "X-Semantic-Search-Mark"

_API = "apps/webhook_listeners/api/v1/webhooks"

# What happens to files. Of the events before something happens only that of deletion: newer servers name the deleted
# file there alone, and most others of them fail or are noise. Never OCA\Files_Trashbin\Events\NodeRestoredEvent: before
# 31.0.7 whoever restores something then gets an error (a restored file is touched, which we hear).
_FILES = tuple(
    f"OCP\\Files\\Events\\Node\\{name}Event"
    for name in (
        "NodeCreated",
        "NodeWritten",
        "NodeTouched",
        "NodeCopied",
        "NodeRenamed",
        "NodeDeleted",
        "BeforeNodeDeleted",
    )
)

# What only newer servers and a newer Deck tell.
_NEWER = (
    *(f"OCP\\SystemTag\\{name}Event" for name in ("TagAssigned", "TagUnassigned")),
    *(
        f"OCA\\Deck\\Event\\{name}Event"
        for name in (
            "CardCreated",
            "CardUpdated",
            "CardDeleted",
            "AclCreated",
            "AclUpdated",
            "AclDeleted",
            "BoardUpdated",
        )
    ),
)
CLASSES = (*_FILES, *_NEWER)

# How often we look whether our registrations are there still, and how soon again without an answer; seconds.
_LOOK_S = 3600.0
_AGAIN_S = 60.0

_ADVICE = "changes are found by comparison alone; with Nextcloud's app webhook_listeners they are found sooner"


@dataclass(frozen=True, slots=True)
class Arranged:
    """What a look at our registrations led to. rejected: classes that this Nextcloud does not know."""

    added: tuple[str, ...] = ()
    removed: tuple[int, ...] = ()
    rejected: tuple[str, ...] = ()


def proof(settings: Settings) -> str:
    """What an event must carry to be believed: that it was registered by us, not only that Nextcloud passed it on."""
    return settings.key_for("proof of webhooks").hex()


async def arrange(session: Session, settings: Settings) -> Arranged:
    """Make Nextcloud call us once for each class that it knows, and for nothing else. session: of the app itself.

    Raises Missing or NotPermitted when the app webhook_listeners is not there for us, NextcloudUnavailable.
    """
    mark = {MARK_HEADER: settings.key_for("mark of webhooks").hex()[:16]}
    kept: set[str] = set()
    stale: list[int] = []
    for row in await _registered(session, settings.app_id):
        event = str(row.get("event", "")).lstrip("\\")
        if event in CLASSES and event not in kept and _is_as_wanted(row, mark):
            kept.add(event)
        else:
            stale.append(int(row["id"]))
    for number in stale:
        await _call(session, "DELETE", f"{_API}/{number}")
    added: list[str] = []
    rejected: list[str] = []
    for event in CLASSES:
        if event not in kept:
            known = await _register(session, event, mark=mark, settings=settings)
            (added if known else rejected).append(event)
    return Arranged(tuple(added), tuple(stale), tuple(rejected))


async def keep_arranged(session: Session, settings: Settings, stop: asyncio.Event) -> None:
    """Look after our registrations until told to stop. Whatever goes wrong with them costs freshness alone."""
    said = ""
    while not stop.is_set():
        pause = _LOOK_S
        try:
            now = await arrange(session, settings)
        except (Missing, NotPermitted) as error:
            said = _say_once(said, f"event=no_webhooks error={error!s} advice={_ADVICE}", logging.WARNING)
        except NextcloudUnavailable as error:
            log.warning("event=webhooks_unknown error=%s", error)
            pause = max(_AGAIN_S, error.retry_after or 0)
        else:
            if now.added or now.removed:
                log.info("event=webhooks_arranged added=%d removed=%d", len(now.added), len(now.removed))
            if now.rejected:
                classes = ",".join(_short(now.rejected))
                said = _say_once(said, f"event=webhooks_rejected classes={classes}", logging.INFO)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)


def _say_once(said: str, words: str, level: int) -> str:
    """Log it unless that was the last that we said; returns what was said."""
    if said != words:
        log.log(level, "%s", words)
    return words


def _short(classes: Iterable[str]) -> list[str]:
    return [name.rpartition("\\")[2] for name in classes]


def _is_as_wanted(row: Mapping[str, Any], mark: Mapping[str, str]) -> bool:
    return (
        row.get("uri") == PATH
        and row.get("httpMethod") == "POST"
        and row.get("headers") == mark
        and row.get("authMethod") == "header"
        and not row.get("eventFilter")
        and not row.get("userIdFilter")
    )


async def _registered(session: Session, app_id: str) -> list[dict[str, Any]]:
    """What is registered for us; the list is everybody's."""
    data = await ocs.call(session, _API)
    if not isinstance(data, list):
        raise NextcloudUnavailable("Nextcloud's list of webhooks is no list")
    rows = [row for row in data if isinstance(row, dict)]
    return [row for row in rows if row.get("appId") == app_id and isinstance(row.get("id"), int)]


async def _register(session: Session, event: str, *, mark: Mapping[str, str], settings: Settings) -> bool:
    """False when Nextcloud does not know the class."""
    wanted = {
        "httpMethod": "POST",
        "uri": PATH,
        "event": event,
        "eventFilter": {},
        "userIdFilter": "",
        "headers": mark,
        "authMethod": "header",
        "authData": {PROOF_HEADER: proof(settings)},
    }
    try:
        await _call(session, "POST", _API, json.dumps(wanted))
    except NextcloudUnavailable as error:
        if error.status == 400:
            return False
        raise
    return True


async def _call(session: Session, method: str, path: str, body: str = "") -> None:
    await session.request(
        method,
        f"/ocs/v2.php/{path}",
        content=body,
        headers={"Content-Type": "application/json"},
        params={"format": "json"},
    )

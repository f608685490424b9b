# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What Nextcloud grants and the storage's owner wants left out is shown to nobody, long before it leaves the index."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from ex_app.domain import Candidate, NotAvailable
from ex_app.search.verify import Verdicts
from ex_app.store.registry import Registry

log = logging.getLogger(__name__)


async def without_left_out(registry: Registry, verdicts: Verdicts) -> Verdicts:
    """The owner counts whom Nextcloud just named. While the registry is silent every owner may have opted out."""
    owners = frozenset(grant.owner for grant in verdicts.granted.values() if grant.owner)
    if not owners:
        return verdicts
    try:
        left_out = await registry.opt_outs.among(owners)
    except NotAvailable as error:
        log.warning("event=wishes_unknown error=%s", error)
        shown = {key: grant for key, grant in verdicts.granted.items() if not grant.owner}
        return replace(verdicts, granted=shown, degraded=True)
    withheld = frozenset(key for key, grant in verdicts.granted.items() if grant.owner in left_out)
    shown = {key: grant for key, grant in verdicts.granted.items() if key not in withheld}
    return replace(verdicts, granted=shown, denied=verdicts.denied | withheld)


async def suggestable(registry: Registry, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates less those that lay with somebody who opted out when the index saw them last.

    For who verifies elsewhere: nothing asks Nextcloud about the present owner here. Raises NotAvailable.
    """
    owners = frozenset(candidate.owner for candidate in candidates if candidate.owner)
    left_out = await registry.opt_outs.among(owners) if owners else frozenset()
    return [candidate for candidate in candidates if candidate.owner not in left_out]

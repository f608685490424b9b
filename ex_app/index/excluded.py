# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What is left out from now on leaves the index; no request to Nextcloud for each document is needed to know that."""

from __future__ import annotations

from collections.abc import Iterable

from ex_app.domain import ScopeId
from ex_app.store.documents import Status
from ex_app.store.registry import Registry
from ex_app.store.vectors import Vectors


async def take_out(registry: Registry, vectors: Vectors, source: str, scopes: Iterable[ScopeId]) -> None:
    """The documents that lie directly in these containers.

    Points go before their documents are hidden: a crash in between is made good by the next walk.
    """
    for row in await registry.by_parent(source, scopes):
        if row.status is Status.CURRENT:
            await vectors.drop(row.key)
            await registry.hide(row.key)

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What every process of ours has open, and the name of the index that all of it leads to."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ex_app.domain import NotAvailable
from ex_app.embed import files
from ex_app.embed.client import Embedder
from ex_app.embed.sparse import SPARSE_VERSION
from ex_app.extract.chunker import CHUNKER_VERSION
from ex_app.extract.sandbox import Extractor
from ex_app.index.watchdog import OFF, Condition, condition
from ex_app.nextcloud.session import Nextcloud
from ex_app.settings import Settings
from ex_app.sources import Source, open_sources
from ex_app.store.engine import Connection
from ex_app.store.registry import Clock, Registry, open_registry
from ex_app.store.vectors import Vectors, collection_name

_ENABLED = "enabled"


@dataclass(frozen=True, slots=True)
class House:
    """What every process of ours has open."""

    settings: Settings
    nextcloud: Nextcloud
    sources: Mapping[str, Source]
    registry: Registry
    engine: Connection
    embedder: Embedder

    async def vectors(self) -> Vectors:
        """The index for this instance, model and chunker. Raises NotAvailable until all are known."""
        instance = await self.registry.instance()
        if instance is None:
            raise NotAvailable("Semantic Search has not met its Nextcloud yet: enable the app and wait a minute")
        model = await self.embedder.info()
        name = collection_name(instance, model.model, _chunker(self.settings), str(SPARSE_VERSION))
        return Vectors(self.engine, collection=name, dimensions=model.dimensions)

    async def is_enabled(self) -> bool:
        """Whether Nextcloud has this app enabled, as it told us last."""
        return await self.registry.get_setting(_ENABLED) == "1"

    async def condition(self) -> Condition:
        """Whether indexing goes on, and what an admin can do if not."""
        return await condition(self.registry) if await self.is_enabled() else OFF

    async def set_enabled(self, enabled: bool) -> None:
        """Remember it for all processes."""
        if enabled:
            self.nextcloud.trust()
        await self.registry.set_setting(_ENABLED, "1" if enabled else "0")


@asynccontextmanager
async def open_house(settings: Settings, *, clock: Clock = time.time) -> AsyncIterator[House]:
    """Open what every process needs; nothing of it asks Nextcloud, the engine or the model yet."""
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    registry = await open_registry(settings, clock=clock)
    engine, embedder = Connection(settings), Embedder(settings)
    try:
        async with Nextcloud(settings) as nextcloud:
            yield House(settings, nextcloud, open_sources(settings), registry, engine, embedder)
    finally:
        await embedder.close()
        await engine.aclose()
        await registry.close()


def open_extractor(settings: Settings) -> Extractor:
    """Reads documents in processes of its own, which start with the first. Close it."""
    return Extractor(settings, tokenizer=files.tokenizer_file(settings), room=files.room(settings))


def _chunker(settings: Settings) -> str:
    return f"{CHUNKER_VERSION}-{settings.document_chunk_size}-{settings.document_chunk_overlap}"

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""One module per kind of content. A new source is a new module here plus its name in `SOURCES` and `open_sources`."""

from __future__ import annotations

from collections.abc import Mapping

from ex_app.settings import Settings
from ex_app.sources.base import Source
from ex_app.sources.deck_card import DeckCardSource
from ex_app.sources.file import FileSource

SOURCES: tuple[type[Source], ...] = (FileSource, DeckCardSource)


def open_sources(settings: Settings | None = None) -> Mapping[str, Source]:
    """Every registered source by name.

    settings: of what is left out; without them nothing is but by ".noindex", and external storages.
    """
    chosen = {"excluded_tags", "excluded_paths", "excluded_types", "index_external"}
    files = FileSource(**(settings.model_dump(include=chosen) if settings else {}))
    sources: tuple[Source, ...] = (files, DeckCardSource())
    return {source.name: source for source in sources}


__all__ = ["SOURCES", "Source", "open_sources"]

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What a person, or an assistant's model, is told when something cannot be answered."""

from __future__ import annotations

from ex_app.domain import EmbedderUnavailable, EngineUnavailable, SemanticSearchError


def sentence(error: SemanticSearchError) -> str:
    """Our errors are sentences already; those about our own parts are put into words that need no knowledge of them."""
    match error:
        case EngineUnavailable():
            return "The search index is starting or not filled yet. Try again in a moment"
        case EmbedderUnavailable():
            return "The language model is starting. Try again in a moment"
        case _:
            return str(error)

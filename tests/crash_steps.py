# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Every step of the write path at which a process can die, by the name of what it calls.

A process dies before or after such a call. What is not named here but called only reads: to die there is to die before
the next step that is named.
"""

from __future__ import annotations

from typing import NamedTuple


class Step(NamedTuple):
    """A coroutine of a class; role: the process that dies there."""

    module: str
    owner: str
    method: str
    role: str = "worker"

    @property
    def name(self) -> str:
        return f"{self.owner}.{self.method}"


_REGISTRY, _VECTORS = ("ex_app.store.registry", "Registry"), ("ex_app.store.vectors", "Vectors")
_FILE, _CARD = ("ex_app.sources.file", "FileSource"), ("ex_app.sources.deck_card", "DeckCardSource")
_WISHES = ("ex_app.store.wishes", "Wishes")

STEPS = (
    # A change that Nextcloud tells of
    Step("ex_app.index.intake", "Intake", "take", role="web"),
    # Comparing
    Step(*_FILE, "pulse"),
    Step(*_FILE, "containers"),
    Step(*_FILE, "listing"),
    Step(*_CARD, "pulse"),
    Step(*_CARD, "containers"),
    Step(*_CARD, "listing"),
    Step(*_REGISTRY, "rescope"),
    Step(*_REGISTRY, "bump_epoch"),
    Step(*_REGISTRY, "meet"),
    Step(*_REGISTRY, "enqueue_many"),
    Step(*_REGISTRY, "place_many"),
    Step(*_REGISTRY, "save_containers"),
    Step(*_REGISTRY, "drop_containers"),
    Step(*_REGISTRY, "set_pulse"),
    Step(*_WISHES, "add"),
    Step(*_WISHES, "grant"),
    # A document
    Step(*_REGISTRY, "claim"),
    Step(*_REGISTRY, "document"),
    Step(*_FILE, "fetch"),
    Step(*_CARD, "fetch"),
    Step(*_VECTORS, "passages_of"),
    Step("ex_app.extract.sandbox", "Extractor", "extract"),
    Step("ex_app.embed.client", "Embedder", "documents"),
    Step(*_VECTORS, "write"),
    Step(*_FILE, "locate"),
    Step(*_CARD, "locate"),
    Step(*_VECTORS, "set_place"),
    Step(*_REGISTRY, "publish"),
    Step(*_REGISTRY, "confirm"),
    Step(*_REGISTRY, "hide"),
    Step(*_VECTORS, "keep_only"),
    Step(*_VECTORS, "drop"),
    Step(*_VECTORS, "drop_generation"),
    Step(*_REGISTRY, "enqueue"),
    Step(*_REGISTRY, "finish"),
)

# What a rename goes through, which lets the model read nothing. Others go through it too, so that these are ordered
# once more while nothing but renames is to be done.
RENAMING = frozenset(
    {
        "Vectors.passages_of",
        "Vectors.write",
        "Registry.publish",
        "Vectors.keep_only",
        "Registry.finish",
    }
)

# What these do is done in other words again with the next start, whatever they were in the middle of.
HARMLESS = frozenset(
    {
        "Registry.heartbeat",
        "Registry.release",
        "Registry.retry",
        "Registry.forget_hidden",
        "Registry.forget_pulses",
        "Registry.set_setting",
    }
)

WHEN = ("before", "after")

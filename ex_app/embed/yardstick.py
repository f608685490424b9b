# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What a model's cosines mean: measured once at start on pairs of which we know whether they belong together.

0.4 is a good match for one model and noise for another, so the floor of a search cannot be a constant.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ex_app.embed.wire import Vectors

# A question and a passage that answers it, without a helpful word in common; every other combination is unrelated.
PAIRS: Final = (
    (
        "How do I reset the heating after a power cut?",
        "When the electricity comes back, hold the red button on the boiler for five seconds until it restarts.",
    ),
    (
        "Who approves travel expenses?",
        "Receipts from business trips are signed off by the head of department within ten days.",
    ),
    (
        "recipe for a lentil soup",
        "Soften onions and carrots, add red lentils and stock, simmer for twenty minutes, season with cumin.",
    ),
    (
        "When is the school closed in summer?",
        "The holidays begin on 24 July; lessons start again on 4 September.",
    ),
    (
        "How many users can the server handle?",
        "Under load testing the machine served three hundred concurrent sessions before response times rose.",
    ),
    (
        "What does the warranty cover?",
        "The manufacturer repairs or replaces faulty parts free of charge for two years from the date of purchase.",
    ),
    (
        "side effects of the new tablets",
        "Patients taking this medicine have reported dizziness, dry mouth and trouble sleeping.",
    ),
    (
        "How is the garden watered?",
        "A drip hose runs along the beds; the timer opens the valve at six every morning.",
    ),
)


def yardstick(questions: Vectors, passages: Vectors) -> tuple[float, float]:
    """Mean cosine of unrelated and of related pairs; row i of both, of unit length, belongs to pair i."""
    cosines = questions @ passages.T
    same = np.eye(len(PAIRS), dtype=bool)
    return float(cosines[~same].mean()), float(cosines[same].mean())

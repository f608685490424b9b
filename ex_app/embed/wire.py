# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""How vectors travel over the embed socket: float32 rows, little-endian, their shape in a header."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

# Rows of unit length.
Vectors = NDArray[np.float32]

SHAPE_HEADER: Final = "x-shape"
MAX_TEXTS: Final = 512  # of one request


def pack(rows: Vectors) -> tuple[bytes, str]:
    """Body and shape header."""
    return rows.astype("<f4", copy=False).tobytes(), f"{rows.shape[0]},{rows.shape[1]}"


def unpack(body: bytes, shape: str) -> Vectors:
    """The rows; raises ValueError when body and shape contradict each other."""
    rows, _, dimensions = shape.partition(",")
    return np.frombuffer(body, dtype="<f4").reshape(int(rows), int(dimensions)).astype(np.float32, copy=False)

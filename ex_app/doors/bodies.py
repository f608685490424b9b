# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Bodies of requests, of which no door holds more than it has a use for."""

from __future__ import annotations

from fastapi import Request


async def read_body(request: Request, *, limit: int) -> bytes | None:
    """The whole body, whatever type it is said to have; None when it has more than `limit` bytes."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limit:
            return None
    return bytes(body)

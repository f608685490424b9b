# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Positive proof that a request comes from our companion inside Nextcloud, and not merely through Nextcloud.

AppAPI's signature says for whom a request was made, not which code of Nextcloud made it: an admin, or another proxy,
can reach any route with any user's signature. So the companion signs once more, with a key that only it and we know.
"""

from __future__ import annotations

import hashlib
import hmac

from starlette.datastructures import Headers

TIME_HEADER = "x-semantic-search-time"
PROOF_HEADER = "x-semantic-search-proof"

# Seconds that clocks and queues may differ; after it an overheard request is worth nothing.
MAX_AGE_S = 30


def proof(key: bytes, *, method: str, path: str, user: str, moment: int, body: bytes) -> str:
    """HMAC-SHA256, in hex, over method, path, user, time (seconds since the epoch) and body."""
    digest = hashlib.sha256(body).hexdigest()
    message = "\n".join((method, path, user, str(moment), digest))
    return hmac.new(key, message.encode(), hashlib.sha256).hexdigest()


def is_proven(key: bytes, headers: Headers, *, method: str, path: str, user: str, body: bytes, now: float) -> bool:
    """Whether the headers prove, in constant time, that the holder of the key asked exactly this for this user now."""
    moment = headers.get(TIME_HEADER, "")
    if not (moment.isascii() and moment.isdigit() and len(moment) <= 12) or abs(now - int(moment)) > MAX_AGE_S:
        return False
    expected = proof(key, method=method, path=path, user=user, moment=int(moment), body=body)
    return hmac.compare_digest(expected.encode(), headers.get(PROOF_HEADER, "").encode())

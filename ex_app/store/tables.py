# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The registry's tables as they are now. A change here needs a migration in `migrations/versions/`.

Times are seconds since the epoch, as floats where order within a second matters.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    Table,
    Text,
    false,
    true,
)

metadata = MetaData()

# Facts about this registry: the instance it belongs to, the reach epoch, settings.
meta = Table(
    "meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

# What we know of each document. `live` names the generation of points that search may use; 0 means none.
documents = Table(
    "documents",
    metadata,
    Column("source", Text, primary_key=True),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("version", Text, nullable=False, server_default=""),
    Column("listed", Text, nullable=False, server_default=""),
    Column("settled", Boolean, nullable=False, server_default=false()),
    Column("status", Text, nullable=False, server_default="current"),
    Column("live", BigInteger, nullable=False, server_default="0"),
    Column("next_generation", BigInteger, nullable=False, server_default="0"),
    Column("parent", Text, nullable=False, server_default=""),
    Column("scopes", JSON, nullable=False, server_default="[]"),
    Column("title", Text, nullable=False, server_default=""),
    Column("path", Text, nullable=False, server_default=""),
    Column("owner", Text, nullable=False, server_default=""),
    Column("reader", Text, nullable=False, server_default=""),
    Column("mtime", BigInteger, nullable=False, server_default="0"),
    Column("mime", Text, nullable=False, server_default=""),
    Column("size", BigInteger, nullable=False, server_default="0"),
    Column("content_hash", Text, nullable=False, server_default=""),
    Column("chunks", Integer, nullable=False, server_default="0"),
    Column("truncated", Boolean, nullable=False, server_default=false()),
    Column("reason", Text),
    Column("failed_version", Text, nullable=False, server_default=""),
    Column("indexed_at", Float(53)),
    Column("seen_at", Float(53)),
    Index("documents_parent", "source", "parent"),
    # Covers the counts of progress, for everybody and for one owner, without touching the rows.
    Index("documents_owner", "owner", "status", "reason", "live"),
)

# What is to be done, one row a document. `due` is the moment from which a row may be claimed: not before, end of
# backoff, or end of the lease that `token` holds. `turn` makes a lane fair: the n-th row of a reader comes after
# everybody else's (n-1)-th. `reads`: it was asked for not because of its place alone, so that its text is to be
# read whatever its version says. `rearm_*` remembers what was asked for while the row was in work; news: changes
# among it.
work = Table(
    "work",
    metadata,
    Column("source", Text, primary_key=True),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("lane", SmallInteger, nullable=False),
    Column("turn", BigInteger, nullable=False),
    Column("reader", Text, nullable=False),
    Column("reads", Boolean, nullable=False, server_default=true()),
    Column("due", Float(53), nullable=False),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("token", Text),
    Column("rearm_lane", SmallInteger),
    Column("rearm_at", Float(53)),
    Column("rearm_news", Boolean, nullable=False, server_default=false()),
    Column("last_error", Text, nullable=False, server_default=""),
    Column("failed_at", Float(53)),
    Column("quarantined", Text),
    Column("enqueued_at", Float(53), nullable=False),
)
_claimable = work.c.quarantined.is_(None)
Index(
    "work_queue",
    work.c.lane,
    work.c.turn,
    work.c.due,
    sqlite_where=_claimable,
    postgresql_where=_claimable,
)
Index("work_reader", work.c.lane, work.c.reader, work.c.turn)
Index(
    "work_token",
    work.c.token,
    unique=True,
    sqlite_where=work.c.token.is_not(None),
    postgresql_where=work.c.token.is_not(None),
)
Index(
    "work_failed",
    work.c.failed_at,
    sqlite_where=work.c.failed_at.is_not(None),
    postgresql_where=work.c.failed_at.is_not(None),
)

# How far each lane's turns have been served; newcomers start there.
lanes = Table(
    "lanes",
    metadata,
    Column("lane", SmallInteger, primary_key=True, autoincrement=False),
    Column("turn", BigInteger, nullable=False),
)

# Folders and boards as a walker saw them last; equal ETags need no listing.
containers = Table(
    "containers",
    metadata,
    Column("source", Text, primary_key=True),
    Column("walker", Text, primary_key=True),
    Column("scope", Text, primary_key=True),
    Column("etag", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("ancestors", JSON, nullable=False),
)

# What told, at the last walk, whether anything of a user's changed.
pulses = Table(
    "pulses",
    metadata,
    Column("source", Text, primary_key=True),
    Column("user", Text, primary_key=True),
    Column("pulse", Text, nullable=False),
    Column("walked_at", Float(53), nullable=False),
)

# Who wants what lies in his own storage left out, and since when; returned: he took it back and no sweep knows yet.
opted_out = Table(
    "opted_out",
    metadata,
    Column("user", Text, primary_key=True),
    Column("since", Float(53), nullable=False),
    Column("returned", Boolean, nullable=False, server_default=false()),
)

# Whose content is to be looked at before the next sweep comes to it; asked: how often, so that a wish that comes during
# the walk outlives it; due: the moment from which it may be walked.
walk_wishes = Table(
    "walk_wishes",
    metadata,
    Column("user", Text, primary_key=True),
    Column("asked", BigInteger, nullable=False),
    Column("due", Float(53), nullable=False),
)

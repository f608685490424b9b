# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The first tables of the registry."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_facts()
    _create_documents()
    _create_work()
    _create_walks()


def downgrade() -> None:
    for table in ("pulses", "containers", "lanes", "work", "documents", "meta"):
        op.drop_table(table)


def _create_facts() -> None:
    op.create_table(
        "meta",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    lanes = op.create_table(
        "lanes",
        sa.Column("lane", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("turn", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(lanes, [{"lane": lane, "turn": 0} for lane in range(4)])


def _create_documents() -> None:
    op.create_table(
        "documents",
        sa.Column("source", sa.Text, primary_key=True),
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("version", sa.Text, nullable=False, server_default=""),
        sa.Column("listed", sa.Text, nullable=False, server_default=""),
        sa.Column("settled", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("status", sa.Text, nullable=False, server_default="current"),
        sa.Column("live", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("next_generation", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("parent", sa.Text, nullable=False, server_default=""),
        sa.Column("scopes", sa.JSON, nullable=False, server_default="[]"),
        sa.Column("title", sa.Text, nullable=False, server_default=""),
        sa.Column("path", sa.Text, nullable=False, server_default=""),
        sa.Column("owner", sa.Text, nullable=False, server_default=""),
        sa.Column("reader", sa.Text, nullable=False, server_default=""),
        sa.Column("mtime", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("mime", sa.Text, nullable=False, server_default=""),
        sa.Column("size", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("content_hash", sa.Text, nullable=False, server_default=""),
        sa.Column("chunks", sa.Integer, nullable=False, server_default="0"),
        sa.Column("truncated", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("reason", sa.Text),
        sa.Column("failed_version", sa.Text, nullable=False, server_default=""),
        sa.Column("indexed_at", sa.Float(53)),
        sa.Column("seen_at", sa.Float(53)),
    )
    op.create_index("documents_parent", "documents", ["source", "parent"])
    op.create_index("documents_owner", "documents", ["owner", "status", "reason", "live"])


def _create_work() -> None:
    op.create_table(
        "work",
        sa.Column("source", sa.Text, primary_key=True),
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("lane", sa.SmallInteger, nullable=False),
        sa.Column("turn", sa.BigInteger, nullable=False),
        sa.Column("reader", sa.Text, nullable=False),
        sa.Column("due", sa.Float(53), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("token", sa.Text),
        sa.Column("rearm_lane", sa.SmallInteger),
        sa.Column("rearm_at", sa.Float(53)),
        sa.Column("rearm_news", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("last_error", sa.Text, nullable=False, server_default=""),
        sa.Column("failed_at", sa.Float(53)),
        sa.Column("quarantined", sa.Text),
        sa.Column("enqueued_at", sa.Float(53), nullable=False),
    )
    op.create_index("work_reader", "work", ["lane", "reader", "turn"])
    _create_partial_index("work_queue", ["lane", "turn", "due"], "quarantined IS NULL")
    _create_partial_index("work_token", ["token"], "token IS NOT NULL", unique=True)
    _create_partial_index("work_failed", ["failed_at"], "failed_at IS NOT NULL")


def _create_walks() -> None:
    op.create_table(
        "containers",
        sa.Column("source", sa.Text, primary_key=True),
        sa.Column("walker", sa.Text, primary_key=True),
        sa.Column("scope", sa.Text, primary_key=True),
        sa.Column("etag", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("ancestors", sa.JSON, nullable=False),
    )
    op.create_table(
        "pulses",
        sa.Column("source", sa.Text, primary_key=True),
        sa.Column("user", sa.Text, primary_key=True),
        sa.Column("pulse", sa.Text, nullable=False),
        sa.Column("walked_at", sa.Float(53), nullable=False),
    )


def _create_partial_index(name: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    op.create_index(name, "work", columns, unique=unique, sqlite_where=sa.text(where), postgresql_where=sa.text(where))

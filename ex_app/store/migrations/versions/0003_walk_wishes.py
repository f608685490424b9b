# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Whose content is to be looked at before the next sweep comes to it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "walk_wishes",
        sa.Column("user", sa.Text, primary_key=True),
        sa.Column("asked", sa.BigInteger, nullable=False),
        sa.Column("due", sa.Float(53), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("walk_wishes")

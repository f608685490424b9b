# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What `make bench-access` measures: the cost of a search, what it shows after a change, and whom it keeps waiting."""

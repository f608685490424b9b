# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""A small stand-in Nextcloud, in memory, for the demo and the tests: same answers, same bad habits, no PHP."""

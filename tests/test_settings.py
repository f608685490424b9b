# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What the app refuses to start with."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from ex_app.settings import Settings


def test_an_empty_secret_is_refused_as_anybody_could_sign_with_it() -> None:
    with pytest.raises(ValidationError, match="at least 1"):
        Settings(app_secret="")

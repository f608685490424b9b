# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""PUT /api/me through AppAPI's proxy: what a browser may be made to send does not arrive."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.hands import ALICE, Hand
from tests.contract.probe import probing

_ME = "api/me"
_WISH = {"indexed": False}


@pytest.fixture(scope="module")
def heard(hand: Hand) -> Iterator[list[dict[str, Any]]]:
    """Given: an ExApp whose manifest lets users GET and PUT /api/me."""
    calls: list[dict[str, Any]] = []
    with probing(hand.app.port, calls) as address:
        hand.adopt(address)
        yield calls


def test_a_wish_arrives_with_its_method_body_and_type(hand: Hand, heard: list[dict[str, Any]]) -> None:
    heard.clear()
    answer = hand.proxied(ALICE, "PUT", _ME, json=_WISH)
    assert answer.status_code == 200
    (arrived,) = heard
    assert (arrived["method"], arrived["path"], arrived["query"]) == ("PUT", "/api/me", "")
    assert (arrived["body"], arrived["headers"]["content-type"]) == ('{"indexed":false}', "application/json")
    assert base64.b64decode(arrived["headers"]["authorization-app-api"]).decode().partition(":")[0] == ALICE
    assert answer.json() == arrived


def test_another_type_is_not_taken_for_json(hand: Hand, heard: list[dict[str, Any]]) -> None:
    """Our door refuses what does not say that it is JSON: so the type must come through as it was sent."""
    for kind in ("text/plain", "application/json; charset=utf-8"):
        heard.clear()
        hand.proxied(ALICE, "PUT", _ME, content=b'{"indexed":false}', headers={"Content-Type": kind})
        assert [call["headers"]["content-type"] for call in heard] == [kind]


@pytest.mark.parametrize(
    "form",
    [
        {"data": _WISH},
        {"files": {"indexed": b"false"}},
        {"content": b'{"indexed":false}', "headers": {"Content-Type": "text/plain"}},
        {"data": _WISH | {"_method": "PUT"}, "headers": {"X-HTTP-Method-Override": "PUT"}},
    ],
    ids=["form", "upload", "text", "override"],
)
def test_a_form_of_another_site_does_not_arrive(hand: Hand, heard: list[dict[str, Any]], form: dict[str, Any]) -> None:
    heard.clear()
    assert hand.proxied(ALICE, "POST", _ME, **form).status_code == 404
    assert heard == []


def test_a_browser_that_asks_before_a_put_from_another_site_is_refused(hand: Hand, heard: list[dict[str, Any]]) -> None:
    heard.clear()
    asking = {
        "Origin": "https://elsewhere.example",
        "Access-Control-Request-Method": "PUT",
        "Access-Control-Request-Headers": "content-type",
    }
    answer = hand.proxied(ALICE, "OPTIONS", _ME, headers=asking)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.lower().startswith("access-control-")]
    assert heard == []


def test_strangers_wish_for_nothing(hand: Hand, heard: list[dict[str, Any]]) -> None:
    heard.clear()
    for method in ("GET", "PUT"):
        assert hand.proxied(None, method, _ME, json=_WISH).status_code == 404
    assert heard == []

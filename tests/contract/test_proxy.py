# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""AppAPI's proxy and the page in which Nextcloud embeds an ExApp."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.contract.hands import ALICE, Hand
from tests.contract.probe import probing

_UI = "/ocs/v1.php/apps/app_api/api/v1/ui"


@pytest.fixture(scope="module", autouse=True)
def probe(hand: Hand) -> Iterator[None]:
    """Given: an ExApp that repeats what it was asked."""
    with probing(hand.app.port) as address:
        hand.adopt(address)
        yield


def _arrived(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text[:200]
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("path", ["echo/here", "/echo/here"])
def test_an_anchored_route_fits_a_path_with_and_without_a_slash_before_it(hand: Hand, path: str) -> None:
    assert _arrived(hand.proxied(ALICE, "GET", path))["path"] == "/echo/here"


@pytest.mark.parametrize("path", ["echo/here/more", "more/echo/here", "echo/%2e%2e/echo/here", "echo", "init"])
def test_nothing_else_gets_through_an_anchored_route(hand: Hand, path: str) -> None:
    assert hand.proxied(ALICE, "GET", path).status_code == 404


def test_a_verb_that_the_manifest_lacks_is_not_found(hand: Hand) -> None:
    assert hand.proxied(ALICE, "POST", "echo/here").status_code == 404
    assert [_arrived(hand.proxied(ALICE, verb, "tool"))["method"] for verb in ("GET", "POST", "DELETE")] == [
        "GET",
        "POST",
        "DELETE",
    ]


def test_a_careless_route_lets_dots_lead_elsewhere(hand: Hand) -> None:
    """Why the guard knows exact paths only: what arrives is signed, wherever it leads."""
    arrived = _arrived(hand.proxied(ALICE, "POST", "careless/%2e%2e/hook"))
    assert arrived["path"] == "/hook"
    assert _signer(arrived) == ALICE
    assert arrived["headers"]["x-origin-ip"]


def test_strangers_find_nothing(hand: Hand) -> None:
    answer = hand.proxied(None, "GET", "echo/here")
    assert (answer.status_code, "www-authenticate" in answer.headers) == (404, False)
    assert answer.headers["content-type"].startswith("text/html")


def test_a_request_arrives_signed_for_its_sender_and_without_his_password(hand: Hand) -> None:
    forged = {
        "AUTHORIZATION-APP-API": base64.b64encode(b"admin:guess").decode(),
        "X-Origin-IP": "9.9.9.9",
        "Cookie": "a=b",
        "X-Mine": "kept",
    }
    arrived = _arrived(hand.proxied(ALICE, "GET", "echo/here", headers=forged))["headers"]
    assert _signer({"headers": arrived}) == ALICE
    assert arrived["ex-app-id"] == hand.app.id
    assert arrived["x-origin-ip"] not in ("", "9.9.9.9")
    assert "authorization" not in arrived
    assert arrived["cookie"] == "a=b"  # excluded like the password, and passed on all the same
    assert arrived["x-mine"] == "kept"


def test_of_a_repeated_parameter_the_last_one_arrives(hand: Hand) -> None:
    arrived = _arrived(hand.proxied(ALICE, "GET", "echo/here?kind=note&kind=file&q=a%20b%2Bc&empty="))
    assert arrived["query"] == "kind=file&q=a+b%2Bc&empty="


def test_a_body_and_its_type_arrive(hand: Hand) -> None:
    arrived = _arrived(hand.proxied(ALICE, "POST", "tool", json={"method": "tools/list"}))
    assert arrived["body"] == '{"method":"tools/list"}'
    assert arrived["headers"]["content-type"] == "application/json"


def test_an_answer_comes_back_with_its_type_and_without_being_cached(hand: Hand) -> None:
    for path, kind in (("ui/search.js", "text/javascript"), ("ui/search.css", "text/css")):
        answer = hand.proxied(ALICE, "GET", path)
        assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, kind)
        assert answer.headers["cache-control"] == "no-store"


def test_the_embedded_page_loads_what_the_exapp_announced(hand: Hand) -> None:
    """Registering again replaces, and the proxy serves the script and the style."""
    for _ in range(2):
        _announce(hand, "top-menu", name="search", displayName="Contract probe", icon="img/app.svg", adminRequired="0")
        _announce(hand, "script", type="top_menu", name="search", path="ui/search", afterAppId="")
        _announce(hand, "style", type="top_menu", name="search", path="ui/search")
    page = hand.ask(ALICE, "GET", f"/index.php/apps/app_api/embedded/{hand.app.id}/search")
    assert page.status_code == 200
    tags = [tag for tag in re.findall(r"<(?:script|link)[^>]*>", page.text) if f"/proxy/{hand.app.id}/" in tag]
    found = [re.sub(r".*(?:src|href)=\"([^\"]*)\".*", r"\1", tag, flags=re.DOTALL) for tag in tags]
    names = [address.partition("?")[0].rpartition("/proxy/")[2] for address in found]
    assert sorted(names) == [f"{hand.app.id}/ui/search.css", f"{hand.app.id}/ui/search.js"]
    for address in found:
        assert hand.ask(ALICE, "GET", address).status_code == 200
    assert hand.ask(ALICE, "GET", f"/index.php/apps/app_api/embedded/{hand.app.id}/other").status_code == 404


def _announce(hand: Hand, kind: str, **what: str) -> None:
    answer = hand.ask_signed("", "POST", f"{_UI}/{kind}", json=what, headers={"Accept": "application/json"})
    assert answer.json()["ocs"]["meta"]["statuscode"] == 100, answer.text


def _signer(arrived: dict[str, Any]) -> str:
    return base64.b64decode(arrived["headers"]["authorization-app-api"]).decode().partition(":")[0]

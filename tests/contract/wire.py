# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""WebDAV spelt out, without the help of the code that relies on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import httpx

from tests.contract.hands import Hand

XML = {"Content-Type": "text/xml; charset=utf-8"}
NAMESPACES = {
    "d": "DAV:",
    "oc": "http://owncloud.org/ns",
    "nc": "http://nextcloud.org/ns",
    "cal": "urn:ietf:params:xml:ns:caldav",
}
_XMLNS = " ".join(f'xmlns:{prefix}="{uri}"' for prefix, uri in NAMESPACES.items())


@dataclass(frozen=True, slots=True)
class Row:
    """One response: the href as sent, and what was found with status 200."""

    href: str
    found: Mapping[str, str]  # by prefixed name; of a property with elements in it their text


def rows(answer: httpx.Response) -> list[Row]:
    """A multistatus, in its order."""
    assert answer.status_code == 207, f"{answer.status_code} {answer.text[:500]}"
    return [_row(element) for element in ElementTree.fromstring(answer.content).iterfind("d:response", NAMESPACES)]


def hrefs(answer: httpx.Response) -> list[str]:
    """The hrefs of a multistatus, sorted."""
    return sorted(row.href for row in rows(answer))


def propfind(hand: Hand, user: str, path: str, *names: str, depth: int = 0, kind: str = "files") -> httpx.Response:
    """Properties below /remote.php/dav/{kind}/{user}/, asked by the ExApp for the user."""
    body = f"<d:propfind {_XMLNS}><d:prop>{_tags(names)}</d:prop></d:propfind>"
    headers = {**XML, "Depth": str(depth)}
    url = f"/remote.php/dav/{kind}/{quote(user, safe='')}/{quote(path)}"
    return hand.ask_signed(user, "PROPFIND", url, content=body, headers=headers)


def search(hand: Hand, user: str, where: str, *names: str) -> httpx.Response:
    """A SEARCH through all of the user's files."""
    body = (
        f"<d:searchrequest {_XMLNS}><d:basicsearch><d:select><d:prop>{_tags(names)}</d:prop></d:select><d:from>"
        f"<d:scope><d:href>{escape(f'/files/{user}')}</d:href><d:depth>infinity</d:depth></d:scope></d:from>"
        f"<d:where>{where}</d:where></d:basicsearch></d:searchrequest>"
    )
    return hand.ask_signed(user, "SEARCH", "/remote.php/dav/", content=body, headers=XML)


def search_ids(hand: Hand, user: str, ids: Iterable[object], *names: str) -> httpx.Response:
    """A SEARCH for any of these file ids."""
    tests = "".join(f"<d:eq><d:prop><oc:fileid/></d:prop><d:literal>{i}</d:literal></d:eq>" for i in ids)
    return search(hand, user, f"<d:or>{tests}</d:or>", *(names or ("oc:fileid",)))


def multiget(hand: Hand, user: str, *paths: str) -> httpx.Response:
    """Calendar objects by path, asked on the calendar home."""
    home = f"/remote.php/dav/calendars/{quote(user, safe='')}/"
    wanted = "".join(f"<d:href>{escape(home + path)}</d:href>" for path in paths)
    asked = "<d:prop><d:getetag/><d:getlastmodified/><cal:calendar-data/></d:prop>"
    body = f"<cal:calendar-multiget {_XMLNS}>{asked}{wanted}</cal:calendar-multiget>"
    return hand.ask_signed(user, "REPORT", home, content=body, headers={**XML, "Depth": "1"})


def _tags(names: Iterable[str]) -> str:
    return "".join(f"<{name}/>" for name in names)


def _row(response: ElementTree.Element) -> Row:
    found: dict[str, str] = {}
    for propstat in response.iterfind("d:propstat", NAMESPACES):
        if " 200 " in f"{propstat.findtext('d:status', '', NAMESPACES)} ":
            found |= {
                _prefixed(prop.tag): "".join(prop.itertext()) for prop in propstat.iterfind("d:prop/*", NAMESPACES)
            }
    return Row(response.findtext("d:href", "", NAMESPACES), found)


def _prefixed(tag: str) -> str:
    uri, _, local = tag[1:].partition("}")
    prefix = next((prefix for prefix, known in NAMESPACES.items() if known == uri), uri)
    return f"{prefix}:{local}"

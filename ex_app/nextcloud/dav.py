# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""WebDAV as Nextcloud speaks it: properties, lookups by file id, folder trees, bytes.

Paths are decoded and relative to the user's files, without a leading slash; the root is "".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import quote, unquote
from xml.etree.ElementTree import Element, ParseError
from xml.sax.saxutils import escape

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from ex_app.domain import NextcloudUnavailable
from ex_app.nextcloud.session import Reply, Session

# Nextcloud counts every operator of a SEARCH; the 101st is a 500.
MAX_IDS = 100

# What Nextcloud answers when a tag was deleted, or is hidden from this user.
_NO_SUCH_TAG = 412

# Characters that XML 1.0 cannot hold, not even written as a reference.
_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_XML = {"Content-Type": "text/xml; charset=utf-8"}
_NAMESPACES = {
    "d": "DAV:",
    "oc": "http://owncloud.org/ns",
    "nc": "http://nextcloud.org/ns",
    "cal": "urn:ietf:params:xml:ns:caldav",
}
_XMLNS = " ".join(f'xmlns:{prefix}="{uri}"' for prefix, uri in _NAMESPACES.items())
_FILE_PROPERTIES = (
    "<oc:fileid/><d:getetag/><oc:size/><d:getlastmodified/><d:getcontenttype/><d:resourcetype/><oc:permissions/>"
    "<oc:owner-id/><nc:mount-type/><nc:is-mount-root/><nc:upload_time/><nc:share-attributes/><oc:checksums/>"
)

# A property that only some ask for: the server looks up what each user may see of it.
TAGS = "<nc:system-tags/>"

# Folders tell it where the app for end-to-end encryption is there: what lies in them is of no use to us.
ENCRYPTED = "<nc:is-encrypted/>"


@dataclass(frozen=True, slots=True)
class Node:
    """A file or folder as one user sees it at one path."""

    path: str
    fileid: int
    etag: str
    size: int  # bytes
    mtime: int  # seconds since the epoch, as clients set it
    upload_time: int  # seconds since the epoch; 0 when it was no DAV upload, and always 0 in a SEARCH
    checksum: str  # as the uploading client gave it; mostly empty
    permissions: str
    mime: str
    is_folder: bool
    owner: str
    mount_type: str  # "" for the user's own storage; "shared", "group", "external", …
    is_mount_root: bool
    downloadable: bool
    tags: tuple[str, ...] = ()  # names of the tags that the user may see, where TAGS was asked for
    encrypted: bool = False  # end to end, where ENCRYPTED was asked for

    @property
    def name(self) -> str:
        """The last part of its path; empty for the root."""
        return self.path.rpartition("/")[2]

    @property
    def readable(self) -> bool:
        """Listed is not readable: the letter G is Nextcloud's read permission."""
        return "G" in self.permissions


@dataclass(frozen=True, slots=True)
class Entry:
    """One response of a multistatus: the decoded href and its properties that were found (status 200)."""

    href: str
    properties: Element

    def text(self, name: str) -> str:
        """A property's text by prefixed name ("d:getetag"); empty when absent."""
        return self.properties.findtext(name, "", _NAMESPACES) or ""

    def texts(self, name: str) -> tuple[str, ...]:
        """The texts of all properties at a path of prefixed names."""
        return tuple(found.text or "" for found in self.properties.iterfind(name, _NAMESPACES))

    def has(self, name: str) -> bool:
        """Whether the property (or a path below it) is present."""
        return self.properties.find(name, _NAMESPACES) is not None


def multistatus(body: bytes) -> list[Entry]:
    """Parse a WebDAV multistatus (RFC 4918) without DTDs and entities; raises NextcloudUnavailable for all else."""
    try:
        root = _parsed(body)
    except (ParseError, DefusedXmlException, ValueError) as error:
        raise NextcloudUnavailable("Nextcloud's answer is not the XML we expect") from error
    if root.tag != "{DAV:}multistatus":
        raise NextcloudUnavailable("Nextcloud's answer is not a multistatus")
    return [_entry(response) for response in root.findall("d:response", _NAMESPACES)]


def _parsed(body: bytes) -> Element:
    """PHP writes whatever people typed; a control character in one tag or card must not silence all others."""
    try:
        root: Element = fromstring(body, forbid_dtd=True)
    except ParseError:
        root = fromstring(_NO_XML.sub("\ufffd", body.decode("utf-8", "replace")), forbid_dtd=True)
    return root


def _entry(response: Element) -> Entry:
    found = Element("prop")
    for propstat in response.findall("d:propstat", _NAMESPACES):
        if " 200" not in (propstat.findtext("d:status", "", _NAMESPACES) or ""):
            continue
        for prop in propstat.findall("d:prop", _NAMESPACES):
            found.extend(list(prop))
    return Entry(unquote(response.findtext("d:href", "", _NAMESPACES) or ""), found)


async def propfind(session: Session, path: str, *, depth: int, more: str = "") -> list[Node]:
    """A node (depth 0) or a folder and what lies directly in it (depth 1, the folder first). more: TAGS, ENCRYPTED."""
    body = f'<?xml version="1.0"?><d:propfind {_XMLNS}><d:prop>{_FILE_PROPERTIES}{more}</d:prop></d:propfind>'
    reply = await session.request(
        "PROPFIND", files_path(session.user, path), content=body, headers={**_XML, "Depth": str(depth)}
    )
    return _nodes(session, reply)


async def search_ids(session: Session, ids: Iterable[int], *, named: str = "", more: str = "") -> list[Node]:
    """Every path at which the user has one of these file ids: one request per 100 ids, the home root excepted.

    named: also all that has this name, unless the ids leave no room for one more operator. more: TAGS, if wanted.
    """
    wanted = sorted(set(ids))
    nodes: list[Node] = []
    for first in range(0, len(wanted), MAX_IDS):
        tests = [_equal("oc:fileid", str(fileid)) for fileid in wanted[first : first + MAX_IDS]]
        if named and len(tests) < MAX_IDS:
            tests.append(_equal("d:displayname", named))
        nodes += await _search(session, f"<d:or>{''.join(tests)}</d:or>", more)
    return nodes


async def search_folders(session: Session, *, named: str = "", more: str = "") -> list[Node]:
    """All folders that the user has, with their ETags, mounted ones included: one request.

    named: also all that has this name. more: TAGS, if wanted.
    """
    folders = "<d:is-collection/>"
    where = f"<d:or>{folders}{_equal('d:displayname', named)}</d:or>" if named else folders
    return await _search(session, where, more)


async def tag_ids(session: Session) -> dict[int, str]:
    """Names of all tags that the user may see, by their ids: one request."""
    body = f'<?xml version="1.0"?><d:propfind {_XMLNS}><d:prop><oc:id/><oc:display-name/></d:prop></d:propfind>'
    reply = await session.request(
        "PROPFIND", "/remote.php/dav/systemtags/", content=body, headers={**_XML, "Depth": "1"}
    )
    return {
        _number(entry.text("oc:id")): entry.text("oc:display-name")
        for entry in multistatus(reply.body)
        if _number(entry.text("oc:id"))
    }


async def tagged(session: Session, tag: int) -> list[Node]:
    """Every file and folder of the user's that carries this tag itself: one request. No tag of that id: none."""
    body = (
        f'<?xml version="1.0"?><oc:filter-files {_XMLNS}><d:prop>{_FILE_PROPERTIES}</d:prop>'
        f"<oc:filter-rules><oc:systemtag>{tag}</oc:systemtag></oc:filter-rules></oc:filter-files>"
    )
    try:
        reply = await session.request("REPORT", files_path(session.user, ""), content=body, headers=_XML)
    except NextcloudUnavailable as error:
        if error.status == _NO_SUCH_TAG:
            return []
        raise
    return _nodes(session, reply)


def _equal(name: str, value: str) -> str:
    return f"<d:eq><d:prop><{name}/></d:prop><d:literal>{escape(value)}</d:literal></d:eq>"


async def _search(session: Session, where: str, more: str) -> list[Node]:
    scope = escape(f"/files/{session.user}")
    body = (
        f'<?xml version="1.0"?><d:searchrequest {_XMLNS}><d:basicsearch>'
        f"<d:select><d:prop>{_FILE_PROPERTIES}{more}</d:prop></d:select>"
        f"<d:from><d:scope><d:href>{scope}</d:href><d:depth>infinity</d:depth></d:scope></d:from>"
        f"<d:where>{where}</d:where></d:basicsearch></d:searchrequest>"
    )
    reply = await session.request("SEARCH", "/remote.php/dav/", content=body, headers=_XML)
    return _nodes(session, reply)


async def instance_id(session: Session) -> str:
    """Which Nextcloud this is, as the tail of any file's global id; empty when the user has no home."""
    body = f'<?xml version="1.0"?><d:propfind {_XMLNS}><d:prop><oc:id/><oc:fileid/></d:prop></d:propfind>'
    reply = await session.request(
        "PROPFIND", files_path(session.user, ""), content=body, headers={**_XML, "Depth": "0"}
    )
    for entry in multistatus(reply.body):
        padded = entry.text("oc:fileid").rjust(8, "0")
        if entry.text("oc:id").startswith(padded):
            return entry.text("oc:id").removeprefix(padded)
    return ""


async def get(session: Session, path: str, *, limit: int) -> Reply:
    """A file's bytes with the headers of that very answer; more than `limit` bytes raises NextcloudUnavailable."""
    return await session.request("GET", files_path(session.user, path), limit=limit)


async def calendars(session: Session) -> tuple[list[Entry], float]:
    """What lies directly in the calendar home, and when by Nextcloud's clock."""
    reply = await _propfind_calendars(session, "", "")
    return multistatus(reply.body), server_time(reply)


async def calendar_objects(session: Session, name: str) -> list[Entry]:
    """A calendar, and the objects in it with their data."""
    return multistatus((await _propfind_calendars(session, f"{name}/", "<cal:calendar-data/>")).body)


async def _propfind_calendars(session: Session, path: str, more: str) -> Reply:
    body = (
        f'<?xml version="1.0"?><d:propfind {_XMLNS}><d:prop><d:displayname/><d:getetag/><d:getlastmodified/>'
        f"{more}</d:prop></d:propfind>"
    )
    return await session.request(
        "PROPFIND", _calendar_path(session.user, path), content=body, headers={**_XML, "Depth": "1"}
    )


async def calendar_multiget(session: Session, paths: Sequence[str]) -> list[Entry]:
    """Calendar objects of several calendars at once (RFC 4791 §7.9); one missing object makes Nextcloud answer 404."""
    hrefs = "".join(f"<d:href>{escape(_calendar_path(session.user, path))}</d:href>" for path in paths)
    body = (
        f'<?xml version="1.0"?><cal:calendar-multiget {_XMLNS}><d:prop><d:getetag/><d:getlastmodified/>'
        f"<cal:calendar-data/></d:prop>{hrefs}</cal:calendar-multiget>"
    )
    reply = await session.request(
        "REPORT", _calendar_path(session.user, ""), content=body, headers={**_XML, "Depth": "1"}
    )
    return multistatus(reply.body)


def files_path(user: str, path: str) -> str:
    """The URL path of a user's file."""
    return f"/remote.php/dav/files/{quote(user, safe='')}/{quote(path)}"


def _calendar_path(user: str, path: str) -> str:
    return f"/remote.php/dav/calendars/{quote(user, safe='')}/{quote(path)}"


def http_time(value: str) -> int:
    """An HTTP date (RFC 9110 §5.6.7) as seconds since the epoch; 0 when it is none."""
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):  # people may set any time, also one that no calendar holds
        return 0
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def server_time(reply: Reply) -> float:
    """When Nextcloud gave this answer, by its own clock; ours when it does not say."""
    return float(http_time(reply.headers.get("Date", ""))) or datetime.now(UTC).timestamp()


def _nodes(session: Session, reply: Reply) -> list[Node]:
    prefix = re.compile(rf"^.*?/remote\.php/dav/files/{re.escape(session.user)}(?:/|$)")
    return [node for entry in multistatus(reply.body) if (node := _node(entry, prefix)) is not None]


def _node(entry: Entry, prefix: re.Pattern[str]) -> Node | None:
    """None for an href outside the user's files or without a file id: nothing to decide about."""
    match = prefix.match(entry.href)
    fileid = _number(entry.text("oc:fileid"))
    if match is None or not fileid:
        return None
    return Node(
        path=entry.href[match.end() :].rstrip("/"),
        fileid=fileid,
        etag=entry.text("d:getetag").strip('"'),
        size=_number(entry.text("oc:size")),
        mtime=http_time(entry.text("d:getlastmodified")),
        upload_time=_number(entry.text("nc:upload_time")),
        checksum=entry.text("oc:checksums/oc:checksum"),
        permissions=entry.text("oc:permissions"),
        mime=entry.text("d:getcontenttype"),
        is_folder=entry.has("d:resourcetype/d:collection"),
        owner=entry.text("oc:owner-id"),
        mount_type=entry.text("nc:mount-type"),
        is_mount_root=entry.text("nc:is-mount-root") == "true",
        downloadable=_downloadable(entry.text("nc:share-attributes")),
        tags=entry.texts("nc:system-tags/nc:system-tag"),
        encrypted=entry.text("nc:is-encrypted") not in ("", "0", "false"),
    )


def _number(text: str) -> int:
    """0 for what is no number, or more than a database holds."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0


def _downloadable(attributes: str) -> bool:
    """View-only shares say so in a JSON property; one that we cannot read is treated as view-only."""
    if not attributes:
        return True
    try:
        rules = json.loads(attributes)
        return not any(
            rule["scope"] == "permissions" and rule["key"] == "download" and not rule.get("value", rule.get("enabled"))
            for rule in rules
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return False

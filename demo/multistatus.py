# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""WebDAV's XML as sabre/dav writes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from email.utils import formatdate
from xml.etree.ElementTree import Element, ParseError
from xml.sax.saxutils import escape

from defusedxml.ElementTree import fromstring
from starlette.responses import Response

D, OC, NC = "{DAV:}", "{http://owncloud.org/ns}", "{http://nextcloud.org/ns}"
CAL = "{urn:ietf:params:xml:ns:caldav}"
_PREFIXES = {
    D: "d",
    "{http://sabredav.org/ns}": "s",
    OC: "oc",
    NC: "nc",
    CAL: "cal",
    "{http://calendarserver.org/ns/}": "cs",
}
_XML = "application/xml; charset=utf-8"
EMPTY = "\0"  # a property that is there and empty

# Inner XML of a property, made only when asked for; None: the node does not have it.
Properties = Mapping[str, Callable[[], str | None]]


class DavError(Exception):
    """Ends a request with sabre's error document."""

    def __init__(self, status: int, kind: str, message: str = "") -> None:
        super().__init__(message)
        self.response = error(status, kind, message)


def error(status: int, kind: str, message: str = "") -> Response:
    """Sabre's error document; kind is the PHP exception class."""
    kind = (
        kind if "\\" in kind or kind in ("TypeError", "InvalidArgumentException") else f"Sabre\\DAV\\Exception\\{kind}"
    )
    said = f"<s:message>{escape(message)}</s:message>" if message else "<s:message/>"
    body = (
        '<?xml version="1.0" encoding="utf-8"?>\n<d:error xmlns:d="DAV:" xmlns:s="http://sabredav.org/ns">\n'
        f"  <s:exception>{kind}</s:exception>\n  {said}\n</d:error>\n"
    )
    headers = {"WWW-Authenticate": 'Basic realm="Nextcloud", charset="UTF-8"'} if status == 401 else {}
    return Response(body, status, headers, media_type=_XML)


def parse(body: bytes) -> Element:
    """The request's XML; nonsense answers 400."""
    try:
        root: Element = fromstring(body)
    except ParseError as problem:
        raise DavError(400, "BadRequest", str(problem)) from problem
    return root


def wanted(root: Element | None) -> list[str]:
    """Names of the properties asked for, "{namespace}name"; empty: those of allprop."""
    prop = root.find(f"{D}prop") if root is not None else None
    return [child.tag for child in prop] if prop is not None else []


def encode(path: str) -> str:
    """Sabre's percent-encoding: lower-case digits, parentheses left alone."""
    quoted = (f"%{byte:02x}" for byte in path.encode())
    return "".join(
        chr(byte) if re.match(rb"[A-Za-z0-9_\-.~()/]", bytes([byte])) else code
        for byte, code in zip(path.encode(), quoted, strict=True)
    )


def text(value: object) -> Callable[[], str]:
    """A property holding plain text."""
    return lambda: escape(str(value), {'"': "&quot;"})


def date(seconds: int) -> str:
    """RFC 1123, as in getlastmodified and Last-Modified."""
    return formatdate(seconds, usegmt=True)


def response(href: str, names: Iterable[str], properties: Properties) -> str:
    """One <d:response>: what the node has with 200, the rest with 404."""
    found: list[str] = []
    missing: list[str] = []
    for name in names:
        value = properties[name]() if name in properties else None
        (missing if value is None else found).append(_tag(name, value))
    stats = [(found, "200 OK")] if found else []
    stats += [(missing, "404 Not Found")] if missing else []
    parts = (
        f"<d:propstat><d:prop>{''.join(tags)}</d:prop><d:status>HTTP/1.1 {status}</d:status></d:propstat>"
        for tags, status in stats
    )
    return f"<d:response><d:href>{encode(href)}</d:href>{''.join(parts)}</d:response>"


def multistatus(responses: Iterable[str], *, media_type: str = _XML) -> Response:
    """The 207 answer."""
    names = "".join(f' xmlns:{prefix}="{space[1:-1]}"' for space, prefix in _PREFIXES.items())
    inner = "".join(responses)
    body = f'<?xml version="1.0"?>\n<d:multistatus{names}>{inner}</d:multistatus>\n'
    return Response(body.replace("></d:multistatus>", "/>") if not inner else body, 207, media_type=media_type)


def _tag(name: str, value: str | None) -> str:
    space, _, local = name.rpartition("}")
    prefix = _PREFIXES.get(space + "}")
    opening = f"{prefix}:{local}" if prefix else f'x1:{local} xmlns:x1="{escape(space[1:])}"'
    closing = opening.split(" ", maxsplit=1)[0]
    # Sabre writes an empty element short only when it was given no value at all.
    return f"<{opening}/>" if value is None or value == EMPTY else f"<{opening}>{value}</{closing}>"

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What kind of document some bytes are: by their content, then by name and media type."""

from __future__ import annotations

import io
import re
import zipfile
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final

from ex_app.domain import Reason, Unindexable


class Kind(StrEnum):
    """What we can read."""

    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"
    MAIL = "mail"
    PDF = "pdf"
    RTF = "rtf"
    DOCX = "docx"
    XLSX = "xlsx"
    PPTX = "pptx"
    ODT = "odt"
    ODS = "ods"
    ODP = "odp"
    EPUB = "epub"
    DOC = "doc"
    XLS = "xls"
    PPT = "ppt"


_BY_SUFFIX: Final = {
    **{kind.value: kind for kind in Kind if kind not in {Kind.TEXT, Kind.MARKDOWN, Kind.MAIL}},
    **dict.fromkeys(("md", "markdown", "mdown", "mkd"), Kind.MARKDOWN),
    **dict.fromkeys(("htm", "xhtml"), Kind.HTML),
    "eml": Kind.MAIL,
    "docm": Kind.DOCX,
    "dotx": Kind.DOCX,
    "xlsm": Kind.XLSX,
    "pptm": Kind.PPTX,
    "ppsx": Kind.PPTX,
}

_BY_MIME: Final = {
    "text/markdown": Kind.MARKDOWN,
    "text/html": Kind.HTML,
    "application/xhtml+xml": Kind.HTML,
    "message/rfc822": Kind.MAIL,
    "application/pdf": Kind.PDF,
    "application/rtf": Kind.RTF,
    "text/rtf": Kind.RTF,
    "application/msword": Kind.DOC,
    "application/vnd.ms-excel": Kind.XLS,
    "application/vnd.ms-powerpoint": Kind.PPT,
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": Kind.DOCX,
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": Kind.XLSX,
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": Kind.PPTX,
    "application/vnd.oasis.opendocument.text": Kind.ODT,
    "application/vnd.oasis.opendocument.spreadsheet": Kind.ODS,
    "application/vnd.oasis.opendocument.presentation": Kind.ODP,
    "application/epub+zip": Kind.EPUB,
}

# Where OpenDocument says that a password is needed.
_MANIFEST: Final = "META-INF/manifest.xml"

# What a zip's member says about the package.
_BY_MEMBER: Final = {"word/document.xml": Kind.DOCX, "xl/workbook.xml": Kind.XLSX, "ppt/presentation.xml": Kind.PPTX}

# Media types of things that may be written as text (SVG) but are not read as such.
_NO_DOCUMENTS: Final = ("image/", "audio/", "video/", "font/")

# Kinds that are text all through, so that only name and media type tell them apart.
_TEXTUAL: Final = {Kind.TEXT, Kind.MARKDOWN, Kind.HTML, Kind.MAIL}

_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BINARY_SIGNATURES: Final = (
    b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"OggS", b"ID3", b"fLaC", b"\x1f\x8b", b"BZh", b"\xfd7zXZ",
    b"7z\xbc\xaf", b"Rar!", b"\x7fELF", b"MZ", b"SQLite format 3", b"\x00\x00\x01\x00", b"II*\x00", b"MM\x00*", b"8BPS",
    b"\xca\xfe\xba\xbe", b"\x28\xb5\x2f\xfd", b"wOFF", b"OTTO", b"\x1aE\xdf\xa3",
)  # fmt: skip
_SNIFFED: Final = 4096  # bytes
_HTML_START: Final = re.compile(rb"(?is)\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<(!doctype\s+html|html[\s>])")


def detect(body: bytes, *, name: str, mime: str) -> Kind:
    """The kind of document; raises Unindexable for nothing, for what we cannot read, for what is not what it says."""
    if not body or body.isspace():
        raise Unindexable(Reason.NO_TEXT, "empty")
    claimed = _claimed(name, mime)
    found = _by_content(body, claimed)
    if found is not None:
        return found
    if mime.startswith(_NO_DOCUMENTS):
        raise Unindexable(Reason.UNSUPPORTED, "a picture, sound or font")
    if claimed not in _TEXTUAL:
        raise Unindexable(Reason.CORRUPT, f"not a {claimed} document inside")
    return claimed


def _claimed(name: str, mime: str) -> Kind:
    suffix = PurePosixPath(name).suffix.lstrip(".").lower()
    return _BY_SUFFIX.get(suffix) or _BY_MIME.get(mime.partition(";")[0].strip().lower()) or Kind.TEXT


def _by_content(body: bytes, claimed: Kind) -> Kind | None:
    """The kind that the bytes themselves prove, or None for plain text of some sort."""
    head = body[:_SNIFFED]
    if b"%PDF-" in head[:1024]:
        return Kind.PDF
    if head.startswith(b"{\\rtf"):
        return Kind.RTF
    if head.startswith(b"PK\x03\x04"):
        return _in_zip(body, claimed)
    if head.startswith(_OLE):
        return _in_ole(body, claimed)
    if claimed is Kind.TEXT and _HTML_START.match(head):
        return Kind.HTML
    if claimed in _TEXTUAL and not _looks_textual(head):
        raise Unindexable(Reason.UNSUPPORTED, "not text, and no document that we know")
    return None


def _in_zip(body: bytes, claimed: Kind) -> Kind:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            names = set(archive.namelist())
            stated = archive.read("mimetype")[:100].decode("ascii", "replace").strip() if "mimetype" in names else ""
            manifest = archive.read(_MANIFEST) if _MANIFEST in names else b""
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError) as error:
        raise Unindexable(_blame(claimed), "a broken zip archive") from error
    if b"encryption-data" in manifest:
        raise Unindexable(Reason.ENCRYPTED)
    kind = next((kind for member, kind in _BY_MEMBER.items() if member in names), _BY_MIME.get(stated))
    if kind is None:
        raise Unindexable(_blame(claimed), "a zip archive, not a document")
    return kind


def _in_ole(body: bytes, claimed: Kind) -> Kind:
    """Old Office files, and new ones with a password."""
    if "EncryptedPackage".encode("utf-16-le") in body:
        raise Unindexable(Reason.ENCRYPTED)
    for stream, kind in (("WordDocument", Kind.DOC), ("PowerPoint Document", Kind.PPT), ("Workbook", Kind.XLS)):
        if stream.encode("utf-16-le") in body:
            return kind
    raise Unindexable(_blame(claimed), "an OLE container, not a document")


def _blame(claimed: Kind) -> Reason:
    """Corrupt if it says that it is a document, else merely nothing for us."""
    return Reason.UNSUPPORTED if claimed in _TEXTUAL else Reason.CORRUPT


def _looks_textual(head: bytes) -> bool:
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        return True
    if head.startswith(_BINARY_SIGNATURES):
        return False
    control = sum(byte < 0x20 and byte not in b"\t\n\r\x0b\x0c\x1b" for byte in head)
    return control <= len(head) // 200

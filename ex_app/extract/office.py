# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Office documents and books: kreuzberg where it reads well, the package's own XML where it loses text."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote
from xml.etree.ElementTree import Element

import kreuzberg
from defusedxml.ElementTree import fromstring

from ex_app.domain import Reason, Unindexable
from ex_app.extract.blocks import Block
from ex_app.extract.detect import Kind
from ex_app.extract.plain import html_blocks

_MIME: Final = {
    Kind.DOCX: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    Kind.XLSX: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    Kind.ODT: "application/vnd.oasis.opendocument.text",
    Kind.RTF: "application/rtf",
    Kind.DOC: "application/msword",
    Kind.XLS: "application/vnd.ms-excel",
    Kind.PPT: "application/vnd.ms-powerpoint",
}

# Of one member, unpacked; more is no document but an attack.
_MAX_MEMBER: Final = 128 * 1024 * 1024

_SLIDE: Final = re.compile(r"ppt/slides/slide(\d+)\.xml")

_A: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P: Final = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_RELATIONSHIP: Final = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"
_DRAW: Final = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_TABLE: Final = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_TEXT: Final = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"


def office_blocks(body: bytes, kind: Kind) -> Iterator[Block]:
    """Word processing and spreadsheets, headings and sheet names kept."""
    if kind is Kind.DOCX:
        body = _with_tabs(body)
    config = kreuzberg.ExtractionConfig(use_cache=False, include_document_structure=True)
    try:
        result = kreuzberg.extract_bytes_sync(body, _MIME[kind], config)
    except kreuzberg.KreuzbergError as error:
        encrypted = any(word in str(error).lower() for word in ("password", "encrypt"))
        raise Unindexable(Reason.ENCRYPTED if encrypted else Reason.CORRUPT) from error
    nodes = result.document["nodes"] if result.document else []
    blocks = [block for block in map(_from_node, nodes) if block is not None]
    yield from blocks or [Block(result.content)]


def _from_node(node: Mapping[str, Any]) -> Block | None:
    content = node["content"]
    match content["node_type"]:
        case "heading" | "title":
            return Block(content["text"], level=int(content.get("level") or 1))
        case "table":
            return Block(_table(content["grid"]))
        case "metadata_block" | "group":
            return None
        case _:
            text = content.get("text") or content.get("description")
            return Block(text) if text else None


def _table(grid: Mapping[str, Any]) -> str:
    rows: dict[int, list[str]] = {}
    for cell in grid["cells"]:
        rows.setdefault(cell["row"], []).append(" ".join(cell["content"].split()))
    return "\n".join(_row(cells) for _, cells in sorted(rows.items()))


def _row(cells: list[str]) -> str:
    return " | ".join(cells).strip(" |")


def _with_tabs(body: bytes) -> bytes:
    """kreuzberg drops tabs between words and so glues them together: make them spaces first."""
    rewritten = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(body)) as source, zipfile.ZipFile(rewritten, "w") as target:
        for member in source.infolist():
            content = _read(source, member.filename)
            if member.filename == "word/document.xml":
                content = content.replace(b"<w:tab/>", b'<w:t xml:space="preserve"> </w:t>')
            target.writestr(member.filename, content)
    return rewritten.getvalue()


def pptx_blocks(body: bytes) -> Iterator[Block]:
    """Slides in order as pages, titles as headings, speaker notes after each."""
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        for page, member in enumerate(_slides(archive), 1):
            slide = fromstring(_read(archive, member))
            for shape in slide.iter(f"{_P}sp"):
                kind = shape.find(f".//{_P}nvPr/{_P}ph")
                is_title = kind is not None and kind.get("type") in {"title", "ctrTitle"}
                yield Block(_paragraphs(shape), level=1 if is_title else 0, page=page)
            for row_holder in slide.iter(f"{_A}tbl"):
                rows = [_row([_flat(cell) for cell in row.iter(f"{_A}tc")]) for row in row_holder.iter(f"{_A}tr")]
                yield Block("\n".join(rows), page=page)
            yield from (Block(_paragraphs(notes), page=page) for notes in _notes(archive, member))


def _slides(archive: zipfile.ZipFile) -> list[str]:
    """Slide members in the order in which they are shown."""
    targets = _relationships(archive, "ppt/presentation.xml")
    presentation = fromstring(_read(archive, "ppt/presentation.xml"))
    shown = [targets.get(slide.get(f"{_R}id", ""), "") for slide in presentation.iter(f"{_P}sldId")]
    return [member for member in shown if _SLIDE.fullmatch(member)]


def _notes(archive: zipfile.ZipFile, slide: str) -> Iterator[Element]:
    for member in _relationships(archive, slide).values():
        if member.startswith("ppt/notesSlides/"):
            for shape in fromstring(_read(archive, member)).iter(f"{_P}sp"):
                kind = shape.find(f".//{_P}nvPr/{_P}ph")
                if kind is not None and kind.get("type") == "body":
                    yield shape


def _relationships(archive: zipfile.ZipFile, member: str) -> dict[str, str]:
    folder, name = posixpath.split(member)
    path = f"{folder}/_rels/{name}.rels"
    if path not in archive.namelist():
        return {}
    return {
        one.get("Id", ""): posixpath.normpath(posixpath.join(folder, one.get("Target", ""))).lstrip("/")
        for one in fromstring(_read(archive, path)).iter(_RELATIONSHIP)
    }


def _paragraphs(shape: Element) -> str:
    return "\n".join(_flat(paragraph) for paragraph in shape.iter(f"{_A}p"))


def _flat(element: Element) -> str:
    return " ".join("".join(" " if part.tag == f"{_A}br" else part.text or "" for part in element.iter()).split())


def ods_blocks(body: bytes) -> Iterator[Block]:
    """Sheets: the name as heading, a row a line."""
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        content = fromstring(_read(archive, "content.xml"))
    for sheet in content.iter(f"{_TABLE}table"):
        yield Block(sheet.get(f"{_TABLE}name", ""), level=1)
        rows = ([_text(cell) for cell in row.iter(f"{_TABLE}table-cell")] for row in sheet.iter(f"{_TABLE}table-row"))
        yield Block("\n".join(_row(cells) for cells in rows if any(cells)))


def odp_blocks(body: bytes) -> Iterator[Block]:
    """Slides as pages."""
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        content = fromstring(_read(archive, "content.xml"))
    for page, slide in enumerate(content.iter(f"{_DRAW}page"), 1):
        for box in slide.iter(f"{_DRAW}text-box"):
            yield Block("\n".join(_text(paragraph) for paragraph in box.iter(f"{_TEXT}p")), page=page)


def _text(element: Element) -> str:
    """All text below; spaces, tabs and breaks are elements of their own there."""
    parts = []
    for part in element.iter():
        if part.tag in {f"{_TEXT}s", f"{_TEXT}tab", f"{_TEXT}line-break", f"{_TEXT}p"}:
            parts.append(" ")
        parts.append(part.text or "")
        parts.append(part.tail or "" if part is not element else "")
    return " ".join("".join(parts).split())


def epub_blocks(body: bytes) -> Iterator[Block]:
    """Chapters in reading order."""
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        container = fromstring(_read(archive, "META-INF/container.xml"))
        package = next((one.get("full-path", "") for one in container.iter() if one.tag.endswith("}rootfile")), "")
        opf = fromstring(_read(archive, package))
        items = {one.get("id"): unquote(one.get("href", "")) for one in opf.iter() if one.tag.endswith("}item")}
        for reference in (one.get("idref") for one in opf.iter() if one.tag.endswith("}itemref")):
            member = posixpath.normpath(posixpath.join(posixpath.dirname(package), items.get(reference, "")))
            if member in archive.namelist():
                yield from html_blocks(_read(archive, member))


def _read(archive: zipfile.ZipFile, member: str) -> bytes:
    if archive.getinfo(member).file_size > _MAX_MEMBER:
        raise Unindexable(Reason.TOO_LARGE, "unpacks to too much")
    return archive.read(member)

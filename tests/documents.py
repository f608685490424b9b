# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Documents made for the tests: real files of the kinds that people keep."""

from __future__ import annotations

import io
import zipfile

import docx
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen import canvas

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

_OFFICE = 'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
_TABLE = 'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"'
_TEXT = 'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
_DRAW = 'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'


def pdf(*pages: str, password: str | None = None) -> bytes:
    file = io.BytesIO()
    encryption = None if password is None else StandardEncryption(password, ownerPassword="owner")
    paper = canvas.Canvas(file, encrypt=encryption)
    for page in pages:
        for number, line in enumerate(page.split("\n")):
            paper.drawString(72, 750 - 14 * number, line)
        paper.showPage()
    paper.save()
    return file.getvalue()


def word(*parts: tuple[int, str]) -> bytes:
    """Parts are (heading level or 0 for a paragraph, text)."""
    document = docx.Document()
    for level, text in parts:
        if level:
            document.add_heading(text, level)
        else:
            document.add_paragraph(text)
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def package(**members: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def opendocument(kind: str, content: str) -> bytes:
    wrapped = f"<office:document-content {_OFFICE} {_TABLE} {_TEXT} {_DRAW}>{content}</office:document-content>"
    return package(**{"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": wrapped})

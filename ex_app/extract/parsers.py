# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Bytes to blocks. Only the sandboxed process imports this: parsers crash, hang and eat memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from ex_app.extract.blocks import Block
from ex_app.extract.detect import Kind, detect
from ex_app.extract.office import epub_blocks, odp_blocks, ods_blocks, office_blocks, pptx_blocks
from ex_app.extract.pdf import pdf_blocks
from ex_app.extract.plain import html_blocks, mail_blocks, markdown_blocks, text_blocks

_READERS: Final[dict[Kind, Callable[[bytes], Iterator[Block]]]] = {
    Kind.TEXT: text_blocks,
    Kind.MARKDOWN: markdown_blocks,
    Kind.HTML: html_blocks,
    Kind.MAIL: mail_blocks,
    Kind.PDF: pdf_blocks,
    Kind.PPTX: pptx_blocks,
    Kind.ODS: ods_blocks,
    Kind.ODP: odp_blocks,
    Kind.EPUB: epub_blocks,
    **{
        kind: partial(office_blocks, kind=kind)
        for kind in (Kind.DOCX, Kind.XLSX, Kind.ODT, Kind.RTF, Kind.DOC, Kind.XLS, Kind.PPT)
    },
}


def parse(body: bytes, *, name: str, mime: str) -> Iterator[Block]:
    """The document's blocks in reading order, not yet clean; raises Unindexable, or whatever a library trips over."""
    return _READERS[detect(body, name=name, mime=mime)](body)

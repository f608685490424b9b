# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Kinds that are text with conventions: plain text, Markdown, HTML, mail."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from html.parser import HTMLParser
from typing import Final

import charset_normalizer
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ex_app.domain import Reason, Unindexable
from ex_app.extract.blocks import TEXT_LIMIT, Block

_BOMS: Final = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_DECLARED_CHARSET: Final = re.compile(
    rb"""<(?:meta|\?xml)[^>]{0,300}?(?:charset|encoding)\s*=\s*["']?([\w.-]{2,30})""", re.IGNORECASE
)
_FRONT_MATTER: Final = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)

_SPACE: Final = re.compile(r"\s+")
_MAIL_HEADERS: Final = ("Subject", "From", "To", "Cc", "Date")

# Markdown containers that become one block.
_CONTAINERS: Final = ("bullet_list", "ordered_list", "table")

# Bytes from which an unknown encoding is guessed; more does not make the guess better, only slower.
_GUESSED_FROM: Final = 65536

# Bytes of a text in which everything that is indexed stands: most letters take one or two, marks and spaces the rest.
_DECODED: Final = 8 * TEXT_LIMIT

# Characters of Markdown in which it stands; its parser takes a hundred times as much memory.
_MARKED: Final = 2 * TEXT_LIMIT

# Guesses that are right more often than not in small texts, most common first.
_LIKELY_ENCODINGS: Final = [
    "cp1252", "cp1250", "cp1251", "koi8_r", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "iso8859_2", "iso8859_5",
    "shift_jis", "euc_jp", "gb18030", "big5", "euc_kr", "tis_620",
]  # fmt: skip


def decode(body: bytes) -> str:
    """Bytes of an unknown encoding as text, as much as can be indexed; raises Unindexable for what is no text."""
    whole, body = len(body) <= _DECODED, body[:_DECODED]
    for bom, encoding in _BOMS:
        if body.startswith(bom):
            return body.decode(encoding, "replace")
    try:
        return codecs.utf_8_decode(body, "strict", whole)[0]
    except UnicodeDecodeError:
        pass
    best = charset_normalizer.from_bytes(body[:_GUESSED_FROM], cp_isolation=_LIKELY_ENCODINGS).best()
    if best is None:
        raise Unindexable(Reason.UNSUPPORTED, "text in no encoding that we know")
    return body.decode(best.encoding, "replace")


def text_blocks(body: bytes) -> Iterator[Block]:
    """Plain text, kept as its author wrote it."""
    yield Block(decode(body))


def markdown_blocks(body: bytes) -> Iterator[Block]:
    """Markdown without its marks; front matter first, as written."""
    text = decode(body)[:_MARKED].replace("\r\n", "\n")
    matter = _FRONT_MATTER.match(text)
    if matter:
        yield Block(matter[1])
        text = text[matter.end() :]
    yield from _from_tokens(MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text))


def _from_tokens(tokens: list[Token]) -> Iterator[Block]:
    """A list or table is one block, an item or row a line; numbers of items stay, as texts refer to them."""
    lines: list[str] = []
    row: list[str] = []
    open_containers = level = 0
    number = ""
    for token in tokens:
        if token.type.startswith(_CONTAINERS):
            open_containers += token.nesting
        match token.type:
            case "heading_open":
                level = int(token.tag[1])
            case "list_item_open":
                number = f"{token.info}{token.markup} " if token.info else ""
            case "inline":
                row.append(number + _inline(token))
                number = ""
            case "heading_close":
                yield from _flushed(lines)
                yield Block(row.pop(), level=level)
            case "paragraph_close" | "tr_close":
                lines.append(" | ".join(row))
                row.clear()
            case "fence" | "code_block":
                lines.append(token.content)
            case "html_block":
                yield from _flushed(lines)
                yield from _from_html(token.content)
            case _:
                pass
        if not open_containers:
            yield from _flushed(lines)


def _flushed(lines: list[str]) -> Iterator[Block]:
    if lines:
        yield Block("\n".join(lines))
        lines.clear()


def _inline(token: Token) -> str:
    """The text that a reader would see; of images what they show."""
    parts = []
    for child in token.children or ():
        match child.type:
            case "text" | "code_inline" | "image":
                parts.append(child.content)
            case "softbreak":
                parts.append(" ")
            case "hardbreak":
                parts.append("\n")
            case _:
                pass
    return "".join(parts)


def html_blocks(body: bytes) -> Iterator[Block]:
    """A web page without scripts and styles."""
    declared = _DECLARED_CHARSET.search(body[:4096])
    yield from _from_html(_decode_as(body, declared[1].decode("ascii")) if declared else decode(body))


def _decode_as(body: bytes, encoding: str) -> str:
    try:
        return body[:_DECODED].decode(encoding, "strict" if len(body) <= _DECODED else "replace")
    except (LookupError, UnicodeDecodeError):
        return decode(body)


def _from_html(markup: str) -> Iterator[Block]:
    reader = _HtmlReader()
    reader.feed(markup)
    reader.close()
    return iter(reader.blocks)


class _HtmlReader(HTMLParser):
    """Collects blocks; a list item, table row or line break starts a line of the block that it is in."""

    _SILENT: Final = frozenset({"script", "style"})
    _HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
    _BLOCKS: Final = frozenset(
        {"address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "div", "dl", "dt", "fieldset"}
        | {"figcaption", "figure", "footer", "form", "head", "header", "hr", "html", "legend", "main", "nav", "ol", "p"}
        | {"pre", "section", "summary", "table", "title", "ul"}
    )
    _LINES: Final = frozenset({"br", "li", "tr", "option"})
    _CELLS: Final = frozenset({"td", "th"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[Block] = []
        self._parts: list[str] = []
        self._silent = 0
        self._preformatted = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self._SILENT:
            self._silent += 1
        elif tag in self._BLOCKS or tag in self._HEADINGS:
            self._flush()
        elif tag in self._LINES:
            self._parts.append("\n")
        elif tag in self._CELLS and self._parts and not self._parts[-1].endswith("\n"):
            self._parts.append(" | ")
        elif tag == "img":
            self._parts.append(dict(attrs).get("alt") or "")
        self._preformatted += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if tag in self._SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag in self._HEADINGS:
            self._flush(level=self._HEADINGS[tag])
        elif tag in self._BLOCKS:
            self._flush()
        if tag == "pre":
            self._preformatted = max(0, self._preformatted - 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self._SILENT:
            self.handle_starttag(tag, attrs)

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._parts.append(data if self._preformatted else _SPACE.sub(" ", data))

    def close(self) -> None:
        super().close()
        self._flush()

    def _flush(self, level: int = 0) -> None:
        text = "\n".join(line.strip() for line in "".join(self._parts).split("\n") if line.strip())
        self._parts.clear()
        if text:
            self.blocks.append(Block(text, level=level))


def mail_blocks(body: bytes) -> Iterator[Block]:
    """A mail: what and who, its text (plain if there is one), the names of its attachments."""
    message = BytesParser(_class=EmailMessage, policy=policy.default).parsebytes(body)
    yield Block("\n".join(f"{name}: {message[name]}" for name in _MAIL_HEADERS if message[name]))
    main = message.get_body(("plain", "html"))
    if main is not None:
        content = main.get_payload(decode=True)
        content = content if isinstance(content, bytes) else b""
        declared = main.get_content_charset()
        text = _decode_as(content, declared) if declared else decode(content)
        yield from _from_html(text) if main.get_content_subtype() == "html" else (Block(text),)
    names = [part.get_filename() for part in message.iter_attachments()]
    yield Block("\n".join(name for name in names if name))

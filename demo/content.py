# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Sample content: an architects' office with a bread oven, and the private papers of three of its people.

The sources in `content/` are plain text for everybody to read: one folder a home, and `world.toml` with people, shares
and boards. "x.pdf.md" becomes the PDF x.pdf, "x.docx.md" the Word document x.docx; "---page---" begins a new page.
"""

from __future__ import annotations

import io
import re
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple
from xml.sax.saxutils import escape

from docx import Document
from docx.enum.text import WD_BREAK
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Flowable, PageBreak, Paragraph, SimpleDocTemplate

from demo.world import World

CONTENT: Final = Path(__file__).with_name("content")
PAGE_BREAK: Final = "\n---page---\n"

# Papers without a date of their own were last changed on some day of this span.
_FIRST_DAY: Final = date(2026, 2, 2)
_DAYS: Final = 298

# The built-in PDF fonts know no more letters than this.
_PDF_LETTERS: Final = "cp1252"

_BOLD: Final = re.compile(r"\*\*(.+?)\*\*")
_EMPHASIS: Final = re.compile(r"[*_`]+(\S.*?)[*_`]+")


@dataclass(frozen=True, slots=True)
class Paper:
    """A file of somebody's home, not yet rendered. path: in the home, "/a/b.pdf"; mtime: seconds since the epoch."""

    owner: str
    path: str
    text: str
    mtime: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def pages(self) -> list[str]:
        return self.text.split(PAGE_BREAK)


class _Block(NamedTuple):
    """A piece of a page. style: "h1", "h2", "item" or "text"."""

    style: str
    text: str


def furnish(world: World) -> None:
    """Put the people, their papers, shares and boards into an empty world."""
    house = read_house()
    for user in house["user"]:
        world.add_user(user["uid"], user["name"], user["groups"])
        if "notes" in user:
            world.set_notes_path(user["uid"], user["notes"])
    for paper in papers():
        world.write(paper.owner, paper.path, render(paper), mtime=paper.mtime)
    for share in house["share"]:
        world.share(**share)
    for board in house["board"]:
        _furnish_board(world, board)


def read_house() -> dict[str, Any]:
    """world.toml as it stands: lists "user", "share" and "board", and the table "changed"."""
    return tomllib.loads((CONTENT / "world.toml").read_text("utf-8"))


def papers() -> Iterator[Paper]:
    """Every file of every home, by path."""
    house = read_house()
    for user in house["user"]:
        home = CONTENT / user["uid"]
        for source in sorted(path for path in home.rglob("*") if path.is_file()):
            path = f"/{source.relative_to(home).as_posix()}"
            path = path.removesuffix(".md") if path.endswith((".pdf.md", ".docx.md")) else path
            mtime = _last_change(house["changed"], user["uid"] + path)
            yield Paper(user["uid"], path, source.read_text("utf-8"), mtime)


def render(paper: Paper) -> bytes:
    """The file's bytes as its owner would have uploaded them."""
    if paper.name.endswith(".pdf"):
        return _pdf(paper)
    if paper.name.endswith(".docx"):
        return _docx(paper)
    return paper.text.encode()


def _furnish_board(world: World, board: Mapping[str, Any]) -> None:
    board_id = world.add_board(board["owner"], board["title"])
    for uid in board.get("with_users", ()):
        world.share_board(board_id, with_user=uid)
    for group in board.get("with_groups", ()):
        world.share_board(board_id, with_group=group)
    stacks: dict[str, int] = {}
    for card in board["card"]:
        stack = card.get("stack")
        if stack and stack not in stacks:
            stacks[stack] = world.add_stack(board_id, stack)
        world.add_card(
            stacks[stack] if stack else board_id,
            card["title"],
            description=card["description"],
            labels=card.get("labels", ()),
            due=card.get("due"),
        )


def _last_change(changed: Mapping[str, date], path: str) -> int:
    """At nine in the morning of the stated day, else of a day that depends on the path alone."""
    day = changed.get(path) or _FIRST_DAY + timedelta(days=zlib.crc32(path.encode()) % _DAYS)
    return int(datetime.combine(day, time(9), UTC).timestamp())


def _blocks(page: str) -> Iterator[_Block]:
    """Headings, list items and paragraphs of the little Markdown that our sources use."""
    for paragraph in page.strip().split("\n\n"):
        for line in paragraph.split("\n") if paragraph.startswith(("- ", "#")) else [paragraph]:
            mark, _, rest = line.partition(" ")
            style = {"#": "h1", "##": "h2", "-": "item"}.get(mark)
            yield _Block(style, rest) if style else _Block("text", line)


def _pdf(paper: Paper) -> bytes:
    """Raises UnicodeEncodeError for letters that the PDF would show as black boxes."""
    paper.text.encode(_PDF_LETTERS)
    sheet = getSampleStyleSheet()
    styles = {"h1": sheet["Heading1"], "h2": sheet["Heading2"], "text": sheet["BodyText"], "item": sheet["BodyText"]}
    story: list[Flowable] = []
    for number, page in enumerate(paper.pages):
        story += [PageBreak()] if number else []
        story += [
            Paragraph(_BOLD.sub(r"<b>\1</b>", escape(text)), styles[style], bulletText="•" if style == "item" else None)
            for style, text in _blocks(page)
        ]
    target = io.BytesIO()
    # invariant: the same paper gives the same bytes, without today's date in them
    SimpleDocTemplate(target, pagesize=A4, title=_title(paper), author=paper.owner, invariant=1).build(story)
    return target.getvalue()


def _docx(paper: Paper) -> bytes:
    document = Document()
    document.core_properties.title, document.core_properties.author = _title(paper), paper.owner
    styles = {"h1": "Heading 1", "h2": "Heading 2", "item": "List Bullet", "text": "Normal"}
    for number, page in enumerate(paper.pages):
        if number:
            document.add_paragraph().add_run().add_break(WD_BREAK.PAGE)
        for style, text in _blocks(page):
            document.add_paragraph(_plain(text), style=styles[style])
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def _title(paper: Paper) -> str:
    return next(_blocks(paper.text)).text


def _plain(text: str) -> str:
    return _EMPHASIS.sub(r"\1", text)


def name_of(world: World, key: str) -> str:
    """The name by which questions call a document ("file:12", "deck_card:3"): the file's own name, the card's title."""
    source, number = key.split(":")
    return world.nodes[int(number)].name if source == "file" else world.cards[int(number)].title

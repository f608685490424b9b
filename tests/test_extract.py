# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Bytes become text and passages, in a process that may fail without harm."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import time
import unicodedata
import zipfile
from collections import defaultdict
from collections.abc import AsyncIterator
from email.message import EmailMessage
from itertools import pairwise
from pathlib import Path

import docx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen import canvas

from ex_app.domain import NotAvailable, Parsed, Reason, Unindexable
from ex_app.embed import files
from ex_app.extract.blocks import Block, clean
from ex_app.extract.chunker import TEXT_LIMIT, Chunker
from ex_app.extract.frames import unpack_answer
from ex_app.extract.parsers import parse
from ex_app.extract.sandbox import Extractor
from ex_app.settings import Settings

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
SLOW = ("word and more, " * 20_000).encode()  # no sentence ends: cutting it takes a second or two


def _settings(**changes: object) -> Settings:
    return Settings(app_secret="very-secret-value", **changes)


def _extractor(**changes: object) -> Extractor:
    settings = _settings(**changes)
    return Extractor(settings, tokenizer=files.tokenizer_file(settings), room=files.room(settings))


@pytest.fixture
async def extractor() -> AsyncIterator[Extractor]:
    one = _extractor()
    yield one
    await one.close()


@pytest.fixture(scope="module")
def chunker() -> Chunker:
    settings = _settings()
    return Chunker(files.tokenizer_file(settings), size=220, overlap=24, room=files.room(settings))


def _pdf(*pages: str, password: str | None = None) -> bytes:
    file = io.BytesIO()
    encryption = None if password is None else StandardEncryption(password, ownerPassword="owner")
    paper = canvas.Canvas(file, encrypt=encryption)
    for page in pages:
        for number, line in enumerate(page.split("\n")):
            paper.drawString(72, 750 - 14 * number, line)
        paper.showPage()
    paper.save()
    return file.getvalue()


def _docx(*parts: tuple[int, str]) -> bytes:
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


def _package(**members: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def _read(body: bytes, name: str = "", mime: str = "") -> list[Block]:
    return [
        Block(text, block.level, block.page)
        for block in parse(body, name=name, mime=mime)
        if (text := clean(block.text))
    ]


def _why(body: bytes, name: str = "", mime: str = "") -> Reason:
    with pytest.raises(Unindexable) as caught:
        list(parse(body, name=name, mime=mime))
    return caught.value.reason


# Kinds of documents


async def test_passages_of_a_pdf_know_their_page(extractor: Extractor) -> None:
    body = _pdf("The hotel limit is 120 euros.", "Taxi rides need a receipt.", "Breakfast is not paid.")
    parsed = await extractor.extract(body, title="Policy", name="Policy.pdf", mime="application/pdf")
    assert [(chunk.page, chunk.text) for chunk in parsed.chunks] == [
        (1, "The hotel limit is 120 euros."),
        (2, "Taxi rides need a receipt."),
        (3, "Breakfast is not paid."),
    ]
    assert all(parsed.text[chunk.start : chunk.end] == chunk.text for chunk in parsed.chunks)


async def test_headings_of_a_word_document_stand_above_its_passages(extractor: Extractor) -> None:
    body = _docx(
        (1, "Travel"), (0, "Ask before you book. " * 60), (2, "Hotels"), (0, "A night costs at most 120 euros. " * 60)
    )
    parsed = await extractor.extract(body, title="Policy", name="Policy.docx", mime=DOCX)
    above = {chunk.headings for chunk in parsed.chunks if "120 euros" in chunk.text}
    assert above == {("Travel", "Hotels")}
    assert {chunk.headings for chunk in parsed.chunks if "Ask before" in chunk.text} == {("Travel",)}


def test_words_parted_by_a_tab_stay_two_words() -> None:
    assert "Limit: 120" in _read(_docx((0, "Limit:\t120")), "a.docx")[0].text


def test_lines_that_the_paper_broke_are_sentences_again() -> None:
    page = "The limit for one night in a hotel is one hundred and\ntwenty euros, breakfast not included in this price."
    assert "one hundred and twenty euros" in _read(_pdf(page))[0].text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Die Straße zum Hotel in München ist gesperrt", "latin-1"),
        ("Müller", "latin-1"),
        ("Гостиница у моря, сто двадцать рублей за ночь", "cp1251"),
        ("東京のホテルの料金は一泊百二十円です。", "shift_jis"),
        ("Grüße aus Köln", "utf-8"),
        ("Grüße aus Köln", "utf-8-sig"),
        ("Grüße aus Köln", "utf-16"),
    ],
)
def test_plain_text_is_read_in_the_encoding_it_was_written_in(text: str, encoding: str) -> None:
    assert _read(text.encode(encoding), "note.txt", "text/plain") == [Block(text)]


def test_markdown_loses_its_marks_and_none_of_its_words() -> None:
    body = b"""---
tags: [travel, money]
---
# Hotels *abroad*

The **limit** is [120 euros](https://example.org), see ![a map of Rome](map.png).

- [x] done
- open
  - below

| City | Limit |
|------|-------|
| Rome | 130   |

> quoted

<div>in <b>HTML</b></div>

```
# no heading
```
"""
    assert _read(body, "Readme.md", "text/markdown") == [
        Block("tags: [travel, money]"),
        Block("Hotels abroad", level=1),
        Block("The limit is 120 euros, see a map of Rome."),
        Block("[x] done\nopen\nbelow"),
        Block("City | Limit\nRome | 130"),
        Block("quoted"),
        Block("in HTML"),
        Block("# no heading"),
    ]


def test_a_web_page_gives_what_a_reader_sees() -> None:
    body = """<!doctype html><html><head><meta charset=iso-8859-1><title>Policy</title><style>p{}</style></head>
    <body><h1>Hotels &amp; more</h1><p>The <b>limit</b> is
    120&nbsp;euros.<br>Ask.</p><div>plain<div>inner</div></div><script>alert('no')</script>
    <table><tr><th>City<th>Limit</tr><tr><td>Köln<td>130</table></body></html>""".encode("latin-1")
    assert _read(body, "page.html") == [
        Block("Policy"),
        Block("Hotels & more", level=1),
        Block("The limit is 120 euros.\nAsk."),
        Block("plain"),
        Block("inner"),
        Block("City | Limit\nKöln | 130"),
    ]


def test_a_mail_gives_subject_people_text_and_names_of_attachments() -> None:
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = "Hotel München", "ann@example.org", "bob@example.org"
    mail.set_content("The limit is 120 €.")
    mail.add_alternative("<p>The limit is 120 €.</p>", subtype="html")
    mail.add_attachment(b"%PDF-", maintype="application", subtype="pdf", filename="Rechnung März.pdf")
    text = "\n".join(block.text for block in _read(mail.as_bytes(), "mail.eml", "message/rfc822"))
    assert text == (
        "Subject: Hotel München\nFrom: ann@example.org\nTo: bob@example.org\nThe limit is 120 €.\nRechnung März.pdf"
    )


def test_rich_text_is_read() -> None:
    assert _read(rb"{\rtf1\ansi\ansicpg1252 Hotel in M\'fcnchen\par 120}")[0] == Block("Hotel in München")


OFFICE = 'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
TABLE = 'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"'
TEXT = 'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
DRAW = 'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'


def _opendocument(kind: str, content: str) -> bytes:
    wrapped = f"<office:document-content {OFFICE} {TABLE} {TEXT} {DRAW}>{content}</office:document-content>"
    return _package(**{"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": wrapped})


def test_an_opendocument_text_keeps_its_headings() -> None:
    body = _opendocument(
        "text",
        '<office:body><office:text><text:h text:outline-level="2">Hotels</text:h>'
        "<text:p>The limit is 120.</text:p></office:text></office:body>",
    )
    assert _read(body) == [Block("Hotels", level=2), Block("The limit is 120.")]


def test_a_spreadsheet_gives_a_line_for_each_row_below_the_name_of_its_sheet() -> None:
    cells = "".join(
        "<table:table-row>"
        + "".join(f"<table:table-cell><text:p>{cell}</text:p></table:table-cell>" for cell in row)
        + "</table:table-row>"
        for row in (("City", "Limit"), ("Rome", "130"), ("", ""))
    )
    body = _opendocument("spreadsheet", f'<table:table table:name="Rates">{cells}</table:table>')
    assert _read(body) == [Block("Rates", level=1), Block("City | Limit\nRome | 130")]


def test_slides_are_pages() -> None:
    slides = "".join(
        f"<draw:page><draw:frame><draw:text-box><text:p>{text}<text:tab/>now</text:p></draw:text-box></draw:frame></draw:page>"
        for text in ("Hotels", "Taxis")
    )
    assert _read(_opendocument("presentation", slides)) == [Block("Hotels now", page=1), Block("Taxis now", page=2)]


def test_powerpoint_slides_come_in_the_order_shown_with_titles_and_notes() -> None:
    names = (
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
        'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
        'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    )
    relations = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'

    def shape(kind: str, text: str) -> str:
        return (
            f'<p:sp><p:nvSpPr><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr>'
            f"<p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
        )

    body = _package(
        **{
            "ppt/presentation.xml": f'<p:presentation {names}><p:sldIdLst><p:sldId id="1" r:id="b"/>'
            f'<p:sldId id="2" r:id="a"/></p:sldIdLst></p:presentation>',
            "ppt/_rels/presentation.xml.rels": f'<Relationships {relations}><Relationship Id="a" '
            f'Target="slides/slide1.xml"/><Relationship Id="b" Target="/ppt/slides/slide2.xml"/></Relationships>',
            "ppt/slides/slide1.xml": f"<p:sld {names}>{shape('title', 'Taxis')}{shape('body', 'Receipt')}</p:sld>",
            "ppt/slides/slide2.xml": f"<p:sld {names}>{shape('ctrTitle', 'Hotels')}</p:sld>",
            "ppt/slides/_rels/slide1.xml.rels": f'<Relationships {relations}><Relationship Id="n" '
            f'Target="../notesSlides/notesSlide1.xml"/></Relationships>',
            "ppt/notesSlides/notesSlide1.xml": f"<p:notes {names}>{shape('body', 'Say hello')}</p:notes>",
        }
    )
    assert _read(body) == [
        Block("Hotels", level=1, page=1),
        Block("Taxis", level=1, page=2),
        Block("Receipt", page=2),
        Block("Say hello", page=2),
    ]


def test_a_book_is_read_in_its_order() -> None:
    body = _package(
        **{
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container xmlns="urn:x"><rootfile full-path="OEBPS/book.opf"/></container>',
            "OEBPS/book.opf": '<package xmlns="urn:y"><manifest><item id="one" href="a%20b.xhtml"/>'
            '<item id="two" href="c.xhtml"/></manifest>'
            '<spine><itemref idref="two"/><itemref idref="one"/></spine></package>',
            "OEBPS/a b.xhtml": "<html><body><h1>Last</h1></body></html>",
            "OEBPS/c.xhtml": "<html><body><h1>First</h1><p>words</p></body></html>",
        }
    )
    assert [block.text for block in _read(body)] == ["First", "words", "Last"]


# What a document is, and what is none


def test_content_decides_before_name_and_media_type() -> None:
    assert _read(_pdf("A PDF all the same."), "notes.txt", "text/plain") == [Block("A PDF all the same.", page=1)]


@pytest.mark.parametrize(
    ("body", "name", "mime", "reason"),
    [
        (b"garbage", "garbage.pdf", "application/pdf", Reason.CORRUPT),
        (b"%PDF-1.7\n" + bytes(range(256)) * 20, "garbage.pdf", "application/pdf", Reason.CORRUPT),
        (b"PK\x03\x04garbage", "garbage.docx", DOCX, Reason.CORRUPT),
        (_package(**{"word/document.xml": "<broken"}), "broken.docx", DOCX, Reason.CORRUPT),
        (_package(**{"photo.txt": "x"}), "photos.zip", "application/zip", Reason.UNSUPPORTED),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "photo.png", "image/png", Reason.UNSUPPORTED),
        (bytes(range(256)) * 10, "blob", "application/octet-stream", Reason.UNSUPPORTED),
        (b"", "empty.txt", "text/plain", Reason.NO_TEXT),
        (b" \r\n ", "blank.txt", "text/plain", Reason.NO_TEXT),
        (_pdf("secret", password="open sesame"), "locked.pdf", "application/pdf", Reason.ENCRYPTED),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
            "locked.docx",
            DOCX,
            Reason.ENCRYPTED,
        ),
    ],
)
def test_what_gives_no_text_says_why(body: bytes, name: str, mime: str, reason: Reason) -> None:
    assert _why(body, name, mime) is reason


def test_a_pdf_that_only_forbids_copying_is_read() -> None:
    """An owner's password with an empty user password opens for everybody."""
    assert _read(_pdf("Readable.", password="")) == [Block("Readable.", page=1)]


async def test_a_scan_without_text_says_so(extractor: Extractor) -> None:
    with pytest.raises(Unindexable) as caught:
        await extractor.extract(_pdf(""), title="Scan", name="scan.pdf", mime="application/pdf")
    assert caught.value.reason is Reason.NO_TEXT


# Hygiene


def test_text_is_nfc_without_control_or_disguising_characters() -> None:
    dirty = "re\u0301sume\u0301\x00\x07\r\nsoft\u00adhyphen \u202egpj.exe\u202c zero\u200bwidth\ufeff ﬁnance \ud83d"
    dirty += "\rend  \n\n\n\n!"
    cleaned = clean(dirty)
    assert cleaned == "résumé\nsofthyphen gpj.exe zerowidth finance\nend\n\n!"
    assert unicodedata.is_normalized("NFC", cleaned)


def test_a_document_longer_than_the_limit_is_cut_and_says_so(chunker: Chunker) -> None:
    parsed = chunker.chunk([Block("x" * 100_000)] * 21, title="Long")
    assert parsed.truncated
    assert TEXT_LIMIT - 50 < len(parsed.text) <= TEXT_LIMIT
    assert not chunker.chunk([Block("short")], title="Short").truncated


# Passages

WORDS = st.lists(
    st.sampled_from(("hotel", "limit", "Straße", "東京", "🎉", "donaudampfschiff.", "x!", "12,5")), max_size=300
)
ANYTHING = st.text(st.characters(exclude_categories=()), max_size=300)
BLOCKS = st.lists(
    st.builds(
        Block,
        text=ANYTHING | WORDS.map(" ".join) | WORDS.map("".join) | WORDS.map("\n".join),
        level=st.sampled_from([0, 0, 0, 1, 2, 3]),
        page=st.none(),
    ),
    max_size=12,
)


@given(blocks=BLOCKS, size=st.integers(32, 220), overlap=st.integers(0, 60), title=st.text(max_size=60))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_passages_are_exact_ordered_complete_and_small_enough(
    blocks: list[Block], size: int, overlap: int, title: str
) -> None:
    """Whatever the document: text[start:end] is the passage, nothing is lost, the model reads every passage whole."""
    configuration = _settings()
    tokenizer = files.load_tokenizer(configuration)
    chunker = Chunker(files.tokenizer_file(configuration), size=size, overlap=overlap, room=files.room(configuration))
    parsed = chunker.chunk(blocks, title=title)
    covered: set[int] = set()
    for ordinal, chunk in enumerate(parsed.chunks):
        assert chunk.ordinal == ordinal
        assert parsed.text[chunk.start : chunk.end] == chunk.text
        assert chunk.text.strip()
        read = tokenizer.encode(f"{chunk.context_line(title)}\n{chunk.text}")
        assert len(read.ids) <= files.max_tokens(configuration)
        covered.update(range(chunk.start, chunk.end))
    starts = [chunk.start for chunk in parsed.chunks]
    assert starts == sorted(starts)
    lost = "".join(character if place not in covered else "\n" for place, character in enumerate(parsed.text))
    headings = {" ".join(clean(block.text).split()) for block in blocks if block.level}
    assert {line.strip() for line in lost.split("\n") if line.strip()} <= headings


def test_a_small_document_is_one_passage(chunker: Chunker) -> None:
    blocks = [Block("Hotels", level=1), Block("At most 120."), Block("Taxis", level=1), Block("With receipt.")]
    parsed = chunker.chunk(blocks, title="Policy")
    assert [chunk.text for chunk in parsed.chunks] == ["Hotels\n\nAt most 120.\n\nTaxis\n\nWith receipt."]


def test_small_sections_grow_together_only_below_the_same_heading(chunker: Chunker) -> None:
    long = Block("A sentence about something else entirely. " * 40)
    blocks = [
        Block("Trips", level=1),
        long,
        Block("Hotels", level=2),
        Block("At most 120."),
        Block("Taxis", level=2),
        Block("With receipt."),
        Block("Office", level=1),
        Block("Closed on Sunday."),
    ]
    small = [chunk for chunk in chunker.chunk(blocks, title="Policy").chunks if "sentence" not in chunk.text]
    assert [(chunk.headings, chunk.text) for chunk in small] == [
        (("Trips",), "Hotels\n\nAt most 120.\n\nTaxis\n\nWith receipt."),
        (("Office",), "Closed on Sunday."),
    ]


def test_a_passage_repeats_the_end_of_the_one_before_only_within_a_paragraph(chunker: Chunker) -> None:
    one = "Every word of this paragraph is about hotels in Rome " * 60
    parsed = chunker.chunk([Block(one), Block(one)], title="Rome")
    border = parsed.text.index("\n\n")
    for before, after in pairwise(parsed.chunks):
        across = before.end <= border < after.start
        assert across != (after.start < before.end)
        assert parsed.text[after.start - 1].isspace(), "passages begin with a whole word"


def test_no_passage_crosses_a_page(chunker: Chunker) -> None:
    parsed = chunker.chunk([Block("on one", page=1), Block("still one", page=1), Block("on two", page=2)], title="Two")
    assert [(chunk.page, chunk.text) for chunk in parsed.chunks] == [(1, "on one\n\nstill one"), (2, "on two")]


def test_a_heading_without_text_is_found_too(chunker: Chunker) -> None:
    long = Block("A sentence about something else entirely. " * 40)
    parsed = chunker.chunk([Block("To be written", level=1), Block("Rules", level=1), long], title="Draft")
    assert parsed.chunks[0].text == "To be written"


def test_outer_headings_yield_when_title_and_headings_get_long(chunker: Chunker) -> None:
    blocks = [Block(f"Chapter {level} of a work with endless headings " * 3, level=level) for level in range(1, 7)]
    parsed = chunker.chunk([*blocks, Block("Words. " * 400)], title="Endless")
    assert 0 < len(parsed.chunks[-1].headings) < 6
    assert parsed.chunks[-1].headings[-1].startswith("Chapter 6")


# The sandbox


async def test_a_document_that_hangs_is_given_up_and_the_next_one_works() -> None:
    extractor = _extractor(extract_timeout_s=0.5)
    await extractor.extract(b"warm", title="", name="", mime="")
    started = time.monotonic()
    with pytest.raises(Unindexable) as caught:
        await extractor.extract(SLOW, title="", name="slow.txt", mime="text/plain")
    assert caught.value.reason is Reason.TIMEOUT
    assert time.monotonic() - started < 5
    assert (await extractor.extract(b"next", title="", name="", mime="")).text == "next"
    await extractor.close()


async def test_a_document_that_unpacks_to_too_much_is_refused_and_the_next_one_works() -> None:
    extractor = _extractor(extract_memory_mb=64)
    bomb = _opendocument("spreadsheet", " " * 100_000_000)
    with pytest.raises(Unindexable) as caught:
        await extractor.extract(bomb, title="", name="bomb.ods", mime="")
    assert caught.value.reason is Reason.TOO_LARGE
    assert (await extractor.extract(b"next", title="", name="", mime="")).text == "next"
    await extractor.close()


async def test_a_word_document_that_unpacks_to_too_much_does_no_harm() -> None:
    """Here native code runs out of memory, which ends the process."""
    extractor = _extractor(extract_memory_mb=64)
    bomb = _package(**{"[Content_Types].xml": "<Types/>", "word/document.xml": " " * 120_000_000})
    with pytest.raises(Unindexable):
        await extractor.extract(bomb, title="", name="bomb.docx", mime=DOCX)
    assert (await extractor.extract(b"next", title="", name="", mime="")).text == "next"
    await extractor.close()


def _children() -> list[int]:
    """Parser processes that this process started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            command = (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == os.getpid() and b"ex_app.extract.child" in command:
            found.append(int(stat.parent.name))
    return found


def _limits(pid: int) -> dict[str, str]:
    """Soft limits by name, as the kernel prints them; all empty for a process that is gone."""
    try:
        lines = (Path("/proc") / str(pid) / "limits").read_text().splitlines()
    except OSError:
        return defaultdict(str)
    return {line[:26].strip(): line[26:].split()[0] for line in lines}


async def _until_child() -> int:
    for _ in range(500):
        if pids := _children():
            return pids[0]
        await asyncio.sleep(0.01)
    pytest.fail("no parser process")


async def test_a_parser_killed_while_idle_is_replaced(extractor: Extractor) -> None:
    await extractor.extract(b"first", title="", name="", mime="")
    os.kill(await _until_child(), signal.SIGKILL)
    assert (await extractor.extract(b"second", title="", name="", mime="")).text == "second"


async def _at_work(extractor: Extractor) -> tuple[int, asyncio.Task[Parsed]]:
    """A parser that has got a document and does not move, and the call that waits for it."""
    await extractor.extract(b"warm", title="", name="", mime="")
    parser = await _until_child()
    os.kill(parser, signal.SIGSTOP)
    work = asyncio.create_task(extractor.extract(b"the document", title="", name="", mime=""))
    for _ in range(10):
        await asyncio.sleep(0.005)
    assert not work.done()
    return parser, work


async def test_a_parser_killed_at_work_gets_the_document_again(extractor: Extractor) -> None:
    parser, work = await _at_work(extractor)
    os.kill(parser, signal.SIGKILL)
    assert (await work).text == "the document"


async def test_a_document_whose_parser_is_killed_twice_fails(extractor: Extractor) -> None:
    await extractor.extract(b"warm", title="", name="", mime="")
    work = asyncio.create_task(extractor.extract(SLOW, title="", name="slow.txt", mime="text/plain"))
    await asyncio.sleep(0.05)
    first = await _until_child()
    os.kill(first, signal.SIGKILL)
    while (again := await _until_child()) == first or _limits(again)["Max file size"] != "0":
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    os.kill(again, signal.SIGKILL)
    with pytest.raises(Unindexable) as caught:
        await work
    assert caught.value.reason is Reason.FAILED


async def test_a_parser_that_does_not_start_says_nothing_about_the_document(extractor: Extractor) -> None:
    work = asyncio.create_task(extractor.extract(b"the document", title="", name="", mime=""))
    os.kill(await _until_child(), signal.SIGKILL)
    with pytest.raises(NotAvailable):
        await work
    assert (await extractor.extract(b"next", title="", name="", mime="")).text == "next"


@pytest.mark.parametrize(
    ("blow", "reason"),
    [(signal.SIGSEGV, Reason.CORRUPT), (signal.SIGABRT, Reason.CORRUPT), (signal.SIGXCPU, Reason.TIMEOUT)],
)
async def test_a_document_on_which_the_parser_dies_is_not_tried_again(
    extractor: Extractor, blow: signal.Signals, reason: Reason
) -> None:
    parser, work = await _at_work(extractor)
    os.kill(parser, blow)
    os.kill(parser, signal.SIGCONT)
    with pytest.raises(Unindexable) as caught:
        await work
    assert caught.value.reason is reason
    assert (await extractor.extract(b"next", title="", name="", mime="")).text == "next"


async def test_giving_up_waiting_ends_the_parser(extractor: Extractor) -> None:
    parser, work = await _at_work(extractor)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert parser not in _children()
    assert (await extractor.extract(b"next", title="", name="", mime="")).text == "next"


async def test_the_parser_sees_no_secret_and_can_write_nothing(
    extractor: Extractor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APP_SECRET", "very-secret-value")
    monkeypatch.setenv("QDRANT_API_KEY", "very-secret-value")
    await extractor.extract(b"first", title="", name="", mime="")
    process = Path("/proc") / str(await _until_child())
    assert b"secret" not in (process / "environ").read_bytes().lower()
    assert (process / "cwd").readlink() != Path.cwd()
    limits = _limits(int(process.name))
    assert limits["Max file size"] == "0"
    assert limits["Max core file size"] == "0"
    assert limits["Max address space"] != "unlimited"
    assert limits["Max cpu time"] != "unlimited"


def test_the_parser_dies_with_its_parent() -> None:
    """However suddenly the worker ends, even at work on a document that never ends."""
    code = (
        "import asyncio, os, signal, sys\n"
        "sys.path.insert(0, os.getcwd())\n"
        "from tests.test_extract import SLOW, _children, _extractor\n"
        "async def main():\n"
        "    extractor = _extractor()\n"
        "    await extractor.extract(b'warm', title='', name='', mime='')\n"
        "    work = asyncio.create_task(extractor.extract(SLOW * 2, title='', name='', mime=''))\n"
        "    await asyncio.sleep(0.1)\n"
        "    print(_children()[0], flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout.strip(), done.stderr
    deadline = time.monotonic() + 3
    while _alive(int(done.stdout)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _alive(int(done.stdout))


def _alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b'{"reason": "because", "detail": ""}',
        b'{"text": 5, "truncated": false, "chunks": []}',
        b'{"text": "abc", "truncated": false, "chunks": [[0, 9, null, []]]}',
        b'{"text": "abc", "truncated": false, "chunks": [[2, 1, null, []]]}',
        b'{"text": "abc", "truncated": false, "chunks": [[0, 1, "x", []]]}',
        b'{"text": "abc", "truncated": false, "chunks": [["0", 1, null, []]]}',
    ],
)
def test_nonsense_from_a_parser_that_somebody_took_over_is_a_failure(answer: bytes) -> None:
    with pytest.raises(Unindexable) as caught:
        unpack_answer(answer)
    assert caught.value.reason is Reason.FAILED


def test_an_answer_carries_text_and_offsets() -> None:
    parsed = unpack_answer(b'{"text": "abc", "truncated": true, "chunks": [[1, 3, 2, ["h"]]]}')
    assert isinstance(parsed, Parsed)
    assert parsed.truncated
    assert (parsed.chunks[0].text, parsed.chunks[0].page, parsed.chunks[0].headings) == ("bc", 2, ("h",))

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Every kind of document gives its text, or the reason why it gives none."""

from __future__ import annotations

import unicodedata
from email.message import EmailMessage

import pytest
from documents import DOCX, opendocument, package, pdf, word

from ex_app.domain import Reason, Unindexable
from ex_app.extract import plain
from ex_app.extract.blocks import TEXT_LIMIT, Block, clean
from ex_app.extract.parsers import parse


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


def test_words_parted_by_a_tab_stay_two_words() -> None:
    assert "Limit: 120" in _read(word((0, "Limit:\t120")), "a.docx")[0].text


def test_lines_that_the_paper_broke_are_sentences_again() -> None:
    page = "The limit for one night in a hotel is one hundred and\ntwenty euros, breakfast not included in this price."
    assert "one hundred and twenty euros" in _read(pdf(page))[0].text


def test_items_of_a_list_in_a_pdf_stay_lines() -> None:
    page = "- the limit for one night in a hotel abroad\n- the limit for one night in a hotel at home\n2. the rest"
    assert _read(pdf(page))[0].text.count("\n") == 2


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


def test_an_opendocument_text_keeps_its_headings() -> None:
    body = opendocument(
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
    body = opendocument("spreadsheet", f'<table:table table:name="Rates">{cells}</table:table>')
    assert _read(body) == [Block("Rates", level=1), Block("City | Limit\nRome | 130")]


def test_slides_are_pages() -> None:
    slides = "".join(
        f"<draw:page><draw:frame><draw:text-box><text:p>{text}<text:tab/>now</text:p></draw:text-box></draw:frame></draw:page>"
        for text in ("Hotels", "Taxis")
    )
    assert _read(opendocument("presentation", slides)) == [Block("Hotels now", page=1), Block("Taxis now", page=2)]


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

    body = package(
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
    body = package(
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


def test_content_decides_before_name_and_media_type() -> None:
    assert _read(pdf("A PDF all the same."), "notes.txt", "text/plain") == [Block("A PDF all the same.", page=1)]


@pytest.mark.parametrize(
    ("body", "name", "mime", "reason"),
    [
        (b"garbage", "garbage.pdf", "application/pdf", Reason.CORRUPT),
        (b"%PDF-1.7\n" + bytes(range(256)) * 20, "garbage.pdf", "application/pdf", Reason.CORRUPT),
        (b"PK\x03\x04garbage", "garbage.docx", DOCX, Reason.CORRUPT),
        (package(**{"word/document.xml": "<broken"}), "broken.docx", DOCX, Reason.CORRUPT),
        (package(**{"photo.txt": "x"}), "photos.zip", "application/zip", Reason.UNSUPPORTED),
        (b"<svg><text>120</text></svg>", "plan.svg", "image/svg+xml", Reason.UNSUPPORTED),
        (
            package(**{"mimetype": "x", "META-INF/manifest.xml": "<m:encryption-data/>", "content.xml": "?"}),
            "locked.odt",
            "application/vnd.oasis.opendocument.text",
            Reason.ENCRYPTED,
        ),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "photo.png", "image/png", Reason.UNSUPPORTED),
        (bytes(range(256)) * 10, "blob", "application/octet-stream", Reason.UNSUPPORTED),
        (b"", "empty.txt", "text/plain", Reason.NO_TEXT),
        (b" \r\n ", "blank.txt", "text/plain", Reason.NO_TEXT),
        (pdf("secret", password="open sesame"), "locked.pdf", "application/pdf", Reason.ENCRYPTED),
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
    assert _read(pdf("Readable.", password="")) == [Block("Readable.", page=1)]


def test_text_is_nfc_without_control_or_disguising_characters() -> None:
    dirty = "re\u0301sume\u0301\x00\x07\r\nsoft\u00adhyphen \u202egpj.exe\u202c zero\u200bwidth\ufeff ﬁnance \ud83d"
    dirty += "\rend  \n\n\n\n!"
    cleaned = clean(dirty)
    assert cleaned == "résumé\nsofthyphen gpj.exe zerowidth finance\nend\n\n!"
    assert unicodedata.is_normalized("NFC", cleaned)


def test_of_a_huge_text_no_more_is_decoded_than_can_be_indexed() -> None:
    huge = ("a" + "é" * (9 * TEXT_LIMIT // 2)).encode()  # a cut after an even number of bytes splits a letter
    text = plain.decode(huge)
    assert 2 * TEXT_LIMIT < len(text) < 5 * TEXT_LIMIT
    assert set(text) == {"a", "é"}

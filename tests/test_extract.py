# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Bytes become text and passages in a process that may fail without harm."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from documents import DOCX, opendocument, package, pdf, word

from ex_app.domain import NotAvailable, Parsed, Reason, Unindexable
from ex_app.embed import files
from ex_app.extract.frames import unpack_answer
from ex_app.extract.sandbox import Extractor
from ex_app.settings import Settings

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


async def test_passages_of_a_pdf_know_their_page(extractor: Extractor) -> None:
    body = pdf("The hotel limit is 120 euros.", "Taxi rides need a receipt.", "Breakfast is not paid.")
    parsed = await extractor.extract(body, title="Policy", name="Policy.pdf", mime="application/pdf")
    assert [(chunk.page, chunk.text) for chunk in parsed.chunks] == [
        (1, "The hotel limit is 120 euros."),
        (2, "Taxi rides need a receipt."),
        (3, "Breakfast is not paid."),
    ]
    assert all(parsed.text[chunk.start : chunk.end] == chunk.text for chunk in parsed.chunks)


async def test_headings_of_a_word_document_stand_above_its_passages(extractor: Extractor) -> None:
    body = word(
        (1, "Travel"), (0, "Ask before you book. " * 60), (2, "Hotels"), (0, "A night costs at most 120 euros. " * 60)
    )
    parsed = await extractor.extract(body, title="Policy", name="Policy.docx", mime=DOCX)
    above = {chunk.headings for chunk in parsed.chunks if "120 euros" in chunk.text}
    assert above == {("Travel", "Hotels")}
    assert {chunk.headings for chunk in parsed.chunks if "Ask before" in chunk.text} == {("Travel",)}


async def test_a_scan_without_text_says_so(extractor: Extractor) -> None:
    with pytest.raises(Unindexable) as caught:
        await extractor.extract(pdf(""), title="Scan", name="scan.pdf", mime="application/pdf")
    assert caught.value.reason is Reason.NO_TEXT


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
    bomb = opendocument("spreadsheet", " " * 100_000_000)
    with pytest.raises(Unindexable) as caught:
        await extractor.extract(bomb, title="", name="bomb.ods", mime="")
    assert caught.value.reason is Reason.TOO_LARGE
    assert (await extractor.extract(b"next", title="", name="", mime="")).text == "next"
    await extractor.close()


async def test_a_word_document_that_unpacks_to_too_much_does_no_harm() -> None:
    """Here native code runs out of memory, which ends the process."""
    extractor = _extractor(extract_memory_mb=64)
    bomb = package(**{"[Content_Types].xml": "<Types/>", "word/document.xml": " " * 120_000_000})
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


def _cpu_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


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
    ready = _cpu_ticks(again)
    while _cpu_ticks(again) < ready + 5:  # it reads the document, however busy the machine is
        await asyncio.sleep(0.005)
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
        "sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), 'tests')]\n"
        "from test_extract import SLOW, _children, _extractor\n"
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
    deadline = time.monotonic() + 1.5
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

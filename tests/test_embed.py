# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Text becomes vectors in a process of its own, and questions come before indexing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import pytest

from ex_app.domain import EmbedderUnavailable, NotAvailable
from ex_app.embed import files
from ex_app.embed.client import Embedder
from ex_app.embed.server import Encoder
from ex_app.embed.wire import Vectors
from ex_app.processes import CRUNCHING_NICE, WORKER_NICE
from ex_app.settings import Settings

PASSAGES = [
    "A night in a hotel may cost up to one hundred and twenty euros.",
    "The heating in the office is switched off in May.",
    "Bring the dog to the vet once a year.",
]


@pytest.fixture
async def embedder(embed_settings: Settings) -> AsyncIterator[Embedder]:
    client = Embedder(embed_settings)
    yield client
    await client.close()


def _raw(settings: Settings) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(uds=str(settings.embed_socket)), base_url="http://embed", timeout=60
    )


async def test_a_question_is_nearest_to_the_passage_that_answers_it(embedder: Embedder) -> None:
    question = await embedder.query("how expensive may my accommodation be?", user="anna")
    passages = await embedder.documents(PASSAGES)
    assert int(np.argmax(passages @ np.array(question))) == 0


async def test_vectors_have_unit_length_and_the_stated_dimensions(embedder: Embedder) -> None:
    info = await embedder.info()
    passages = await embedder.documents(PASSAGES)
    assert passages.dtype == np.float32
    assert passages.shape == (len(PASSAGES), info.dimensions)
    assert np.allclose(np.linalg.norm(passages, axis=1), 1.0, atol=1e-5)
    assert abs(np.linalg.norm(await embedder.query("hotel", user="anna")) - 1.0) < 1e-5


async def test_the_yardstick_tells_answers_from_noise(embedder: Embedder) -> None:
    """Measured at start: a question is far nearer to its answer than to passages about something else."""
    info = await embedder.info()
    assert info.related - info.unrelated > 0.3
    asked = np.array(await embedder.query("how expensive may my accommodation be?", user="anna"))
    cosines = sorted(await embedder.documents(PASSAGES) @ asked)
    middle = (info.related + info.unrelated) / 2
    assert cosines[-1] > middle > cosines[-2]


async def test_many_passages_come_back_in_the_order_given_whatever_their_length(embedder: Embedder) -> None:
    texts = [
        f"{word} " * repeat for repeat in (30, 1, 12) for word in ("hotel", "heating", "dog", "train", "tax", "sea")
    ]
    together = await embedder.documents(texts)
    alone = np.concatenate([await embedder.documents([text]) for text in texts])
    assert np.all(np.sum(together * alone, axis=1) > 0.99)


async def test_no_passages_give_no_vectors(embedder: Embedder) -> None:
    assert len(await embedder.documents([])) == 0


async def test_what_the_process_says_matches_what_the_files_say(embedder: Embedder, embed_settings: Settings) -> None:
    info = await embedder.info()
    assert info.model == files.model_name(embed_settings)
    assert info.max_tokens == files.max_tokens(embed_settings) == 256


async def test_a_question_is_answered_while_a_long_indexing_job_runs(embedder: Embedder) -> None:
    job = asyncio.create_task(embedder.documents(["The travel policy limits a hotel night. " * 40] * 250))
    waits = []
    while not job.done() and len(waits) < 20:
        started = time.monotonic()
        await embedder.query(f"question number {len(waits)}", user="anna")
        waits.append(time.monotonic() - started)
    assert not job.done(), "the job must outlast the questions for this test to mean anything"
    job.cancel()
    await asyncio.gather(job, return_exceptions=True)
    assert sorted(waits)[len(waits) // 2] < 0.5


async def test_half_characters_of_a_broken_client_do_no_harm(embedder: Embedder) -> None:
    assert len(await embedder.query("hotel \ud83d", user="anna")) == (await embedder.info()).dimensions


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/documents", json.dumps({"texts": ["x"] * 513}), 413),
        ("/documents", json.dumps({"texts": ["x" * (33 * 1024 * 1024)]}), 413),
        ("/documents", json.dumps({"texts": "not a list"}), 400),
        ("/query", json.dumps({"text": 5}), 400),
        ("/query", "{", 400),
    ],
)
async def test_wrong_requests_are_refused(embed_settings: Settings, path: str, body: str, status: int) -> None:
    async with _raw(embed_settings) as client:
        assert (await client.post(path, content=body)).status_code == status


def test_only_our_own_user_reaches_the_socket(embed_socket: Path) -> None:
    assert stat.S_IMODE(embed_socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(embed_socket.parent.stat().st_mode) == 0o700


async def test_without_the_process_callers_are_told_and_later_calls_recover(tmp_path: Path, embed_socket: Path) -> None:
    """Given no embed process, when it appears, then the same client goes on."""
    settings = Settings(app_secret="unused", app_persistent_storage=tmp_path, search_deadline_s=20)
    client = Embedder(settings)
    with pytest.raises(EmbedderUnavailable):
        await client.query("hotel", user="anna")
    with pytest.raises(EmbedderUnavailable):
        await client.documents(PASSAGES)
    settings.embed_socket.parent.mkdir()
    settings.embed_socket.symlink_to(embed_socket)
    assert len(await client.documents(PASSAGES)) == len(PASSAGES)
    await client.close()


async def test_nonsense_from_the_socket_is_an_unavailable_embedder(tmp_path: Path) -> None:
    settings = Settings(app_secret="unused", app_persistent_storage=tmp_path, search_deadline_s=20)
    settings.embed_socket.parent.mkdir()

    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nx-shape: 1,4\r\ncontent-length: 3\r\n\r\nabc")
        await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(nonsense, settings.embed_socket):
        client = Embedder(settings)
        with pytest.raises(EmbedderUnavailable):
            await client.query("hotel", user="anna")
        with pytest.raises(EmbedderUnavailable):
            await client.info()
        await client.close()


async def test_a_restarted_process_is_found_again_behind_a_connection_that_died(tmp_path: Path) -> None:
    settings = Settings(app_secret="unused", app_persistent_storage=tmp_path, search_deadline_s=20)
    settings.embed_socket.parent.mkdir()
    writers: list[asyncio.StreamWriter] = []

    async def process(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"}"):
                writer.write(b"HTTP/1.1 200 OK\r\nx-shape: 1,1\r\ncontent-length: 4\r\n\r\n\0\0\x80\x3f")

    client = Embedder(settings)
    for question in ("before", "after"):
        server = await asyncio.start_unix_server(process, settings.embed_socket)
        assert await client.query(question, user="anna") == (1.0,)
        server.close()
        for writer in writers:
            writer.transport.abort()
        settings.embed_socket.unlink(missing_ok=True)
    await client.close()


@dataclass
class SlowModel:
    """Stands for the model: notes on how many threads it indexed, and answers questions only when let."""

    name: str = "slow"
    dimensions: int = 1
    max_tokens: int = 8
    cores: int = 4
    lanes: int = 2
    threads: list[int] = field(default_factory=list)
    answer: threading.Event = field(default_factory=threading.Event)

    def encode_query(self, text: str) -> Vectors:
        assert self.answer.wait(10)
        return np.ones((1, 1), dtype=np.float32)

    def encode_documents(self, texts: list[str], *, threads: int) -> Vectors:
        self.threads.append(threads)
        return np.ones((len(texts), 1), dtype=np.float32)


async def _stays() -> bool:
    return False


async def test_indexing_takes_all_cores_until_somebody_searches() -> None:
    model = SlowModel()
    encoder = Encoder(model)  # type: ignore[arg-type]
    await encoder.documents(["text"] * 20, abandoned=_stays)
    model.answer.set()
    await encoder.query("hotel")
    await encoder.documents(["text"] * 20, abandoned=_stays)
    assert model.threads == [2, 2, 2, 1, 1, 1]
    encoder.close()


@dataclass
class NicenessModel(SlowModel):
    """Notes how much its thread lets others go first."""

    def encode_documents(self, texts: list[str], *, threads: int) -> Vectors:
        self.threads.append(os.getpriority(os.PRIO_PROCESS, 0))  # of the calling thread
        return np.ones((len(texts), 1), dtype=np.float32)


async def test_passages_let_the_worker_who_brings_them_go_first() -> None:
    """Or it would hold the registry's lock and get no core, while everybody waits."""
    model = NicenessModel()
    encoder = Encoder(model)  # type: ignore[arg-type]
    own = os.getpriority(os.PRIO_PROCESS, 0)
    await encoder.documents(["text"] * 20, abandoned=_stays)
    assert set(model.threads) == {min(19, own + CRUNCHING_NICE)}
    assert CRUNCHING_NICE > WORKER_NICE
    encoder.close()


@dataclass
class MeetingModel(SlowModel):
    """Waits until as many threads encode passages as it has lanes, where it is told to."""

    meeting: threading.Barrier = field(default_factory=lambda: threading.Barrier(2))
    alone: bool = False
    inside: int = 0
    most: int = 0

    def encode_documents(self, texts: list[str], *, threads: int) -> Vectors:
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.alone:
            time.sleep(0.001)  # long enough for another to come in, were it let
        else:
            self.meeting.wait(10)
        rows = super().encode_documents(texts, threads=threads)
        self.inside -= 1
        return rows


async def test_one_document_is_encoded_in_all_lanes_and_in_one_while_somebody_searches() -> None:
    model = MeetingModel()
    encoder = Encoder(model)  # type: ignore[arg-type]
    await encoder.documents(["text"] * 32, abandoned=_stays)
    assert model.most == 2
    model.answer.set()
    await encoder.query("hotel")
    model.alone, model.most = True, 0
    await asyncio.gather(*(encoder.documents(["text"] * 100, abandoned=_stays) for _ in range(3)))
    assert model.most == 1
    encoder.close()


async def test_indexing_lets_a_waiting_question_pass_first() -> None:
    model = SlowModel()
    encoder = Encoder(model)  # type: ignore[arg-type]
    question = asyncio.create_task(encoder.query("hotel"))
    await asyncio.sleep(0)
    indexing = asyncio.create_task(encoder.documents(["text"], abandoned=_stays))
    await asyncio.sleep(0.05)
    assert not model.threads
    model.answer.set()
    await question
    await indexing
    assert model.threads == [1]
    encoder.close()


@dataclass
class HeldModel(SlowModel):
    """Encodes its first passages only when let."""

    begun: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def encode_documents(self, texts: list[str], *, threads: int) -> Vectors:
        rows = super().encode_documents(texts, threads=threads)
        self.begun.set()
        assert self.go_on.wait(10)
        return rows


async def test_a_question_passes_the_lane_that_waits_for_its_turn_too() -> None:
    """Given two lanes while somebody searches, one of which waits for the other, when a question comes, then the one
    that waits lets it pass."""
    model = HeldModel()
    encoder = Encoder(model)  # type: ignore[arg-type]
    model.answer.set()
    await encoder.query("hotel")
    indexing = asyncio.create_task(encoder.documents(["text"] * 16, abandoned=_stays))
    await asyncio.to_thread(model.begun.wait, 10)
    model.answer.clear()
    question = asyncio.create_task(encoder.query("hotel"))
    await asyncio.sleep(0.05)
    model.go_on.set()
    await asyncio.sleep(0.05)
    assert len(model.threads) == 1
    model.answer.set()
    await question
    await indexing
    assert model.threads == [1, 1]
    encoder.close()


async def test_indexing_stops_when_its_caller_is_gone() -> None:
    model = SlowModel()
    encoder = Encoder(model)  # type: ignore[arg-type]

    async def gone_after_the_first_slice() -> bool:
        return bool(model.threads)

    await encoder.documents(["text"] * 100, abandoned=gone_after_the_first_slice)
    assert len(model.threads) <= model.lanes
    encoder.close()


async def test_more_questions_than_anybody_would_wait_for_are_refused_at_once() -> None:
    model = SlowModel()
    encoder = Encoder(model)  # type: ignore[arg-type]
    waiting = [asyncio.create_task(encoder.query("hotel")) for _ in range(64)]
    await asyncio.sleep(0)
    with pytest.raises(NotAvailable):
        await encoder.query("one more")
    model.answer.set()
    await asyncio.gather(*waiting)
    assert len(await encoder.query("later")) == 1
    encoder.close()


def test_knowing_the_model_costs_no_torch() -> None:
    """The worker counts tokens with the model's tokenizer but must not pay for the model."""
    code = (
        "import sys; from ex_app.settings import Settings; from ex_app.embed import client, files, sparse;"
        "s = Settings(); files.model_name(s); files.room(s); files.load_tokenizer(s);"
        "sys.exit('torch' in sys.modules or 'sentence_transformers' in sys.modules)"
    )
    environment = {**os.environ, "APP_SECRET": "unused"}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotAvailable, match=r"modules\.json"):
        files.model_path(Settings(app_secret="unused", embed_model=str(tmp_path)))


def test_a_model_of_the_same_name_with_other_files_gets_another_name(tmp_path: Path, embed_settings: Settings) -> None:
    """Vectors of two models must never meet in one index."""
    source = files.model_path(embed_settings)
    for name in ("modules.json", "tokenizer.json", "config.json"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    settings = Settings(app_secret="unused", embed_model=str(tmp_path))
    before = files.model_name(settings)
    (tmp_path / "config.json").write_text("{}")
    assert files.model_name(settings) != before


def test_the_prompt_of_a_document_takes_room(tmp_path: Path, embed_settings: Settings) -> None:
    """E5 models want "passage: " in front, which their files don't say."""
    folder = tmp_path / "multilingual-e5-small"
    folder.mkdir()
    source = files.model_path(embed_settings)
    for name in ("modules.json", "tokenizer.json", "config.json", "sentence_bert_config.json"):
        (folder / name).write_bytes((source / name).read_bytes())
    settings = Settings(app_secret="unused", embed_model=str(folder))
    assert files.prompts(settings)["query"] == "query: "
    assert files.room(settings) == files.room(embed_settings) - 2

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The embedded engine as a process: its key, its folder, its death and its return; and how others find it."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import sys
import uuid
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from engines import EngineProcess, settings_in
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from ex_app.domain import EngineUnavailable
from ex_app.settings import Settings
from ex_app.store import edge_desk, edge_server, engine
from ex_app.store.edge_desk import Desk
from ex_app.store.edge_shards import Shards, Unreadable

HERE = Path(__file__).resolve().parents[1]
UNIT = [1.0, 0.0]


@pytest.fixture(scope="module", autouse=True)
def no_binary() -> Iterator[None]:
    """The embedded engine is meant here, even where a qdrant binary is installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "")
        yield


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, no_binary: None) -> Iterator[EngineProcess]:
    process = EngineProcess(settings_in(tmp_path_factory.mktemp("engine")))
    yield process
    process.stop()


@pytest.fixture(scope="module")
def rest(running: EngineProcess) -> Iterator[httpx.Client]:
    """Plain HTTP with the right key."""
    with httpx.Client(base_url=running.address.url, headers={"api-key": running.address.api_key}) as plain:
        yield plain


@pytest.fixture
async def client(running: EngineProcess) -> AsyncIterator[AsyncQdrantClient]:
    found = engine.connect(running.settings)
    yield found
    await found.close()


@pytest.fixture
async def collection(client: AsyncQdrantClient) -> AsyncIterator[str]:
    name = f"test-{uuid.uuid4().hex}"
    await create(client, name)
    yield name
    await client.delete_collection(name)


async def create(client: AsyncQdrantClient, name: str) -> None:
    await client.create_collection(
        name,
        vectors_config={"dense": models.VectorParams(size=2, distance=models.Distance.COSINE)},
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )


def point(number: int, **payload: object) -> models.PointStruct:
    return models.PointStruct(id=str(uuid.UUID(int=number)), vector={"dense": UNIT}, payload={"n": number, **payload})


# --- the key


@pytest.mark.parametrize("headers", [{}, {"api-key": "wrong"}, {"authorization": "Bearer wrong"}])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/collections"),
        ("GET", "/collections/any/exists"),
        ("PUT", "/collections/any"),
        ("DELETE", "/collections/any"),
        ("PUT", "/collections/any/points"),
        ("POST", "/collections/any/points/query"),
        ("POST", "/collections/any/points/scroll"),
        ("GET", "/no/such/path"),
    ],
)
def test_without_the_key_everything_is_refused(
    rest: httpx.Client, method: str, path: str, headers: dict[str, str]
) -> None:
    assert rest.request(method, path, headers={"api-key": "", **headers}).status_code == 401
    assert rest.request(method, path).status_code != 401


def test_without_a_key_of_its_own_it_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QDRANT__SERVICE__API_KEY", raising=False)
    with pytest.raises(SystemExit, match="QDRANT__SERVICE__API_KEY must be set"):
        edge_server.main(["--data", str(tmp_path), "--port", "1"])


# --- what the client is told


async def test_errors_read_like_qdrants(client: AsyncQdrantClient, collection: str) -> None:
    with pytest.raises(UnexpectedResponse) as missing:
        await client.count("missing")
    assert missing.value.status_code == 404
    assert missing.value.structured()["status"]["error"] == "Not found: Collection `missing` doesn't exist!"
    with pytest.raises(UnexpectedResponse) as twice:
        await create(client, collection)
    assert twice.value.status_code == 409
    for vector, name in (([1.0, 2.0, 3.0], "dense"), (UNIT, "nope")):
        with pytest.raises(UnexpectedResponse) as refused:
            await client.query_points(collection, vector, using=name)
        assert refused.value.status_code == 400


@pytest.mark.parametrize(
    "condition",
    [
        {"key": "text", "match": {"text": "hotel"}},
        {"key": "shared", "match": {"value": True}},
        {"key": "place", "geo_radius": {"center": {"lon": 1, "lat": 1}, "radius": 5}},
        {"key": "mtime", "range": {"gte": "2026-01-01T00:00:00Z"}},
        {"key": "scopes", "is_empty": False},
        {"nested": {"key": "a", "filter": {}}},
        {"must": [], "min_should": {"conditions": [], "min_count": 1}},
        {"unheard": "of"},
    ],
)
def test_a_condition_it_does_not_know_is_refused_rather_than_ignored(
    rest: httpx.Client, condition: dict[str, object]
) -> None:
    """An ignored condition would widen the answer, and a reach is a condition."""
    for route, body in {"count": {}, "delete": {}, "query": {"query": UNIT, "using": "dense"}}.items():
        answer = rest.post(f"/collections/any/points/{route}", json={**body, "filter": {"must": [condition]}})
        assert answer.status_code == 400, answer.text
        assert answer.json()["status"]["error"]


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("query", {"query": UNIT, "using": "dense", "prefetch": {"query": UNIT}}),
        ("query", {"query": {"fusion": "rrf"}}),
        ("query", {"query": {"nearest": UNIT, "mmr": {}}, "using": "dense"}),
        ("query", {"query": UNIT, "using": "dense", "params": {"indexed_only": True}}),
        ("scroll", {"order_by": "n"}),
        ("payload", {"payload": {"a": 1}}),
        ("payload", {"payload": {"a": 1}, "points": [1]}),
        ("count", b"{not json"),
    ],
)
def test_requests_beyond_its_part_of_the_api_are_refused(rest: httpx.Client, route: str, body: object) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body)
    answer = rest.post(f"/collections/any/points/{route}", content=content)
    assert answer.status_code == 400


def test_a_body_without_end_is_refused(rest: httpx.Client) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * (1024 * 1024)

    assert rest.put("/collections/any/points", content=endless()).status_code == 413


@pytest.mark.parametrize("name", ["..", ".hidden", "a/b", "a" * 200, "nul\0", "räksmörgås"])
async def test_a_collections_name_is_never_a_path(client: AsyncQdrantClient, running: EngineProcess, name: str) -> None:
    before = sorted(running.data.rglob("*"))
    with pytest.raises((UnexpectedResponse, ValueError)):
        await create(client, name)
    assert sorted(running.data.rglob("*")) == before


async def test_points_can_be_read_and_deleted_by_id(client: AsyncQdrantClient, collection: str) -> None:
    await client.upsert(collection, [point(1), point(2), point(3)])
    await client.delete(collection, points_selector=[str(uuid.UUID(int=2))])
    ids = [str(uuid.UUID(int=number)) for number in (1, 2, 3)]
    records = await client.retrieve(collection, ids, with_payload=["n"], with_vectors=True)
    assert {record.id: record.payload for record in records} == {ids[0]: {"n": 1}, ids[2]: {"n": 3}}
    assert records[0].vector == {"dense": UNIT}


async def test_a_collection_tells_how_it_is_made(client: AsyncQdrantClient, collection: str) -> None:
    await client.create_payload_index(collection, "scopes", models.PayloadSchemaType.KEYWORD)
    await client.upsert(collection, [point(1, scopes=["f:1"]), point(2)])
    told = await client.get_collection(collection)
    assert told.points_count == 2
    assert told.config.params.vectors == {"dense": models.VectorParams(size=2, distance=models.Distance.COSINE)}
    assert told.config.params.sparse_vectors == {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)}
    assert told.payload_schema["scopes"].data_type == models.PayloadSchemaType.KEYWORD
    assert collection in [found.name for found in (await client.get_collections()).collections]


# --- its folder and its death


def test_a_folder_has_one_owner(running: EngineProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDRANT__SERVICE__API_KEY", "k")
    owner = rf"in use by another process \(pid {running.process.pid}\)"
    with pytest.raises(SystemExit, match=owner):
        edge_server.main(["--data", str(running.data), "--port", "1"])


async def test_kill_9_during_writes_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """Given one writer after another, when the process is killed in the middle of a write, then it opens again with
    every point that was acknowledged, every deletion and every change of place, round after round."""
    process = EngineProcess(settings_in(tmp_path))
    acknowledged: set[int] = set()
    deleted: set[int] = set()
    connection = engine.Connection(process.settings)
    await create(connection(), "travel")
    for round_ in range(2):
        writing = asyncio.create_task(write_until_it_dies(connection(), round_ * 100_000, acknowledged, deleted))
        while len(acknowledged) < (round_ + 1) * 190:
            await asyncio.sleep(0.005)
        process.kill()
        await writing
        process.start()
        held = await everything(connection(), "travel")
        assert acknowledged - deleted <= held.keys()
        assert not deleted & held.keys()
        assert all(held[number]["place"] == "new" for number in acknowledged - deleted)
    assert len(deleted) > 10
    await connection.aclose()
    process.stop()


async def write_until_it_dies(client: AsyncQdrantClient, first: int, acknowledged: set[int], deleted: set[int]) -> None:
    """Batches of twenty, each moved to another place; one of each batch is deleted."""
    try:
        for start in range(first, first + 100_000, 20):
            await client.upsert(
                "travel", [point(number, batch=start, place="old") for number in range(start, start + 20)]
            )
            mine = models.Filter(must=[models.FieldCondition(key="batch", match=models.MatchValue(value=start))])
            await client.set_payload("travel", {"place": "new"}, points=mine)
            acknowledged.update(range(start, start + 20))
            await client.delete("travel", points_selector=[str(uuid.UUID(int=start))])
            deleted.add(start)
            acknowledged.discard(start)
    except ApiException:
        # The deletion in flight may or may not have happened: nobody was promised either.
        acknowledged.discard(start)


async def everything(client: AsyncQdrantClient, name: str) -> dict[int, dict[str, object]]:
    records, _ = await client.scroll(name, limit=100_000, with_payload=True)
    return {record.payload["n"]: record.payload for record in records if record.payload}


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    process = EngineProcess(settings_in(tmp_path))
    assert process.process.stdin is not None
    process.process.stdin.close()
    assert process.process.wait(30) == 0


def test_a_folder_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    Shards(tmp_path).close()
    (tmp_path / "collections" / "travel" / "shard-1").mkdir(parents=True)
    with pytest.raises(Unreadable, match=r"collections/travel cannot be opened"):
        Shards(tmp_path)


def test_half_made_and_half_deleted_collections_are_swept_at_start(tmp_path: Path) -> None:
    for leftover in (".new-a", ".old-b"):
        (tmp_path / "collections" / leftover / "shard").mkdir(parents=True)
    shards = Shards(tmp_path)
    assert shards.names() == []
    assert list((tmp_path / "collections").iterdir()) == []


async def test_searches_go_before_writes_that_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_desk, "WRITE_YIELDS_S", 60.0)
    desk = Desk(Shards(tmp_path))
    done: list[str] = []
    free = asyncio.Event()
    loop = asyncio.get_running_loop()
    gate = asyncio.create_task(desk.read(lambda _: asyncio.run_coroutine_threadsafe(free.wait(), loop).result(10)))
    await asyncio.sleep(0)
    waiting = [asyncio.create_task(desk.write(lambda _, n=n: done.append(f"write {n}"))) for n in (1, 2)]
    await asyncio.sleep(0)
    waiting.append(asyncio.create_task(desk.read(lambda _: done.append("search"))))
    await asyncio.sleep(0)
    free.set()
    await asyncio.gather(gate, *waiting)
    desk.close()
    assert done == ["search", "write 1", "write 2"]


# --- how others start and find it


async def test_an_engine_is_started_published_for_us_alone_and_stopped(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    with pytest.raises(EngineUnavailable, match="not started"):
        engine.connect(settings)
    async with engine.start_engine(settings) as running:
        published = settings.data_dir / "run" / "engine.json"
        assert stat.S_IMODE(published.stat().st_mode) == 0o600
        assert engine.address_of(settings) == running.address
        assert running.address.api_key not in repr(running)
        client = engine.connect(settings)
        assert (await client.get_collections()).collections == []
        await client.close()
    assert running.process is not None
    assert running.process.returncode is not None


def test_the_child_becomes_the_engine_and_inherits_no_secret(tmp_path: Path) -> None:
    """Given an official binary on the PATH, when the child runs, then it turns into it with its own port and key."""
    binary = tmp_path / "bin" / "qdrant"
    binary.parent.mkdir()
    binary.write_text("#!/bin/sh\nexport -p > seen.txt\n")
    binary.chmod(0o755)
    environment = {"PATH": str(binary.parent), "APP_SECRET": "hush", "APP_PERSISTENT_STORAGE": str(tmp_path / "data")}
    script = "from ex_app.store.engine import run; from ex_app.settings import Settings; run(Settings())"
    subprocess.run([sys.executable, "-c", script], cwd=HERE, env=environment, check=True, timeout=20)
    seen = (tmp_path / "data" / "qdrant" / "seen.txt").read_text()
    published = json.loads((tmp_path / "data" / "run" / "engine.json").read_text())
    assert f"QDRANT__SERVICE__HTTP_PORT='{published['url'].rpartition(':')[2]}'" in seen
    assert f"QDRANT__SERVICE__API_KEY='{published['api_key']}'" in seen
    assert "QDRANT__SERVICE__HOST='127.0.0.1'" in seen
    assert "QDRANT__TELEMETRY_DISABLED='true'" in seen
    assert "hush" not in seen


def test_an_engine_of_somebody_else_is_not_started(tmp_path: Path) -> None:
    foreign = Settings(
        app_secret="s", app_persistent_storage=tmp_path, qdrant_url="https://qdrant.example", qdrant_api_key="theirs"
    )
    assert engine.engine_command(foreign) is None
    assert engine.address_of(foreign) == engine.Address("https://qdrant.example", "theirs")
    with pytest.raises(SystemExit, match="runs elsewhere"):
        engine.run(foreign)


async def test_only_on_the_loopback_is_a_key_over_http_no_reason_to_warn(tmp_path: Path) -> None:
    def foreign(url: str) -> Settings:
        return Settings(app_secret="s", app_persistent_storage=tmp_path, qdrant_url=url, qdrant_api_key="k")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for url in ("http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "https://qdrant.example"):
            await engine.connect(foreign(url)).close()
    with pytest.warns(UserWarning, match="insecure connection"):
        await engine.connect(foreign("http://10.0.0.7:6333")).close()

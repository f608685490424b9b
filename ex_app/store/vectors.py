# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The vector index: every chunk as one point with a dense and a BM25 vector, searched within a reach.

Written against AsyncQdrantClient and its models alone, so that any Qdrant serves: cluster, server or embedded.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from ex_app.domain import Candidate, DocumentKey, EngineUnavailable, Filters, Passage, Point, Reach, ScopeId, Sparse
from ex_app.store.vector_points import (
    BM25,
    DENSE,
    PASSAGE_FIELDS,
    by_meaning,
    by_words,
    candidate,
    completion,
    leg,
    narrowed,
    of_document,
    of_documents,
    passage,
    payload_of,
    point_id,
    struct,
    within,
)

WRITE_BATCH = 100  # points; 500 tripled the time that a search waits behind a write
READ_PAGE = 500  # points without vectors
VECTORS_PAGE = 100  # points with vectors

# The first engine whose BM25 statistics can be bound to a filter. Older ones ignore the request without a word,
# and strangers' documents would move a user's scores.
OLDEST_ENGINE = (1, 19)

# Answers below 500 that mean "not now": another process on a reused port, a wrong key, a timeout, overload.
_AWAY = (401, 403, 408, 429)

_INDEXES = {
    "document": models.PayloadSchemaType.KEYWORD,
    "scopes": models.PayloadSchemaType.KEYWORD,
    "source": models.PayloadSchemaType.KEYWORD,
    "generation": models.PayloadSchemaType.INTEGER,
    "owner": models.PayloadSchemaType.KEYWORD,
    "mtime": models.PayloadSchemaType.INTEGER,
}


class Imprint(NamedTuple):
    """What the index holds of one chunk, without its text and vectors."""

    document: DocumentKey
    generation: int
    ordinal: int
    text_hash: str
    scopes: frozenset[ScopeId]


def collection_name(instance_id: str, model: str, chunker_version: str, sparse_version: str) -> str:
    """The index for these ingredients: another model or chunker never meets another's points."""
    ingredients = "\n".join((instance_id, model, chunker_version, sparse_version))
    digest = hashlib.blake2b(ingredients.encode(), digest_size=10).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9]+", "-", instance_id).strip("-")[:32]
    return f"semantic-search_{readable}_{digest}"


class Vectors:
    """One index. `client` gives the client to use now (`engine.Connection`), so that a restarted engine is found again.

    Every method raises EngineUnavailable when the engine cannot be reached, is failing or lacks the collection. All
    writes are idempotent and durable when they return.
    """

    def __init__(self, client: Callable[[], AsyncQdrantClient], *, collection: str, dimensions: int) -> None:
        self._client = client
        self._collection = collection
        self._dimensions = dimensions

    async def ensure(self) -> None:
        """Create the collection and its payload indexes where they are missing."""
        with self._faults():
            client = self._client()
            _demand_version((await client.info()).version)
            if not await client.collection_exists(self._collection):
                await self._create(client)
            described = await client.get_collection(self._collection)
            self._demand_dimensions(described.config.params.vectors)
            for field, kind in _INDEXES.items():
                if field not in described.payload_schema:
                    await client.create_payload_index(self._collection, field, field_schema=kind, wait=True)

    async def write(self, points: Sequence[Point]) -> None:
        """Insert or replace points, by document, generation and ordinal."""
        with self._faults():
            for start in range(0, len(points), WRITE_BATCH):
                batch = [struct(point) for point in points[start : start + WRITE_BATCH]]
                _confirmed(await self._client().upsert(self._collection, batch, wait=True))

    async def set_place(
        self,
        document: DocumentKey,
        *,
        scopes: Collection[ScopeId],
        title: str,
        path: str,
        mtime: int | None = None,
        owner: str | None = None,
    ) -> None:
        """The document moved or was renamed: update all its points without touching text and vectors."""
        place: dict[str, Any] = {"scopes": sorted(scopes), "title": title, "path": path}
        if mtime is not None:
            place["mtime"] = mtime
        if owner is not None:
            place["owner"] = owner
        with self._faults():
            _confirmed(
                await self._client().set_payload(self._collection, place, points=of_document(document), wait=True)
            )

    async def passages_of(self, document: DocumentKey, generation: int) -> list[Passage]:
        """A generation's passages in order, to be copied into the next one."""
        where = of_document(
            document, models.FieldCondition(key="generation", match=models.MatchValue(value=generation))
        )
        records = self._scroll(where, fields=PASSAGE_FIELDS, page=VECTORS_PAGE, with_vectors=[DENSE])
        return sorted([passage(record) async for record in records], key=lambda held: held.chunk.ordinal)

    @property
    def collection(self) -> str:
        """The name of the index."""
        return self._collection

    async def keep_only(self, document: DocumentKey, generation: int, *, below: int | None = None) -> None:
        """Delete the document's points of all other generations below `below`, by default below the kept one.

        Whoever works on the document passes its own generation, so that leftovers of tries that died go too. Higher
        ones are never touched: they belong to whoever took the work over, who may be writing them right now.
        """
        kept = models.FieldCondition(key="generation", match=models.MatchValue(value=generation))
        limit = generation if below is None else below
        lower = models.FieldCondition(key="generation", range=models.Range(lt=limit))
        await self._delete(of_document(document, lower, models.Filter(must_not=[kept])))

    async def drop_generation(self, document: DocumentKey, generation: int) -> None:
        """Delete the document's points of one generation."""
        same = models.FieldCondition(key="generation", match=models.MatchValue(value=generation))
        await self._delete(of_document(document, same))

    async def drop(self, document: DocumentKey) -> None:
        """Delete all of the document's points."""
        await self._delete(of_document(document))

    async def recall(
        self,
        dense: Sequence[float],
        sparse: Sparse,
        reach: Reach,
        filters: Filters,
        *,
        limit: int,
        exclude: Collection[DocumentKey] = (),
        avoid: Collection[ScopeId] = (),
    ) -> list[Candidate]:
        """The `limit` nearest chunks by meaning and as many by words, within the reach; each with both scores.

        BM25 statistics are taken over the reach alone, whatever the user's filters. What is excluded is not found
        again, nor what lies in a scope to avoid. No order is promised. An empty reach finds nothing and asks nobody.
        """
        if not (reach.scopes or reach.documents) or limit < 1:
            return []
        corpus = within(reach)
        where = narrowed(corpus, filters, exclude, avoid)
        meaning, words = by_meaning(dense), by_words(sparse, corpus)
        near, worded = await self._search(leg(meaning, where, limit), leg(words, where, limit))
        far, wordless = await self._search(
            completion(meaning, worded.keys() - near.keys()), completion(words, near.keys() - worded.keys())
        )
        dense_of, sparse_of = far | near, wordless | worded
        return [
            candidate(point, dense=dense_of[key].score, sparse=sparse_of[key].score if key in sparse_of else 0.0)
            for key, point in (worded | near).items()
            if key in dense_of  # else it was deleted between both questions
        ]

    async def rescored(self, candidates: Sequence[Candidate], sparse: Sparse) -> list[Candidate]:
        """The same candidates with the BM25 scores that they have where there are no documents but theirs.

        They are asked for by their ids: a search could leave some out, as a long document has many better passages.
        """
        if not candidates:
            return []
        words = by_words(sparse, within(Reach(documents=frozenset(known.document for known in candidates))))
        [worded] = await self._search(completion(words, [point_id(known) for known in candidates]))
        scores = {key: point.score for key, point in worded.items()}
        return [replace(known, sparse=scores.get(point_id(known), 0.0)) for known in candidates]

    async def digest(self, documents: Collection[DocumentKey] | None = None) -> AsyncIterator[Imprint]:
        """What the index holds, of all documents or of these, chunk by chunk; what is written meanwhile may show."""
        fields = ["document", "generation", "ordinal", "text_hash", "scopes"]
        where = None if documents is None else of_documents(documents)
        async for record in self._scroll(where, fields=fields, page=READ_PAGE, with_vectors=False):
            held = payload_of(record)
            yield Imprint(
                DocumentKey.parse(held["document"]),
                held["generation"],
                held["ordinal"],
                held["text_hash"],
                frozenset(held["scopes"]),
            )

    async def count(self) -> int:
        """How many points the index holds."""
        with self._faults():
            return (await self._client().count(self._collection, exact=True)).count

    async def destroy(self) -> None:
        """Delete the whole collection; nothing happens when there is none."""
        with self._faults():
            await self._client().delete_collection(self._collection)

    async def _create(self, client: AsyncQdrantClient) -> None:
        try:
            await client.create_collection(
                self._collection,
                vectors_config={DENSE: models.VectorParams(size=self._dimensions, distance=models.Distance.COSINE)},
                sparse_vectors_config={BM25: models.SparseVectorParams(modifier=models.Modifier.IDF)},
            )
        except UnexpectedResponse as fault:
            if fault.status_code != 409:  # another process was faster
                raise

    def _demand_dimensions(self, vectors: object) -> None:
        params = vectors.get(DENSE) if isinstance(vectors, dict) else None
        if not isinstance(params, models.VectorParams) or params.size != self._dimensions:
            raise EngineUnavailable(f"The index {self._collection} was not made for {self._dimensions} dimensions")

    async def _delete(self, where: models.Filter) -> None:
        with self._faults():
            selector = models.FilterSelector(filter=where)
            _confirmed(await self._client().delete(self._collection, points_selector=selector, wait=True))

    async def _search(
        self, *legs: models.QueryRequest | None
    ) -> list[dict[models.ExtendedPointId, models.ScoredPoint]]:
        """Ask all legs in one request; the found points of each by id, in the order found. None finds nothing."""
        asked = [leg for leg in legs if leg is not None]
        if not asked:
            return [{} for _ in legs]
        with self._faults():
            answers = iter(await self._client().query_batch_points(self._collection, asked))
        return [{} if leg is None else {point.id: point for point in next(answers).points} for leg in legs]

    async def _scroll(
        self, where: models.Filter | None, *, fields: list[str], page: int, with_vectors: bool | list[str]
    ) -> AsyncIterator[models.Record]:
        offset: Any = None
        while True:
            with self._faults():
                records, offset = await self._client().scroll(
                    self._collection,
                    scroll_filter=where,
                    limit=page,
                    offset=offset,
                    with_payload=fields,
                    with_vectors=with_vectors,
                )
            for record in records:
                yield record
            if offset is None:
                return

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Translate what the client raises when the engine is away."""
        try:
            yield
        except ResponseHandlingException as fault:
            raise EngineUnavailable("The vector engine does not answer") from fault
        except ResourceExhaustedResponse as fault:
            raise EngineUnavailable("The vector engine is busy") from fault
        except UnexpectedResponse as fault:
            status = fault.status_code or 500
            if status == 404:
                raise EngineUnavailable(f"The vector engine has no index {self._collection}") from fault
            if status >= 500 or status in _AWAY:
                raise EngineUnavailable(f"The vector engine is failing (status {status})") from fault
            raise


def _demand_version(version: str) -> None:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST_ENGINE:
        oldest = ".".join(map(str, OLDEST_ENGINE))
        raise EngineUnavailable(f"Qdrant {version} cannot keep users' scores apart: {oldest} or later is needed")


def _confirmed(result: models.UpdateResult) -> None:
    """A server that gave up waiting has accepted the write but not applied it."""
    if result.status != models.UpdateStatus.COMPLETED:
        raise EngineUnavailable("The vector engine did not confirm a write in time")

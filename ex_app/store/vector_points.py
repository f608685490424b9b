# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""How our words are written as Qdrant points, filters and queries, and read back."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from typing import Any

from qdrant_client import models

from ex_app.domain import Candidate, Chunk, DocumentKey, Filters, Passage, Point, Reach, ScopeId, Sparse

DENSE, BM25 = "dense", "bm25"  # names of a point's vectors

_CHUNK_FIELDS = ("ordinal", "text", "start", "end", "page", "headings")
PASSAGE_FIELDS = [*_CHUNK_FIELDS, "text_hash"]

_NAMESPACE = uuid.UUID("6f4a0c86-9d0e-5b57-8f0e-3d6b1f0a7c11")


def struct(point: Point) -> models.PointStruct:
    vector: dict[str, Any] = {DENSE: list(point.dense)}
    if point.sparse.indices:
        vector[BM25] = models.SparseVector(indices=list(point.sparse.indices), values=list(point.sparse.values))
    chunk = point.chunk
    payload = {
        "document": str(point.document),
        "generation": point.generation,
        "ordinal": chunk.ordinal,
        "scopes": list(point.scopes),
        "source": point.document.source,
        "title": point.title,
        "path": point.path,
        "mtime": point.mtime,
        "owner": point.owner,
        "language": point.language,
        "text": chunk.text,
        "start": chunk.start,
        "end": chunk.end,
        "page": chunk.page,
        "headings": list(chunk.headings),
        "text_hash": point.text_hash,
    }
    return models.PointStruct(id=point_id(point), vector=vector, payload=payload)


def point_id(point: Point | Candidate) -> str:
    """Always the same for a chunk of a document's generation."""
    return str(uuid.uuid5(_NAMESPACE, f"{point.document}/{point.generation}/{point.chunk.ordinal}"))


def candidate(point: models.ScoredPoint, *, dense: float, sparse: float) -> Candidate:
    held = payload_of(point)
    return Candidate(
        document=DocumentKey.parse(held["document"]),
        generation=held["generation"],
        chunk=_chunk(held),
        text_hash=held["text_hash"],
        scopes=frozenset(held["scopes"]),
        title=held["title"],
        path=held["path"],
        mtime=held["mtime"],
        owner=held["owner"],
        dense=dense,
        sparse=sparse,
    )


def payload_of(record: models.Record | models.ScoredPoint) -> dict[str, Any]:
    assert record.payload is not None  # asked for, and written with every point
    return record.payload


def passage(record: models.Record) -> Passage:
    """Of a record with PASSAGE_FIELDS and its dense vector."""
    held = payload_of(record)
    assert isinstance(record.vector, dict)
    dense = record.vector[DENSE]
    assert isinstance(dense, list)
    return Passage(_chunk(held), held["text_hash"], tuple(dense))  # type: ignore[arg-type]


def _chunk(held: dict[str, Any]) -> Chunk:
    return Chunk(
        ordinal=held["ordinal"],
        text=held["text"],
        start=held["start"],
        end=held["end"],
        page=held["page"],
        headings=tuple(held["headings"]),
    )


def of_document(document: DocumentKey, *conditions: models.Condition) -> models.Filter:
    same = models.FieldCondition(key="document", match=models.MatchValue(value=str(document)))
    return models.Filter(must=[same, *conditions])


def of_documents(documents: Collection[DocumentKey]) -> models.Filter:
    return models.Filter(must=[_any("document", documents)])


def _any(key: str, values: Collection[object]) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchAny(any=sorted(map(str, values))))


def within(reach: Reach) -> models.Filter:
    """scopes ∩ reach OR document ∈ reach.

    An empty reach is refused: as a filter it would let everything through.
    """
    open_: list[models.Condition] = []
    if reach.scopes:
        open_.append(_any("scopes", reach.scopes))
    if reach.documents:
        open_.append(_any("document", reach.documents))
    if not open_:
        raise ValueError("an empty reach")
    return models.Filter(should=open_)


def narrowed(
    reach: models.Filter, filters: Filters, exclude: Collection[DocumentKey], avoid: Collection[ScopeId]
) -> models.Filter:
    must: list[models.Condition] = [reach]
    but: list[models.Condition] = []
    if exclude:
        but.append(_any("document", exclude))
    if avoid:
        but.append(_any("scopes", avoid))
    if filters.sources:
        must.append(_any("source", filters.sources))
    if filters.owner is not None:
        must.append(models.FieldCondition(key="owner", match=models.MatchValue(value=filters.owner)))
    if filters.modified_after is not None or filters.modified_before is not None:
        span = models.Range(gte=filters.modified_after, lte=filters.modified_before)
        must.append(models.FieldCondition(key="mtime", range=span))
    return models.Filter(must=must, must_not=but or None)


def by_meaning(dense: Sequence[float]) -> models.QueryRequest:
    return models.QueryRequest(query=list(dense), using=DENSE)


def by_words(sparse: Sparse, corpus: models.Filter) -> models.QueryRequest | None:
    """None when the question has no words that count."""
    if not sparse.indices:
        return None
    return models.QueryRequest(
        query=models.SparseVector(indices=list(sparse.indices), values=list(sparse.values)),
        using=BM25,
        params=models.SearchParams(idf=models.IdfCorpusParams(corpus=corpus)),
    )


def leg(query: models.QueryRequest | None, where: models.Filter, limit: int) -> models.QueryRequest | None:
    return query and query.model_copy(update={"filter": where, "limit": limit, "with_payload": True})


def completion(
    query: models.QueryRequest | None, keys: Collection[models.ExtendedPointId]
) -> models.QueryRequest | None:
    """The scores of points that are known."""
    if not keys:
        return None
    where = models.Filter(must=[models.HasIdCondition(has_id=list(keys))])
    return query and query.model_copy(update={"filter": where, "limit": len(keys), "with_payload": False})

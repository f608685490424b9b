# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Between Qdrant's REST models and Qdrant Edge's own types, for the part of the API that we use.

What is not translated is refused, never ignored: a dropped filter condition would widen an answer.
"""

from __future__ import annotations

from typing import Any

import qdrant_edge as edge
from pydantic import BaseModel
from qdrant_client.http import models

# Index kinds whose parameters are hints of speed only, so that translating the kind alone keeps the meaning.
_PLAIN_INDEXES = ("keyword", "integer", "float", "datetime", "uuid")

Json = dict[str, Any]


class Unsupported(ValueError):
    """The request is valid for Qdrant but outside the part of its API that the embedded engine speaks."""


def shard_config(request: models.CreateCollection) -> edge.EdgeConfig:
    """The shard for a collection of named dense and sparse vectors; hints of placement are not followed."""
    if not isinstance(request.vectors, dict):
        raise Unsupported("vectors must be named")
    return edge.EdgeConfig(
        vectors={name: _dense_params(params) for name, params in request.vectors.items()},
        sparse_vectors={name: _sparse_params(params) for name, params in (request.sparse_vectors or {}).items()},
    )


def field_index(request: models.CreateFieldIndex) -> edge.UpdateOperation:
    """A payload index; only its kind is kept."""
    schema = request.field_schema
    kind = (schema if schema is None or isinstance(schema, models.PayloadSchemaType) else schema.type) or ""
    kind = str(getattr(kind, "value", kind))
    if kind not in _PLAIN_INDEXES:
        raise Unsupported(f"an index of kind {kind or 'none'!r} is not supported")
    return edge.UpdateOperation.create_field_index(request.field_name, getattr(edge.PayloadSchemaType, kind.title()))


def upsert(request: models.PointsList) -> edge.UpdateOperation:
    """Insert or replace points."""
    _only(request, "points")
    return edge.UpdateOperation.upsert_points([_point(point) for point in request.points])


def deletion(request: models.PointIdsList | models.FilterSelector) -> edge.UpdateOperation:
    """Delete points by id or by filter."""
    if isinstance(request, models.PointIdsList):
        _only(request, "points")
        return edge.UpdateOperation.delete_points(list(request.points))
    _only(request, "filter")
    return edge.UpdateOperation.delete_points_by_filter(_filter(request.filter))


def payload_update(request: models.SetPayload) -> edge.UpdateOperation:
    """Set some payload fields of the points that match; their other fields and their vectors stay.

    Naming points by id is not supported: it fails for an id that a half-built copy of the shard does not hold yet.
    """
    _only(request, "payload", "filter", "key")
    if request.filter is None:
        raise Unsupported("a change of payload needs a filter")
    return edge.UpdateOperation.set_payload_by_filter(_filter(request.filter), request.payload, request.key)


def query(request: models.QueryRequest) -> edge.QueryRequest:
    """A nearest-neighbour search over one named vector, dense or sparse."""
    _only(
        request,
        "query",
        "using",
        "filter",
        "params",
        "score_threshold",
        "limit",
        "offset",
        "with_vector",
        "with_payload",
    )
    return edge.QueryRequest(
        limit=10 if request.limit is None else request.limit,
        offset=request.offset,
        query=edge.Query.Nearest(_query_vector(request.query), using=request.using),
        filter=_filter(request.filter) if request.filter else None,
        score_threshold=request.score_threshold,
        params=_search_params(request.params) if request.params else None,
        with_vector=_vector_choice(request.with_vector),
        with_payload=payload_choice(request.with_payload, default=False),
    )


def scroll(request: models.ScrollRequest) -> edge.ScrollRequest:
    """A page of points in the order of their ids."""
    _only(request, "offset", "limit", "filter", "with_payload", "with_vector")
    return edge.ScrollRequest(
        offset=request.offset,
        limit=10 if request.limit is None else request.limit,
        filter=_filter(request.filter) if request.filter else None,
        with_payload=payload_choice(request.with_payload, default=True),
        with_vector=_vector_choice(request.with_vector),
    )


def count(request: models.CountRequest) -> edge.CountRequest:
    """How many points match; exact unless said otherwise."""
    _only(request, "filter", "exact")
    return edge.CountRequest(
        exact=request.exact is not False, filter=_filter(request.filter) if request.filter else None
    )


def retrieve(request: models.PointRequest) -> dict[str, Any]:
    """Arguments of `EdgeShard.retrieve`."""
    _only(request, "ids", "with_payload", "with_vector")
    return {
        "point_ids": list(request.ids),
        "with_payload": payload_choice(request.with_payload, default=True),
        "with_vector": _vector_choice(request.with_vector),
    }


def payload_choice(choice: Any, *, default: bool) -> Any:
    """Which payload fields to return: all, none, or the named ones."""
    match choice:
        case None:
            return default
        case bool() | list():
            return choice
        case models.PayloadSelectorInclude(include=keys):
            return edge.PayloadSelector.Include(keys)
        case models.PayloadSelectorExclude(exclude=keys):
            return edge.PayloadSelector.Exclude(keys)
        case _:
            raise Unsupported("with_payload")


def record_json(record: edge.Record) -> Json:
    """A point without a score, as Qdrant's REST API writes it."""
    return {"id": record.id, "payload": record.payload, "vector": _vector_json(record.vector)}


def scored_json(point: edge.ScoredPoint) -> Json:
    """A found point, as Qdrant's REST API writes it."""
    return {
        "id": point.id,
        "version": point.version,
        "score": point.score,
        "payload": point.payload,
        "vector": _vector_json(point.vector),
    }


def _only(model: BaseModel, *known: str) -> None:
    """Refuse a request that says more than we translate."""
    said = {name for name in model.model_fields_set if getattr(model, name) is not None}
    if unknown := sorted(said - set(known)):
        raise Unsupported(f"{type(model).__name__}: {', '.join(unknown)} is not supported by the embedded engine")


def _dense_params(params: models.VectorParams) -> edge.EdgeVectorParams:
    _only(params, "size", "distance", "on_disk", "hnsw_config")
    return edge.EdgeVectorParams(size=params.size, distance=getattr(edge.Distance, params.distance.value))


def _sparse_params(params: models.SparseVectorParams) -> edge.EdgeSparseVectorParams:
    return edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf if params.modifier == models.Modifier.IDF else None)


def _point(point: models.PointStruct) -> edge.Point:
    if not isinstance(point.vector, dict):
        raise Unsupported("vectors must be named")
    vectors: Any = {name: _named_vector(vector) for name, vector in point.vector.items()}
    return edge.Point(id=point.id, vector=vectors, payload=point.payload)


def _named_vector(vector: Any) -> list[float] | edge.SparseVector:
    match vector:
        case models.SparseVector(indices=indices, values=values):
            return edge.SparseVector(indices=indices, values=values)
        case [float() | int(), *_]:
            return list(vector)
        case _:
            raise Unsupported("a vector must be a list of numbers or sparse")


def _query_vector(asked: Any) -> list[float] | edge.SparseVector:
    return _named_vector(asked.nearest if isinstance(asked, models.NearestQuery) and asked.mmr is None else asked)


def _vector_json(vector: Any) -> Any:
    if isinstance(vector, dict):
        return {name: _vector_json(named) for name, named in vector.items()}
    if isinstance(vector, edge.SparseVector):
        return {"indices": vector.indices, "values": vector.values}
    return vector


def _vector_choice(choice: bool | list[str] | None) -> bool | list[str]:
    return False if choice is None else choice


def _search_params(params: models.SearchParams) -> edge.SearchParams:
    _only(params, "hnsw_ef", "exact", "indexed_only", "idf")
    if params.indexed_only:
        raise Unsupported("indexed_only would hide points")
    corpus = params.idf.corpus if isinstance(params.idf, models.IdfCorpusParams) else None
    return edge.SearchParams(
        hnsw_ef=params.hnsw_ef,
        exact=bool(params.exact),
        idf=edge.IdfParams(corpus=_filter(corpus)) if corpus else None,
    )


def _filter(asked: models.Filter) -> edge.Filter:
    _only(asked, "must", "should", "must_not")
    return edge.Filter(
        must=_conditions(asked.must), should=_conditions(asked.should), must_not=_conditions(asked.must_not)
    )


def _conditions(asked: Any) -> list[Any] | None:
    if asked is None:
        return None
    return [_condition(condition) for condition in (asked if isinstance(asked, list) else [asked])]


def _condition(asked: Any) -> Any:
    match asked:
        case models.Filter():
            return _filter(asked)
        case models.HasIdCondition(has_id=ids):
            return edge.HasIdCondition(set(ids))
        case models.IsEmptyCondition(is_empty=field):
            return edge.IsEmptyCondition(field.key)
        case models.FieldCondition():
            return _field_condition(asked)
        case _:
            raise Unsupported(f"{type(asked).__name__} is not supported by the embedded engine")


def _field_condition(asked: models.FieldCondition) -> edge.FieldCondition:
    _only(asked, "key", "match", "range")
    return edge.FieldCondition(
        key=asked.key,
        match=_match(asked.match) if asked.match else None,
        range=_range(asked.range) if asked.range else None,
    )


def _match(asked: Any) -> edge.MatchValue | edge.MatchAny | edge.MatchExcept:
    match asked:
        case models.MatchValue(value=bool()):
            raise Unsupported("the embedded engine takes true and false for numbers and matches neither")
        case models.MatchValue(value=value):
            return edge.MatchValue(value)
        case models.MatchAny(any=values):
            return edge.MatchAny(values)
        case models.MatchExcept():
            return edge.MatchExcept(asked.except_)
        case _:
            raise Unsupported(f"{type(asked).__name__} is not supported by the embedded engine")


def _range(asked: Any) -> edge.RangeFloat:
    if not isinstance(asked, models.Range):
        raise Unsupported("only ranges of numbers are supported")
    return edge.RangeFloat(gte=asked.gte, gt=asked.gt, lte=asked.lte, lt=asked.lt)

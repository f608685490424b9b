# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""DAV SEARCH: the conditions it understands, and the ones on which the server breaks."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from demo.multistatus import OC, D, DavError
from demo.tree import NotFoundHere, Seen
from demo.world import World

MAX_OPERATORS = 100

_FIRST = "{https://github.com/icewind1991/SearchDAV/ns}firstresult"
_BROKEN = (
    "A type error occurred. For more details, please refer to the logs, "
    "which provide additional context about the type error."
)
_ORDERED = {"eq": operator.eq, "gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
_FIELDS: dict[str, Callable[[Seen], int | str]] = {
    f"{OC}fileid": lambda seen: seen.node.id,
    f"{OC}size": lambda seen: seen.node.size(),
    f"{D}getlastmodified": lambda seen: seen.node.mtime,
    f"{D}getcontenttype": lambda seen: "httpd/unix-directory" if seen.node.is_folder else seen.node.mime,
    f"{D}displayname": lambda seen: seen.node.name,
}

_INDEXED = (f"{OC}fileid", f"{D}displayname")

Condition = Callable[[Seen], bool]


def search_results(world: World, uid: str, root: Element) -> tuple[list[str], list[Seen]]:
    """Asked properties and what matches, never the home's root, in no order that means anything."""
    names = [element.tag for element in root.iterfind(f".//{D}select/{D}prop/*")]
    scope = unquote(root.findtext(f".//{D}scope/{D}href") or "").rstrip("/")
    if scope != f"/files/{uid}" and not scope.startswith(f"/files/{uid}/"):
        raise DavError(500, "InvalidArgumentException", "Search is only supported on directories")
    where = next(iter(root.find(f".//{D}where") or ()), None)
    found = [*_candidates(world, uid, scope[len(f"/files/{uid}") :] or "/", where)]
    found.sort(key=lambda seen: (seen.node.id * 2654435761 % 2**32, seen.path))
    if (order := root.find(f".//{D}orderby/{D}order")) is not None:
        found.sort(key=lambda seen: seen.node.mtime, reverse=order.find(f"{D}descending") is not None)
    first, most = root.findtext(f".//{_FIRST}") or "0", root.findtext(f".//{D}nresults")
    return names, found[int(first) :][: int(most) if most else None]


def _candidates(world: World, uid: str, path: str, where: Element | None) -> Iterator[Seen]:
    if where is None:
        yield from world.walk(uid, path)
        return
    leaves = [*_leaves(where)]
    if len(leaves) > MAX_OPERATORS:
        said = f"Invalid search query, maximum operator limit of {MAX_OPERATORS} exceeded, got {len(leaves)} operators"
        raise DavError(500, "InvalidArgumentException", said)
    condition = _condition(where)
    try:
        if path == "/" and where.tag in (f"{D}or", f"{D}eq") and all(map(_is_indexed, leaves)):
            for fileid in _by_index(world, leaves):
                yield from world.sightings(uid, fileid)
            return
        yield from filter(condition, world.walk(uid, path))
    except NotFoundHere as problem:
        raise DavError(404, "NotFound", f"File with name /{path} could not be located") from problem


def _is_indexed(leaf: Element) -> bool:
    """Whether it asks for one id or one name."""
    return leaf.tag == f"{D}eq" and _property(leaf) in _INDEXED


def _by_index(world: World, leaves: Iterable[Element]) -> set[int]:
    """Ids of what fulfils one of these, without a walk through everybody's folders."""
    asked = {(_property(leaf), leaf.findtext(f"{D}literal") or "") for leaf in leaves}
    names = {literal for tag, literal in asked if tag == f"{D}displayname"}
    named = {node.id for node in world.nodes.values() if node.name in names} if names else set()
    return named | {int(literal or 0) for tag, literal in asked if tag == f"{OC}fileid"}


def _property(leaf: Element) -> str:
    return next((child.tag for child in leaf.iterfind(f"{D}prop/*")), "")


def _leaves(element: Element) -> Iterator[Element]:
    """The comparisons, which is what the server counts."""
    if element.tag in (f"{D}or", f"{D}and", f"{D}not"):
        for child in element:
            yield from _leaves(child)
    else:
        yield element


def _condition(element: Element) -> Condition:
    name = element.tag.removeprefix(D)
    if name in ("or", "and", "not"):
        parts = [_condition(child) for child in element]
        if name == "not":
            return lambda seen: not parts[0](seen)
        every = any if name == "or" else all
        return lambda seen: every(part(seen) for part in parts)
    if name == "is-collection":
        return lambda seen: seen.node.is_folder
    return _comparison(name, element)


def _comparison(name: str, element: Element) -> Condition:
    tag = _property(element)
    literal, local = element.findtext(f"{D}literal") or "", tag.rpartition("}")[2]
    if tag not in _FIELDS:
        raise DavError(400, "BadRequest", f"requested {local} is not a valid property for this scope")
    if (tag.endswith("fileid") and name != "eq") or name not in (*_ORDERED, "like"):
        raise DavError(500, "InvalidArgumentException", f"Unsupported comparison for field  {local}: {name}")
    field = _FIELDS[tag]
    if name == "like":
        pattern = re.compile(".*".join(map(re.escape, literal.split("%"))), re.IGNORECASE | re.DOTALL)
        return lambda seen: pattern.fullmatch(str(field(seen))) is not None
    compare, value = _ORDERED[name], _literal(tag, literal)
    return lambda seen: bool(compare(field(seen), value))


def _literal(tag: str, literal: str) -> int | str:
    if tag in (f"{D}getcontenttype", f"{D}displayname"):
        return literal
    if literal.isdigit():
        return int(literal)
    if tag != f"{D}getlastmodified":
        raise DavError(500, "TypeError", _BROKEN)
    moment = datetime.fromisoformat(literal)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())

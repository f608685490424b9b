# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""How a control is switched off, to see whether it carries anything: each switch takes one of them out of the app.

A switch is what a careless change would do. It lives here alone: the app has no way to do without its controls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch
from xml.etree import ElementTree

from qdrant_client import models
from sqlalchemy import true
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

import demo.companion
from ex_app.domain import Granted, Missing, Place, Reach, Refused, ScopeId, Version
from ex_app.doors import companion, guard, proof
from ex_app.doors.admission import Admission
from ex_app.doors.guard import Guard, Who
from ex_app.doors.mcp import McpDoor
from ex_app.index import reconcile
from ex_app.index.reading import Reading
from ex_app.nextcloud import dav, ocs
from ex_app.nextcloud.dav import Node
from ex_app.search import cursor, rounds, service, verify
from ex_app.search.rounds import Rounds
from ex_app.search.service import Search
from ex_app.sources import file
from ex_app.sources.file import FileSource
from ex_app.store import documents, vector_points, vectors
from ex_app.store.documents import Status
from ex_app.store.registry import Registry
from ex_app.store.vectors import Vectors

# What a reader would be granted who is not asked about.
_SIGHT_UNSEEN = Granted(Version("?"), Place("file", "Sight unseen", "", ""), quotable=True, mtime=0)


# --- Nextcloud's word


@contextmanager
def both(*switches: AbstractContextManager[Any]) -> Any:
    """Several lines of defence at once."""
    with ExitStack() as off:
        for switch in switches:
            off.enter_context(switch)
        yield


def denied_is_granted(source: type) -> AbstractContextManager[Any]:
    """What the index suggests is shown, whatever Nextcloud says of this reader."""
    real = source.verify  # type: ignore[attr-defined]

    async def believed(self: Any, session: Any, suspects: Any, *more: Any, **named: Any) -> dict[Any, Any]:
        verdicts = await real(self, session, suspects, *more, **named)
        return {key: v if isinstance(v, Granted) else _SIGHT_UNSEEN for key, v in verdicts.items()}

    return patch.object(source, "verify", believed)


def unsure_is_granted() -> AbstractContextManager[Any]:
    """Where Nextcloud gave no answer the index is believed."""
    real = verify._sorted

    def hopeful(verdicts: Mapping[Any, Any], suspects: Any) -> Any:
        open_questions = [key for key in suspects if verdicts.get(key, Refused.UNKNOWN) is Refused.UNKNOWN]
        return real({**verdicts, **dict.fromkeys(open_questions, _SIGHT_UNSEEN)}, suspects)

    return patch.object(verify, "_sorted", hopeful)


def listed_is_readable() -> AbstractContextManager[Any]:
    return patch.object(Node, "readable", property(lambda _: True))


def everything_is_downloadable() -> AbstractContextManager[Any]:
    return patch.object(dav, "_downloadable", lambda _: True)


def no_tag_excludes() -> AbstractContextManager[Any]:
    return patch.object(file, "carries", lambda *_: False)


def no_file_excludes() -> AbstractContextManager[Any]:
    return patch.object(file, "quiet_folders", lambda _: frozenset())


def wishes_wait_for_the_sweep() -> AbstractContextManager[Any]:
    """Who opted out is heard by the write path alone."""

    async def unheard(_: object, found: Any) -> Any:
        return found

    return both(patch.object(rounds, "without_left_out", unheard), patch.object(rounds, "suggestable", unheard))


def entities_are_told() -> AbstractContextManager[Any]:
    """XML is read as a careless library does."""
    return patch.object(dav, "_parsed", ElementTree.fromstring)


def everybody_is_enabled() -> AbstractContextManager[Any]:
    async def enabled(_: object) -> bool:
        return True

    return patch.object(ocs, "is_enabled", enabled)


def anybodys_path_is_mine() -> AbstractContextManager[Any]:
    """An answer about somebody else's file is taken for one about the asker's."""
    anybodys = re.compile(r"^.*?/remote\.php/dav/files/[^/]+(?:/|$)")

    def nodes(_: object, reply: Any) -> list[Node]:
        return [node for entry in dav.multistatus(reply.body) if (node := dav._node(entry, anybodys)) is not None]

    return patch.object(dav, "_nodes", nodes)


# --- Versions and generations


def young_is_settled() -> AbstractContextManager[Any]:
    """Search takes a version that may hide a second save for one that tells."""
    real = Registry.live

    async def settled(self: Registry, keys: Any) -> dict[Any, Any]:
        return {key: replace(row, settled=True) for key, row in (await real(self, keys)).items()}

    return patch.object(Registry, "live", settled)


def any_version_is_current() -> AbstractContextManager[Any]:
    """What the index holds is quoted, whatever version Nextcloud has."""
    return patch.object(service, "_is_current", lambda *_: True)


def no_checksum_in_versions() -> AbstractContextManager[Any]:
    return patch.object(file, "_version", lambda node: Version(f"{node.etag}/{node.size}/"))


def any_generation_is_live() -> AbstractContextManager[Any]:
    """The registry is not asked which points count."""
    return patch.object(rounds, "_is_live", lambda candidate, live: candidate.document in live)


def any_bytes_at_the_path() -> AbstractContextManager[Any]:
    """Bytes are not held against the version that was granted."""
    return both(patch.object(file, "_etag", lambda _: ""), patch.object(file, "_etag_in", lambda _: ""))


def no_second_look_at_the_place() -> AbstractContextManager[Any]:
    async def as_before(_: object, __: object, ___: object, before: Any) -> Any:
        return before

    return patch.object(Reading, "look_again", as_before)


def a_late_writer_publishes() -> AbstractContextManager[Any]:
    return patch.object(documents, "_leased", lambda _: true())


def the_past_is_believed() -> AbstractContextManager[Any]:
    """The worker takes what it read once for what is there."""
    real, read = FileSource.fetch, dict[Any, Any]()

    async def remembered(self: FileSource, session: Any, key: Any, *more: Any, **named: Any) -> Any:
        try:
            read[key] = await real(self, session, key, *more, **named)
        except Missing:
            if key not in read:
                raise
        return read[key]

    return patch.object(FileSource, "fetch", remembered)


def hidden_for_good() -> AbstractContextManager[Any]:
    """A fresh sighting of what was gone asks for no work."""
    real = reconcile.difference_of

    def difference(sighting: Any, row: Any, *more: Any) -> Any:
        return None if row is not None and row.status is Status.HIDDEN else real(sighting, row, *more)

    return patch.object(reconcile, "difference_of", difference)


# --- Answers and scores


def answers_are_kept(by: Callable[[Any, Any], object]) -> AbstractContextManager[Any]:
    """A cache in front of the search. by: from caller and question to what the cache knows it by."""
    real, kept = Search.search, dict[object, Any]()

    async def cached(self: Search, caller: Any, question: Any, *more: Any) -> Any:
        key = by(caller, question)
        if key not in kept:
            kept[key] = await real(self, caller, question, *more)
        return kept[key]

    return patch.object(Search, "search", cached)


def answers_may_be_kept() -> AbstractContextManager[Any]:
    """As AppAPI marks what says nothing itself."""

    def cached(send: Send) -> Send:
        async def wrapped(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [(b"cache-control", b"private, max-age=3600"), (b"x-content-type-options", b"nosniff")]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        return wrapped

    return patch.object(guard, "_uncached", cached)


def a_cursor_is_anybodys() -> AbstractContextManager[Any]:
    return patch.object(cursor, "_bound_to", lambda *_: "")


def everybodys_words_count() -> AbstractContextManager[Any]:
    """BM25 statistics over the whole index."""
    real = vector_points.by_words

    def unbound(sparse: Any, corpus: Any) -> Any:
        query = real(sparse, corpus)
        return query and query.model_copy(update={"params": None})

    return patch.object(vectors, "by_words", unbound)


def denied_words_count() -> AbstractContextManager[Any]:
    async def as_found(_: Rounds, __: object, outcome: Any) -> Any:
        return outcome.candidates

    return patch.object(Rounds, "scored_anew", as_found)


def closed_folders_are_like_others() -> AbstractContextManager[Any]:
    """Where everything was denied is looked at first all the same."""
    return patch.object(rounds, "denied_throughout", lambda *_, **__: frozenset())


def everybody_is_admitted() -> AbstractContextManager[Any]:
    return patch.object(Admission, "admit", lambda _, __: nullcontext())


# --- Identity


def any_secret() -> AbstractContextManager[Any]:
    class Agreeing:
        @staticmethod
        def compare_digest(one: bytes, other: bytes) -> bool:
            return len(one) + len(other) > 0

    return patch.object(guard, "hmac", Agreeing)


def nobodys_reach_is_everything() -> AbstractContextManager[Any]:
    """Both lines: an empty reach, as a filter, lets everything through; and where Nextcloud refuses, all is granted."""
    real_recall, real_within = Vectors.recall, vector_points.within

    async def recall(self: Vectors, dense: Any, sparse: Any, reach: Reach, *more: Any, **named: Any) -> Any:
        known = reach if reach.scopes or reach.documents else Reach(frozenset({ScopeId("everything")}))
        return await real_recall(self, dense, sparse, known, *more, **named)

    def within(reach: Reach, *more: Any) -> models.Filter:
        return models.Filter() if "everything" in reach.scopes else real_within(reach, *more)

    recalling, filtering = patch.object(Vectors, "recall", recall), patch.object(vectors, "within", within)
    return both(recalling, filtering, unsure_is_granted())


def the_like_is_the_same() -> AbstractContextManager[Any]:
    """A user id is taken for the account that is spelled alike."""
    real = guard.verify_signature

    def folded(headers: Headers, settings: Any) -> Any:
        signature = real(headers, settings)
        return signature and replace(signature, user=signature.user.strip().casefold().partition("@")[0])

    return patch.object(guard, "verify_signature", folded)


def named_by(place: str) -> AbstractContextManager[Any]:
    """Who asks is read from a place that the asker fills himself: "query", "header" or "cookie"."""
    real = Guard._admit

    def admit(self: Guard, scope: Scope) -> Any:
        refusal = real(self, scope)
        request = Request(scope)
        filled = {"query": request.query_params, "header": request.headers, "cookie": request.cookies}[place]
        named = next((filled[name] for name in ("user", "x-remote-user") if name in filled), None)
        if refusal is None and named and "caller" in scope.get("state", {}):
            scope["state"]["caller"] = replace(scope["state"]["caller"], user=named)
        return refusal

    return patch.object(Guard, "_admit", admit)


def named_by_the_body() -> AbstractContextManager[Any]:
    """An assistant says for whom it asks."""
    real = McpDoor.__call__

    async def believing(self: McpDoor, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        asked, body = await request.json(), await request.body()
        user = asked["params"]["arguments"].get("user") or scope["state"]["caller"].user
        scope["state"]["caller"] = replace(scope["state"]["caller"], user=user)

        async def again() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        await real(self, scope, again, send)

    return patch.object(McpDoor, "__call__", believing)


# --- Doors


def users_may_knock_where_nextcloud_does() -> AbstractContextManager[Any]:
    """The table lets users through to what Nextcloud alone calls: neither proxy nor user are looked at."""
    opened = {route: Who.USER for route, who in guard.ROUTES.items() if who is Who.NEXTCLOUD}
    return patch.dict(guard.ROUTES, opened)


def relayed_is_not_noticed() -> AbstractContextManager[Any]:
    return patch.object(guard, "_RELAYED", "x-that-nobody-sends")


def no_proof_is_demanded() -> AbstractContextManager[Any]:
    return patch.object(companion, "is_proven", lambda *_, **__: True)


def proof_of(**fixed: Any) -> AbstractContextManager[Any]:
    """Both sides sign less: what is fixed counts no more."""
    real = proof.proof

    def careless(key: bytes, **said: Any) -> str:
        return real(key, **{**said, **fixed})

    return both(patch.object(proof, "proof", careless), patch.object(demo.companion, "proof", careless))


def proofs_last_for_ever() -> AbstractContextManager[Any]:
    return patch.object(proof, "MAX_AGE_S", 10**9)

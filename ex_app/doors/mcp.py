# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The MCP endpoint: the same verified search as a tool, stateless, in plain JSON.

Streams break in AppAPI's older proxies, and a session id could be used by another user: so there is neither.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Annotated, Literal

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ex_app.domain import Hit, SemanticSearchError
from ex_app.doors.admission import Admission
from ex_app.doors.sentences import sentence
from ex_app.search.question import Caller, Question
from ex_app.search.service import Search
from ex_app.settings import Settings

DocType = Literal["file", "note", "deck_card"]


class McpHit(BaseModel):
    """One result that this user can open now."""

    ref: str = Field(description="Stable reference of the document")
    doc_type: str
    title: str
    place: str = Field(description="Folder, note category or board")
    excerpt: str = Field(description="Quoted text; empty if it may not be quoted or is being re-read")
    url: str
    page: int | None = None
    score: float = Field(description="Relevance, 0 to 1")
    mtime: int = Field(description="Last change, seconds since 1970")


class McpAnswer(BaseModel):
    """Verified results, best first."""

    results: list[McpHit]
    degraded: bool = Field(description="True if a part of Nextcloud did not answer: results may be missing")
    next_cursor: str = Field(description="Pass as cursor, with the same query, for more; empty if there is no more")


class McpDoor:
    """The MCP endpoint as an ASGI app, and the server whose lifespan the main app must enter."""

    def __init__(self, settings: Settings, open_search: Callable[[], Awaitable[Search]], admission: Admission) -> None:
        self._settings = settings
        self._open_search = open_search
        self._admission = admission
        self._caller: ContextVar[Caller] = ContextVar("caller")
        self.server = self._server()
        self._app: ASGIApp = self.server.streamable_http_app(
            json_response=True,
            stateless_http=True,
            # Behind Nextcloud the Host header is Nextcloud's; who may call is settled by the signature.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            refusal = JSONResponse({"error": "POST only: this endpoint keeps no stream open"}, 405, {"Allow": "POST"})
            await refusal(scope, receive, send)
            return
        self._caller.set(scope["state"]["caller"])
        await self._app(scope, receive, send)

    def _server(self) -> MCPServer:
        server = MCPServer(
            "semantic-search",
            title="Semantic Search for Nextcloud",
            version=self._settings.app_version,
            instructions="Searches the user's Nextcloud files, notes and Deck cards by meaning.",
            log_level="WARNING",
        )

        @server.tool(
            name="nc_semantic_search",
            title="Search Nextcloud by meaning",
            annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        )
        async def nc_semantic_search(
            query: Annotated[str, Field(description="What to look for, in any language")],
            limit: Annotated[int, Field(description="1 to 100")] = 10,
            doc_types: Annotated[list[DocType] | None, Field(description="Only these kinds")] = None,
            cursor: Annotated[str, Field(description="next_cursor of the answer to continue")] = "",
        ) -> McpAnswer:
            """Find files, notes and Deck cards by meaning. Every result was verified: the user can open it now."""
            return await self._search(query, limit, doc_types, cursor)

        return server

    async def _search(self, query: str, limit: int, doc_types: list[DocType] | None, cursor: str) -> McpAnswer:
        caller = self._caller.get()
        try:
            question = Question(query, limit, kinds=frozenset(doc_types or ()), cursor=cursor)
            with self._admission.admit(caller):
                answer = await (await self._open_search()).search(caller, question)
        except SemanticSearchError as error:
            # Of any other exception the model would be told nothing that it could act on.
            raise ToolError(sentence(error)) from error
        hits = [self._hit(hit) for hit in answer.hits]
        return McpAnswer(results=hits, degraded=answer.degraded, next_cursor=answer.cursor)

    def _hit(self, hit: Hit) -> McpHit:
        return McpHit(
            ref=str(hit.document),
            doc_type=hit.place.kind,
            title=hit.place.title,
            place=hit.place.where,
            excerpt=hit.excerpt,
            url=f"{self._settings.nextcloud_url.rstrip('/')}{hit.place.link}",
            page=hit.page,
            score=hit.score,
            mtime=hit.mtime,
        )

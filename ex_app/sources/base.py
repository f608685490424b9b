# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What every source can do: list, fetch, verify, say what is open to a user. All under one user's session."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from ex_app.domain import Container, Content, DocumentKey, Fetched, Granted, Reach, ScopeId, Sighting, Verdict
from ex_app.nextcloud.session import Session


class Source(Protocol):
    """A kind of content. Errors are those of Session.request unless said otherwise."""

    @property
    def name(self) -> str:
        """The first part of its document keys."""

    @property
    def kinds(self) -> frozenset[str]:
        """What its documents are called when shown (Place.kind)."""

    @property
    def shared_walks(self) -> bool:
        """Whether a container has several members of whom any one walks it; else each is walked by its owner alone."""

    @property
    def unnoticed(self) -> bool:
        """Whether something can change that the pulse does not tell, so that a walk now and then looks regardless."""

    async def pulse(self, session: Session) -> str:
        """A token that changes whenever anything of this source changes for the user: one request."""

    async def containers(self, session: Session) -> list[Container]:
        """The folders or boards that this user's walk is responsible for, with their ETags: one or two requests."""

    async def listing(self, session: Session, container: Container) -> list[Sighting]:
        """The documents that lie directly in a container: one request."""

    async def fetch(self, session: Session, key: DocumentKey, known: Collection[ScopeId], *, limit: int) -> Fetched:
        """Read a document and where it lies now; `known` are scopes it probably lies in, to save requests.

        Raises Missing when the user has no such document, LeftOut when it is not to be found, Unindexable when it has
        more than `limit` bytes.
        """

    async def reread(self, session: Session, key: DocumentKey, grant: Granted, *, limit: int) -> Content:
        """The bytes that a reader who was granted the document would get now.

        Raises NotPermitted, Missing, NextcloudUnavailable (also for more than `limit` bytes).
        """

    async def locate(self, session: Session, key: DocumentKey, known: Collection[ScopeId]) -> Sighting:
        """Where a document lies now and its version, without its content. Raises Missing, LeftOut."""

    async def verify(
        self, session: Session, suspects: Mapping[DocumentKey, Collection[ScopeId]]
    ) -> dict[DocumentKey, Verdict]:
        """Ask Nextcloud whether the user may read these documents now. Every suspect gets a verdict.

        suspects: documents with the scopes that the index remembers (hints where to look).
        """

    async def reach(self, session: Session) -> Reach:
        """The containers and single documents that are open to the user."""

    async def late_reach(self, session: Session) -> Reach:
        """What else is open to the user, as far as Nextcloud takes long to tell it. Comes after `reach`, or never."""

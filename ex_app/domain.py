# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The words of the house: plain values that every room shares, and the tree of our exceptions.

Imports nothing of ours. A term that needs explaining is explained here once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import NewType

# What tells that a document's content changed, as one opaque token that its source makes; only equality means anything.
Version = NewType("Version", str)

# A container that grants access: "f:<fileid>" (folder, share root) or "deck:<board id>".
ScopeId = NewType("ScopeId", str)


@dataclass(frozen=True, slots=True, order=True)
class DocumentKey:
    """One thing of a source; written "file:<fileid>" or "deck_card:<id>", always within one Nextcloud instance."""

    source: str
    id: int

    def __str__(self) -> str:
        return f"{self.source}:{self.id}"

    @classmethod
    def parse(cls, text: str) -> DocumentKey:
        """Read "source:id"; raises BadRequest for anything else."""
        source, _, number = text.partition(":")
        if not source or not number.isascii() or not number.isdigit() or len(number) > 18:
            raise BadRequest(f"not a document reference: {text[:80]!r}")
        return cls(source, int(number))


@dataclass(frozen=True, slots=True)
class Container:
    """A folder or board as its lister saw it.

    ancestors: innermost last, without itself; etag: changes with anything below. common: it lies in a group folder or
    on an external storage, so that nobody owns it and those who have it may see different parts; left_out: nothing in
    it is to be found; away: its storage does not answer, so that nothing is told of what is mounted at its path.
    """

    scope: ScopeId
    etag: str
    path: str
    ancestors: tuple[ScopeId, ...] = ()
    common: bool = False
    left_out: bool = False
    away: bool = False

    @property
    def scopes(self) -> tuple[ScopeId, ...]:
        """The scopes of a document that lies directly in it."""
        return (*self.ancestors, self.scope)


@dataclass(frozen=True, slots=True)
class Sighting:
    """A document as a listing of its container shows it now, without its content."""

    key: DocumentKey
    version: Version
    parent: ScopeId
    scopes: tuple[ScopeId, ...]
    title: str
    path: str
    mtime: int  # seconds since the epoch
    owner: str  # user id; empty when nobody owns it alone
    mime: str
    size: int  # bytes
    listed: str = ""  # a finer version that only a listing gives; empty when seen otherwise


@dataclass(frozen=True, slots=True)
class Fetched:
    """A document with its content, read by one user at one moment.

    settled: old enough when read that its version tells it apart from the next save.
    """

    sighting: Sighting
    body: bytes
    settled: bool


@dataclass(frozen=True, slots=True)
class Reach:
    """What is open to a user now, as far as it is known: serves recall only, never grants anything.

    avoid: scopes within it where looking is in vain, as somebody excluded them from being found.
    """

    scopes: frozenset[ScopeId] = frozenset()
    documents: frozenset[DocumentKey] = frozenset()
    avoid: frozenset[ScopeId] = frozenset()

    def __or__(self, other: Reach) -> Reach:
        return Reach(self.scopes | other.scopes, self.documents | other.documents, self.avoid | other.avoid)


@dataclass(frozen=True, slots=True)
class Place:
    """Where this viewer finds a document: shown kind, title, human place and Nextcloud's own deep link (path only)."""

    kind: str  # "file", "note" or "deck_card"
    title: str
    where: str
    link: str


@dataclass(frozen=True, slots=True)
class Granted:
    """Nextcloud lets this user read the document now. quotable: its text may be shown (not a view-only share).

    path: where this viewer's files have it; text: of documents whose text Nextcloud gave in the same answer; owner: in
    whose storage it lies, empty where nobody owns it alone.
    """

    version: Version
    place: Place
    quotable: bool
    mtime: int
    path: str = ""
    text: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Content:
    """A document's present bytes with what tells their kind."""

    body: bytes
    name: str
    mime: str


class Refused(Enum):
    """Why a document is not shown. Only Granted shows."""

    DENIED = "denied"
    GONE = "gone"
    UNKNOWN = "unknown"


Verdict = Granted | Refused


# Characters of a title that are embedded with each passage: a longer one would leave the text no room in the model.
TITLE_LENGTH = 120


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage: `text` is exactly `document_text[start:end]`; headings (outermost first) are context beside it."""

    ordinal: int
    text: str
    start: int
    end: int
    page: int | None = None  # 1-based
    headings: tuple[str, ...] = ()

    def context_line(self, title: str) -> str:
        """What is embedded before the text so that a passage knows what it belongs to."""
        return " › ".join((title[:TITLE_LENGTH], *self.headings))


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document's text, in NFC without control characters, and its chunks."""

    text: str
    chunks: tuple[Chunk, ...]
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Sparse:
    """A BM25 vector: parallel token ids (unsigned 32 bit, unique) and weights."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """A chunk in the vector index."""

    document: DocumentKey
    generation: int
    chunk: Chunk
    text_hash: str  # of headings and text; of the title where there is no text
    dense: tuple[float, ...]
    sparse: Sparse
    scopes: tuple[ScopeId, ...]
    title: str
    path: str
    mtime: int
    owner: str
    language: str = "und"


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk in the vector index with what the model made of it, which a rename does not change."""

    chunk: Chunk
    text_hash: str
    dense: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A found, unverified chunk. dense: cosine in [-1, 1]; sparse: BM25 score, 0 when no word or start is shared."""

    document: DocumentKey
    generation: int
    chunk: Chunk
    text_hash: str
    scopes: frozenset[ScopeId]
    title: str
    path: str
    mtime: int
    owner: str
    dense: float
    sparse: float


@dataclass(frozen=True, slots=True)
class Filters:
    """What a person narrowed the search to. Times are seconds since the epoch, both inclusive."""

    sources: frozenset[str] = frozenset()
    owner: str | None = None
    modified_after: int | None = None
    modified_before: int | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A verified result. excerpt is empty when it may not or cannot be quoted; highlights are offsets into it."""

    document: DocumentKey
    place: Place
    score: float  # relevance in [0, 1], computed over verified hits only
    mtime: int
    excerpt: str = ""
    highlights: tuple[tuple[int, int], ...] = ()
    page: int | None = None
    start: int | None = None
    end: int | None = None
    refreshing: bool = False  # its text changed since it was indexed; the new text is on its way


@dataclass(frozen=True, slots=True)
class Answer:
    """What leaves the house. degraded: a source could not be asked, so something may be missing (never how much).

    cursor: gets this user the hits after these; empty when there are none.
    """

    hits: tuple[Hit, ...]
    degraded: bool = False
    cursor: str = ""


class Lane(StrEnum):
    """How urgent work is, most urgent first."""

    ACCESS = "access"
    REFRESH = "refresh"
    CONTENT = "content"
    BACKFILL = "backfill"


class Reason(StrEnum):
    """Why a document has no text in the index; an admin reads it."""

    ENCRYPTED = "encrypted"
    CORRUPT = "corrupt"
    TOO_LARGE = "too_large"
    UNSUPPORTED = "unsupported"
    NO_TEXT = "no_text"
    TIMEOUT = "timeout"
    NO_READER = "no_reader"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Work:
    """A claimed row of the work table: one document to bring up to date, leased by token."""

    key: DocumentKey
    lane: Lane
    reader: str  # the user as whom to fetch
    token: str
    generation: int  # drawn at claim
    attempts: int
    reads: bool = True  # whatever its version says; else nothing but moves, renames and deletions were heard of


@dataclass(frozen=True, slots=True)
class Progress:
    """How far indexing is."""

    total: int
    indexed: int
    pending: int
    failed: int
    last_error: str = ""
    reasons: dict[str, int] = field(default_factory=dict)
    swept_at: float | None = None  # when everybody's content was last walked to the end; seconds since the epoch


class SemanticSearchError(Exception):
    """Root of our exceptions. The message is fit for a person and never holds a secret or document text."""


class BadRequest(SemanticSearchError):
    """The caller's input is wrong; the message says what to change."""


class NotAvailable(SemanticSearchError):
    """A part we need does not answer now; trying again later may help."""


class EngineUnavailable(NotAvailable):
    """The vector engine does not answer."""


class EmbedderUnavailable(NotAvailable):
    """The embedding process does not answer."""


class NextcloudUnavailable(NotAvailable):
    """Nextcloud timed out, is in maintenance, is busy or answered nonsense.

    retry_after: seconds, when it said so; status: of its answer, if there was one.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, status: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.status = status


class StorageAway(NextcloudUnavailable):
    """Nextcloud answers, but an external storage on which the document may lie does not."""


class NotPermitted(SemanticSearchError):
    """Nextcloud refuses this user (401, 403, disabled). Never retry: repeated 401 lock our address out."""


class Missing(SemanticSearchError):
    """The document does not exist for this user (404)."""


class LeftOut(SemanticSearchError):
    """The document is there, but its owner or an admin does not want it to be found."""


class IsContainer(Missing):
    """There is something of this id, but it is no document: it holds some. owner: in whose storage it lies."""

    def __init__(self, message: str, *, owner: str) -> None:
        super().__init__(message)
        self.owner = owner


class Unindexable(SemanticSearchError):
    """The document's bytes give no text; reason is what an admin reads."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason = reason

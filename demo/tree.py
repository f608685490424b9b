# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The values that the stand-in's file tree is made of."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass, field

READ, UPDATE, CREATE, DELETE, SHARE = 1, 2, 4, 8, 16
ALL = READ | UPDATE | CREATE | DELETE | SHARE

# Nextcloud guesses by a table of its own; Python's differs or depends on the machine.
_OFFICE = "application/vnd.openxmlformats-officedocument"
_MIMES = {
    ".md": "text/markdown",
    ".txt": "text/plain",
    ".csv": "text/csv",
    ".ics": "text/calendar",
    ".json": "application/json",
    ".eml": "message/rfc822",
    ".docx": f"{_OFFICE}.wordprocessingml.document",
    ".xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    ".pptx": f"{_OFFICE}.presentationml.presentation",
    ".odt": "application/vnd.oasis.opendocument.text",
}


class NotFoundHere(LookupError):
    """No such user, node or share, or not visible to this user."""


class NotAllowed(PermissionError):
    """The user sees it but lacks the permission."""


class Conflicting(ValueError):
    """It cannot be done at that place: a folder there, no parent, or into itself."""


@dataclass(eq=False, slots=True)
class Node:
    """A file or (children is not None) a folder; lies in exactly one home, or in the trash when no home is above it."""

    id: int
    name: str
    parent: Node | None
    etag: str
    mtime: int
    children: dict[str, Node] | None = None
    data: bytes = b""
    mime: str = ""
    upload_time: int = 0
    checksum: str = ""  # as the uploading client gave it
    home_of: str | None = None  # user id on a home's root
    blocked: bool = False
    tags: list[str] = field(default_factory=list)
    encrypted: bool = False  # a folder of the app for end-to-end encryption
    group_folder: GroupFolder | None = None  # on a group folder's root
    external: ExternalStorage | None = None  # on an external storage's root

    @property
    def is_folder(self) -> bool:
        return self.children is not None

    def lineage(self) -> Iterator[Node]:
        """Itself and every folder above it, innermost first."""
        node: Node | None = self
        while node:
            yield node
            node = node.parent

    @property
    def owner(self) -> str | None:
        """Whose home it lies in; None in the trash, in group folders and on external storages."""
        return [*self.lineage()][-1].home_of

    @property
    def is_trashed(self) -> bool:
        """Whether no home, no group folder and no external storage has it."""
        root = [*self.lineage()][-1]
        return root.home_of is None and root.group_folder is None and root.external is None

    @property
    def unreadable(self) -> bool:
        """It or a folder above it was blocked, as a files_accesscontrol rule by tag does."""
        return any(node.blocked for node in self.lineage())

    def size(self) -> int:
        """Bytes, of a folder with everything below it."""
        return len(self.data) if self.children is None else sum(child.size() for child in self.children.values())

    def below(self) -> Iterator[Node]:
        """Everything beneath a folder."""
        for child in (self.children or {}).values():
            yield child
            yield from child.below()


@dataclass(eq=False, slots=True)
class Share:
    """A node given to a user or a group."""

    id: int
    node: Node
    owner: str
    with_user: str | None
    with_group: str | None
    permissions: int
    download: bool
    created: int
    left_by: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)  # recipients who have not accepted it yet


@dataclass(eq=False, slots=True)
class GroupFolder:
    """A folder that belongs to nobody. groups: whose members have it; rules: read or not, by node id and group."""

    id: int
    groups: set[str]
    rules: dict[tuple[int, str], bool] = field(default_factory=dict)

    def shows(self, node: Node, groups: frozenset[str]) -> bool:
        """Whether a member of these groups sees a node in it: the innermost rule counts, and one group that may."""
        for above in node.lineage():
            told = [self.rules[above.id, group] for group in groups if (above.id, group) in self.rules]
            if told:
                return any(told)
        return True


@dataclass(eq=False, slots=True)
class ExternalStorage:
    """Disks elsewhere. users, groups: who has it; dead: it does not answer; away: Nextcloud has noticed that."""

    id: int
    users: set[str]
    groups: set[str]
    dead: bool = False
    away: bool = False


@dataclass(frozen=True, slots=True)
class Mount:
    """One received node at one place of a recipient's tree; several shares of a node to one user are one mount.

    group_folder: of one that came with a group instead, and groups: whose member the user is; external: of one that is
    an external storage.
    """

    node: Node
    path: str
    permissions: int
    download: bool
    shares: tuple[Share, ...]
    group_folder: GroupFolder | None = None
    groups: frozenset[str] = frozenset()
    external: ExternalStorage | None = None

    @property
    def kind(self) -> str:
        """nc:mount-type."""
        if self.external:
            return "external"
        return "group" if self.group_folder else "shared"

    @property
    def is_nobodys(self) -> bool:
        """Whether it lies in no home, stays where an admin put it, and whoever asks is called its owner."""
        return self.kind != "shared"

    def shows(self, node: Node) -> bool:
        """Whether a group folder's rules let the user see a node in it."""
        return self.group_folder is None or self.group_folder.shows(node, self.groups)


@dataclass(frozen=True, slots=True)
class Seen:
    """A node as one user finds it at one path ("/" is the home's root)."""

    uid: str
    path: str
    node: Node
    mount: Mount | None = None

    @property
    def is_mount_root(self) -> bool:
        return self.mount is not None and self.mount.node is self.node

    @property
    def is_shown(self) -> bool:
        """Whether a group folder's rules let this user see it."""
        return self.mount is None or self.mount.shows(self.node)

    @property
    def permissions(self) -> int:
        given = self.mount.permissions if self.mount else ALL
        if self.node.unreadable:
            return given & SHARE
        return given if self.node.is_folder else given & ~CREATE

    @property
    def readable(self) -> bool:
        return bool(self.permissions & READ)

    @property
    def downloadable(self) -> bool:
        return self.readable and (self.mount is None or self.mount.download)


def normal(path: str) -> str:
    """ "/a/b" for "a//b/"; "/" for the root."""
    return "/" + "/".join(part for part in path.split("/") if part)


def split(path: str) -> tuple[str, str]:
    """Parent path and name."""
    parent, _, name = normal(path).rpartition("/")
    return parent or "/", name


def join(parent: str, name: str) -> str:
    """Path of a child."""
    return f"{parent.rstrip('/')}/{name}"


def guess_mime(name: str) -> str:
    """Media type by the name's end, as Nextcloud stores it."""
    dot = name.rfind(".")
    known = _MIMES.get(name[dot:].lower()) if dot >= 0 else None
    return known or mimetypes.guess_type(name)[0] or "application/octet-stream"


def file_etag(node_id: int, mtime: int, size: int) -> str:
    """Local storage's ETag: knows whole seconds, the node and the size, not the content."""
    return hashlib.md5(f"{mtime}::{node_id}:{size}".encode(), usedforsecurity=False).hexdigest()


def descend(node: Node, path: str) -> Node | None:
    """The node at a path below another, or None."""
    for name in path.split("/"):
        if not name:
            continue
        child = (node.children or {}).get(name)
        if not child:
            return None
        node = child
    return node

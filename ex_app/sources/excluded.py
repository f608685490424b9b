# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What somebody does not want to be found: folders with a file named ".noindex" in them, and what carries a tag.

Such a folder hides everything below it as the viewer sees his files, received folders that he keeps there included:
whoever may put the file there, or assign the tag, decides for all who see it in that folder. A file with several paths
is hidden when one of them is. A single file that was received has no folder of its owner's: its own tags count alone.

What an admin leaves out by path or type, and end-to-end encrypted folders, never get into the index; the former by
their place among their owner's files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from pathspec import GitIgnoreSpec

from ex_app.domain import ScopeId
from ex_app.nextcloud.dav import Node

NOINDEX = ".noindex"

# Mounts of external storages; those of the second kind need a password that only a browser's session has.
EXTERNAL = frozenset({"external", "external-session"})


@dataclass(frozen=True, slots=True)
class Exclusions:
    """One user's folders in which nothing is to be found. paths: "" is the root of his files."""

    paths: frozenset[str] = frozenset()
    scopes: frozenset[ScopeId] = frozenset()

    def __or__(self, other: Exclusions) -> Exclusions:
        return Exclusions(self.paths | other.paths, self.scopes | other.scopes)

    def hold(self, path: str) -> bool:
        """Whether something at this path lies in such a folder."""
        return bool(self.paths) and not self.paths.isdisjoint(folders_above(path))


@dataclass(frozen=True, slots=True)
class Rules:
    """What an admin wants left out. paths: patterns as in a .gitignore; types: beginnings of media types.

    external: whether external storages are indexed. token: other rules, another token; empty without rules.
    """

    tags: frozenset[str]
    paths: GitIgnoreSpec
    types: tuple[str, ...]
    external: bool
    token: str

    def bars(self, node: Node) -> bool:
        """Whether it lies on an external storage, and these are left out."""
        return not self.external and node.mount_type in EXTERNAL

    def name(self, node: Node) -> bool:
        """Whether they leave out this file or folder itself."""
        path = f"{node.path}/" if node.is_folder else node.path
        return (
            node.encrypted
            or carries(node, self.tags)
            or (bool(node.path) and self.paths.match_file(path))
            or (not node.is_folder and node.mime.casefold().startswith(self.types))
        )

    def closed(self, nodes: Iterable[Node]) -> frozenset[str]:
        """Paths of the folders in which nothing is to be found, as far as these folders and ".noindex" files tell."""
        nodes = list(nodes)
        return quiet_folders(nodes) | {node.path for node in nodes if node.is_folder and self.name(node)}


def rules(*, tags: str, paths: str, types: str, external: bool) -> Rules:
    """From the settings; tags, paths and types are lists separated by commas."""
    given = (tags, paths, types, *(["external"] if external else []))
    token = hashlib.sha256("\0".join(given).encode()).hexdigest()[:8] if any(given) else ""
    beginnings = tuple(part.casefold() for part in _parts(types))
    return Rules(tag_names(tags), GitIgnoreSpec.from_lines(_parts(paths)), beginnings, external, token)


def _parts(names: str) -> list[str]:
    return [part.strip() for part in names.split(",") if part.strip()]


def folders_above(path: str) -> list[str]:
    """Paths of the folders that something lies in, innermost first; the root is ""."""
    if not path:
        return []
    return ["" if str(parent) == "." else str(parent) for parent in PurePosixPath(path).parents]


def tag_names(names: str) -> frozenset[str]:
    """The setting's names, separated by commas; Nextcloud's tags are told apart by more than case and spaces."""
    return frozenset(folded for name in names.split(",") if (folded := _folded(name)))


def carries(node: Node, tags: frozenset[str]) -> bool:
    """Whether it has one of these tags itself."""
    return any(_folded(tag) in tags for tag in node.tags)


def quiet_folders(nodes: Iterable[Node]) -> frozenset[str]:
    """Paths of the folders in which one of these is the file that excludes them. Some databases ignore case; we not.

    A single file that was received says nothing: else whoever shares one would hide all of the receiver's files.
    """
    return frozenset(
        folders_above(node.path)[0]
        for node in nodes
        if node.name == NOINDEX and not node.is_folder and not node.is_mount_root
    )


def _folded(name: str) -> str:
    return name.strip().casefold()

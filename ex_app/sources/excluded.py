# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What somebody does not want to be found: folders with a file named ".noindex" in them, and what carries a tag.

Such a folder hides everything below it as the viewer sees his files, received folders that he keeps there included:
whoever may put the file there, or assign the tag, decides for all who see it in that folder. A file with several paths
is hidden when one of them is. A single file that was received has no folder of its owner's: its own tags count alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from ex_app.domain import ScopeId
from ex_app.nextcloud.dav import Node

NOINDEX = ".noindex"


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

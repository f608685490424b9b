# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Folders as a walk sees them: which are walked, what they lie in, what is left out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from ex_app.domain import Container, ScopeId, Version
from ex_app.nextcloud.dav import Node
from ex_app.sources.excluded import EXTERNAL, Rules, folders_above

# Of a user's folders these are walked: his own, and what is nobody's, as Nextcloud calls whoever asks the owner there.
# Received ones are walked by their owners.
OWN = frozenset({""})
COMMON = EXTERNAL | {"group"}
WALKED = OWN | COMMON

# A time of writing that is no older than this at the end of an upload is the true one; seconds.
_UPLOAD_S = 1


def scope_of(folder: Node) -> ScopeId:
    """The scope that a folder is."""
    return ScopeId(f"f:{folder.fileid}")


def containers(nodes: Iterable[Node], tagged: Iterable[Node], rules: Rules) -> list[Container]:
    """The folders that a walk may be responsible for, their mount's first.

    nodes: the root of the user's files, all folders, and all files named ".noindex"; tagged: what carries one of the
    tags that leave out. As a tag changes no ETag, the folder's own tells of tagged files in it here.
    """
    seen = list(nodes)
    folders = {node.path: node for node in seen if node.is_folder}
    closed = rules.closed(seen)
    marks = _marks(tagged)
    return [
        Container(
            scope=scope_of(folder),
            etag="#".join(part for part in (folder.etag, rules.token, marks.get(path, "")) if part),
            path=path,
            ancestors=tuple(scope_of(above) for above in line[:-1]),
            common=folder.mount_type in COMMON and not rules.bars(folder),
            left_out=rules.bars(folder) or any(above.path in closed for above in line),
        )
        for path, folder in sorted(folders.items())
        if folder.mount_type in WALKED and folder.readable and (line := lineage(folder, folders)) is not None
    ]


def away(path: str) -> Container:
    """Stands for everything on an external storage that does not answer: not even its root's id is told."""
    return Container(ScopeId(""), "", path, away=True)


def listed(node: Node, version: Version) -> str:
    """When it was uploaded, where its version may be that of other bytes: whoever uploads may set the time of writing.

    Else empty, so that what was first seen otherwise than in a listing is not read again for nothing.
    """
    is_told = bool(node.checksum) or not node.upload_time or 0 <= node.upload_time - node.mtime <= _UPLOAD_S
    return "" if is_told else f"{version}/{node.upload_time}"


def lineage(folder: Node, folders: Mapping[str, Node]) -> list[Node] | None:
    """A folder with those above it, outermost first, from the root of its mount or of the user's files on.

    None when one is missing: the tree changed while we looked, or this user may not see it.
    """
    above = [] if _is_mount(folder) else places(folder.path, folders)
    if any(path not in folders for path in above):
        return None
    return [*(folders[path] for path in reversed(above)), folder]


def places(path: str, folders: Mapping[str, Node]) -> list[str]:
    """Paths of the folders that something lies in, innermost first, up to its mount's root or that of all files."""
    above: list[str] = []
    for at in folders_above(path):
        above.append(at)
        if at in folders and _is_mount(folders[at]):
            break
    return above


def _is_mount(folder: Node) -> bool:
    return folder.is_mount_root and bool(folder.mount_type)


def _marks(tagged: Iterable[Node]) -> dict[str, str]:
    """For each folder with tagged files directly in it what tells them from other ones."""
    inside: dict[str, list[int]] = {}
    for node in tagged:
        if not node.is_folder:
            inside.setdefault(folders_above(node.path)[0], []).append(node.fileid)
    return {path: _digest(ids) for path, ids in inside.items()}


def _digest(ids: Sequence[int]) -> str:
    return hashlib.sha256(repr(sorted(set(ids))).encode()).hexdigest()[:8]

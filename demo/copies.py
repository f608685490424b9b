# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Copies, and versions that come back: Nextcloud tells of the top of what was copied, and of a touch."""

from __future__ import annotations

from demo.tree import Node, join, split
from demo.world import World


def copy(world: World, uid: str, old: str, new: str) -> int:
    """Copy a file or a folder with all that lies in it; returns the new id of its top. Nobody tells of the rest."""
    with world.lock:
        source = world.resolve(uid, old).node
        heard = len(world.events)
        _copy(world, uid, source, new)
        del world.events[heard:]
        there = world.resolve(uid, new).node
        node = world._node_payload(uid, there, new)
        world._emit(
            "NodeCopied", uid, {"source": world._node_payload(uid, source, old)["node"], "target": node["node"]}
        )
        # Of a copied file it is told twice that it was written.
        for event in ("NodeCreated", "NodeWritten", *(() if there.is_folder else ("NodeWritten",))):
            world._emit(event, uid, node)
        return there.id


def restore_version(world: World, uid: str, path: str, data: bytes, mtime: float) -> None:
    """What the file was before, with the time that it had then. Nobody tells that it was written."""
    with world.lock:
        heard = len(world.events)
        world.write(uid, path, data, mtime=mtime)
        del world.events[heard:]
        world._emit("NodeTouched", uid, world._node_payload(uid, world.resolve(uid, path).node, path))


def _copy(world: World, uid: str, source: Node, new: str) -> None:
    if not source.is_folder:
        world.mkdir(uid, split(new)[0])
        world.write(uid, new, source.data, mime=source.mime)
        return
    world.mkdir(uid, new)
    for child in list((source.children or {}).values()):
        _copy(world, uid, child, join(new, child.name))

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The stand-in's truth: people, groups, files, shares and boards, and who may read what.

Tests and the demo change the world through these methods; the HTTP side only shows it. `readable` is the oracle: it
knows the permission model alone, no index and no HTTP. Every method may be called from any thread.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

from demo.external import ExternalStorages
from demo.tree import (
    READ,
    Conflicting,
    Mount,
    Node,
    NotAllowed,
    NotFoundHere,
    Seen,
    Share,
    descend,
    file_etag,
    guess_mime,
    join,
    normal,
    split,
)


class World(ExternalStorages):
    """Everything the stand-in knows. clock: seconds since the epoch; a test's own lets time pass on demand."""

    def __init__(self, *, clock: Callable[[], float] = time.time, instance_id: str = "ocstandin001") -> None:
        super().__init__(clock, instance_id)
        self.companion_key: bytes | None = None  # of the companion, while it is installed
        self.shares: dict[int, Share] = {}
        self._targets: dict[tuple[str, int], str] = {}
        self._share_ids = itertools.count(1)
        self.tags: dict[str, int] = {}  # ids by name
        self.hidden_tags: set[str] = set()  # names of those that only admins see
        self.careful: set[str] = set()  # users who accept what they are given by hand

    # --- files

    def write(
        self, uid: str, path: str, data: bytes, *, mime: str | None = None, mtime: float | None = None, via: str = "app"
    ) -> int:
        """Create or overwrite a file with its parent folders; returns the fileid, which an overwrite keeps.

        via: "dav" sets upload_time. The ETag stays while the whole-second mtime stays, whatever the bytes; whoever
        sets the mtime himself keeps it only with as many bytes as before.
        """
        with self.lock:
            parent_path, name = split(path)
            parent = self.resolve(uid, self.mkdir(uid, parent_path))
            seen = self._find(uid, path)
            self._demand(seen or parent, 2 if seen else 4)
            second = int(self.clock() if mtime is None else mtime)
            node = seen.node if seen else self._new_node(name, parent.node)
            if node.is_folder:
                raise Conflicting(f"{path} is a folder")
            if mtime is not None or not node.etag or node.mtime != second:
                node.etag = file_etag(node.id, second, len(data))
            node.data, node.mime, node.mtime = data, mime or guess_mime(name), second
            node.upload_time, node.checksum = int(self.clock()) if via == "dav" else 0, ""
            self._touched(node.parent)
            for event in ("NodeWritten",) if seen else ("NodeCreated", "NodeWritten"):
                self._emit(event, uid, self._node_payload(uid, node, path))
            return node.id

    def touch(self, uid: str, path: str, mtime: float) -> None:
        """Set a node's mtime, as sync clients and restores do."""
        with self.lock:
            node = self.resolve(uid, path).node
            node.mtime = int(mtime)
            if not node.is_folder:
                node.etag = file_etag(node.id, node.mtime, len(node.data))
            self._touched(node.parent)
            self._emit("NodeTouched", uid, self._node_payload(uid, node, path))

    def mkdir(self, uid: str, path: str) -> str:
        """Create a folder and its parents where missing; returns the normal path."""
        with self.lock:
            here = "/"
            for name in normal(path).split("/")[1:]:
                seen, here = self.resolve(uid, here), join(here, name)
                if not name or self._find(uid, here):
                    continue
                self._demand(seen, 4)
                node = self._new_node(name, seen.node, folder=True)
                self._touched(node.parent)
                for event in ("NodeCreated", "NodeWritten"):
                    self._emit(event, uid, self._node_payload(uid, node, here))
            return normal(path)

    def move(self, uid: str, old: str, new: str) -> None:
        """Rename or move; fileid and ETag stay; an existing target goes. A mount moves for its recipient only."""
        with self.lock:
            seen = self.resolve(uid, old)
            parent_path, name = split(new)
            parent = self.resolve(uid, parent_path)
            if seen.mount and seen.mount.is_nobodys and seen.is_mount_root:
                raise NotAllowed("it stays where the admin put it")
            if seen.is_mount_root:
                if parent.mount:
                    raise NotAllowed("a received share cannot lie in another")
                self._targets[uid, seen.node.id] = normal(new)
                return
            self._demand(seen, 2 if split(old)[0] == parent_path else 8)
            self._demand(parent, 4 if split(old)[0] != parent_path else 1)
            if seen.node in parent.node.lineage():
                raise Conflicting("a folder cannot lie in itself")
            if target := self._find(uid, new):
                self.delete(uid, target.path)
            before = seen.node.parent
            self._detach(seen.node)
            seen.node.name = name
            if not seen.node.is_folder and split(old)[1].rpartition(".")[2] != name.rpartition(".")[2]:
                seen.node.mime = guess_mime(name)
            self._attach(seen.node, parent.node)
            self._touched(before)
            self._touched(parent.node)
            self._move_mounts(uid, normal(old), normal(new))
            source, there = {"path": f"/{uid}/files{normal(old)}"}, self._node_payload(uid, seen.node, new)
            self._emit("NodeRenamed", uid, {"source": source, "target": there["node"]})

    def delete(self, uid: str, path: str) -> None:
        """To the trash (gone for everyone); a recipient deleting a mount leaves the share."""
        with self.lock:
            seen = self.resolve(uid, path)
            if seen.mount and seen.mount.is_nobodys and seen.is_mount_root:
                raise NotAllowed("it is the admin's")
            if seen.mount and seen.is_mount_root:
                for share in seen.mount.shares:
                    self.leave_share(uid, share.id)
                return
            self._demand(seen, 8)
            parent = seen.node.parent
            payload = self._node_payload(uid, seen.node, path)
            self._emit("BeforeNodeDeleted", uid, payload)
            self._detach(seen.node)
            for share in [share for share in self.shares.values() if share.node is seen.node]:
                del self.shares[share.id]
            self._touched(parent)
            self._emit("NodeDeleted", uid, payload)

    def restore(self, uid: str, path: str, fileid: int) -> None:
        """Back from the trash to where it lay, with its number, time and ETag. Another file there is in the way."""
        with self.lock:
            folder = self.resolve(uid, split(path)[0]).node
            node = self.nodes[fileid]
            if node.parent is not None or (folder.children or {}).get(node.name):
                raise NotAllowed(f"{path} is not free")
            self._attach(node, folder)
            self._touched(folder)
            self._emit("NodeTouched", uid, self._node_payload(uid, node, path))

    def tag(self, fileid: int, *tags: str) -> None:
        """Assign system tags; changes no ETag."""
        for tag in tags:
            self.tags.setdefault(tag, len(self.tags) + 1)
        self.nodes[fileid].tags = [*dict.fromkeys([*self.nodes[fileid].tags, *tags])]
        self._emit("TagAssigned", "admin", {"objectType": "files", "objectIds": [str(fileid)], "tagIds": [1]})

    def untag(self, fileid: int, tag: str) -> None:
        self.nodes[fileid].tags.remove(tag)
        self._emit("TagUnassigned", "admin", {"objectType": "files", "objectIds": [str(fileid)], "tagIds": [1]})

    def tags_for(self, uid: str, node: Node) -> list[str]:
        """The node's tags that this user may know of."""
        return [tag for tag in node.tags if uid in self.groups["admin"] or tag not in self.hidden_tags]

    def block(self, fileid: int) -> None:
        """An access rule denies reading: listed without `G`, GET answers 404, for everyone."""
        self.nodes[fileid].blocked = True

    def unblock(self, fileid: int) -> None:
        self.nodes[fileid].blocked = False

    # --- shares

    def share(
        self,
        owner: str,
        path: str,
        *,
        with_user: str | None = None,
        with_group: str | None = None,
        permissions: int = READ,
        download: bool = True,
    ) -> int:
        """Give a node to a user or a group; returns the share id. download=False: view only. The read bit is forced.

        The Notes app makes a recipient's notes folder at any share with him, and puts notes into it.
        """
        with self.lock:
            node = self.resolve(owner, path).node
            if any(mount.path.startswith(normal(path).rstrip("/") + "/") for mount in self.mounts(owner)):
                raise NotAllowed("You cannot share a folder that contains other shares")
            if with_user:
                notes = self.mkdir(with_user, self.person(with_user).notes_path)
                if not node.is_folder and normal(path).startswith(normal(self.person(owner).notes_path)):
                    self._targets.setdefault((with_user, node.id), self._free_path(with_user, notes, node))
            kept = (permissions or READ) | READ if node.is_folder else (permissions | READ) & ~(4 | 8)
            share_id = next(self._share_ids)
            share = Share(share_id, node, owner, with_user, with_group, kept, download, int(self.clock()))
            share.pending = self.careful & ({with_user} | self.groups.get(with_group or "", set()))
            self.shares[share_id] = share
            self._emit("ShareCreated", owner, {"share": {"id": share_id}, "node": {"id": node.id}})
            return share_id

    def unshare(self, share_id: int) -> None:
        with self.lock:
            share = self.shares.pop(share_id)
            self._emit("ShareDeleted", share.owner, {"share": {"id": share_id}, "node": {"id": share.node.id}})
            for uid in self.people:
                if not any(mount.node is share.node for mount in self.mounts(uid)):
                    self._targets.pop((uid, share.node.id), None)

    def leave_share(self, uid: str, share_id: int) -> None:
        """A recipient removes a share from his own tree; one made for him alone is gone with that."""
        with self.lock:
            share = self.shares[share_id]
            if share.with_user == uid:
                self.unshare(share_id)
            else:
                share.left_by.add(uid)
            self._targets.pop((uid, share.node.id), None)

    def accept_share(self, uid: str, share_id: int) -> None:
        self.shares[share_id].pending.discard(uid)

    def mounts(self, uid: str) -> list[Mount]:
        """What a user has besides his home and can be reached, with its place in his tree."""
        with self.lock:
            received: dict[int, list[Share]] = {}
            for share in self.shares.values():
                to_me = share.with_user == uid or uid in self.groups.get(share.with_group or "", ())
                if to_me and uid not in share.left_by | share.pending and share.node.owner not in (uid, None):
                    received.setdefault(share.node.id, []).append(share)
            shared = [self._mount(uid, shares) for shares in received.values()]
            return [*shared, *self.group_mounts(uid), *self.external_mounts(uid)]

    def _mount(self, uid: str, shares: list[Share]) -> Mount:
        permissions = 0
        for share in shares:
            permissions |= share.permissions
        node = shares[0].node
        download = any(share.download for share in shares)
        return Mount(node, self._target(uid, node), permissions, download, tuple(shares))

    def _target(self, uid: str, node: Node) -> str:
        """Where a user has a received node: "/Name", or where it was put or moved if that folder exists."""
        known = self._targets.get((uid, node.id))
        if known and self._in_home(uid, split(known)[0]):
            return known
        free = self._free_path(uid, "/", node)
        return free if known else self._targets.setdefault((uid, node.id), free)

    def _free_path(self, uid: str, folder: str, node: Node) -> str:
        """The node's name in a folder, " (2)" on a clash."""
        taken = {path for (who, _), path in self._targets.items() if who == uid}
        stem, dot, end = (node.name, "", "") if node.is_folder else node.name.rpartition(".")
        stem, end = (stem, dot + end) if stem else (node.name, "")
        names = itertools.chain([node.name], (f"{stem} ({n}){end}" for n in itertools.count(2)))
        paths = (join(folder, name) for name in names)
        return next(path for path in paths if path not in taken and not self._in_home(uid, path))

    def _in_home(self, uid: str, path: str) -> Node | None:
        return descend(self.people[uid].home, normal(path))

    # --- one user's view

    def resolve(self, uid: str, path: str) -> Seen:
        """What a user finds at a path; raises NotFoundHere."""
        seen = self._find(uid, path)
        if not seen:
            raise NotFoundHere(f"{uid} has no {path}")
        return seen

    def _find(self, uid: str, path: str) -> Seen | None:
        path = normal(path)
        inside = [m for m in self.mounts(uid) if path == m.path or path.startswith(m.path + "/")]
        mount = max(inside, key=lambda m: len(m.path), default=None)
        start, rest = (mount.node, path[len(mount.path) :]) if mount else (self.person(uid).home, path)
        node = descend(start, rest)
        if node and mount and not all(mount.shows(above) for above in node.lineage()):
            return None  # by path, nothing below a hidden folder is found
        return Seen(uid, path, node, mount) if node else None

    def listing(self, seen: Seen, mounts: list[Mount] | None = None) -> list[Seen]:
        """The direct children of a folder that the user sees, received mounts included, by name."""
        return [child for child in self._children(seen, mounts) if child.is_shown]

    def _children(self, seen: Seen, mounts: list[Mount] | None) -> list[Seen]:
        mounts = self.mounts(seen.uid) if mounts is None else mounts
        here = {m.path: Seen(seen.uid, m.path, m.node, m) for m in mounts if split(m.path)[0] == seen.path}
        for child in (seen.node.children or {}).values():
            path = join(seen.path, child.name)
            here.setdefault(path, Seen(seen.uid, path, child, seen.mount))
        return [here[path] for path in sorted(here, key=str.casefold)]

    def walk(self, uid: str, path: str = "/") -> Iterator[Seen]:
        """Everything below a folder, folders before their content; what is shown in a hidden folder too."""
        mounts = self.mounts(uid)
        todo = [self.resolve(uid, path)]
        while todo:
            for child in self._children(todo.pop(), mounts):
                if child.is_shown:
                    yield child
                todo.append(child)

    def sightings(self, uid: str, fileid: int) -> list[Seen]:
        """Every path at which a user finds a node; empty when he does not."""
        node = self.nodes.get(fileid)
        if not node or node is self.person(uid).home:
            return []
        by_root = {mount.node: mount for mount in self.mounts(uid)}
        found, rest = [], ""
        for above in node.lineage():
            if above.home_of == uid:
                found.append(Seen(uid, rest, node))
            if (mount := by_root.get(above)) and mount.shows(node):
                found.append(Seen(uid, mount.path + rest, node, mount))
            rest = f"/{above.name}{rest}"
        return found

    # --- the oracle

    def readable(self, uid: str, key: str) -> bool:
        """May this user read the document ("file:12", "deck_card:3") now? Archived cards stay readable."""
        source, number = key.split(":")
        if uid not in self.people or not self.people[uid].enabled:
            return False
        if source == "deck_card":
            return self.card_readable(uid, int(number))
        return any(seen.readable and not seen.node.is_folder for seen in self.sightings(uid, int(number)))

    def quotable(self, uid: str, key: str) -> bool:
        """May its text be shown to this user? Not when all he has are view-only shares."""
        if not self.readable(uid, key):
            return False
        source, number = key.split(":")
        return source != "file" or any(seen.downloadable for seen in self.sightings(uid, int(number)))

    def path_for(self, uid: str, fileid: int) -> list[str]:
        return [seen.path for seen in self.sightings(uid, fileid)]

    def body(self, key: str) -> bytes:
        """A document's content as stored now: a file's bytes, a card's title and description."""
        source, number = key.split(":")
        if source == "file":
            return self.nodes[int(number)].data
        card = self.cards[int(number)]
        return f"{card.title}\n{card.description}".encode()

    def all_documents(self) -> list[str]:
        """Keys of every file outside the trash and every card that is not deleted."""
        files = [f"file:{n.id}" for n in self.nodes.values() if not n.is_folder and not n.is_trashed]
        return files + [f"deck_card:{card.id}" for card in self.cards.values() if self.card_alive(card.id)]

    # --- inside

    def _detach(self, node: Node) -> None:
        assert node.parent
        assert node.parent.children is not None
        del node.parent.children[node.name]
        node.parent = None

    def _move_mounts(self, uid: str, old: str, new: str) -> None:
        for (who, node_id), path in list(self._targets.items()):
            if who == uid and path.startswith(old + "/"):
                self._targets[who, node_id] = new + path[len(old) :]

    def _demand(self, seen: Seen, bits: int) -> None:
        if seen.permissions & bits != bits:
            raise NotAllowed(f"{seen.uid} may not change {seen.path}")

    def _node_payload(self, uid: str, node: Node, path: str) -> dict[str, object]:
        return {"node": {"id": node.id, "path": f"/{uid}/files{normal(path)}"}}

# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""External storages: one tree with the same ids for all who have it mounted, which may stop to answer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from demo.group_folders import GroupFolders
from demo.tree import ALL, READ, SHARE, ExternalStorage, Mount, Node, NotFoundHere, Seen


class ExternalStorages(GroupFolders):
    """Their roots, and who has them. Who gets or loses one, or whose does not answer, sees another ETag of his root."""

    def __init__(self, clock: Callable[[], float], instance_id: str) -> None:
        super().__init__(clock, instance_id)
        self._external: list[Node] = []
        self._external_ids = itertools.count(1)

    def add_external(self, name: str, *, users: Iterable[str] = (), groups: Iterable[str] = ()) -> int:
        """A new, empty storage at the top of these people's files; the fileid of its root."""
        with self.lock:
            root = self._new_node(name, None, folder=True)
            root.external = ExternalStorage(next(self._external_ids), set(users), set(groups))
            self._external.append(root)
            return root.id

    def storage(self, fileid: int) -> ExternalStorage:
        """The storage with this root: whose users and groups may change, and which may go away."""
        found = self.nodes[fileid].external
        if found is None:
            raise NotFoundHere(f"{fileid} is no external storage")
        return found

    def externals(self, uid: str) -> list[Node]:
        """Roots of the external storages that a user has, whether they answer or not."""
        mine = frozenset(self.groups_of(uid))
        return [root for root in self._external if (s := root.external) and (uid in s.users or s.groups & mine)]

    def external_mounts(self, uid: str) -> list[Mount]:
        """Those that Nextcloud takes for being there."""
        return [
            Mount(root, f"/{root.name}", ALL & ~SHARE, download=True, shares=(), external=root.external)
            for root in self.externals(uid)
            if root.external and not root.external.away
        ]

    def ghosts(self, uid: str) -> list[Seen]:
        """What a listing of all files shows in place of storages that are away: nodes without number and ETag."""
        gone = [root for root in self.externals(uid) if root.external and root.external.away]
        nodes = [Node(-1, root.name, None, "", int(self.clock()), {}, external=root.external) for root in gone]
        mounts = [Mount(n, f"/{n.name}", READ, download=True, shares=(), external=n.external) for n in nodes]
        return [Seen(uid, mount.path, mount.node, mount) for mount in mounts]

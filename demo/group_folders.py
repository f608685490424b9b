# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Group folders: they lie in nobody's home, appear with all members of their groups, and may hide parts from some."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from demo.boards import Boards
from demo.tree import ALL, GroupFolder, Mount, Node, NotFoundHere


class GroupFolders(Boards):
    """Their roots and rules. Who gets or loses a folder sees another ETag of his root."""

    def __init__(self, clock: Callable[[], float], instance_id: str) -> None:
        super().__init__(clock, instance_id)
        self._group_folders: list[Node] = []
        self._group_folder_ids = itertools.count(1)

    def add_group_folder(self, name: str, *groups: str) -> int:
        """A new, empty folder at the top of the files of these groups' members; its fileid."""
        with self.lock:
            root = self._new_node(name, None, folder=True)
            root.group_folder = GroupFolder(next(self._group_folder_ids), set(groups))
            self._group_folders.append(root)
            return root.id

    def assign(self, fileid: int, group: str) -> None:
        """Let another group have it."""
        self._folder_of(fileid).groups.add(group)

    def unassign(self, fileid: int, group: str) -> None:
        self._folder_of(fileid).groups.discard(group)

    def rule(self, fileid: int, group: str, *, read: bool | None) -> None:
        """Let members of a group read something in a group folder, or not; None: as the folder above says.

        As the server's command line does it: no ETag changes.
        """
        rules = self._folder_of(fileid).rules
        if read is None:
            rules.pop((fileid, group), None)
        else:
            rules[fileid, group] = read

    def rule_by_hand(self, fileid: int, group: str, *, read: bool | None) -> None:
        """As rule, but as the web page does it: the folders above get another ETag."""
        self.rule(fileid, group, read=read)
        self._touched(self.nodes[fileid].parent)

    def _folder_of(self, fileid: int) -> GroupFolder:
        found = [*self.nodes[fileid].lineage()][-1].group_folder
        if found is None:
            raise NotFoundHere(f"{fileid} lies in no group folder")
        return found

    def group_mounts(self, uid: str) -> list[Mount]:
        """The group folders that a user has."""
        if not self._group_folders:
            return []
        mine = frozenset(self.groups_of(uid))
        return [
            Mount(root, f"/{root.name}", ALL, download=True, shares=(), group_folder=folder, groups=mine)
            for root in self._group_folders
            if (folder := root.group_folder) and folder.groups & mine and folder.shows(root, mine)
        ]

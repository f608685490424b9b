# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Files and notes, over WebDAV. A note is a file that lies in the viewer's own Notes folder."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from ex_app.domain import (
    Container,
    Content,
    DocumentKey,
    Fetched,
    Granted,
    IsContainer,
    LeftOut,
    Missing,
    NextcloudUnavailable,
    NotPermitted,
    Place,
    Reach,
    Reason,
    Refused,
    ScopeId,
    Sighting,
    StorageAway,
    Unindexable,
    Verdict,
    Version,
)
from ex_app.nextcloud import dav, ocs
from ex_app.nextcloud.dav import Node
from ex_app.nextcloud.session import Reply, Session
from ex_app.sources import file_tree
from ex_app.sources.excluded import NOINDEX, Exclusions, carries, folders_above, quiet_folders, rules, tag_names
from ex_app.sources.file_tree import COMMON, OWN, WALKED, listed, places, scope_of

NAME = "file"

# Local storage makes ETags of whole-second times (two saves in one second share one), so younger versions say nothing.
_UNSETTLED_S = 2

# How long we believe facts about an account that grant nothing: the id of its home, the path of its Notes folder.
_ACCOUNT_TTL_S = 600.0

# Seconds that a search waits for the path of the Notes folder: not for long, as it decides little.
_NOTES_S = 0.7

# Folders with a ".noindex" file that are told anew with every check. Somebody may put any number into a shared folder,
# and each of them takes time; of more than these the last reach tells.
_MOST_QUIET = 300

_NOTE_SUFFIXES = frozenset({".md", ".txt"})


class FileSource:
    """Implements Source for files. Keeps a short memory of harmless facts about accounts.

    What is left out stands in the settings of the same names; what a tag excludes, and external storages, are hidden
    from searches at once.
    """

    name = NAME
    kinds = frozenset({"file", "note"})
    shared_walks = False

    def __init__(
        self,
        *,
        excluded_tags: str = "",
        excluded_paths: str = "",
        excluded_types: str = "",
        index_external: bool = False,
    ) -> None:
        self._rules = rules(tags=excluded_tags, paths=excluded_paths, types=excluded_types, external=index_external)
        self._tags = self._rules.tags
        self._more = dav.TAGS if self._tags else ""
        self._excluded: dict[str, Exclusions] = {}
        self._closed: dict[str, frozenset[str]] = {}
        self._homes: dict[str, tuple[float, ScopeId]] = {}
        self._notes_paths: dict[str, tuple[float, str]] = {}
        self._storages: dict[str, dict[str, ScopeId]] = {}  # external ones, by path, as they answered last

    @property
    def unnoticed(self) -> bool:
        """A tag changes no ETag."""
        return bool(self._tags)

    async def pulse(self, session: Session) -> str:
        """The root ETag: changes with any edit, move, share or loss of access below. Other rules: another pulse."""
        root = (await dav.propfind(session, "", depth=0))[:1]
        return f"{root[0].etag}{self._rules.token}" if root else ""

    async def containers(self, session: Session) -> list[Container]:
        """The user's own folders and those that are nobody's; what he receives is walked by others.

        Two requests, with excluded tags one more and one for each of them, with external storages one more.
        """
        roots, folders, tagged, external = await asyncio.gather(
            # A new external storage is unknown until somebody lists the folder that it lies in.
            dav.propfind(session, "", depth=int(self._rules.external), more=self._more),
            dav.search_folders(session, named=NOINDEX, more=self._more + dav.ENCRYPTED),
            self._tagged(session),
            self._external(session),
        )
        if not roots:
            raise NextcloudUnavailable("Nextcloud shows no home for this user")
        nodes = [*folders, roots[0]]
        self._closed[session.user] = self._rules.closed(nodes)
        told = {folder.path: scope_of(folder) for folder in folders if folder.path in external}
        self._storages.setdefault(session.user, {}).update(told)
        away = external - told.keys()
        return [*file_tree.containers(nodes, tagged, self._rules), *map(file_tree.away, sorted(away))]

    async def _external(self, session: Session) -> frozenset[str]:
        """Paths of the user's external storages, where they are indexed. One that does not answer is among them too."""
        if not self._rules.external:
            return frozenset()
        try:
            return await ocs.external_storages(session)
        except (Missing, NotPermitted):  # their app is off
            return frozenset()

    async def _tagged(self, session: Session) -> list[Node]:
        """What carries an excluded tag itself."""
        if not self._tags:
            return []
        ids = [tag for tag, name in (await dav.tag_ids(session)).items() if not self._tags.isdisjoint(tag_names(name))]
        answers = await asyncio.gather(*(dav.tagged(session, tag) for tag in ids))
        return [node for answer in answers for node in answer]

    async def listing(self, session: Session, container: Container) -> list[Sighting]:
        """The readable files directly in a folder, less those that are left out; received ones are listed elsewhere."""
        nodes = await dav.propfind(session, container.path, depth=1, more=self._more)
        kinds = COMMON if container.common else OWN
        return [
            replace(_sighting(node, container.scopes), listed=listed(node, _version(node)))
            for node in nodes
            if not node.is_folder and node.mount_type in kinds and node.readable and not self._rules.name(node)
        ]

    async def locate(self, session: Session, key: DocumentKey, known: Collection[ScopeId]) -> Sighting:
        """One SEARCH answers for the file and its remembered folders; others cost one PROPFIND each."""
        hints = [int(scope[2:]) for scope in known if scope.startswith("f:")][: dav.MAX_IDS - 2]
        closed = self._closed.get(session.user, frozenset())
        named = NOINDEX if len(closed) <= _MOST_QUIET else ""
        nodes = await dav.search_ids(session, [key.id, *hints], named=named, more=self._more + dav.ENCRYPTED)
        seen = [node for node in nodes if node.fileid == key.id and node.readable]
        own = [node for node in seen if not node.is_folder]
        if not own and seen:
            raise IsContainer("it is a folder", owner=_owner(min(seen, key=_preference)))
        if not own:
            await self._demand_is_told(session, known, nodes)
            raise Missing("the file is not there for this user")
        node = min(own, key=_preference)
        folders = {folder.path: folder for folder in nodes if folder.is_folder}
        await self._complete(session, node, folders)
        if node.mount_type in WALKED:
            told = self._rules.closed([*nodes, *folders.values()])
            self._demand_is_in(node, places(node.path, folders), told if named else told | closed)
        return _sighting(node, await self._scopes(session, node, folders))

    def _demand_is_in(self, node: Node, above: Collection[str], closed: frozenset[str]) -> None:
        """Whoever received a file by a share may exclude it for himself alone: of his view verify takes care."""
        if self._rules.bars(node) or self._rules.name(node) or not closed.isdisjoint(above):
            raise LeftOut("it is excluded")

    async def _demand_is_told(self, session: Session, known: Collection[ScopeId], nodes: Iterable[Node]) -> None:
        """A storage that is away hides what lies on it: while one is, nothing is gone that may lie there."""
        if not known or not {scope_of(node) for node in nodes}.isdisjoint(known):
            return
        external = await self._external(session)
        if not external or await self._home(session) in known:
            return
        away = external - {folder.path for folder in await dav.search_folders(session)}
        roots = self._storages.get(session.user, {})
        if any(path not in roots or roots[path] in known for path in away):
            raise StorageAway("an external storage of this user does not answer")

    async def fetch(self, session: Session, key: DocumentKey, known: Collection[ScopeId], *, limit: int) -> Fetched:
        """Locate, then GET. A file that changes between the two comes back unsettled, so it is read again."""
        sighting = await self.locate(session, key, known)
        if sighting.size > limit:
            raise Unindexable(Reason.TOO_LARGE, f"{sighting.size} bytes")
        reply = await dav.get(session, sighting.path, limit=limit)
        same = _etag(reply) == _etag_in(sighting.version) and len(reply.body) == sighting.size
        if not same and (await self.locate(session, key, known)).path != sighting.path:
            # Another file may have taken its place before we read.
            raise NextcloudUnavailable("the file moved while we looked")
        return Fetched(sighting, reply.body, settled=same and _is_settled(sighting.mtime, dav.server_time(reply)))

    async def reread(self, session: Session, key: DocumentKey, grant: Granted, *, limit: int) -> Content:
        """One GET at the path where verify just saw it; what lies there by now may be another file."""
        reply = await dav.get(session, grant.path, limit=limit)
        if _etag(reply) != _etag_in(grant.version):
            raise NextcloudUnavailable("the file changed while we looked")
        name = PurePosixPath(grant.path).name
        return Content(reply.body, name, reply.headers.get("Content-Type", "").partition(";")[0])

    async def verify(
        self, session: Session, suspects: Mapping[DocumentKey, Collection[ScopeId]]
    ) -> dict[DocumentKey, Verdict]:
        """One SEARCH per 100 ids. Several paths to one file: the one that allows most counts and is the link.

        The same answer tells tags and, unless about 100 ids, ".noindex" files; the folders known from the last reach
        are hidden too, as a file does not tell the tags of its folders.
        """
        known = self._excluded.get(session.user, Exclusions())
        named = NOINDEX if len(known.paths) <= _MOST_QUIET else ""
        nodes, notes_path = await asyncio.gather(
            dav.search_ids(session, (key.id for key in suspects), named=named, more=self._more),
            self._notes_path(session),
        )
        excluded = known | Exclusions(quiet_folders(nodes))
        by_id: dict[int, list[Node]] = {}
        for node in nodes:
            if not self._rules.bars(node):
                by_id.setdefault(node.fileid, []).append(node)
        verdicts: dict[DocumentKey, Verdict] = {}
        for key, scopes in suspects.items():
            seen = by_id.get(key.id, [])
            hidden = not excluded.scopes.isdisjoint(scopes) or any(self._hides(excluded, node) for node in seen)
            verdicts[key] = Refused.DENIED if hidden else _verdict(seen, notes_path)
        return verdicts

    def _hides(self, excluded: Exclusions, node: Node) -> bool:
        return excluded.hold(node.path) or carries(node, self._tags)

    async def reach(self, session: Session) -> Reach:
        """Home, every mounted folder, and single files received where Nextcloud puts them: at the top or as a note.

        Where they lie in an excluded folder, they are to be avoided.
        """
        top, folders, notes = await asyncio.gather(
            dav.propfind(session, "", depth=1, more=self._more),
            dav.search_folders(session, named=NOINDEX, more=self._more),
            self._notes(session),
        )
        seen = [*top, *folders, *notes]
        excluded = self._exclusions(seen)
        self._excluded[session.user] = excluded
        open_to = [node for node in seen if (not node.path or node.is_mount_root) and not self._rules.bars(node)]
        scopes = frozenset(scope_of(node) for node in open_to if node.is_folder)
        documents = frozenset(DocumentKey(NAME, node.fileid) for node in open_to if not node.is_folder)
        return Reach(scopes - excluded.scopes, documents, avoid=excluded.scopes)

    async def late_reach(self, session: Session) -> Reach:
        """Single files that were received and put anywhere."""
        try:
            received = await ocs.received_files(session)
        except (Missing, NotPermitted):  # sharing is switched off, for all or for this user
            return Reach()
        return Reach(documents=frozenset(DocumentKey(NAME, fileid) for fileid in received))

    def _exclusions(self, nodes: Iterable[Node]) -> Exclusions:
        """What folders and ".noindex" files tell. A document knows its scopes up to its mount: mounts count too."""
        nodes = list(nodes)
        folders = {node.path: node for node in nodes if node.is_folder}
        paths = quiet_folders(nodes) | {path for path, folder in folders.items() if carries(folder, self._tags)}
        inside = Exclusions(paths)
        scopes = {
            scope_of(folder)
            for path, folder in folders.items()
            if path in paths or (folder.is_mount_root and inside.hold(path))
        }
        return Exclusions(paths, frozenset(scopes))

    async def _complete(self, session: Session, node: Node, folders: dict[str, Node]) -> None:
        """Ask for those folders above a file that are not known yet."""
        unknown = [path for path in folders_above(node.path) if path and path not in folders]
        more = self._more + dav.ENCRYPTED
        answers = await asyncio.gather(*(dav.propfind(session, path, depth=0, more=more) for path in unknown))
        for path, answer in zip(unknown, answers, strict=True):
            if not answer:
                raise Missing("a folder of the file is not there for this user")
            folders[path] = answer[0]

    async def _scopes(self, session: Session, node: Node, folders: Mapping[str, Node]) -> tuple[ScopeId, ...]:
        """Outermost first; of what nobody owns those from its mount on, which all who see it have in common."""
        own = node.mount_type not in COMMON
        above = folders_above(node.path) if own else places(node.path, folders)
        scopes = [scope_of(folders[path]) for path in reversed(above) if path]
        if own:
            return (await self._home(session), *scopes)
        if not scopes or "" in above:
            raise Missing("the mount of the file is not there for this user")
        return tuple(scopes)

    async def _home(self, session: Session) -> ScopeId:
        known = self._homes.get(session.user)
        if known and known[0] > time.monotonic():
            return known[1]
        nodes = await dav.propfind(session, "", depth=0)
        if not nodes:
            raise Missing("this user has no home")
        home = scope_of(nodes[0])
        self._homes[session.user] = (time.monotonic() + _ACCOUNT_TTL_S, home)
        return home

    async def _notes(self, session: Session) -> list[Node]:
        """What lies directly in the viewer's Notes folder, where notes that others share with him appear."""
        path = await self._notes_path(session)
        if not path:
            return []
        try:
            return await dav.propfind(session, path, depth=1)
        except (Missing, NotPermitted):  # it is not there, or a rule forbids reading it
            return []

    async def _notes_path(self, session: Session) -> str:
        """The viewer's Notes folder; empty without the Notes app. This route creates nothing in the account."""
        known = self._notes_paths.get(session.user)
        if known and known[0] > time.monotonic():
            return known[1]
        try:
            async with asyncio.timeout(_NOTES_S):
                reply = await session.request("GET", "/index.php/apps/notes/settings")
            path = str(json.loads(reply.body)["notesPath"]).strip("/")
        except (TimeoutError, NextcloudUnavailable):
            return ""  # decides only whether a hit is called a note; asked again next time
        except (Missing, NotPermitted, ValueError, KeyError, TypeError):
            path = ""
        self._notes_paths[session.user] = (time.monotonic() + _ACCOUNT_TTL_S, path)
        return path


def _version(node: Node) -> Version:
    """What both a SEARCH and a listing tell. A checksum is the client's word for its bytes: the best there is."""
    return Version(f"{node.etag}/{node.size}/{node.checksum}")


def _etag_in(version: Version) -> str:
    return version.partition("/")[0]


def _etag(reply: Reply) -> str:
    """Web servers that compress write "-gzip" into the ETag; for that Nextcloud sends a copy."""
    return (reply.headers.get("OC-ETag") or reply.headers.get("ETag", "")).strip('"')


def _is_settled(mtime: int, now: float) -> bool:
    """Whether the second of the last write is over. Clients may set a time in the future: that tells nothing."""
    return not 0 <= now - mtime < _UNSETTLED_S


def _sighting(node: Node, scopes: tuple[ScopeId, ...]) -> Sighting:
    return Sighting(
        key=DocumentKey(NAME, node.fileid),
        version=_version(node),
        parent=scopes[-1],
        scopes=scopes,
        title=PurePosixPath(node.path).name,
        path=node.path,
        mtime=node.mtime,
        owner=_owner(node),
        mime=node.mime,
        size=node.size,
    )


def _owner(node: Node) -> str:
    return "" if node.mount_type in COMMON else node.owner


def _preference(node: Node) -> tuple[bool, bool, int, str]:
    return (not node.downloadable, bool(node.mount_type), len(node.path), node.path)


def _verdict(nodes: list[Node], notes_path: str) -> Verdict:
    """Absent means unreadable or gone; only the owner's view can tell which, so for this reader it is denied."""
    readable = [node for node in nodes if node.readable and not node.is_folder]
    if not readable:
        return Refused.DENIED
    if len({_version(node) for node in readable}) > 1:
        return Refused.UNKNOWN  # one file cannot be two versions at once: it changed while Nextcloud answered
    best = min(readable, key=_preference)
    return Granted(
        version=_version(best),
        place=_place(best, notes_path),
        quotable=best.downloadable,
        mtime=best.mtime,
        path=best.path,
        owner=_owner(best),
    )


def _place(node: Node, notes_path: str) -> Place:
    path = PurePosixPath(node.path)
    folders = path.parent.parts
    notes_folder = PurePosixPath(notes_path).parts
    is_note = bool(notes_folder) and folders[: len(notes_folder)] == notes_folder and path.suffix in _NOTE_SUFFIXES
    if is_note:
        category = folders[len(notes_folder) :]
        return Place("note", path.stem, " / ".join(category), f"/index.php/apps/notes/note/{node.fileid}")
    return Place("file", path.name, " / ".join(folders), f"/index.php/f/{node.fileid}")

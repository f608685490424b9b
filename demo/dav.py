# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""WebDAV on files: /remote.php/dav/files/{uid}/… and SEARCH /remote.php/dav/."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from demo.dav_search import search_results
from demo.multistatus import (
    EMPTY,
    NC,
    OC,
    D,
    DavError,
    Properties,
    date,
    error,
    multistatus,
    parse,
    response,
    text,
    wanted,
)
from demo.tree import CREATE, DELETE, READ, SHARE, UPDATE, Conflicting, Mount, NotAllowed, NotFoundHere, Seen, split
from demo.world import World

FILES = "/remote.php/dav/files"
_ALLPROP = ("getlastmodified", "getcontentlength", "resourcetype", "getetag", "getcontenttype")
_VIEW_ONLY = '[{"scope":"permissions","key":"download","value":false}]'
_OVERWRITE = "The destination node already exists, and the overwrite header is set to false"
_DENIED = "Access to this shared resource has been denied because its download permission is disabled."


async def files(request: Request) -> Response:
    """Every method on a path below /remote.php/dav/files/{uid}."""
    body = await request.body()
    uid, world = asking(request), request.app.state.world
    home, path = request.path_params["uid"], "/" + request.path_params.get("path", "")
    try:
        with world.lock:
            if home != uid:
                return _foreign(world, request.method, home, path)
            return _METHODS[request.method](world, request, path, body)
    except NotFoundHere:
        return error(404, "NotFound", f"File with name {path} could not be located")
    except Conflicting as problem:
        return error(409, "Conflict", str(problem))
    except NotAllowed as problem:
        return error(403, "Forbidden", str(problem))


async def search(request: Request) -> Response:
    """SEARCH one's own tree. upload_time is 0, folder ETags and sizes leave mounts out: it reads the cache alone."""
    body = await request.body()
    uid, world = asking(request), request.app.state.world
    if not any(kind in request.headers.get("content-type", "") for kind in ("text/xml", "application/xml")):
        raise DavError(501, "NotImplemented", "There was no handler in the system for this SEARCH method")
    with world.lock:
        names, found = search_results(world, uid, parse(body))
        answers = [response(_href(seen), names, properties(world, seen, None)) for seen in found]
    return multistatus(answers, media_type='application/xml; charset="utf-8"')


def properties(world: World, seen: Seen, mounts: list[Mount] | None) -> Properties:
    """What a node shows. mounts: the user's, for PROPFIND, whose folder ETags include them; None for SEARCH."""
    node = seen.node
    inside = [m for m in mounts or () if node.is_folder and m.path.startswith(seen.path.rstrip("/") + "/")]
    file = None if node.is_folder else node
    folder = "<d:collection/>" if node.is_folder else EMPTY
    uploaded = node.upload_time if mounts is not None and not seen.is_mount_root else 0
    view_only = seen.mount is not None and not seen.mount.download
    return {
        f"{OC}fileid": text(node.id),
        f"{OC}checksums": lambda: f"<oc:checksum>{text(node.checksum)()}</oc:checksum>" if node.checksum else None,
        f"{OC}id": text(_oc_id(world, node.id)),
        f"{D}getetag": text(f'"{_etag(seen, inside)}"'),
        f"{OC}size": lambda: str(node.size() + sum(m.node.size() for m in inside)),
        f"{D}getcontentlength": lambda: str(len(file.data)) if file else None,
        f"{D}getlastmodified": text(date(node.mtime)),
        f"{D}getcontenttype": lambda: file.mime if file else None,
        f"{OC}permissions": text(_letters(seen, listed=mounts is not None)),
        f"{OC}owner-id": text(seen.uid if seen.mount and seen.mount.is_nobodys else node.owner),
        f"{NC}mount-type": text(seen.mount.kind if seen.mount else ""),
        f"{NC}is-encrypted": lambda: "1" if node.is_folder and node.encrypted else None,
        f"{NC}is-mount-root": text("true" if seen.is_mount_root else "false"),
        f"{NC}upload_time": lambda: str(uploaded) if file else None,
        f"{NC}share-attributes": text(_VIEW_ONLY if view_only else "[]"),
        f"{NC}system-tags": lambda: (
            "".join(_tag(world, seen.uid, tag) for tag in world.tags_for(seen.uid, node)) or EMPTY
        ),
        f"{D}resourcetype": lambda: folder,
        f"{D}displayname": text(seen.uid if seen.path == "/" else split(seen.path)[1]),
    }


def _tag(world: World, uid: str, name: str) -> str:
    visible = "false" if name in world.hidden_tags else "true"
    attributes = (
        f'oc:can-assign="true" oc:id="{world.tags[name]}" oc:user-assignable="{visible}" oc:user-visible="{visible}"'
    )
    return f'<nc:system-tag {attributes} nc:color="">{text(name)()}</nc:system-tag>'


def _etag(seen: Seen, inside: list[Mount]) -> str:
    if not inside:
        return seen.node.etag
    parts = [seen.node.etag, *(f"{m.path}/{m.node.etag}{m.permissions}" for m in inside)]
    return hashlib.md5("::".join(parts).encode(), usedforsecurity=False).hexdigest()


def _letters(seen: Seen, *, listed: bool) -> str:
    """oc:permissions; `G` is the read bit. A mount root may be renamed by its recipient, which only PROPFIND says."""
    renamed = listed and seen.mount is not None and seen.is_mount_root and not seen.mount.external
    bits = seen.permissions | (UPDATE | DELETE if renamed else 0)
    content = "CK" if seen.node.is_folder and bits & CREATE else ""
    if not seen.node.is_folder and seen.permissions & UPDATE:
        content = "W"
    pairs = (("R", SHARE), ("G", READ), ("D", DELETE), ("NV", UPDATE))
    letters = "".join(letter for letter, bit in pairs if bits & bit) + content
    if seen.mount and seen.mount.is_nobodys:
        return letters.replace("G", "MG", 1)
    return ("S" if seen.mount else "") + letters


def _propfind(world: World, request: Request, path: str, body: bytes) -> Response:
    uid = str(request.path_params["uid"])
    seen = _reachable(world, uid, path)
    names = wanted(parse(body) if body else None) or [f"{D}{name}" for name in _ALLPROP]
    mounts, depth = world.mounts(uid), request.headers.get("depth", "infinity")
    shown = [seen]
    if depth != "0" and seen.node.is_folder:
        shown += world.listing(seen, mounts) if depth == "1" else world.walk(uid, path)
        shown += world.ghosts(uid) if seen.path == "/" else []
        closed = seen.node.unreadable or (depth != "1" and any(s.node.is_folder and not s.readable for s in shown))
        if closed:
            raise DavError(403, "Forbidden", "No read permissions. This might be caused by files_accesscontrol")
    return multistatus(
        response(_href(s), names if body else _present(world, s, names, mounts), properties(world, s, mounts))
        for s in shown
    )


def _present(world: World, seen: Seen, names: list[str], mounts: list[Mount]) -> list[str]:
    """allprop leaves out what a node lacks."""
    has = properties(world, seen, mounts)
    return [name for name in names if has[name]() is not None]


def _get(world: World, request: Request, path: str, body: bytes) -> Response:
    seen = _reachable(world, request.path_params["uid"], path)
    if seen.node.is_folder:
        return Response(b"", media_type="text/html; charset=UTF-8")
    if not seen.readable:
        raise NotFoundHere(path)
    if not seen.downloadable:
        return error(403, "OCA\\DAV\\Connector\\Sabre\\Exception\\Forbidden", _DENIED)
    node = seen.node
    etag, name = f'"{node.etag}"', split(seen.path)[1]
    mime = f"{node.mime};charset=UTF-8" if node.mime.startswith("text/") else node.mime
    headers = {
        "ETag": etag,
        "OC-ETag": etag,
        "Last-Modified": date(node.mtime),
        "Content-Length": str(len(node.data)),
        "Content-Type": mime,
        "Content-Disposition": f"attachment; filename*=UTF-8''{''.join(f'%{b:02x}' for b in name.encode())}",
    }
    return Response(b"" if request.method == "HEAD" else node.data, headers=headers)


def _put(world: World, request: Request, path: str, body: bytes) -> Response:
    uid, given = request.path_params["uid"], request.headers.get("x-oc-mtime")
    parent = world.resolve(uid, split(path)[0])
    existed = any(seen.path == path.rstrip("/") for seen in world.listing(parent))
    fileid = world.write(uid, path, body, mtime=float(given) if given else None, via="dav")
    world.nodes[fileid].checksum = request.headers.get("oc-checksum", "")
    etag = f'"{world.nodes[fileid].etag}"'
    accepted = {"X-OC-MTime": "accepted"} if given else {}
    return Response(
        b"", 204 if existed else 201, {"ETag": etag, "OC-ETag": etag, "OC-FileId": _oc_id(world, fileid), **accepted}
    )


def _mkcol(world: World, request: Request, path: str, body: bytes) -> Response:
    uid = request.path_params["uid"]
    try:
        parent = world.resolve(uid, split(path)[0])
    except NotFoundHere as problem:
        raise DavError(409, "Conflict", "Parent node does not exist") from problem
    if any(seen.path == path.rstrip("/") for seen in world.listing(parent)):
        raise DavError(405, "MethodNotAllowed", "The resource you tried to create already exists")
    fileid = world.resolve(uid, world.mkdir(uid, path)).node.id
    return Response(b"", 201, {"OC-FileId": _oc_id(world, fileid)})


def _move(world: World, request: Request, path: str, body: bytes) -> Response:
    uid = request.path_params["uid"]
    seen = _reachable(world, uid, path)
    prefix = f"{FILES}/{uid}/"
    target = unquote(urlsplit(request.headers.get("destination", "")).path)
    if not target.startswith(prefix):
        raise DavError(403, "Forbidden", "Destination is not yours")
    new = "/" + target[len(prefix) :].strip("/")
    try:
        siblings = world.listing(world.resolve(uid, split(new)[0]))
    except NotFoundHere as problem:
        raise DavError(409, "Conflict", "The destination node is not found") from problem
    existed = any(other.path == new for other in siblings)
    if existed and request.headers.get("overwrite", "T").upper() == "F":
        raise DavError(412, "PreconditionFailed", _OVERWRITE)
    world.move(uid, path, new)
    etag = {} if seen.node.is_folder else {"ETag": f'"{seen.node.etag}"', "OC-ETag": f'"{seen.node.etag}"'}
    return Response(b"", 204 if existed else 201, {"OC-FileId": _oc_id(world, seen.node.id), **etag})


def _delete(world: World, request: Request, path: str, body: bytes) -> Response:
    if path.strip("/") == "":
        raise DavError(403, "Forbidden")
    world.delete(request.path_params["uid"], path)
    return Response(b"", 204)


def _report(world: World, request: Request, path: str, body: bytes) -> Response:
    """oc:filter-files by one tag: what carries it itself, wherever the user has it."""
    uid, root = str(request.path_params["uid"]), parse(body)
    asked = [element.text or "" for element in root.iterfind(f".//{OC}systemtag")]
    names = {str(number): name for name, number in tags_of(world, uid).items()}
    if len(asked) != 1 or asked[0] not in names:
        raise DavError(412, "PreconditionFailed", "Cannot filter by non-existing tag")
    found = [seen for seen in world.walk(uid) if names[asked[0]] in seen.node.tags]
    mounts, properties_asked = world.mounts(uid), wanted(root)
    return multistatus(response(_href(s), properties_asked, properties(world, s, mounts)) for s in found)


async def system_tags(request: Request) -> Response:
    """PROPFIND, depth 1: the tags that the user may see."""
    body, uid, world = await request.body(), asking(request), request.app.state.world
    asked, root = wanted(parse(body)), "/remote.php/dav/systemtags/"
    shown = {
        f"{root}{number}/": {f"{OC}id": text(number), f"{OC}display-name": text(name)}
        for name, number in tags_of(world, uid).items()
    }
    return multistatus(response(href, asked, has) for href, has in {root: {}, **shown}.items())


def tags_of(world: World, uid: str) -> dict[str, int]:
    """Ids of the tags that a user may see, by name."""
    sees_all = uid in world.groups["admin"]
    return {name: number for name, number in world.tags.items() if sees_all or name not in world.hidden_tags}


_METHODS: dict[str, Callable[[World, Request, str, bytes], Response]] = {
    "PROPFIND": _propfind,
    "REPORT": _report,
    "GET": _get,
    "HEAD": _get,
    "PUT": _put,
    "MKCOL": _mkcol,
    "MOVE": _move,
    "DELETE": _delete,
}


def _foreign(world: World, method: str, home: str, path: str) -> Response:
    """Someone else's tree: the root exists and shows nothing, everything below is missing."""
    if home not in world.people:
        raise DavError(404, "NotFound", f"Principal with name {home} not found")
    if method == "PROPFIND" and path.strip("/") == "":
        folder = {f"{D}resourcetype": lambda: "<d:collection/>"}
        return multistatus([response(f"{FILES}/{home}/", [f"{D}resourcetype"], folder)])
    raise DavError(404, "NotFound", f"File not found: {path.strip('/')} in '{home}'")


def _reachable(world: World, uid: str, path: str) -> Seen:
    """By path, nothing below a blocked folder is found. A dead storage is noticed by who asks for something on it."""
    seen = world.resolve(uid, path)
    if seen.node.parent and seen.node.parent.unreadable:
        raise NotFoundHere(path)
    if seen.mount and (storage := seen.mount.external) and storage.dead:
        storage.away = True
        raise DavError(503, "ServiceUnavailable", "Storage is temporarily not available")
    return seen


def _href(seen: Seen) -> str:
    tail = "/" if seen.node.is_folder and seen.path != "/" else ""
    return f"{FILES}/{seen.uid}{seen.path}{tail}"


def _oc_id(world: World, fileid: int) -> str:
    return f"{fileid:08d}{world.instance_id}"


def asking(request: Request) -> str:
    """Who asks; a disabled account still passes here, as on the server."""
    uid: str | None = request.state.caller.uid
    if uid is None:
        raise DavError(401, "NotAuthenticated", "No public access to this resource., AppAPIAuth has not passed")
    return uid

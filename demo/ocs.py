# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""OCS: the envelope, the provisioning API, capabilities and shares."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from demo.tree import READ, NotAllowed, NotFoundHere, Seen, Share
from demo.world import World

Handler = Callable[[Request], Awaitable[Response]]

NOT_LOGGED_IN, NOT_FOUND = 997, 998
_HTTP = {NOT_LOGGED_IN: 401, NOT_FOUND: 404}


class OcsError(Exception):
    """Ends a request with a failed envelope. code: an HTTP status, or OCS's own 997 and 998."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message)
        self.code = code


def route(path: str, handler: Handler, *methods: str, csrf: bool = True) -> list[Route]:
    """An OCS endpoint below /ocs/v1.php and /ocs/v2.php. csrf: refuse without the header OCS-APIRequest."""

    async def endpoint(request: Request) -> Response:
        if csrf and "ocs-apirequest" not in request.headers:
            return JSONResponse({"message": "CSRF check failed"}, 412)
        try:
            return await handler(request)
        except OcsError as problem:
            return reply(request, [], code=problem.code, message=str(problem))
        except NotFoundHere as problem:
            return reply(request, [], code=404, message=str(problem))
        except NotAllowed as problem:
            return reply(request, [], code=403, message=str(problem))

    return [Route(f"/ocs/{v}.php{path}", endpoint, methods=[*methods]) for v in ("v1", "v2")]


def reply(request: Request, data: object, *, code: int = 200, message: str = "OK") -> Response:
    """The envelope, as JSON when asked for, else XML. v1 hides every failure but 401 behind HTTP 200."""
    first = request.url.path.startswith("/ocs/v1.php")
    fine = code == 200
    meta = {"status": "ok" if fine else "failure", "statuscode": 100 if first and fine else code, "message": message}
    if first:
        meta |= {"totalitems": "", "itemsperpage": ""}
    status = _HTTP.get(code, code)
    status = 200 if first and status != 401 else status
    if request.query_params.get("format") == "json" or "application/json" in request.headers.get("accept", ""):
        body = json.dumps({"ocs": {"meta": meta, "data": data}}, separators=(",", ":")).encode()
        return Response(body, status, media_type="application/json; charset=utf-8")
    xml = f'<?xml version="1.0"?>\n<ocs>{_xml("meta", meta)}{_xml("data", data)}</ocs>\n'
    return Response(xml, status, media_type="application/xml; charset=utf-8")


def _xml(name: str, value: object) -> str:
    if isinstance(value, dict):
        inner = "".join(_xml(str(key), item) for key, item in value.items())
    elif isinstance(value, list):
        inner = "".join(_xml("element", item) for item in value)
    else:
        inner = escape("" if value is None or value is False else str(int(value) if value is True else value))
    return f"<{name}>{inner}</{name}>"


async def params(request: Request) -> dict[str, Any]:
    """Query and body (JSON or form) in one."""
    body = await request.body()
    given: dict[str, Any] = dict(request.query_params)
    if "json" in request.headers.get("content-type", ""):
        return given | (json.loads(body) if body else {})
    return given | dict(parse_qsl(body.decode(), keep_blank_values=True))


def user_of(request: Request) -> str:
    """The asking user; nobody is refused with 997."""
    uid: str | None = request.state.caller.uid
    if uid is None:
        raise OcsError(NOT_LOGGED_IN, "Current user is not logged in")
    return uid


def world_of(request: Request) -> World:
    """The world behind the request."""
    world: World = request.app.state.world
    return world


def routes() -> list[Route]:
    """Users, groups, capabilities, shares and external storages; anything else answers 998."""
    shares = "/apps/files_sharing/api/v1/shares"
    return [
        *route("/cloud/user", _me, "GET"),
        *route("/cloud/users", _users, "GET"),
        *route("/cloud/users/{uid}", _one_user, "GET"),
        *route("/cloud/groups", _groups, "GET"),
        *route("/cloud/groups/{group}/users", _members, "GET"),
        *route("/cloud/capabilities", _capabilities, "GET"),
        *route("/apps/files_external/api/v1/mounts", _external, "GET"),
        *route(f"{shares}/pending", _pending, "GET"),
        *route(f"{shares}/pending/{{share:int}}", _accept_share, "POST"),
        *route(shares, _shares, "GET"),
        *route(shares, _create_share, "POST"),
        *route(f"{shares}/{{share:int}}", _delete_share, "DELETE"),
    ]


def fallback() -> list[Route]:
    """The answer to an unknown endpoint; add it last."""
    return route("/{rest:path}", _unknown, "GET", "POST", "PUT", "DELETE", csrf=False)


async def _unknown(request: Request) -> Response:
    raise OcsError(NOT_FOUND, "Invalid query, please check the syntax. API specifications are here: /ocs/v2.php")


async def _me(request: Request) -> Response:
    return reply(request, _user_json(world_of(request), user_of(request)))


async def _users(request: Request) -> Response:
    _demand_admin(request)
    return reply(request, {"users": sorted(world_of(request).people)})


async def _one_user(request: Request) -> Response:
    world, uid, asked = world_of(request), user_of(request), request.path_params["uid"]
    if uid != asked and uid not in world.groups["admin"]:
        raise OcsError(NOT_FOUND)
    if asked not in world.people:
        raise OcsError(404, "User does not exist")
    return reply(request, _user_json(world, asked))


async def _groups(request: Request) -> Response:
    _demand_admin(request)
    return reply(request, {"groups": sorted(world_of(request).groups)})


async def _members(request: Request) -> Response:
    _demand_admin(request)
    members = world_of(request).groups.get(request.path_params["group"])
    if members is None:
        raise OcsError(404, "The requested group could not be found")
    return reply(request, {"users": sorted(members)})


def _demand_admin(request: Request) -> None:
    if user_of(request) not in world_of(request).groups["admin"]:
        raise OcsError(403, "Logged in account must be at least a sub admin")


def _user_json(world: World, uid: str) -> dict[str, object]:
    person = world.person(uid)
    return {
        "enabled": person.enabled,
        "id": uid,
        "lastLogin": person.last_login * 1000,
        "backend": "Database",
        "subadmin": [],
        "quota": {"free": -3, "used": person.home.size(), "total": -3, "relative": 0, "quota": -3},
        "email": None,
        "displayname": person.display_name,
        "display-name": person.display_name,
        "groups": world.groups_of(uid),
        "language": "en",
        "locale": "",
    }


async def _capabilities(request: Request) -> Response:
    version = {"major": 31, "minor": 0, "micro": 6, "string": "31.0.6", "edition": "", "extendedSupport": False}
    shown: dict[str, object] = {"app_api": {"version": "5.0.2"}, "theming": {"name": "Nextcloud", "color": "#00679e"}}
    if uid := request.state.caller.uid:
        notes = {"api_version": ["0.2", "1.3", "1.4"], "version": "4.13.1"}
        shown |= {
            "core": {"pollinterval": 60, "webdav-root": "remote.php/webdav"},
            "deck": {"version": "1.15.9", "canCreateBoards": True, "apiVersions": ["1.0", "1.1"]},
            "files_sharing": {"api_enabled": True},
            "notifications": {"ocs-endpoints": ["list", "get", "delete"]},
            "notes": notes | {"notes_path": world_of(request).person(uid).notes_path},
        }
    return reply(request, {"version": version, "capabilities": shown})


async def _shares(request: Request) -> Response:
    """shared_with_me=true: received and accepted ones, at their places of now; else those that the user made."""
    uid, world = user_of(request), world_of(request)
    with world.lock:
        if request.query_params.get("shared_with_me") == "true":
            mounts = world.mounts(uid)
            seen = [(share, Seen(uid, m.path, m.node, m)) for m in mounts for share in m.shares]
        else:
            mine = [share for share in world.shares.values() if share.owner == uid and share.node.owner]
            seen = [(share, s) for share in mine for s in world.sightings(uid, share.node.id)[:1]]
        return reply(request, [_share_json(world, share, where) for share, where in seen])


async def _external(request: Request) -> Response:
    """Whether they answer or not."""
    uid, world = user_of(request), world_of(request)
    rows = [
        {"id": root.external.id, "type": "dir", "name": root.name, "path": "", "permissions": 1, "scope": "system"}
        for root in world.externals(uid)
        if root.external
    ]
    return reply(request, rows)


async def _pending(request: Request) -> Response:
    """What waits for the user's word; it lies nowhere in his files yet."""
    uid, world = user_of(request), world_of(request)
    with world.lock:
        waiting = [share for share in world.shares.values() if uid in share.pending]
        rows = [_share_json(world, share, Seen(uid, f"/{share.node.name}", share.node)) for share in waiting]
        return reply(request, [row | {"permissions": 0, "is-mount-root": False} for row in rows])


async def _accept_share(request: Request) -> Response:
    uid, world = user_of(request), world_of(request)
    share = world.shares.get(request.path_params["share"])
    if share is None or uid not in share.pending:
        raise OcsError(404, "Wrong share ID, share does not exist")
    world.accept_share(uid, share.id)
    return reply(request, [])


async def _create_share(request: Request) -> Response:
    uid, world, given = user_of(request), world_of(request), await params(request)
    kind, who, path = str(given.get("shareType", "")), str(given.get("shareWith", "")), str(given.get("path", ""))
    known = who in (world.people if kind == "0" else world.groups)
    if kind not in ("0", "1") or not known:
        raise OcsError(404, "Please specify a valid account to share with")
    target = {"with_user": who} if kind == "0" else {"with_group": who}
    view_only = any(
        a.get("key") == "download" and not a.get("value") for a in json.loads(given.get("attributes", "[]"))
    )
    with world.lock:
        seen = world.resolve(uid, path)
        permissions = int(given.get("permissions", 31))
        share_id = world.share(uid, path, permissions=permissions, download=not view_only, **target)
        return reply(request, _share_json(world, world.shares[share_id], seen))


async def _delete_share(request: Request) -> Response:
    """Its owner revokes it, a recipient leaves it."""
    uid, world, share_id = user_of(request), world_of(request), request.path_params["share"]
    with world.lock:
        share = world.shares.get(share_id)
        received = any(share in mount.shares for mount in world.mounts(uid))
        if not share or not (share.owner == uid or received):
            raise OcsError(404, "Wrong share ID, share does not exist")
        if share.owner == uid:
            world.unshare(share_id)
        else:
            world.leave_share(uid, share_id)
    return reply(request, [])


def _share_json(world: World, share: Share, seen: Seen) -> dict[str, object]:
    node, owner = share.node, world.person(share.owner)
    attributes = '[{"scope":"permissions","key":"download","value":false}]'
    return {
        "id": str(share.id),
        "share_type": 0 if share.with_user else 1,
        "uid_owner": share.owner,
        "displayname_owner": owner.display_name,
        "permissions": share.permissions,
        "stime": share.created,
        "uid_file_owner": node.owner,
        "path": seen.path,
        "item_type": "folder" if node.is_folder else "file",
        "item_permissions": seen.permissions | READ,
        "is-mount-root": seen.is_mount_root,
        "mount-type": "shared" if seen.mount else "",
        "mimetype": "httpd/unix-directory" if node.is_folder else node.mime,
        "item_source": node.id,
        "file_source": node.id,
        "file_parent": node.parent.id if node.parent else None,
        "file_target": seen.path if seen.mount else f"/{node.name}",
        "item_size": node.size(),
        "item_mtime": node.mtime,
        "share_with": share.with_user or share.with_group,
        "share_with_displayname": share.with_user or share.with_group,
        "hide_download": 0,
        "attributes": None if share.download else attributes,
    }

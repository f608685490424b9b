# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What a person sees of the stand-in: pick a user, the ExApp's page inside a Nextcloud-like frame, and a document."""

from __future__ import annotations

import base64
import json
import secrets
from html import escape
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from demo.gate import SESSION_COOKIE, ExApp
from demo.world import World

_PROXY = "/index.php/apps/app_api/proxy"
_COLOURS = ("#00679e", "#8b3a62", "#2e7d32", "#9a5b00", "#5b4bb0", "#00707a")

# The variables of Nextcloud 31's default theme that app pages use.
_STYLE = """
:root{color-scheme:light dark;--color-main-background:#fff;--color-main-text:#222;--color-text-maxcontrast:#6b6b6b;
--color-background-hover:#f5f5f5;--color-background-dark:#ededed;--color-border:#ededed;--color-border-dark:#dbdbdb;
--color-border-maxcontrast:#7d7d7d;--color-primary:#00679e;--color-primary-text:#fff;--color-primary-element:#00679e;
--color-primary-element-hover:#005a8a;--color-primary-element-text:#fff;--color-primary-element-light:#e5eff5;
--color-primary-element-light-text:#00293f;--color-error:#db0606;--color-warning:#a37200;--color-success:#2d7b41;
--border-radius-small:4px;--border-radius-element:8px;--border-radius-container:12px;
--border-radius:4px;--border-radius-large:10px;
--default-grid-baseline:4px;--default-clickable-area:34px;--default-font-size:15px;--header-height:50px;
--font-face:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
@media (prefers-color-scheme:dark){:root{--color-main-background:#171717;--color-main-text:#ebebeb;
--color-text-maxcontrast:#999;--color-background-hover:#212121;--color-background-dark:#292929;--color-border:#292929;
--color-border-dark:#3b3b3b;--color-border-maxcontrast:#8c8c8c;--color-primary-element-light:#14232b;
--color-primary-element-light-text:#99c3d9}}
*{box-sizing:border-box}body{margin:0;font:var(--default-font-size)/1.5 var(--font-face);color:var(--color-main-text);
background:var(--color-primary)}a{color:inherit}
#header{height:var(--header-height);display:flex;align-items:center;gap:12px;padding:0 16px;color:#fff}
#header .who{margin-left:auto;display:flex;align-items:center;gap:8px}
.avatar{display:inline-grid;place-items:center;border-radius:50%;width:32px;height:32px;color:#fff;font-weight:600}
#content{position:fixed;inset:var(--header-height) 8px 8px;overflow:auto;background:var(--color-main-background);
border-radius:var(--border-radius-container)}
main{max-width:760px;margin:40px auto;padding:0 20px}pre{white-space:pre-wrap;font:inherit}
.people{display:grid;grid-template-columns:repeat(auto-fill,minmax(200px,1fr));gap:12px;padding:0;list-style:none}
.people button{width:100%;display:flex;gap:12px;align-items:center;padding:14px;font:inherit;text-align:left;
cursor:pointer;color:inherit;background:var(--color-main-background);border:2px solid var(--color-border-dark);
border-radius:var(--border-radius-container)}
.people button:hover,.people button:focus-visible{border-color:var(--color-primary-element);
background:var(--color-background-hover)}
small,.where{color:var(--color-text-maxcontrast)}
"""
_SCRIPT = """
window._oc_webroot='';window.OC={currentUser:%(uid)s,requestToken:%(token)s,webroot:'',appswebroots:{},
getRootPath:()=>'',getCurrentUser:()=>({uid:%(uid)s,displayName:%(name)s}),getLocale:()=>'en',getLanguage:()=>'en',
generateUrl:(url,values={})=>'/index.php'+url.replace(/{(\\w+)}/g,(m,key)=>encodeURIComponent(values[key]??m)),
linkToOCS:(service,version=1)=>`${location.origin}/ocs/v${version}.php/${service}/`,isUserAdmin:()=>%(admin)s};
window.OCP=window.OCP||{};window.OCA=window.OCA||{};
window.t=(app,text,values={})=>text.replace(/{(\\w+)}/g,(m,key)=>values[key]??m);
window.n=(app,one,many,count,values={})=>window.t(app,count===1?one:many,values).replace(/%%n/g,count);
"""


def routes() -> list[Route]:
    """The picker, the session, the embedded page and the targets of deep links."""
    return [
        Route("/", _picker),
        Route("/session", _open_session, methods=["POST"]),
        Route("/index.php/apps/app_api/embedded/{app}/{name}", _embedded),
        Route("/index.php/apps/app_api/embedded/{app}/{name}/{other:path}", _embedded),
        Route("/index.php/f/{id:int}", _file),
        Route("/index.php/apps/notes/note/{id:int}", _file),
        Route("/index.php/apps/deck/board/{board:int}/card/{id:int}", _card),
        Route("/index.php/apps/deck/card/{id:int}", _card),
    ]


async def _picker(request: Request) -> Response:
    """Everybody but the admin, to be by one click."""
    world: World = request.app.state.world
    people = [p for p in world.people.values() if p.enabled and p.uid not in world.groups["admin"]]
    cards = "".join(
        f'<li><button name="user" value="{escape(p.uid)}">{_avatar(p.display_name, number)}'
        f"<span>{escape(p.display_name)}<br><small>{escape(', '.join(world.groups_of(p.uid)) or 'no group')}</small>"
        "</span></button></li>"
        for number, p in enumerate(people)
    )
    body = (
        '<main><h1>Who are you?</h1><p class="where">A stand-in Nextcloud with sample content. Everything stays '
        f'on this machine.</p><form method="post" action="/session"><ul class="people">{cards}</ul></form></main>'
    )
    return _page("Pick a user", body)


async def _open_session(request: Request) -> Response:
    """Sets the session cookie and leads to the first page that an ExApp put into the menu."""
    uid = parse_qs((await request.body()).decode()).get("user", [""])[0]
    if uid not in request.app.state.world.people:
        return RedirectResponse("/", 303)
    apps: dict[str, ExApp] = request.app.state.apps
    pages = [(app.id, name) for app in apps.values() if app.enabled for name in app.registered.get("ui/top-menu", {})]
    target = f"/index.php/apps/app_api/embedded/{pages[0][0]}/{pages[0][1]}" if pages else "/"
    answer = RedirectResponse(target, 303)
    answer.set_cookie(SESSION_COOKIE, uid, httponly=True, samesite="lax")
    return answer


async def _embedded(request: Request) -> Response:
    """The ExApp's page as AppAPI frames it: scripts and styles through the proxy, initial state in hidden inputs."""
    uid, world = request.state.caller.uid, request.app.state.world
    if uid is None:
        return RedirectResponse("/", 303)
    app: ExApp | None = request.app.state.apps.get(request.path_params["app"])
    name = request.path_params["name"]
    entry = app.registered.get("ui/top-menu", {}).get(name) if app and app.enabled else None
    for_admins = entry is not None and str(entry.get("adminRequired", "0")) not in ("0", "", "False")
    if not app or entry is None or (for_admins and uid not in world.groups["admin"]):
        return _page("Page not found", "<main><h1>Page not found</h1></main>", status=404)

    def announced(kind: str) -> list[dict[str, str]]:
        every = app.registered.get(kind, {}).values()
        return [e for e in every if e.get("type") == "top_menu" and e.get("name") == name]

    nonce = secrets.token_urlsafe(18)
    head = "".join(
        f'<link rel="stylesheet" href="{_PROXY}/{app.id}/{escape(e["path"].lstrip("/"))}.css">'
        for e in announced("ui/style")
    )
    scripts = "".join(
        f'<script nonce="{nonce}" defer src="{_PROXY}/{app.id}/{escape(e["path"].lstrip("/"))}.js"></script>'
        for e in announced("ui/script")
    )
    states = "".join(
        f'<input type="hidden" id="initial-state-app_api-{escape(e["key"])}" value="{_state(e.get("value"))}">'
        for e in announced("ui/initial-state")
    )
    frame = f'<div id="initial-state-container" style="display:none">{states}</div>'
    body = f'{_header(world, uid, str(entry.get("displayName", app.name)))}{frame}<div id="content"></div>'
    return _page(str(entry.get("displayName", app.name)), body, user=(world, uid), head=head + scripts, nonce=nonce)


async def _file(request: Request) -> Response:
    """Where a file's or note's deep link leads: its text, or a download."""
    uid, world = request.state.caller.uid, request.app.state.world
    if uid is None:
        return RedirectResponse("/", 303)
    fileid = request.path_params["id"]
    if not world.readable(uid, f"file:{fileid}"):
        return _missing(world, uid, "Files")
    seen = next(s for s in world.sightings(uid, fileid) if s.readable)
    link = f"/remote.php/dav/files/{quote(uid)}{quote(seen.path)}"
    shown = f'<p><a href="{link}">Download</a></p>' if seen.downloadable else "<p>View only</p>"
    if seen.node.mime.startswith("text/"):
        shown += f"<pre>{escape(seen.node.data.decode(errors='replace'))}</pre>"
    return _document(
        world, uid, seen.node.name, f"{seen.path} · of {world.person(seen.node.owner).display_name}", shown
    )


async def _card(request: Request) -> Response:
    """Where a card's deep link leads."""
    uid, world = request.state.caller.uid, request.app.state.world
    if uid is None:
        return RedirectResponse("/", 303)
    card_id = request.path_params["id"]
    if not world.readable(uid, f"deck_card:{card_id}"):
        return _missing(world, uid, "Deck")
    card = world.cards[card_id]
    stack = world.stacks[card.stack]
    where = f"{world.boards[stack.board].title} › {stack.title}"
    return _document(world, uid, card.title, where, f"<pre>{escape(card.description)}</pre>")


def _document(world: World, uid: str, title: str, where: str, shown: str) -> Response:
    body = f'<main><p class="where">{escape(where)}</p><h1>{escape(title)}</h1>{shown}</main>'
    return _page(title, f'{_header(world, uid, "Nextcloud stand-in")}<div id="content">{body}</div>')


def _missing(world: World, uid: str, title: str) -> Response:
    body = f'{_header(world, uid, title)}<div id="content"><main><h1>Not found</h1></main></div>'
    return _page("Not found", body, status=404)


def _header(world: World, uid: str, title: str) -> str:
    name = world.person(uid).display_name
    number = [*world.people].index(uid)
    return (
        f'<header id="header"><strong>{escape(title)}</strong><span class="who">{_avatar(name, number)}'
        f'<span>{escape(name)}</span> <a href="/">switch user</a></span></header>'
    )


def _avatar(name: str, number: int) -> str:
    colour = _COLOURS[number % len(_COLOURS)]
    return f'<span class="avatar" style="background:{colour}" aria-hidden="true">{escape(name[:1].upper())}</span>'


def _state(value: object) -> str:
    """AppAPI stores JSON and the server encodes it once more."""
    return base64.b64encode(json.dumps(json.dumps(value)).encode()).decode()


def _page(
    title: str,
    body: str,
    *,
    user: tuple[World, str] | None = None,
    head: str = "",
    nonce: str = "",
    status: int = 200,
) -> HTMLResponse:
    marks, helpers = "", ""
    if user:
        world, uid = user
        name, token = world.person(uid).display_name, secrets.token_urlsafe(24)
        marks = f' data-user="{escape(uid)}" data-user-displayname="{escape(name)}" data-requesttoken="{token}"'
        admin = json.dumps(uid in world.groups["admin"])
        values = {"uid": _js(uid), "name": _js(name), "token": _js(token), "admin": admin}
        helpers = f'<script nonce="{nonce}">{_SCRIPT % values}</script>'
    html = (
        f'<!DOCTYPE html><html lang="en" data-locale="en"><head{marks}><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style>{helpers}{head}</head><body>{body}</body></html>"
    )
    script = f"'nonce-{nonce}'" if nonce else "'none'"
    policy = (
        f"default-src 'none';base-uri 'none';script-src {script};style-src 'self' 'unsafe-inline';"
        "img-src 'self' data: blob:;font-src 'self' data:;connect-src 'self';media-src 'self';"
        "frame-src 'self';frame-ancestors 'self';form-action 'self'"
    )
    return HTMLResponse(html, status, {"Content-Security-Policy": policy, "Cache-Control": "no-store"})


def _js(text: str) -> str:
    return json.dumps(text).replace("<", "\\u003c")

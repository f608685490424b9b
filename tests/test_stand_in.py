# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The stand-in Nextcloud has the real server's answers and bad habits, and its oracle follows the permission model."""

from __future__ import annotations

import base64
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from demo.appapi import HandshakeFailed, register, routes_from, set_enabled
from demo.gate import ExApp
from demo.server import Served, serving
from demo.world import World

NS = (
    'xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns" xmlns:nc="http://nextcloud.org/ns" '
    'xmlns:c="urn:ietf:params:xml:ns:caldav"'
)
INFO = """<info><external-app><routes>
<route><url>^\\/?api\\/search$</url><verb>GET,POST</verb><access_level>USER</access_level>
<headers_to_exclude>["Authorization","Cookie"]</headers_to_exclude></route>
<route><url>^unescaped/slash$</url><verb>GET</verb><access_level>PUBLIC</access_level>
<headers_to_exclude>[]</headers_to_exclude></route>
<route><url>^mcp.*</url><verb>POST</verb><access_level>USER</access_level><headers_to_exclude>[]</headers_to_exclude></route>
<route><url>^stream$</url><verb>GET</verb><access_level>PUBLIC</access_level><headers_to_exclude>[]</headers_to_exclude></route>
<route><url>^admin$</url><verb>GET</verb><access_level>ADMIN</access_level><headers_to_exclude>[]</headers_to_exclude></route>
</routes></external-app></info>"""


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Nextcloud:
    """A served world and a client for each person."""

    world: World
    clock: Clock
    served: Served
    client: httpx.Client

    def ask(self, uid: str | None, method: str, path: str, **options: object) -> httpx.Response:
        auth = (uid, f"{uid}-password") if uid else None
        return self.client.request(method, path, auth=auth, **options)  # type: ignore[arg-type]

    def propfind(self, uid: str, path: str, props: str, *, depth: str = "1") -> httpx.Response:
        body = f"<d:propfind {NS}><d:prop>{props}</d:prop></d:propfind>"
        return self.ask(uid, "PROPFIND", path, content=body, headers={"Depth": depth})

    def search(self, uid: str, where: str, props: str = "<oc:fileid/>", *, scope: str = "") -> httpx.Response:
        body = (
            f"<d:searchrequest {NS}><d:basicsearch><d:select><d:prop>{props}</d:prop></d:select><d:from><d:scope>"
            f"<d:href>{scope or f'/files/{uid}'}</d:href><d:depth>infinity</d:depth></d:scope></d:from>"
            f"<d:where>{where}</d:where></d:basicsearch></d:searchrequest>"
        )
        return self.ask(uid, "SEARCH", "/remote.php/dav/", content=body, headers={"Content-Type": "text/xml"})

    def root_etag(self, uid: str) -> str:
        return etags(self.propfind(uid, f"/remote.php/dav/files/{uid}/", "<d:getetag/>", depth="0"))[0]

    def ocs(self, uid: str | None, path: str, **options: object) -> httpx.Response:
        return self.ask(uid, "GET", f"/ocs/v2.php{path}?format=json", headers={"OCS-APIRequest": "true"}, **options)


def etags(answer: httpx.Response) -> list[str]:
    return re.findall(r"getetag>&quot;(.*?)&quot;", answer.text)


def ids(answer: httpx.Response) -> list[int]:
    return sorted(int(number) for number in re.findall(r"<oc:fileid>(\d+)<", answer.text))


def hrefs(answer: httpx.Response) -> list[str]:
    return sorted(re.findall(r"<d:href>(.*?)</d:href>", answer.text))


def any_of(*fileids: object) -> str:
    return "<d:or>" + "".join(map(equals, fileids)) + "</d:or>"


def equals(fileid: object) -> str:
    return f"<d:eq><d:prop><oc:fileid/></d:prop><d:literal>{fileid}</d:literal></d:eq>"


@pytest.fixture
def nc() -> Iterator[Nextcloud]:
    """Alice and Bob of the staff, Carol alone, and an admin."""
    clock = Clock()
    world = World(clock=clock)
    for uid, groups in (("admin", ["admin"]), ("alice", ["staff"]), ("bob", ["staff"]), ("carol", [])):
        world.add_user(uid, uid.title(), groups)
    with serving(world) as served, httpx.Client(base_url=served.url, timeout=5) as client:
        yield Nextcloud(world, clock, served, client)


# --- the oracle


def test_a_file_is_readable_by_its_owner_and_by_those_it_is_shared_with(nc: Nextcloud) -> None:
    key = f"file:{nc.world.write('alice', '/Trips/Rome.md', b'# Rome')}"
    share = nc.world.share("alice", "/Trips", with_group="staff")
    assert [nc.world.readable(uid, key) for uid in ("alice", "bob", "carol", "nobody")] == [True, True, False, False]
    nc.world.leave("bob", "staff")
    assert not nc.world.readable("bob", key)
    nc.world.join("bob", "staff")
    assert nc.world.readable("bob", key)
    nc.world.unshare(share)
    assert not nc.world.readable("bob", key)


def test_disabled_people_blocked_files_and_the_trash_are_unreadable(nc: Nextcloud) -> None:
    fileid = nc.world.write("alice", "/a/plan.md", b"x")
    nc.world.share("alice", "/a", with_user="bob")
    nc.world.disable("bob")
    assert not nc.world.readable("bob", f"file:{fileid}")
    nc.world.enable("bob")
    nc.world.block(nc.world.resolve("alice", "/a").node.id)
    assert not nc.world.readable("alice", f"file:{fileid}")
    nc.world.unblock(nc.world.resolve("alice", "/a").node.id)
    assert nc.world.readable("bob", f"file:{fileid}")
    nc.world.delete("alice", "/a/plan.md")
    assert not nc.world.readable("alice", f"file:{fileid}")
    assert f"file:{fileid}" not in nc.world.all_documents()


def test_a_view_only_share_is_readable_and_not_quotable_until_another_share_allows_it(nc: Nextcloud) -> None:
    fileid = nc.world.write("alice", "/a/secret.md", b"x")
    nc.world.share("alice", "/a/secret.md", with_user="bob", download=False)
    assert nc.world.readable("bob", f"file:{fileid}")
    assert not nc.world.quotable("bob", f"file:{fileid}")
    assert nc.ask("bob", "GET", "/remote.php/dav/files/bob/secret.md").status_code == 403
    nc.world.share("alice", "/a", with_user="bob")
    assert nc.world.quotable("bob", f"file:{fileid}")
    found = nc.search("bob", equals(fileid), "<nc:share-attributes/>")
    assert hrefs(found) == ["/remote.php/dav/files/bob/a/secret.md", "/remote.php/dav/files/bob/secret.md"]
    assert found.text.count("&quot;value&quot;:false") == 1


def test_received_names_that_clash_are_numbered_and_a_recipient_may_move_them(nc: Nextcloud) -> None:
    nc.world.mkdir("bob", "/Plans")
    nc.world.mkdir("bob", "/Deep/er")
    fileid = nc.world.write("alice", "/Plans/x.md", b"x")
    nc.world.share("alice", "/Plans", with_user="bob")
    assert nc.world.path_for("bob", fileid) == ["/Plans (2)/x.md"]
    nc.world.move("bob", "/Plans (2)", "/Deep/er/mine")
    nc.world.move("bob", "/Deep", "/Down")
    assert nc.world.path_for("bob", fileid) == ["/Down/er/mine/x.md"]
    assert nc.world.path_for("alice", fileid) == ["/Plans/x.md"]
    nc.world.delete("bob", "/Down/er/mine")
    assert not nc.world.readable("bob", f"file:{fileid}")


# --- ETags


def test_two_writes_within_one_second_keep_the_etag(nc: Nextcloud) -> None:
    url = "/remote.php/dav/files/alice/x.txt"
    first = nc.ask("alice", "PUT", url, content=b"one")
    second = nc.ask("alice", "PUT", url, content=b"another")
    assert (first.status_code, second.status_code) == (201, 204)
    assert first.headers["etag"] == second.headers["etag"]
    assert first.headers["oc-fileid"] == second.headers["oc-fileid"]
    shown = nc.ask("alice", "GET", url)
    assert (shown.content, shown.headers["date"]) == (b"another", shown.headers["last-modified"])
    nc.clock.now += 1
    assert nc.ask("alice", "PUT", url, content=b"another").headers["etag"] != first.headers["etag"]


def test_a_client_that_sets_the_time_keeps_the_etag_for_ever(nc: Nextcloud) -> None:
    url, stamp = "/remote.php/dav/files/alice/x.txt", {"X-OC-MTime": "1700000000"}
    first = nc.ask("alice", "PUT", url, content=b"one", headers=stamp)
    nc.clock.now += 60
    second = nc.ask("alice", "PUT", url, content=b"two", headers=stamp)
    assert first.headers["etag"] == second.headers["etag"]
    shown = nc.propfind("alice", url, "<nc:upload_time/>", depth="0").text
    assert f"<nc:upload_time>{int(nc.clock.now)}<" in shown
    nc.world.write("alice", "/x.txt", b"three")
    assert "<nc:upload_time>0<" in nc.propfind("alice", url, "<nc:upload_time/>", depth="0").text


def test_the_root_etag_of_a_reader_follows_what_happens_in_a_share(nc: Nextcloud) -> None:
    nc.world.write("alice", "/a/b/deep.md", b"x")
    nc.world.mkdir("bob", "/home")

    def changed(uid: str, action: object) -> bool:
        nc.clock.now += 1
        before = nc.root_etag(uid)
        assert callable(action)
        action()
        return nc.root_etag(uid) != before

    assert not changed("alice", lambda: nc.world.share("alice", "/a", with_user="bob"))
    assert changed("bob", lambda: nc.world.share("alice", "/a/b", with_group="staff"))
    assert changed("bob", lambda: nc.world.write("alice", "/a/b/deep.md", b"y"))
    assert changed("bob", lambda: nc.world.move("alice", "/a/b/deep.md", "/a/b/other.md"))
    assert changed("bob", lambda: nc.world.leave("bob", "staff"))
    assert changed("bob", lambda: nc.world.move("bob", "/a", "/home/a"))
    assert changed("bob", lambda: nc.world.delete("alice", "/a/b/other.md"))
    assert changed("bob", lambda: nc.world.unshare(1))
    assert not changed("carol", lambda: nc.world.write("alice", "/a/new.md", b"x"))


def test_search_shows_folder_etags_without_the_mounts_below_and_no_upload_time(nc: Nextcloud) -> None:
    fileid = int(nc.ask("alice", "PUT", "/remote.php/dav/files/alice/x.md", content=b"x").headers["oc-fileid"][:8])
    nc.world.mkdir("alice", "/a")
    nc.world.mkdir("bob", "/box")
    nc.world.share("alice", "/a", with_user="bob")
    nc.world.move("bob", "/a", "/box/a")
    box = nc.world.resolve("bob", "/box").node.id

    def box_etags() -> tuple[list[str], list[str]]:
        searched = nc.search("bob", equals(box), "<d:getetag/>")
        return etags(searched), etags(nc.propfind("bob", "/remote.php/dav/files/bob/box", "<d:getetag/>", depth="0"))

    before = box_etags()
    nc.world.write("alice", "/a/new.md", b"x")
    assert box_etags()[0] == before[0]
    assert box_etags()[1] != before[1]
    assert "<nc:upload_time>0<" in nc.search("alice", equals(fileid), "<nc:upload_time/>").text


def test_a_rename_keeps_fileid_and_etag(nc: Nextcloud) -> None:
    fileid = nc.world.write("alice", "/a/x.md", b"x")
    etag = nc.world.nodes[fileid].etag
    target = f"{nc.served.url}/remote.php/dav/files/alice/y%20z.md"
    nc.clock.now += 5
    moved = nc.ask("alice", "MOVE", "/remote.php/dav/files/alice/a/x.md", headers={"Destination": target})
    assert (moved.status_code, moved.headers["etag"]) == (201, f'"{etag}"')
    assert hrefs(nc.search("alice", equals(fileid))) == ["/remote.php/dav/files/alice/y%20z.md"]


# --- SEARCH and PROPFIND


def test_search_takes_a_hundred_ids_and_breaks_on_more(nc: Nextcloud) -> None:
    mine = nc.world.write("alice", "/a.md", b"x")
    theirs = nc.world.write("bob", "/b.md", b"x")
    assert ids(nc.search("alice", any_of(mine, theirs, *range(9000, 9098)))) == [mine]
    assert nc.search("alice", any_of(*range(101))).status_code == 500
    assert "maximum operator limit" in nc.search("alice", any_of(*range(101))).text
    assert nc.search("alice", equals("abc")).status_code == 500
    assert nc.search("bob", equals(mine), scope="/files/alice").status_code == 500
    assert ids(nc.search("alice", equals(nc.world.person("alice").home.id))) == []


def test_search_lists_folders_or_everything_in_one_call(nc: Nextcloud) -> None:
    fileid = nc.world.write("alice", "/Ä & b/c.md", b"x")
    folder = nc.world.resolve("alice", "/Ä & b").node.id
    nc.world.share("alice", "/Ä & b", with_group="staff")
    found = nc.search("bob", "<d:is-collection/>", "<oc:fileid/><nc:is-mount-root/><oc:permissions/>")
    assert ids(found) == [folder]
    assert hrefs(found) == ["/remote.php/dav/files/bob/%c3%84%20%26%20b/"]
    assert "<nc:is-mount-root>true<" in found.text
    assert "<oc:permissions>SG<" in found.text
    every = nc.search("bob", "<d:gte><d:prop><oc:size/></d:prop><d:literal>0</d:literal></d:gte>")
    assert ids(every) == [folder, fileid]


def test_a_blocked_file_is_listed_without_the_read_letter(nc: Nextcloud) -> None:
    fileid = nc.world.write("alice", "/a/x.secret", b"x")
    nc.world.block(fileid)
    assert "<oc:permissions>R<" in nc.search("alice", equals(fileid), "<oc:permissions/>").text
    assert nc.ask("alice", "GET", "/remote.php/dav/files/alice/a/x.secret").status_code == 404
    assert nc.propfind("alice", "/remote.php/dav/files/alice/", "<oc:fileid/>", depth="infinity").status_code == 207
    nc.world.unblock(fileid)
    nc.world.block(nc.world.resolve("alice", "/a").node.id)
    assert "<oc:permissions>R<" in nc.search("alice", equals(fileid), "<oc:permissions/>").text
    assert nc.propfind("alice", "/remote.php/dav/files/alice/a/x.secret", "<oc:fileid/>", depth="0").status_code == 404
    assert nc.propfind("alice", "/remote.php/dav/files/alice/", "<oc:fileid/>", depth="infinity").status_code == 403


def test_another_persons_root_exists_and_shows_nothing(nc: Nextcloud) -> None:
    nc.world.write("bob", "/b.md", b"x")
    root = nc.propfind("alice", "/remote.php/dav/files/bob/", "<oc:fileid/>")
    assert (root.status_code, hrefs(root), ids(root)) == (207, ["/remote.php/dav/files/bob/"], [])
    assert nc.ask("alice", "GET", "/remote.php/dav/files/bob/b.md").status_code == 404
    assert nc.ask(None, "GET", "/remote.php/dav/files/bob/b.md").status_code == 401


# --- Deck and Notes


def test_deck_rest_makes_a_newcomers_board_and_caldav_does_not(nc: Nextcloud) -> None:
    board = nc.world.add_board("bob", "Travel")
    nc.world.share_board(board, with_user="alice")
    home = nc.propfind("alice", "/remote.php/dav/calendars/alice/", "<d:displayname/>")
    assert "Deck: Travel" in home.text
    assert len(nc.world.boards) == 1
    boards = nc.ask("alice", "GET", "/index.php/apps/deck/api/v1.0/boards").json()
    assert sorted(row["title"] for row in boards) == ["Personal", "Travel"]
    assert sum(card.owner == "alice" for card in nc.world.cards.values()) == 3


def multiget(nc: Nextcloud, uid: str, *paths: str) -> httpx.Response:
    wanted = "".join(f"<d:href>/remote.php/dav/calendars/{uid}/{path}</d:href>" for path in paths)
    body = f"<c:calendar-multiget {NS}><d:prop><c:calendar-data/></d:prop>{wanted}</c:calendar-multiget>"
    return nc.ask(uid, "REPORT", f"/remote.php/dav/calendars/{uid}/", content=body)


def test_one_missing_card_makes_the_whole_multiget_a_404(nc: Nextcloud) -> None:
    one, two = nc.world.add_board("bob", "One"), nc.world.add_board("bob", "Two")
    first = nc.world.add_card(one, "Hotel, cheap; clean", description="a\nb", labels=["Urgent"])
    second = nc.world.add_card(two, "Train")
    paths = [f"app-generated--deck--board-{b}/card-{c}.ics" for b, c in ((one, first), (two, second))]
    both = multiget(nc, "bob", *paths)
    assert both.status_code == 207
    assert "SUMMARY:Hotel\\, cheap\\; clean\nDESCRIPTION:a\\nb\n" in both.text
    assert "CATEGORIES:\n" in both.text
    nc.world.archive_card(second)
    assert multiget(nc, "bob", *paths).status_code == 404
    assert multiget(nc, "alice", *paths).status_code == 404
    assert nc.world.readable("bob", f"deck_card:{second}")


def test_deck_edits_of_one_second_share_an_etag_and_a_move_touches_only_the_target(nc: Nextcloud) -> None:
    one, two = nc.world.add_board("bob", "One"), nc.world.add_board("bob", "Two")
    card = nc.world.add_card(one, "Train")
    url = f"/remote.php/dav/calendars/bob/app-generated--deck--board-{one}/card-{card}.ics"
    before = nc.ask("bob", "GET", url).headers["etag"]
    nc.world.edit_card(card, title="Bus")
    assert nc.ask("bob", "GET", url).headers["etag"] == before
    nc.clock.now += 10
    nc.world.move_card(card, nc.world.stacks_of(two)[0].id)
    assert nc.world.boards[two].last_modified - nc.world.boards[one].last_modified == 10
    nc.world.share_board(two, with_group="staff")
    assert nc.world.readable("alice", f"deck_card:{card}")
    assert not nc.world.readable("carol", f"deck_card:{card}")
    nc.world.unshare_board(two, with_group="staff")
    assert not nc.world.readable("alice", f"deck_card:{card}")
    refused = nc.ask("alice", "GET", f"/index.php/apps/deck/api/v1.0/boards/0/stacks/0/cards/{card}")
    assert (refused.status_code, refused.json()["message"]) == (403, "Permission denied")


def test_listing_notes_makes_the_folder_and_asking_for_settings_does_not(nc: Nextcloud) -> None:
    settings = nc.ask("carol", "GET", "/index.php/apps/notes/settings", headers={"OCS-APIRequest": "true"})
    assert settings.json()["notesPath"] == "Notes"
    assert not [*nc.world.walk("carol")]
    assert nc.ask("carol", "GET", "/index.php/apps/notes/api/v1/notes").json() == []
    assert [seen.path for seen in nc.world.walk("carol")] == ["/Notes"]
    fileid = nc.world.write("carol", "/Notes/Ideas/Boat.md", b"wood")
    note = nc.ask("carol", "GET", f"/index.php/apps/notes/api/v1/notes/{fileid}").json()
    assert (note["title"], note["category"], note["content"]) == ("Boat", "Ideas", "wood")


# --- who asks


def signed(uid: str, secret: str = "s3cret", version: str = "1.0.0") -> dict[str, str]:
    pair = base64.b64encode(f"{uid}:{secret}".encode()).decode()
    return {"EX-APP-ID": "probe", "EX-APP-VERSION": version, "AUTHORIZATION-APP-API": pair, "OCS-APIRequest": "true"}


def test_an_exapp_acts_as_anybody_with_the_right_headers_only(nc: Nextcloud) -> None:
    nc.served.apps["probe"] = ExApp("probe", "Probe", "1.0.0", "s3cret", "http://127.0.0.1:9", enabled=True)

    def me(headers: dict[str, str]) -> int:
        return nc.ask(None, "GET", "/ocs/v2.php/cloud/user?format=json", headers=headers).status_code

    assert me(signed("alice")) == 200
    assert me({name: value for name, value in signed("alice").items() if name != "OCS-APIRequest"}) == 412
    assert [me(signed("nobody")), me(signed("")), me(signed("alice", version=""))] == [401, 401, 401]
    nc.world.disable("alice")
    assert me(signed("alice")) == 401
    dav = nc.ask(None, "PROPFIND", "/remote.php/dav/files/alice/", headers={**signed("alice"), "Depth": "0"})
    assert dav.status_code == 207
    users = nc.ask(None, "GET", "/ocs/v2.php/apps/app_api/api/v1/users?format=json", headers=signed(""))
    assert users.json()["ocs"]["data"] == ["admin", "alice", "bob", "carol"]
    assert nc.ocs("admin", "/cloud/users/alice").json()["ocs"]["data"]["enabled"] is False


def test_ten_wrong_secrets_lock_the_address_out(nc: Nextcloud) -> None:
    nc.served.apps["probe"] = ExApp("probe", "Probe", "1.0.0", "s3cret", "http://127.0.0.1:9", enabled=True)
    path = "/ocs/v2.php/cloud/user?format=json"
    for _ in range(10):
        assert nc.ask(None, "GET", path, headers=signed("alice", "wrong")).status_code == 401
    assert nc.ask(None, "GET", path, headers=signed("alice")).status_code == 429
    nc.clock.now += 3600
    assert nc.ask(None, "GET", path, headers=signed("alice")).status_code == 200


def test_shares_can_be_made_listed_and_taken_back_over_http(nc: Nextcloud) -> None:
    nc.world.write("alice", "/a/x.md", b"x")
    shares, headers = "/ocs/v2.php/apps/files_sharing/api/v1/shares?format=json", {"OCS-APIRequest": "true"}
    form = {"path": "/a", "shareType": "0", "shareWith": "bob", "permissions": "1"}
    made = nc.ask("alice", "POST", shares, data=form, headers=headers).json()["ocs"]["data"]
    got = nc.ask("bob", "GET", f"{shares}&shared_with_me=true", headers=headers).json()["ocs"]["data"]
    assert [(row["id"], row["path"], row["item_type"]) for row in got] == [(made["id"], "/a", "folder")]
    gone = nc.ask("alice", "DELETE", shares.replace("?", f"/{made['id']}?"), headers=headers)
    assert (gone.status_code, nc.world.mounts("bob")) == (200, [])


# --- an ExApp and its life


@dataclass
class Probe:
    """A small ExApp that remembers what it was asked. In /enabled it calls Nextcloud back when told to."""

    calls_back: str = ""
    refuses: str = ""
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""
    nextcloud: str = ""

    def paths(self) -> list[str]:
        return [f"{method} {path}" for method, path, _, _ in self.asked]

    async def answer(self, request: Request) -> Response:
        body = await request.body()
        self.asked.append((request.method, str(request.url.path), dict(request.headers), body))
        match request.url.path:
            case "/heartbeat":
                return JSONResponse({"status": "ok"})
            case "/stream":
                return StreamingResponse(iter([b"a", b"b"]))
            case "/init":
                threading.Thread(target=self.report, daemon=True).start()
                return JSONResponse({})
            case "/enabled":
                if self.calls_back and request.query_params["enabled"] == "1":
                    async with httpx.AsyncClient(timeout=5) as client:
                        await client.get(f"{self.calls_back}/status.php")
                return JSONResponse({"error": self.refuses})
        return JSONResponse({"ok": True})

    def report(self) -> None:
        """Progress, from a thread: the answer comes only after Nextcloud has asked /heartbeat and /enabled again."""
        for progress in (50, 100):
            httpx.put(
                f"{self.nextcloud}/ocs/v1.php/apps/app_api/ex-app/status",
                json={"progress": progress, "error": ""},
                headers=signed(""),
                timeout=10,
            )


@contextmanager
def running(probe: Probe) -> Iterator[Probe]:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    methods = ["GET", "POST", "PUT", "DELETE"]
    app = Starlette(routes=[Route("/{path:path}", probe.answer, methods=methods)])
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    probe.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    yield probe
    server.should_exit = server.force_exit = True
    thread.join(5)


@pytest.fixture
def probe(nc: Nextcloud) -> Iterator[Probe]:
    with running(Probe(nextcloud=nc.served.url)) as running_probe:
        yield running_probe


def exapp(probe: Probe) -> ExApp:
    return ExApp("probe", "Probe", "1.0.0", "s3cret", probe.url, routes=routes_from(INFO))


async def test_registering_asks_for_heartbeat_init_and_enabled(nc: Nextcloud, probe: Probe) -> None:
    app = await register(nc.served.apps, exapp(probe), deadline_s=10)
    assert probe.paths() == ["GET /heartbeat", "POST /init", "GET /heartbeat", "PUT /enabled"]
    assert (app.enabled, app.progress) == (True, 100)
    assert "authorization-app-api" not in probe.asked[0][2]
    assert probe.asked[1][2]["authorization-app-api"] == base64.b64encode(b":s3cret").decode()
    await set_enabled(app, enabled=False)
    assert nc.ask(None, "GET", "/ocs/v2.php/cloud/user", headers=signed("alice")).status_code == 401
    state = nc.ask(None, "GET", "/ocs/v2.php/apps/app_api/ex-app/state?format=json", headers=signed(""))
    assert state.json()["ocs"]["data"] == 0


async def test_an_exapp_that_refuses_is_disabled_again(nc: Nextcloud, probe: Probe) -> None:
    probe.refuses = "no model"
    with pytest.raises(HandshakeFailed, match="no model"):
        await register(nc.served.apps, exapp(probe), deadline_s=10)
    assert not nc.served.apps["probe"].enabled


async def test_a_callback_within_enabled_starves_when_php_has_one_worker(nc: Nextcloud) -> None:
    for workers, works in ((2, True), (1, False)):
        with serving(nc.world, workers=workers) as served, running(Probe(nextcloud=served.url)) as probe:
            probe.calls_back = served.url
            app = exapp(probe)
            app.enable_timeout_s = 0.5
            if works:
                assert (await register(served.apps, app, deadline_s=10)).enabled
            else:
                with pytest.raises(HandshakeFailed):
                    await register(served.apps, app, deadline_s=10)


async def test_the_proxy_matches_raw_patterns_and_lets_dots_through(nc: Nextcloud, probe: Probe) -> None:
    await register(nc.served.apps, exapp(probe), deadline_s=10)
    base = "/index.php/apps/app_api/proxy/probe"

    def status(uid: str | None, method: str, path: str) -> int:
        return nc.ask(uid, method, f"{base}/{path}").status_code

    assert status("alice", "GET", "api/search") == 200
    assert status("alice", "DELETE", "api/search") == 404
    assert status("alice", "GET", "api/search/more") == 404
    assert status(None, "GET", "api/search") == 404
    assert status("alice", "GET", "unescaped/slash") == 404
    assert [status("alice", "GET", "admin"), status("admin", "GET", "admin")] == [404, 200]
    assert [status("alice", "PATCH", "api/search"), status("alice", "GET", "init")] == [405, 404]
    assert status("alice", "POST", "mcp/%2e%2e/hook/x") == 200
    assert probe.paths()[-1] == "POST /hook/x"


async def test_the_proxy_signs_for_the_caller_and_drops_what_clients_forge(nc: Nextcloud, probe: Probe) -> None:
    await register(nc.served.apps, exapp(probe), deadline_s=10)
    forged = {**signed("admin"), "X-Origin-IP": "9.9.9.9", "Cookie": "a=b"}
    del forged["EX-APP-ID"]
    nc.ask("alice", "POST", "/index.php/apps/app_api/proxy/probe/api/search?q=a%20b", content=b"{}", headers=forged)
    method, _, headers, body = probe.asked[-1]
    assert (method, body) == ("POST", b"{}")
    assert headers["authorization-app-api"] == base64.b64encode(b"alice:s3cret").decode()
    assert headers["x-origin-ip"] == "127.0.0.1"
    assert "authorization" not in headers
    assert headers["cookie"] == "a=b"  # excluded in the manifest, and passed on all the same


async def test_the_proxy_breaks_streams(nc: Nextcloud, probe: Probe) -> None:
    await register(nc.served.apps, exapp(probe), deadline_s=10)
    with pytest.raises(httpx.RemoteProtocolError):
        nc.ask(None, "GET", "/index.php/apps/app_api/proxy/probe/stream")


async def test_webhooks_arrive_bare_and_are_lost_when_nobody_listens(nc: Nextcloud, probe: Probe) -> None:
    app = await register(nc.served.apps, exapp(probe), deadline_s=10)
    for name in ("NodeWritten", "NodeRenamed"):
        hook = {"httpMethod": "POST", "uri": "/hook", "event": f"OCP\\Files\\Events\\Node\\{name}Event"}
        path = "/ocs/v1.php/apps/webhook_listeners/api/v1/webhooks?format=json"
        made = nc.ask(None, "POST", path, json=hook, headers=signed("")).json()["ocs"]
        assert made["meta"]["statuscode"] == 100
    fileid = nc.world.write("alice", "/x.md", b"x")
    nc.world.move("alice", "/x.md", "/y.md")
    assert await nc.served.webhooks.deliver() == 1
    _, path, headers, body = probe.asked[-1]
    assert (path, "content-type" in headers) == ("/hook", False)
    assert f'"id": {fileid}, "path": "/alice/files/x.md"'.encode() in body
    app.enabled = False
    nc.world.write("alice", "/y.md", b"y")
    assert await nc.served.webhooks.deliver() == 0
    app.enabled = True
    assert await nc.served.webhooks.deliver() == 0


async def test_the_demo_page_loads_what_the_exapp_announced(nc: Nextcloud, probe: Probe) -> None:
    await register(nc.served.apps, exapp(probe), deadline_s=10)
    ui = "/ocs/v1.php/apps/app_api/api/v1/ui"
    nc.ask(None, "POST", f"{ui}/top-menu", json={"name": "main", "displayName": "Search"}, headers=signed(""))
    script = {"type": "top_menu", "name": "main", "path": "js/main", "afterAppId": ""}
    nc.ask(None, "POST", f"{ui}/script", json=script, headers=signed(""))
    with httpx.Client(base_url=nc.served.url, follow_redirects=True) as browser:
        assert "Carol" in browser.get("/").text
        page = browser.post("/session", data={"user": "carol"})
        assert page.url.path == "/index.php/apps/app_api/embedded/probe/main"
        assert 'src="/index.php/apps/app_api/proxy/probe/js/main.js"' in page.text
        assert 'data-user="carol"' in page.text
        fileid = nc.world.write("alice", "/x.md", b"only alice's")
        assert browser.get(f"/index.php/f/{fileid}").status_code == 404
        browser.post("/session", data={"user": "alice"})
        assert "only alice" in browser.get(f"/index.php/f/{fileid}").text


# --- failures on demand


def test_failures_strike_as_often_as_told(nc: Nextcloud) -> None:
    url = "/remote.php/dav/files/alice/"
    nc.world.write("alice", "/x.md", b"x" * 100)
    heal = nc.world.fail(lambda request: request.kind == "dav", status=503, times=2)
    assert [nc.ask("alice", "GET", url).status_code for _ in range(3)] == [503, 503, 200]
    heal()
    for status in ("reset", "truncate"):
        nc.world.fail(lambda request: request.method == "PROPFIND", status=status, times=1)
        with pytest.raises(httpx.RemoteProtocolError):
            nc.ask("alice", "PROPFIND", url)
    nc.world.fail(lambda request: request.user == "alice", status="garbage", times=1)
    assert b"multistatus" not in nc.ask("alice", "PROPFIND", url).content
    nc.world.fail(lambda request: True, status="timeout")
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(nc.served.url + url, timeout=0.2)
    nc.world.heal()
    assert nc.ask("alice", "PROPFIND", url).status_code == 207


def test_requests_are_counted_by_method_kind_and_person(nc: Nextcloud) -> None:
    nc.world.reset_requests()
    nc.ocs("alice", "/cloud/user")
    nc.ask("bob", "PROPFIND", "/remote.php/dav/files/bob/")
    nc.ask("bob", "PROPFIND", "/remote.php/dav/calendars/bob/")
    assert nc.world.counted() == {("GET", "ocs"): 1, ("PROPFIND", "dav"): 1, ("PROPFIND", "caldav"): 1}
    assert (nc.world.count(user="bob"), nc.world.count(user="bob", kind="dav")) == (2, 1)


def test_a_worker_holds_up_the_others(nc: Nextcloud) -> None:
    nc.world.latency_s = 0.1
    with serving(nc.world, workers=1) as served:
        started = time.monotonic()
        threads = [threading.Thread(target=httpx.get, args=(f"{served.url}/status.php",)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5)
        assert time.monotonic() - started >= 0.3

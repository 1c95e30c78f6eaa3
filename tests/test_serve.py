"""Serving and watching: what is given to whom, what never is, and news for open pages."""

import http.client
import json
import socket
import threading
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from report.commands import serve
from report.commands.arguments import parse
from report.commands.serve import NEWS, SCRIPT, Server
from report.core.errors import RidgepointError
from tests.factory import write_files

PAGE = "<!DOCTYPE html><html><body><p>Grüße</p></body></html>".encode()
#: The files of a site with their addresses and types.
SITE = {
    "index.html": ("/", "text/html; charset=utf-8"),
    "study/index.html": ("/study/", "text/html; charset=utf-8"),
    "study/figures/a b.svg": ("/study/figures/a%20b.svg", "image/svg+xml"),
    "study/trace.json.gz": ("/study/trace.json.gz", "application/gzip"),
    "study/t.csv": ("/study/t.csv?x=/../..#y", "text/csv; charset=utf-8"),
}
OTHERS = ("html/empty/note", "html/.hidden/note", "pdf/study.pdf", "values/study.json")
NOWHERE = (
    "/pdf/study.pdf", "/empty/", "/nothing", "/../values/study.json", "/%2e%2e/values/study.json",
    "/..%2fvalues%2fstudy.json", "/-/events", "/%3Cb%3E", "/" + "x" * 5000,
    "/.hidden/note", "/%2ehidden/note", "/link/study.json", "/ring", "/linked/", "/a%00b",
)  # fmt: skip


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {f"html/{name}": PAGE if name.endswith("html") else b"x" for name in SITE}
    folder = tmp_path_factory.mktemp("site") / "out"
    write_files(folder, {**files, **dict.fromkeys(OTHERS, b"{}")})
    (folder / "html" / "linked").mkdir()
    links = {"link": "../values", "ring": "ring", "linked/index.html": "../../pdf/study.pdf"}
    for name, target in links.items():
        (folder / "html" / name).symlink_to(target)
    return folder


@pytest.fixture(scope="module", params=[False, True], ids=["still", "live"])
def server(out: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(out, 0, live=request.param) as opened:
        threading.Thread(target=opened.serve_forever, args=(0.01,), daemon=True).start()
        yield opened
        opened.shutdown()


def ask(port: int, address: str, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as line:
        line.request("GET", address, headers=headers)
        response = line.getresponse()
        return response, response.read()


def test_the_site_and_nothing_else_has_addresses(server: Server) -> None:
    """Pages are sent as they are, or with the script that asks for news where files are watched."""
    port = server.server_address[1]
    for address, kind in SITE.values():
        response, body = ask(port, address)
        assert (response.status, response.headers["Content-Type"]) == (200, kind)
        assert response.headers["Cache-Control"] == "no-store"
        assert body.startswith(PAGE if "html" in kind else b"x")
    for address in NOWHERE:
        response, body = ask(port, address)
        assert response.status == 404 and b"<b>" not in body, address
    for address in (SCRIPT, NEWS):
        assert (ask(port, address)[0].status == 200) is server.live
    script = f'<script src="{SCRIPT}" data-build="{server.build()}"></script>\n'.encode()
    assert ask(port, "/study/")[1] == (PAGE + script if server.live else PAGE)


def test_only_this_machine_is_answered(server: Server) -> None:
    host, port = server.server_address[:2]
    assert host == "127.0.0.1"
    for said, status in (
        *((name, 200) for name in ("127.0.0.1:8000", "LOCALHOST:1", "[::1]:80", "")),
        *((name, 403) for name in ("127.0.0.1.evil.example", "localhost@evil.example", "[")),
    ):
        response, body = ask(port, "/", Host=said)
        assert response.status == status and ("Grüße".encode() in body) is (status == 200)


def test_what_cannot_be_served_is_one_sentence(out: Path, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        for port in (-1, 65536, other.getsockname()[1]):
            with pytest.raises(RidgepointError, match=f"^--serve {port}: .* 65535"):
                Server(out, port)
    with pytest.raises(RidgepointError, match=r"build\.py --html"):
        serve.serve(options(tmp_path))


def options(out: Path) -> Namespace:
    return parse(["--watch", "--serve", "0", "--out", str(out)])


def test_each_change_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What goes wrong is told and ends nothing; without a change nothing is built."""
    built, heard = iter(("data/x.json: no good; correct it.", None)), list[dict[str, Any]]()

    def rebuild(*_: object) -> str | None:
        write_files(tmp_path, {"manifest.json": f"build {len(heard)}".encode()})
        return next(built)

    def changed(*_: object) -> Iterator[object]:
        port = int(capsys.readouterr().out.partition("127.0.0.1:")[2].partition("/")[0])
        for files in (set(), set(), {"a.py"}, set()):
            yield files
            heard.append(json.loads(ask(port, NEWS)[1]))

    monkeypatch.setattr(serve, "run_build", rebuild)
    monkeypatch.setattr(serve, "file_changes", changed)
    assert serve.watch(options(tmp_path)) == 0
    failures = [news["failure"] for news in heard]
    assert failures == ["data/x.json: no good; correct it."] * 2 + [None] * 2
    first, second, third, fourth = (news["build"] for news in heard)
    assert first == second != third == fourth
    bad, good = capsys.readouterr().out.splitlines()
    assert bad.endswith("error: data/x.json: no good; correct it.") and good.endswith("Built")

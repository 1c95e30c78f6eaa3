"""Serving and watching: what is given to whom, what never is, and news for open pages."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from report.commands.serve import (
    NEWS,
    SCRIPT,
    Handler,
    Server,
    changes,
    serve,
    watch_and_serve,
)
from report.errors import RidgepointError
from tests.folders import write_files

PAGE = b"<!DOCTYPE html><html><body><p>Gr\xc3\xbc\xc3\x9fe</p></body></html>"


def site_in(folder: Path) -> Path:
    """A small ``out/`` with pages, a PDF, and much that is none of the site."""
    files = {
        "html/index.html": PAGE,
        "html/style.css": b"body { margin: 0 }",
        "html/study/index.html": PAGE,
        "html/study/figures/a b.svg": b"<svg/>",
        "html/study/files/trace.json.gz": b"\x1f\x8b",
        "html/study/tables/t.csv": b"a,b\n",
        "html/.hidden": b"hidden",
        "html/empty/note.txt": b"no page here",
        "html/study/study.pdf": b"%PDF-1.7",
        "pdf/study.pdf": b"%PDF-1.7",
        "values/study.json": b"{}",
        "manifest.json": b"{}",
    }
    write_files(folder, files)
    (folder / "html" / "out-of-it").symlink_to(folder / "values" / "study.json")
    (folder / "html" / "loop").symlink_to(folder / "html" / "loop")
    return folder


@contextmanager
def running(server: Server) -> Iterator[Server]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    with server:
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site_in(tmp_path_factory.mktemp("site") / "out")


@pytest.fixture(scope="module", params=[False, True], ids=["still", "live"])
def server(out: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    with running(Server(out, 0, live=request.param)) as opened:
        yield opened


def ask(
    server: Server, address: str, method: str = "GET"
) -> tuple[http.client.HTTPResponse, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)) as line:
        line.request(method, address)
        response = line.getresponse()
        return response, response.read()


#: Address, status, and the type or the new address.
ANSWERS = [
    ("/", 200, "text/html; charset=utf-8"),
    ("/index.html?x=/../..#y", 200, "text/html; charset=utf-8"),
    ("/study", 301, "/study/"),
    ("/study/", 200, "text/html; charset=utf-8"),
    ("/study/figures/a%20b.svg", 200, "image/svg+xml"),
    ("/study/study.pdf", 200, "application/pdf"),
    ("/style.css", 200, "text/css; charset=utf-8"),
    ("/study/files/trace.json.gz", 200, "application/gzip"),
    ("/study/tables/t.csv", 200, "text/csv; charset=utf-8"),
    *((address, 404, "") for address in (
        "/pdf/study.pdf", "/empty/", "/index.html/", "/nothing", "/.hidden",
        "/out-of-it", "/loop", "/../values/study.json", "/%2e%2e/values/study.json", "/-/events",
        "/..%2fvalues%2fstudy.json", "/..%5cvalues%5cstudy.json", "/%00", "/a%00b",
        "/" + "x" * 5000, "/%3Cb%3E", "/%ff",
    )),
]  # fmt: skip


@pytest.mark.parametrize(("address", "status", "says"), ANSWERS)
def test_the_site_and_nothing_else_has_addresses(
    server: Server, address: str, status: int, says: str
) -> None:
    response, body = ask(server, address)
    assert response.status == status
    assert says in (response.headers["Content-Type"], response.headers["Location"], "")
    assert response.headers["Cache-Control"] == "no-store"
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert b"<b>" not in body
    head, nothing = ask(server, address, "HEAD")
    assert (nothing, head.status) == (b"", status)
    assert head.headers["Content-Length"] == response.headers["Content-Length"]


PARTS = ["..", ".", "", "html", "values", "%2e%2e", "study", "\\", "%2f", "a"]


@settings(max_examples=100)
@given(st.lists(st.sampled_from(PARTS) | st.text(max_size=4), max_size=6))
def test_no_address_leads_out(out: Path, parts: list[str]) -> None:
    handler = Handler.__new__(Handler)
    handler.server = SimpleNamespace(out=out)  # type: ignore[assignment]
    found = Path(handler.translate_path("/" + "/".join(parts)))
    assert found.resolve().is_relative_to((out / "html").resolve())


HERE = "Host: localhost"


def request(target: str, *headers: str, body: str = "") -> str:
    return "\r\n".join((f"GET {target} HTTP/1.1", *headers, "", body))


INNER = request("/style.css", HERE)


@pytest.mark.parametrize(
    ("first", "status"),
    [
        *((request("/", f"Host: {host}"), 200) for host in
          ("127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:80", "")),
        *((request("/", f"Host: {host}"), 403) for host in
          ("127.0.0.1.evil.example", "localhost@evil.example", "user@127.0.0.1:8000",
           "127.0.0.1:8000/", "[", "evil.example")),
        (request("/", HERE, f"Content-Length: {len(INNER)}", body=INNER), 200),
        (request("/", HERE, "Content-Length: 1", "Content-Length: 2", body=INNER), 200),
        (request("/", HERE, "Transfer-Encoding : chunked", body="0\r\n\r\n"), 200),
        (request("/", HERE, "Host: evil.example"), 403),
        (request("http://evil.example/", HERE), 403),
        (request("http://localhost/", HERE), 403),
        (request("ftp://localhost/", HERE), 403),
        (request("*", HERE), 403),
        ("POST / HTTP/1.1\r\n\r\n", 501),
    ],
)  # fmt: skip
def test_only_this_machine_is_answered_one_request_a_connection(
    server: Server, first: str, status: int
) -> None:
    """Whatever comes behind the first request is never answered."""
    with closing(socket.create_connection(("127.0.0.1", server.server_port), timeout=60)) as line:
        line.sendall((first + request("/nothing", HERE)).encode())
        line.shutdown(socket.SHUT_WR)
        said = b""
        try:
            while part := line.recv(65_536):
                said += part
        except ConnectionResetError:
            pass  # since the rest of what was sent is not read
    assert re.findall(rb"HTTP/1\.\d (\d+)", said) == [str(status).encode()]
    assert ("Grüße".encode() in said) is (status == 200)
    assert b"Content-Security-Policy: default-src 'none'" in said
    assert server.server_address[0] == "127.0.0.1"


def test_pages_are_sent_as_they_are_unless_files_are_watched(server: Server, out: Path) -> None:
    _, page = ask(server, "/study/")
    assert page.startswith(PAGE) and (page == PAGE) is not server.live
    assert (f'src="{SCRIPT}" data-build="{server.build()}"'.encode() in page) is server.live
    for address in (SCRIPT, NEWS):
        assert (ask(server, address)[0].status == 200) is server.live
    assert SCRIPT.encode() not in ask(server, "/style.css")[1]
    assert (out / "html" / "study" / "index.html").read_bytes() == PAGE


@pytest.mark.parametrize("port", [-1, 65536, 10**9, None])
def test_a_port_that_cannot_be_used_is_one_sentence(out: Path, port: int | None) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1] if port is None else port
        with pytest.raises(RidgepointError, match=f"^--serve {port}: .* 65535"):
            Server(out, port)


def test_without_pages_the_command_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(RidgepointError, match=r"build\.py --html"):
        serve(tmp_path, 0, print)


# Watching


def test_each_change_is_built_and_pages_hear_of_it(tmp_path: Path) -> None:
    """What goes wrong is told and ends nothing; without a change nothing is built."""
    out = site_in(tmp_path / "out")
    said: list[str] = []
    heard: list[dict[str, str | None]] = []

    def rebuilds() -> Iterator[str | None]:
        yield "data/x.json: no good; correct it."
        raise ZeroDivisionError("division by zero")

    builds = rebuilds()

    def rebuild() -> str | None:
        if len(heard) == 4:
            (out / "manifest.json").write_text('{"steps": {}}', "utf-8")
            return None
        return next(builds)

    def changed() -> Iterator[object]:
        for files in (set(), set(), {"a.py"}, set(), {"b.py"}, set()):
            yield files
            port = int(re.findall(r"127\.0\.0\.1:(\d+)", said[0])[0])
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as line:
                line.request("GET", NEWS)
                heard.append(json.loads(line.getresponse().read()))
        raise KeyboardInterrupt

    watch_and_serve(out, 0, rebuild, changed(), said.append)
    failures = [news["failure"] for news in heard]
    assert failures[:2] == ["data/x.json: no good; correct it."] * 2
    assert failures[2:4] == ["ZeroDivisionError: division by zero"] * 2
    assert failures[4:] == [None, None]
    digests = [news["build"] for news in heard]
    assert len({*digests[:4]}) == len({*digests[4:]}) == 1 and digests[0] != digests[-1]
    assert len(said) == 4 and said[3].startswith("Built at ")


def test_what_changes_below_a_folder_is_seen_and_nothing_else(tmp_path: Path) -> None:
    write_files(tmp_path, {"report/a.py": b"old", "data/s/r.json": b"old", "out/x": b"old"})
    found = changes(tmp_path / "report", tmp_path / "data", tmp_path / "not-there")
    assert next(found) == set(), "watching has begun, and nothing is waited for"
    write_files(tmp_path, {"out/x": b"new", "report/__pycache__/a.pyc": b""})
    write_files(tmp_path, {"report/a.py": b"new", "data/s/new.json": b"new"})
    seen: set[str] = set()
    while not {"a.py", "new.json"} <= seen:  # however long the system takes to tell
        seen |= {Path(path).name for _, path in next(found)}  # type: ignore[attr-defined]
    assert not seen & {"x", "a.pyc"}

"""Serving and watching: what is given to whom, what never is, and news for open pages."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from report.commands.serve import NEWS, SCRIPT, Handler, Server, changes, serve, watch_and_serve
from report.errors import RidgepointError
from tests.folders import write_files

PAGE = b"<!DOCTYPE html><html><body><p>Gr\xc3\xbc\xc3\x9fe</p></body></html>"
#: The files of a site with their addresses and types, and much that has none.
SERVED = {
    "index.html": ("/", "text/html; charset=utf-8"),
    "style.css": ("/style.css", "text/css; charset=utf-8"),
    "study/index.html": ("/study/", "text/html; charset=utf-8"),
    "study/figures/a b.svg": ("/study/figures/a%20b.svg", "image/svg+xml"),
    "study/trace.json.gz": ("/study/trace.json.gz", "application/gzip"),
    "study/t.csv": ("/study/t.csv?x=/../..#y", "text/csv; charset=utf-8"),
    "study/study.pdf": ("/study/study.pdf", "application/pdf"),
}
OTHERS = ("html/.hidden", "html/empty/note", "pdf/study.pdf", "values/study.json", "manifest.json")
NOWHERE = (
    "/pdf/study.pdf", "/empty/", "/index.html/", "/nothing", "/.hidden", "/out-of-it", "/loop",
    "/../values/study.json", "/%2e%2e/values/study.json", "/-/events", "/%3Cb%3E", "/%ff",
    "/..%2fvalues%2fstudy.json", "/..%5cvalues%5cstudy.json", "/%00", "/a%00b", "/" + "x" * 5000,
)  # fmt: skip


def site_in(folder: Path) -> Path:
    site = {f"html/{name}": PAGE if name.endswith("html") else b"x" for name in SERVED}
    write_files(folder, {**site, **dict.fromkeys(OTHERS, b"{}")})
    (folder / "html" / "out-of-it").symlink_to(folder / "values" / "study.json")
    (folder / "html" / "loop").symlink_to(folder / "html" / "loop")
    return folder


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site_in(tmp_path_factory.mktemp("site") / "out")


@pytest.fixture(scope="module", params=[False, True], ids=["still", "live"])
def server(out: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(out, 0, live=request.param) as opened:
        thread = threading.Thread(target=opened.serve_forever, args=(0.01,))
        thread.start()
        yield opened
        opened.shutdown()
        thread.join()


def ask(port: int, address: str, method: str = "GET") -> tuple[http.client.HTTPResponse, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as line:
        line.request(method, address)
        response = line.getresponse()
        return response, response.read()


@pytest.mark.parametrize(
    ("address", "status", "says"),
    [
        *((address, 200, kind) for address, kind in SERVED.values()),
        ("/study", 301, "/study/"),
        *((address, 404, "") for address in NOWHERE),
    ],
)
def test_the_site_and_nothing_else_has_addresses(
    server: Server, address: str, status: int, says: str
) -> None:
    response, body = ask(server.server_port, address)
    assert response.status == status
    assert says in (response.headers["Content-Type"], response.headers["Location"], "")
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert b"<b>" not in body
    head, nothing = ask(server.server_port, address, "HEAD")
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
LOCAL = ("127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:80", "")
FOREIGN = (
    "127.0.0.1.evil.example", "localhost@evil.example", "user@127.0.0.1:8000", "127.0.0.1:8000/",
    "[", "evil.example", "localhost\r\nHost: evil.example",
)  # fmt: skip


@pytest.mark.parametrize(
    ("first", "status"),
    [
        *((request("/", f"Host: {host}"), 200) for host in LOCAL),
        *((request("/", f"Host: {host}"), 403) for host in FOREIGN),
        (request("/", HERE, f"Content-Length: {len(INNER)}", body=INNER), 200),
        (request("/", HERE, "Content-Length: 1", "Content-Length: 2", body=INNER), 200),
        (request("/", HERE, "Transfer-Encoding : chunked", body="0\r\n\r\n"), 200),
        *((request(f"{scheme}://localhost/", HERE), 403) for scheme in ("http", "ftp")),
        (request("*", HERE), 403),
        ("POST / HTTP/1.1\r\n\r\n", 501),
    ],
)
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
    assert server.server_address[0] == "127.0.0.1"


def test_pages_are_sent_as_they_are_unless_files_are_watched(server: Server, out: Path) -> None:
    _, page = ask(server.server_port, "/study/")
    assert page.startswith(PAGE) and (page == PAGE) is not server.live
    assert (f'src="{SCRIPT}" data-build="{server.build()}"'.encode() in page) is server.live
    for address in (SCRIPT, NEWS):
        assert (ask(server.server_port, address)[0].status == 200) is server.live
    assert (out / "html" / "study" / "index.html").read_bytes() == PAGE


@pytest.mark.parametrize("port", [-1, 65536, 10**9, None])
def test_what_cannot_be_served_is_one_sentence(out: Path, tmp_path: Path, port: int | None) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1] if port is None else port
        with pytest.raises(RidgepointError, match=f"^--serve {port}: .* 65535"):
            Server(out, port)
    with pytest.raises(RidgepointError, match=r"build\.py --html"):
        serve(tmp_path, 0, print)


def test_each_change_is_built_and_pages_hear_of_it(tmp_path: Path) -> None:
    """What goes wrong is told and ends nothing; without a change nothing is built."""
    out = site_in(tmp_path / "out")
    said: list[str] = []
    heard: list[dict[str, str | None]] = []

    def rebuild() -> str | None:
        if not heard:
            return "data/x.json: no good; correct it."
        if len(heard) < 4:
            raise ZeroDivisionError("division by zero")
        (out / "manifest.json").write_text('{"steps": {}}', "utf-8")
        return None

    def changed() -> Iterator[object]:
        for files in (set(), set(), {"a.py"}, set(), {"b.py"}, set()):
            yield files
            port = int(re.findall(r"127\.0\.0\.1:(\d+)", said[0])[0])
            heard.append(json.loads(ask(port, NEWS)[1]))
        raise KeyboardInterrupt

    watch_and_serve(out, 0, rebuild, changed(), said.append)
    failures = [news["failure"] for news in heard]
    bad = "data/x.json: no good; correct it.", "ZeroDivisionError: division by zero"
    assert failures == [bad[0], bad[0], bad[1], bad[1], None, None]
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

"""The server: what it gives and to whom, what it never gives, and its news for open pages."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.commands.exchange import HOME, ROOMS, Redirect, address_of, locate
from report.commands.serve import (
    EVENTS,
    SCRIPT,
    Server,
    Site,
    open_server,
    running,
    serve,
    with_script,
)
from report.engine.pipeline import ROOT
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
        ".index.json": b"{}",
    }
    write_files(folder, files)
    (folder / "html" / "out-of-it").symlink_to(folder / "values" / "study.json")
    (folder / "html" / "loop").symlink_to(folder / "html" / "loop")
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return site_in(tmp_path / "out")


@pytest.fixture(scope="module")
def lasting_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site_in(tmp_path_factory.mktemp("site") / "out")


@pytest.fixture(params=[False, True], ids=["still", "live"])
def server(out: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    opened = open_server(Site(out, live=request.param), 0)
    with running(opened):
        yield opened


def ask(
    server: Server,
    address: str,
    method: str = "GET",
    host: str | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[http.client.HTTPResponse, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)) as line:
        line.request(
            method, address, headers={**(headers or {}), **({"Host": host} if host else {})}
        )
        response = line.getresponse()
        return response, response.read()


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("/", Redirect(HOME)),
        ("/html", Redirect("/html/")),
        ("/html/", "html/index.html"),
        ("/html/index.html", "html/index.html"),
        ("/html/index.html?x=/../..#y", "html/index.html"),
        ("/html/study", Redirect("/html/study/")),
        ("/html/study/", "html/study/index.html"),
        ("/html/study/figures/a%20b.svg", "html/study/figures/a b.svg"),
        ("/html/study/study.pdf", "html/study/study.pdf"),
        ("/pdf/study.pdf", None),
        ("/pdf/", None),
        ("/pdf", None),
        ("/html/empty/", None),
        ("/html/index.html/", None),
        ("/html/nothing", None),
        ("/html/.hidden", None),
        ("/html/out-of-it", None),
        ("/html/loop", None),
        ("/values/study.json", None),
        ("/manifest.json", None),
        ("/.index.json", None),
        ("/html/../values/study.json", None),
        ("/html/%2e%2e/values/study.json", None),
        ("/html/..%2fvalues%2fstudy.json", None),
        ("/html/..%5cvalues%5cstudy.json", None),
        ("/html//study/", None),
        ("//html/", None),
        ("/%00", None),
        ("/html/a%00b", None),
        ("/html/" + "x" * 5000, None),
        ("", None),
        ("*", None),
    ],
)
def test_only_the_site_has_addresses(out: Path, address: str, found: Redirect | str | None) -> None:
    expected = (out / found).resolve() if isinstance(found, str) else found
    assert locate(out, address) == expected


@given(
    st.lists(
        st.sampled_from(
            ["..", ".", "", "html", "pdf", "values", "%2e%2e", "study", "\\", "%2f", "a"]
        )
        | st.text(max_size=4),
        max_size=6,
    )
)
def test_no_address_leads_out(lasting_out: Path, parts: list[str]) -> None:
    found = locate(lasting_out, "/" + "/".join(parts))
    if isinstance(found, Path):
        rooms = [(lasting_out / room).resolve() for room in ROOMS]
        assert any(found.is_relative_to(room) for room in rooms)
    elif found is not None:
        assert found.to == HOME or found.to.split("/")[1] in ROOMS


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("/html/index.html", "text/html; charset=utf-8"),
        ("/html/style.css", "text/css; charset=utf-8"),
        ("/html/study/figures/a%20b.svg", "image/svg+xml"),
        ("/html/study/files/trace.json.gz", "application/gzip"),
        ("/html/study/tables/t.csv", "text/csv; charset=utf-8"),
        ("/html/study/study.pdf", "application/pdf"),
    ],
)
def test_what_is_sent_says_what_it_is_and_is_not_stored(
    server: Server, address: str, kind: str
) -> None:
    response, body = ask(server, address)
    assert response.status == 200
    assert response.headers["Content-Type"] == kind
    assert response.headers["Cache-Control"] == "no-store"
    assert int(response.headers["Content-Length"]) == len(body) > 0
    head, nothing = ask(server, address, "HEAD")
    assert nothing == b""
    assert head.headers["Content-Length"] == response.headers["Content-Length"]


def test_what_is_missing_is_said_on_a_plain_page(server: Server) -> None:
    response, body = ask(server, "/html/%3Cb%3E")
    assert response.status == 404
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"There is no /html/&lt;b&gt; on this site." in body


def test_it_listens_on_this_machine_only(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_port}/"


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1:8000", True),
        ("localhost", True),
        ("LOCALHOST:1", True),
        ("[::1]:80", True),
        ("", True),
        ("127.0.0.1.evil.example", False),
        ("localhost@evil.example", False),
        ("user@127.0.0.1:8000", False),
        ("127.0.0.1:8000/", False),
        ("[", False),
    ],
)
def test_names_of_this_machine(host: str, local: bool) -> None:
    assert (address_of("/a", [host]) == "/a") is local


HERE = "Host: localhost"


def raw(server: Server, *requests: str) -> bytes:
    """All that the server sends to requests that are sent at once, whatever they look like."""
    with closing(socket.create_connection(("127.0.0.1", server.server_port), timeout=60)) as line:
        line.sendall("".join(requests).encode())
        line.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: line.recv(65_536), b""))


def request(target: str, *headers: str, body: str = "") -> str:
    return "\r\n".join((f"GET {target} HTTP/1.1", *headers, "", body))


INNER = request("/html/style.css", HERE)


@pytest.mark.parametrize(
    ("first", "status"),
    [
        (request("/html/", HERE), 200),
        (request("http://127.0.0.1:1/html/?x", HERE), 200),
        (request("/html/", HERE, f"Content-Length: {len(INNER)}", body=INNER), 200),
        (request("/html/", HERE, "Content-Length: 1", "Content-Length: 2", body=INNER), 200),
        (request("/html/", HERE, "Transfer-Encoding : chunked", body="0\r\n\r\n"), 200),
        (request("/html/", HERE, "Host: evil.example"), 403),
        (request("/html/", "Host: user@127.0.0.1:8000"), 403),
        (request("http://evil.example/html/", HERE), 403),
        (request("http://user@localhost/html/", HERE), 403),
        (request("ftp://localhost/html/", HERE), 403),
    ],
)
def test_no_request_hides_in_another(server: Server, first: str, status: int) -> None:
    """One request a connection: whatever comes behind the first is never answered."""
    said = raw(server, first, request("/html/nothing", HERE))
    assert re.findall(rb"HTTP/1.1 (\d+)", said) == [str(status).encode()]
    assert ("Grüße".encode() in said) is (status == 200)


@pytest.mark.parametrize(
    ("asked", "status", "lies", "content"),
    [
        ({"Range": "bytes=0-3"}, 206, "bytes 0-3/18", b"body"),
        ({"Range": "bytes=16-"}, 206, "bytes 16-17/18", b" }"),
        ({"Range": "bytes=-2"}, 206, "bytes 16-17/18", b" }"),
        ({"Range": "bytes=-99"}, 206, "bytes 0-17/18", b"body { margin: 0 }"),
        ({"Range": "bytes=16-999"}, 206, "bytes 16-17/18", b" }"),
        ({"Range": "bytes=18-"}, 416, "bytes */18", b""),
        ({"Range": "bytes=-0"}, 416, "bytes */18", b""),
        ({"Range": "bytes=3-1"}, 200, None, b"body { margin: 0 }"),
        ({"Range": "bytes=0-0,2-3"}, 200, None, b"body { margin: 0 }"),
        ({"Range": "lines=0-3"}, 200, None, b"body { margin: 0 }"),
        ({"Range": f"bytes={'9' * 5000}-"}, 200, None, b"body { margin: 0 }"),
        (
            {"Range": "bytes=0-3", "If-Range": '"of another build"'},
            200,
            None,
            b"body { margin: 0 }",
        ),
    ],
)
def test_a_part_of_a_file(
    server: Server, asked: dict[str, str], status: int, lies: str | None, content: bytes
) -> None:
    response, body = ask(server, "/html/style.css", headers=asked)
    assert (response.status, response.headers["Content-Range"], body) == (status, lies, content)


def test_parts_of_one_file_have_one_tag(server: Server) -> None:
    whole, _ = ask(server, "/html/style.css", "HEAD")
    tag = whole.headers["ETag"]
    part, body = ask(server, "/html/style.css", headers={"Range": "bytes=4-5", "If-Range": tag})
    assert (part.status, part.headers["ETag"], body) == (206, tag, b" {")


@pytest.mark.parametrize(
    ("method", "address", "status"),
    [
        ("GET", "/html/", 200),
        ("HEAD", "/html/", 200),
        ("GET", "/", 302),
        ("GET", "/html/no", 404),
        ("POST", "/html/", 501),
    ],
)
def test_every_answer_forbids_foreign_content(
    server: Server, method: str, address: str, status: int
) -> None:
    response, _ = ask(server, address, method)
    assert response.status == status
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; ")
    assert response.headers["Location"] == (HOME if status == 302 else None)


def test_pages_hold_no_script_of_their_own() -> None:
    """The policy would stop one; a file is loaded from the site and from a folder alike."""
    for page in (ROOT / "templates").rglob("*.html*"):
        scripts = re.findall(r"<script[^>]*>|\son\w+=", page.read_text("utf-8"))
        # What a page tells search engines of itself is data, which no policy stops.
        runs = [script for script in scripts if "application/ld+json" not in script]
        assert all(" src=" in script for script in runs), page


def test_pages_are_sent_as_they_are_unless_a_build_is_watched(server: Server, out: Path) -> None:
    _, page = ask(server, "/html/study/")
    script, _ = ask(server, SCRIPT)
    live = server.site.live
    assert (page == PAGE) is not live
    assert (SCRIPT.encode() in page) is live
    assert (script.status == 200) is live
    assert SCRIPT.encode() not in ask(server, "/html/style.css")[1]
    assert (out / "html" / "study" / "index.html").read_bytes() == PAGE


def test_the_script_stands_once_at_the_end_of_the_body() -> None:
    page = with_script(b"<body>a</body>b</body>c", "12")
    assert page.count(b"<script") == 1
    assert page.startswith(b"<body>a</body>b<script ")
    assert page.endswith(b"</script>\n</body>c")
    assert with_script(b"no body", "12").startswith(b"no body<script ")


def events(server: Server) -> Iterator[dict[str, str | None]]:
    """The news that a page would get."""
    line = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    line.request("GET", EVENTS)
    response = line.getresponse()
    assert response.headers["Content-Type"].startswith("text/event-stream")
    while text := response.readline():
        if text.startswith(b"data: "):
            yield json.loads(text.removeprefix(b"data: "))


def test_pages_hear_of_each_build(out: Path) -> None:
    site = Site(out, live=True)
    server = open_server(site, 0)
    with running(server):
        news = events(server)
        before = next(news)
        assert before == {"build": site.build(), "failure": None}
        site.tell("data/x.json: no good; mend it.")
        failed = {"build": site.build(), "failure": "data/x.json: no good; mend it."}
        assert next(news) == next(events(server)) == failed, "also where a page comes late"
        (out / "manifest.json").write_text('{"steps": {}}', "utf-8")
        site.tell(None)
        after = next(news)
        assert after["failure"] is None
        assert after["build"] != before["build"]
        _, page = ask(server, "/html/")
        assert f'data-build="{after["build"]}"'.encode() in page
    assert list(news) == [], "the stream ends with the server"


def test_a_build_that_makes_nothing_reloads_nothing(out: Path) -> None:
    site = Site(out, live=True)
    before = site.build()
    site.tell(None)
    assert site.build() == before
    assert Site(out / "nowhere").build() == "none"


def test_a_port_that_cannot_be_used_is_one_sentence(out: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(RidgepointError, match=f"^--serve {port}: the port is taken; name an"):
            open_server(Site(out), port)
    for number in (-1, 65536, 10**9):
        with pytest.raises(RidgepointError, match="a number from 0 to 65535"):
            open_server(Site(out), number)


def test_without_pages_the_command_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(RidgepointError, match=r"run 'python build.py --html' first"):
        serve(tmp_path, 0, print)


PROGRAM = """
import signal, sys
from pathlib import Path
from report.commands import serve
# Where the tests run in the background, Ctrl-C is ignored by what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
site = serve.Site(Path(sys.argv[1]), live=True)
serve.Site = lambda out: site
serve.serve(Path(sys.argv[1]), 0, lambda text: print(text, flush=True))
"""


def test_ctrl_c_ends_it_cleanly_also_with_open_streams(out: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(out)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    port = int(process.stdout.readline().split("127.0.0.1:")[1].split("/")[0])
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    line.request("GET", EVENTS)
    assert line.getresponse().readline().startswith(b"data: ")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")

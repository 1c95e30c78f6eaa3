"""A server for the pages on this machine: the site and nothing else, on 127.0.0.1 only.

While a build is watched, pages get a small script on the way that listens for news and reloads
them.  No file in ``out/`` is changed by that.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any, Final
from urllib.parse import quote, unquote

from report.commands.exchange import (
    HOST,
    HTML,
    TEMPLATES,
    Answer,
    RefusedError,
    accepted,
    in_part,
    notice,
)
from report.errors import OutputError, RidgepointError

#: The folders of ``out/`` that are served; the site, and what --diff wrote.
ROOMS: Final = ("html", "diff")
HOME: Final = "/html/index.html"
#: No folder of ``out/`` has this name, so that these addresses hide no file.
EVENTS: Final = "/-/events"
SCRIPT: Final = "/-/reload.js"

#: Not from the ``mimetypes`` of Python, which read what each system happens to say.
_TYPES: Final = {
    ".bib": "text/plain; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".gz": "application/gzip",
    ".html": HTML,
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_UNKNOWN_TYPE: Final = "application/octet-stream"

#: What a page may load: files of this site, and no script that stands in the page itself.  Cells of
#: tables are aligned by style attributes; browsers show a PDF as an object.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; object-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
#: A browser that is gone is noticed when something is sent to it, at the latest after this time.
_PULSE_S: Final = 15.0
#: An idle connection is closed after this time.
_IDLE_S: Final = 60.0
_POLL_S: Final = 0.1


@dataclass(frozen=True)
class Redirect:
    """Another address, where the browser finds what it asked for."""

    to: str


class Site:
    """The pages in ``out`` and what is new about them.

    The server's threads and the watcher share it.  Where it is not ``live``, pages are sent as
    they are.
    """

    def __init__(self, out: Path, *, live: bool = False) -> None:
        self.out = out
        self.live = live
        self._changed = threading.Condition()
        self._told = 0
        self._failure: str | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether the server ends, and its streams with it."""
        return self._closed

    def build(self) -> str:
        """A short digest of what ``out`` holds; it changes with every build that makes something.

        The engine writes the manifest last, so that a page is never older than the digest that was
        taken before it was read.
        """
        try:
            content = (self.out / "manifest.json").read_bytes()
        except OSError:
            return "none"
        return hashlib.sha256(content).hexdigest()[:16]

    def tell(self, failure: str | None) -> None:
        """A build has ended: well, or with the sentence ``failure``."""
        with self._changed:
            self._told += 1
            self._failure = failure
            self._changed.notify_all()

    def wait(self, told: int, limit_s: float) -> int:
        """How many builds have been told of, as soon as it is not ``told``, or after the limit."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._told != told, limit_s)
            return self._told

    def news(self) -> dict[str, str | None]:
        """What a page compares itself with, and the failure that it shows."""
        return {"build": self.build(), "failure": self._failure}

    def close(self) -> None:
        """End the streams."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def locate(out: Path, address: str) -> Path | Redirect | None:
    """The file that an address names; None if it names none of the site.

    Only files that lie in ``ROOMS``, also after links have been followed, and no hidden ones.
    """
    path = unquote(address.partition("?")[0].partition("#")[0])
    if path == "/":
        return Redirect(HOME)
    *folders, last = path.removeprefix("/").split("/")
    names = [*folders, last] if last else folders
    if not _is_plain(names):
        return None
    found = _inside(out, names)
    if found is None or not found.is_dir():
        return found if last else None
    if not (found / "index.html").is_file():
        return None
    return found / "index.html" if not last else Redirect(f"/{quote('/'.join(names))}/")


def _is_plain(names: list[str]) -> bool:
    """Whether names lead down into the site and nowhere else, on any system."""
    ok = all(name and name[0] != "." and not set(name) & set("\\:\0") for name in names)
    return ok and bool(names) and names[0] in ROOMS


def _inside(out: Path, names: list[str]) -> Path | None:
    """The file or folder, if it is there and no link leads out of its room."""
    try:
        real = out.joinpath(*names).resolve(strict=True)
        return real if real.is_relative_to((out / names[0]).resolve()) else None
    except (OSError, RuntimeError):
        return None


def answer(site: Site, address: str) -> Answer:
    """What the server says to a request for ``address``."""
    if address == SCRIPT and site.live:
        return Answer(HTTPStatus.OK, (TEMPLATES / "reload.js").read_bytes(), _TYPES[".js"])
    build = site.build()
    found = locate(site.out, address)
    if isinstance(found, Redirect):
        return Answer(HTTPStatus.FOUND, b"", headers=(("Location", found.to),))
    try:
        content = None if found is None else found.read_bytes()
    except OSError:
        # A build may have replaced the folder in this moment.
        content = None
    if found is None or content is None:
        text = f"There is no {unquote(address)} on this site."
        body, kind = notice("Not found", text), HTML
    else:
        body, kind = content, _TYPES.get(found.suffix, _UNKNOWN_TYPE)
    status = HTTPStatus.NOT_FOUND if content is None else HTTPStatus.OK
    return Answer(status, with_script(body, build) if site.live and kind == HTML else body, kind)


def with_script(page: bytes, build: str) -> bytes:
    """The page with the script that reloads it when it is no longer of ``build``."""
    script = f'<script src="{SCRIPT}" data-build="{build}"></script>\n'.encode()
    before, end, after = page.rpartition(b"</body>")
    return before + script + end + after if end else page + script


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "ridgepoint"
    sys_version = ""
    timeout = _IDLE_S
    server: Server

    def do_GET(self) -> None:
        try:
            address, length = accepted(self.path, self.headers)
        except RefusedError as refused:
            self.close_connection = True
            self._send(refused.answer)
            return
        self.rfile.read(length)
        if address == EVENTS and self.server.site.live:
            self._stream()
            return
        reply = answer(self.server.site, address)
        parts = self.headers.get("Range", "") if self.command == "GET" else ""
        self._send(in_part(reply, parts, self.headers.get("If-Range")))

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: the terminal shows the builds."""

    def _send(self, reply: Answer) -> None:
        self._begin(reply.status, reply.type)
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers:
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def _begin(self, status: HTTPStatus, type_: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", type_)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def _stream(self) -> None:
        """Server-sent events: the news now and after every build, until the browser is gone."""
        self._begin(HTTPStatus.OK, "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        site, told = self.server.site, -1
        while self.command != "HEAD" and not site.closed:
            latest = site.wait(told, _PULSE_S)
            words = b":" if latest == told else f"data: {json.dumps(site.news())}".encode()
            self.wfile.write(words + b"\n\n")
            told = latest


class Server(ThreadingHTTPServer):
    """Serves ``site``, a thread for each connection; none of them keeps the program from ending."""

    daemon_threads = True
    block_on_close = False
    # Elsewhere this would allow two servers on one port.
    allow_reuse_address = os.name == "posix"

    def __init__(self, site: Site, port: int) -> None:
        self.site = site
        super().__init__((HOST, port), _Handler)

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{HOST}:{self.server_port}/"

    def server_bind(self) -> None:
        """Bind without asking a name server for this machine's name, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, int(self.server_address[1])

    def server_close(self) -> None:
        """Give the port back and end the streams."""
        self.site.close()
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


def open_server(site: Site, port: int) -> Server:
    """A server that listens on ``port``, or on any free port for 0; raises ``RidgepointError``."""
    try:
        return Server(site, port)
    except OverflowError:
        why = "a port is a number from 0 to 65535"
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = "the port is taken" if taken else f"the port cannot be used ({error.strerror})"
    raise RidgepointError(f"--serve {port}: {why}; name another one, or 0 for any free one.")


@contextmanager
def running(server: Server) -> Iterator[None]:
    """Serve in the background; closes the server at the end."""
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_S,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def serve(out: Path, port: int, say: Callable[[str], None]) -> None:
    """Serve what was built until Ctrl-C.

    Raises ``RidgepointError`` if nothing was built, or the port cannot be used.
    """
    if not (out / "html" / "index.html").is_file():
        raise OutputError(
            f"{out / 'html' / 'index.html'}: there are no pages to serve yet; "
            "run 'python build.py --html' first, or take --watch."
        )
    with open_server(Site(out), port) as server:
        say(f"Serving {out / 'html'} at {server.address} until Ctrl-C.")
        with suppress(KeyboardInterrupt):
            server.serve_forever(_POLL_S)

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
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any, Final

from report.commands.exchange import HOST, TEMPLATES, TYPES, Answer, address_of, answer, in_part
from report.errors import OutputError, RidgepointError
from report.render.policy import POLICY

#: No folder of ``out/`` has this name, so that these addresses hide no file.
EVENTS: Final = "/-/events"
SCRIPT: Final = "/-/reload.js"

#: What a page may load, beside what pages say of themselves: nobody may frame them.
_POLICY: Final = f"{POLICY}; frame-ancestors 'none'"
#: Figures hold their own style; a PDF is shown by an object of the browser's own.
_POLICIES: Final = {
    TYPES[".svg"]: "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    TYPES[".pdf"]: "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'",
}
#: A browser that is gone is noticed when something is sent to it, at the latest after this time.
_PULSE_S: Final = 15.0
_POLL_S: Final = 0.1


class Site:
    """The pages in ``out`` and what is new about them.

    The server's threads and the watcher share it.  Where it is not ``live``, pages are sent as
    they are.
    """

    def __init__(self, out: Path, *, live: bool = False) -> None:
        self.out = out
        self.live = live
        self._changed = threading.Condition()
        self._builds = 0
        self._failure: str | None = None
        self._closed = False

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
            self._builds += 1
            self._failure = failure
            self._changed.notify_all()

    def news(self) -> Iterator[dict[str, str | None] | None]:
        """What a page compares itself with and the failure that it shows, now and after each build.

        None comes in between whenever nothing has happened for a while; it ends with the server.
        """
        reported = -1

        def is_due() -> bool:
            return self._closed or self._builds != reported

        while not self._closed:
            with self._changed:
                self._changed.wait_for(is_due, _PULSE_S)
                is_new, reported = self._builds != reported, self._builds
            yield {"build": self.build(), "failure": self._failure} if is_new else None

    def close(self) -> None:
        """End the streams."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def with_script(page: bytes, build: str) -> bytes:
    """The page with the script that reloads it when it is no longer of ``build``."""
    script = f'<script src="{SCRIPT}" data-build="{build}"></script>\n'.encode()
    before, end, after = page.rpartition(b"</body>")
    return before + script + end + after if end else page + script


class _Handler(BaseHTTPRequestHandler):
    """Answers one request a connection, so that no body can pass for the next request."""

    protocol_version = "HTTP/1.1"
    server_version = "ridgepoint"
    sys_version = ""
    timeout = 60.0
    server: Server
    _policy = _POLICY

    def do_GET(self) -> None:
        site = self.server.site
        address = address_of(self.path, self.headers.get_all("Host", []))
        if site.live and address == EVENTS:
            self._stream()
            return
        reply = self._answer(site, address)
        parts = self.headers.get("Range", "") if self.command == "GET" else ""
        reply = in_part(reply, parts, self.headers.get("If-Range"))
        self._begin(reply.status, reply.type)
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: the terminal shows the builds."""

    @staticmethod
    def _answer(site: Site, address: str | None) -> Answer:
        if site.live and address == SCRIPT:
            return Answer(HTTPStatus.OK, (TEMPLATES / "reload.js").read_bytes(), TYPES[".js"])
        build = site.build()
        reply = answer(site.out, address)
        if not (site.live and reply.body and reply.type == TYPES[".html"]):
            return reply
        return replace(reply, body=with_script(reply.body, build))

    def _begin(self, status: HTTPStatus, kind: str) -> None:
        self.send_response(status)
        self._policy = _POLICIES.get(kind, _POLICY)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", self._policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def _stream(self) -> None:
        """Server-sent events: the news now and after every build, until the browser is gone."""
        self._begin(HTTPStatus.OK, "text/event-stream; charset=utf-8")
        self.end_headers()
        for news in () if self.command == "HEAD" else self.server.site.news():
            words = f"data: {json.dumps(news)}" if news else ":"
            self.wfile.write(f"{words}\n\n".encode())


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

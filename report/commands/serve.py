"""``--serve`` and ``--watch``: the site and nothing else, for browsers on this machine alone.

While files are watched, pages get a small script on the way that asks for news and reloads them.
No file in ``out/`` is changed by that.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path, PurePosixPath
from socketserver import TCPServer
from typing import Any, Final

from report.engine.cache import SCRATCH
from report.errors import OutputError, RidgepointError
from report.render import POLICY
from report.system.processes import leave_on_signals

HOST: Final = "127.0.0.1"
#: No page has these addresses, so that they hide no file.
NEWS: Final = "/-/news"
SCRIPT: Final = "/-/reload.js"

_RELOAD: Final = Path(__file__).resolve().parents[2] / "templates" / "serve" / "reload.js"
_LOCAL: Final = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])?(?::\d{1,5})?", re.IGNORECASE)
#: What a page may load, beside what pages say of themselves: nobody may frame them.
_POLICY: Final = f"{POLICY}; frame-ancestors 'none'"
#: Figures hold their own style; a PDF is shown by an object of the browser's own.
_POLICIES: Final = {
    ".svg": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    ".pdf": "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'",
}

#: Not from the ``mimetypes`` of Python, which read what each system happens to say.
TYPES: Final = {
    **{f".{kind}": f"text/{kind}; charset=utf-8" for kind in ("css", "csv", "html")},
    **dict.fromkeys((".bib", ".md", ".txt"), "text/plain; charset=utf-8"),
    ".js": "text/javascript; charset=utf-8",
    ".gz": "application/gzip",
    ".json": "application/json",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}


class Handler(SimpleHTTPRequestHandler):
    """Answers one request a connection, as HTTP/1.0 does: no body can pass for the next request."""

    extensions_map = TYPES
    server_version, sys_version, timeout = "ridgepoint", "", 60
    server: Server

    def send_head(self) -> Any:
        """Send the head of an answer; returns the stream of its body, None where it is sent."""
        hosts = self.headers.get_all("Host", [])
        # A page from elsewhere whose name suddenly leads here could read the site otherwise.
        if not self.path.startswith("/") or not all(map(_LOCAL.fullmatch, hosts)):
            return self.send_error(403, f"This server answers to {HOST} and localhost only")
        return (self._send_live() if self.server.live else None) or super().send_head()

    def _send_live(self) -> BytesIO | None:
        """What is sent of the news of builds, and pages with the script that asks for them."""
        # Taken first: a page is never older than what it compares itself with.
        build, page = self.server.build(), Path(self.translate_path(self.path))
        if self.path.endswith("/"):
            page /= "index.html"
        if self.path == NEWS:
            news = {"build": build, "failure": self.server.failure}
            body, suffix = json.dumps(news).encode(), ".json"
        elif self.path == SCRIPT:
            body, suffix = _RELOAD.read_bytes(), ".js"
        elif page.suffix == ".html" and page.is_file():
            script = f'<script src="{SCRIPT}" data-build="{build}"></script>\n'
            body, suffix = page.read_bytes() + script.encode(), ".html"
        else:
            return None
        self.send_response(200)
        self.send_header("Content-Type", TYPES[suffix])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return BytesIO(body)

    def translate_path(self, path: str) -> str:
        """The file or folder of an address, or a file that is not there.

        Only what lies in the site, also after links have been followed, and nothing hidden.
        """
        site = (self.server.out / "html").resolve()
        self.directory = str(site)
        with suppress(OSError, RuntimeError, ValueError):
            found = super().translate_path(path)
            real = Path(found).resolve(strict=True)
            parts = real.relative_to(site).parts
            if not any(part.startswith(".") for part in parts):
                return found
        return str(site / ".nothing")

    def list_directory(self, path: Any) -> None:
        """A folder without a page is no address."""
        self.send_error(404)

    def end_headers(self) -> None:
        """Say in every answer, of an error too, what a browser may do with it."""
        suffix = PurePosixPath(getattr(self, "path", "").partition("?")[0]).suffix
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", _POLICIES.get(suffix, _POLICY))
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: the terminal shows the builds."""


class Server(ThreadingHTTPServer):
    """Serves the site in ``out``.

    Where it is not ``live``, pages are sent as they are; ``failure`` is why the last build failed.
    Raises ``RidgepointError`` for a port that cannot be used; 0 takes any free one.
    """

    def __init__(self, out: Path, port: int, *, live: bool = False) -> None:
        self.out, self.live = out, live
        self.failure: str | None = None
        try:
            super().__init__((HOST, port), Handler)
        except (OverflowError, OSError) as error:
            raise RidgepointError(
                f"--serve {port}: the port cannot be used ({error}); name another one from 1024 to "
                "65535, or 0 for any free one."
            ) from error

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{HOST}:{self.server_port}/"

    def build(self) -> str:
        """A digest of what ``out`` holds; it changes with every build that makes something."""
        with suppress(OSError):
            return hashlib.sha256((self.out / "manifest.json").read_bytes()).hexdigest()[:16]
        return "none"

    def server_bind(self) -> None:
        """Bind without asking a name server for this machine's name, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away, or a file that a build has just replaced, is no error."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def serve(out: Path, port: int, say: Callable[[str], None]) -> None:
    """Serve what was built until Ctrl-C.

    Raises ``RidgepointError`` if nothing was built, or the port cannot be used.
    """
    home = out / "html" / "index.html"
    if not home.is_file():
        raise OutputError(
            f"{home}: there are no pages to serve yet; run 'python build.py --html' first, or take "
            "--watch."
        )
    with Server(out, port) as server, suppress(KeyboardInterrupt):
        say(f"Serving {out / 'html'} at {server.address} until Ctrl-C.")
        server.serve_forever(0.1)


def watch_and_serve(
    out: Path,
    port: int,
    rebuild: Callable[[], str | None],
    changed: Iterable[object],
    say: Callable[[str], None],
) -> None:
    """Build, serve the pages, and build again on every change, until Ctrl-C.

    ``rebuild`` says what went wrong, or None; that is printed and ends nothing, and so is a defect
    of ours.  Raises ``RidgepointError`` if the port cannot be used.
    """
    waits, ending = True, leave_on_signals(lambda: out.glob(f"{SCRATCH}*"), ("SIGTERM", "SIGHUP"))
    with ending, suppress(KeyboardInterrupt), Server(out, port, live=True) as server:
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        say(f"Serving {out / 'html'} at {server.address}, rebuilding on change, until Ctrl-C.")
        for files in changed:
            if files or waits:
                waits = False
                try:
                    server.failure = rebuild()
                except Exception as error:
                    server.failure = f"{type(error).__name__}: {error}"
                now = time.strftime("%H:%M:%S")
                say(f"error: {server.failure}" if server.failure else f"Built at {now}.")


def changes(*paths: Path) -> Iterator[object]:
    """What changed below ``paths``, whenever it is quiet again, and now and then nothing.

    What changes during a build is in the next answer.  Raises ``RidgepointError`` where the system
    cannot watch so many files.
    """
    from watchfiles import watch

    there = [path for path in paths if path.exists()]
    try:
        yield from watch(*there, step=200, debounce=5000, rust_timeout=500, yield_on_timeout=True)
    except OSError as error:
        raise RidgepointError(
            f"--watch: files cannot be watched ({error}); set WATCHFILES_FORCE_POLLING=true."
        ) from error

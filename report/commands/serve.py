"""``--serve`` and ``--watch``: the site and nothing else, for browsers on this machine alone.

While files are watched, pages get a small script on the way that asks for news and reloads them.
No file in ``out/`` is changed by that.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler
from io import BytesIO
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any, Final

from report.commands.arguments import PORT, request_of
from report.commands.child import run_build
from report.commands.console import say
from report.core.errors import OutputError, RidgepointError
from report.core.system.processes import leave_on_signals
from report.engine.cache import MANIFEST, SCRATCH, file_digest
from report.engine.pipeline import ROOT

HOST: Final = "127.0.0.1"
#: No page has these addresses, so that they hide no file.
NEWS: Final = "/-/news"
SCRIPT: Final = "/-/reload.js"

_RELOAD: Final = ROOT / "templates" / "serve" / "reload.js"
_LOCAL: Final = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])?(?::\d{1,5})?", re.IGNORECASE)
#: What papers are made from.
_SOURCES: Final = ("build.py", "report", "figures", "templates")


class Handler(SimpleHTTPRequestHandler):
    """Answers one request a connection, as HTTP/1.0 does: no body can pass for the next request."""

    server_version, sys_version, timeout = "ridgepoint", "", 60
    server: Server

    def send_head(self) -> Any:
        """Send the head of an answer; returns the stream of its body, None where it is sent."""
        # A page from elsewhere whose name suddenly leads here could read the site otherwise.
        if not all(map(_LOCAL.fullmatch, self.headers.get_all("Host", []))):
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
            body, name = json.dumps(news).encode(), "news.json"
        elif self.path == SCRIPT:
            body, name = _RELOAD.read_bytes(), SCRIPT
        elif page.suffix == ".html" and page.is_file():
            script = f'<script src="{SCRIPT}" data-build="{build}"></script>\n'
            body, name = page.read_bytes() + script.encode(), page.name
        else:
            return None
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(name))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return BytesIO(body)

    def guess_type(self, path: Any) -> str:
        """What kind of file it is; all texts of the site are in UTF-8."""
        kind = super().guess_type(path)
        return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind

    def translate_path(self, path: str) -> str:
        """The file or folder of an address, or a file that is not there.

        Only what lies in the site, also after links have been followed, and nothing hidden.
        """
        site, found = Path(self.directory).resolve(), super().translate_path(path)
        read = Path(found, "index.html") if found.endswith("/") else Path(found)
        with suppress(OSError, RuntimeError, ValueError):  # RuntimeError: links in a ring
            parts = read.resolve(strict=True).relative_to(site).parts
            if not any(part.startswith(".") for part in parts):
                return found
        return str(site / ".nothing")

    def list_directory(self, path: Any) -> None:
        """A folder without a page is no address."""
        self.send_error(404)

    def end_headers(self) -> None:
        """Keep browsers from showing what an earlier build has made."""
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: the terminal shows the builds."""


class Server(ThreadingTCPServer):
    """Serves the site in ``out``.

    Where it is not ``live``, pages are sent as they are; ``failure`` is why the last build failed.
    Raises ``RidgepointError`` for a port that cannot be used; 0 takes any free one.
    """

    allow_reuse_address = daemon_threads = True

    def __init__(self, out: Path, port: int, *, live: bool = False) -> None:
        self.out, self.live = out, live
        self.failure: str | None = None
        try:
            super().__init__((HOST, port), partial(Handler, directory=str(out / "html")))
        except (OverflowError, OSError) as error:
            raise RidgepointError(
                f"--serve {port}: the port cannot be used ({error}); name another one from 1024 to "
                "65535, or 0 for any free one."
            ) from error
        self.address = f"http://{HOST}:{self.server_address[1]}/"

    def build(self) -> str:
        """A digest of what ``out`` holds; it changes with every build that makes something."""
        return file_digest(str(self.out / MANIFEST)) or "none"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away, or a file that a build has just replaced, is no error."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def serve(options: Namespace) -> int:
    """Serve what was built until Ctrl-C.

    Raises ``RidgepointError`` if nothing was built, or the port cannot be used.
    """
    out = request_of(options).out
    home = out / "html" / "index.html"
    if not home.is_file():
        raise OutputError(
            f"{home}: there are no pages to serve yet; run 'python build.py --html' first, or take "
            "--watch."
        )
    with Server(out, options.serve) as server, suppress(KeyboardInterrupt):
        say(f"Serving {out / 'html'} at {server.address} until Ctrl-C.")
        server.serve_forever(0.1)
    return 0


def watch(options: Namespace) -> int:
    """Build, serve the pages, and build again whenever a file changes, until Ctrl-C.

    What goes wrong in a build is printed and shown, and ends nothing.  Raises ``RidgepointError``
    if the port cannot be used.
    """
    request = request_of(options)
    out, port = request.out, PORT if options.serve is None else options.serve
    ending = leave_on_signals(lambda: out.glob(f"{SCRATCH}*"))
    with ending, Server(out, port, live=True) as server:
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        say(f"Serving {out / 'html'} at {server.address}, rebuilding on change, until Ctrl-C.")
        for turn, files in enumerate(changes(*(ROOT / name for name in _SOURCES), request.data)):
            if files or turn == 0:
                server.failure = run_build(request, ROOT)  # a new process has today's code
                said = f"error: {server.failure}" if server.failure else "Built"
                say(f"{time.strftime('%H:%M:%S')} {said}")
    return 0


def changes(*paths: Path) -> Iterator[object]:
    """What changed below ``paths``, whenever it is quiet again, and now and then nothing.

    What changes during a build is in the next answer.  Raises ``RidgepointError`` where the system
    cannot watch so many files.
    """
    from watchfiles import watch as watched

    there = [path for path in paths if path.exists()]
    try:
        yield from watched(*there, step=200, debounce=5000, rust_timeout=500, yield_on_timeout=True)
    except OSError as error:
        raise RidgepointError(
            f"--watch: files cannot be watched ({error}); set WATCHFILES_FORCE_POLLING=true."
        ) from error

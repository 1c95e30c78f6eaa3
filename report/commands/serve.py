"""Serve the pages to browsers on this machine (``--serve``), and rebuild on changes (``--watch``).

``--watch`` adds a script to each page it sends; the script reloads the page after a build.  The
files in ``out/`` do not change.
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

from report.commands.arguments import DEFAULT_PORT, request_of
from report.commands.console import say
from report.commands.verify import SOURCES, run_build
from report.core.errors import OutputError, RidgepointError
from report.core.system.programs import leave_on_signals
from report.engine.cache import MANIFEST, SCRATCH, file_digest
from report.engine.steps import ROOT

HOST: Final = "127.0.0.1"
#: Address of the last build's state; no page has this address.
NEWS_ADDRESS: Final = "/-/news"
#: Address of the script that reloads a page after a build; no page has this address.
SCRIPT_ADDRESS: Final = "/-/reload.js"

_SCRIPT_FILE: Final = ROOT / "templates" / "serve" / "reload.js"
#: Names of this machine, with or without a port.
_LOCAL_HOST: Final = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])?(?::\d{1,5})?", re.IGNORECASE)


class Handler(SimpleHTTPRequestHandler):
    """Answers one request per connection (HTTP/1.0), so that no body is parsed as a request."""

    server_version, sys_version, timeout = "ridgepoint", "", 60
    server: Server

    def send_head(self) -> Any:
        """Send the head of the response; return a stream with the body, or None."""
        # Other host names get an error, since a foreign page could read the site by DNS rebinding.
        if not all(map(_LOCAL_HOST.fullmatch, self.headers.get_all("Host", []))):
            return self.send_error(403, f"This server answers to {HOST} and localhost only")
        return (self._send_live() if self.server.live else None) or super().send_head()

    def _send_live(self) -> BytesIO | None:
        """Answer a request for state, script, or a page (with the script); else return None."""
        # The digest is read before the page, so that the page is never older than the digest.
        build, page = self.server.build_digest(), Path(self.translate_path(self.path))
        if self.path.endswith("/"):
            page /= "index.html"
        if self.path == NEWS_ADDRESS:
            news = {"build": build, "failure": self.server.failure}
            body, name = json.dumps(news).encode(), "news.json"
        elif self.path == SCRIPT_ADDRESS:
            body, name = _SCRIPT_FILE.read_bytes(), SCRIPT_ADDRESS
        elif page.suffix == ".html" and page.is_file():
            script = f'<script src="{SCRIPT_ADDRESS}" data-build="{build}"></script>\n'
            body, name = page.read_bytes() + script.encode(), page.name
        else:
            return None
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(name))
        self.end_headers()
        return BytesIO(body)

    def guess_type(self, path: Any) -> str:
        """Return the media type of a file, with UTF-8 for texts."""
        kind = super().guess_type(path)
        return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind

    def translate_path(self, path: str) -> str:
        """Return the path of the file for an address.

        For a hidden file, and for a file outside the site (even if a link in the site leads there),
        return a path that does not exist.
        """
        site, target = Path(self.directory).resolve(), super().translate_path(path)
        page = Path(target, "index.html") if target.endswith("/") else Path(target)
        with suppress(OSError, RuntimeError, ValueError):  # RuntimeError: circular links
            parts = page.resolve(strict=True).relative_to(site).parts
            if not any(part.startswith(".") for part in parts):
                return target
        return str(site / ".nothing")

    def list_directory(self, path: Any) -> None:
        """Send error 404 for a folder without a page."""
        self.send_error(404)

    def end_headers(self) -> None:
        """End the headers; forbid caching, so that browsers never show an earlier build."""
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing, since the terminal shows builds."""


class Server(ThreadingTCPServer):
    """Serves the site in ``out``; pages of a ``live`` server reload after a build.

    ``failure`` is the reason why the last build failed, or None.  ``port`` 0 means any free port.
    Raises ``RidgepointError`` for a port that cannot be used.
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

    def build_digest(self) -> str:
        """Return a digest of the outputs, which changes with every build that writes."""
        return file_digest(str(self.out / MANIFEST)) or "none"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore disconnecting browsers, and files that a build has just replaced."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def serve(options: Namespace) -> int:
    """Serve the built pages until Ctrl-C.

    Raises ``OutputError`` if no pages were built, ``RidgepointError`` if the port cannot be used.
    """
    out = request_of(options).out
    home = out / "html" / "index.html"
    if not home.is_file():
        raise OutputError(
            f"{home}: no pages were built yet; run 'python build.py --html' first, or use --watch."
        )
    with Server(out, options.serve) as server, suppress(KeyboardInterrupt):
        say(f"Serving {out / 'html'} at {server.address} until Ctrl-C.")
        server.serve_forever(0.1)
    return 0


def watch(options: Namespace) -> int:
    """Build, serve the pages, and build again whenever a file changes, until Ctrl-C.

    Terminal and pages show the errors of a failed build, and the server continues.  Raises
    ``RidgepointError`` if the port cannot be used.
    """
    request = request_of(options)
    out, port = request.out, DEFAULT_PORT if options.serve is None else options.serve
    exit_on_signals = leave_on_signals(partial(out.glob, f"{SCRATCH}*"))
    with exit_on_signals, Server(out, port, live=True) as server:
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        say(f"Serving {out / 'html'} at {server.address}, rebuilding on change, until Ctrl-C.")
        watched = file_changes(*(ROOT / name for name in SOURCES), request.data)
        for number, changes in enumerate(watched):
            if changes or not number:
                server.failure = run_build(request, ROOT)  # a new process imports the new code
                outcome = f"error: {server.failure}" if server.failure else "Built"
                say(f"{time.strftime('%H:%M:%S')} {outcome}")
    return 0


def file_changes(*paths: Path) -> Iterator[object]:
    """Yield the changes below ``paths`` once no more follow, and an empty set while there are none.

    Changes during a build are yielded after the build.  Raises ``RidgepointError`` if the system
    cannot watch so many files.
    """
    from watchfiles import watch as watch_files

    existing = [path for path in paths if path.exists()]
    try:
        yield from watch_files(
            *existing, step=200, debounce=5000, rust_timeout=500, yield_on_timeout=True
        )
    except OSError as error:
        raise RidgepointError(
            f"--watch: files cannot be watched ({error}); set WATCHFILES_FORCE_POLLING=true."
        ) from error

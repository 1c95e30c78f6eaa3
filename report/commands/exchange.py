"""What the server of the pages says to a request: the site, to this machine, and nothing else."""

from __future__ import annotations

import hashlib
import html
import re
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from string import Template
from typing import Final
from urllib.parse import quote, unquote

HOST: Final = "127.0.0.1"
#: The folders of ``out/`` that are served; the site, and what --diff wrote.
ROOMS: Final = ("html", "diff")
HOME: Final = "/html/index.html"
TEMPLATES: Final = Path(__file__).resolve().parents[2] / "templates" / "serve"

_LOCAL: Final = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])?(?::\d{1,5})?", re.IGNORECASE)
_ABSOLUTE: Final = re.compile(r"([^/?#]+)://([^/?#]*)(.*)")
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")

#: Not from the ``mimetypes`` of Python, which read what each system happens to say.
TYPES: Final = {
    ".bib": "text/plain; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".gz": "application/gzip",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True)
class Answer:
    """What is sent to a browser, whole."""

    status: HTTPStatus
    body: bytes
    type: str = TYPES[".html"]
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Redirect:
    """Another address, where the browser finds what it asked for."""

    to: str


def address_of(target: str, hosts: list[str]) -> str | None:
    """The address that a request is for; None if it was not sent to this machine by its own name.

    A page from elsewhere whose name suddenly leads to 127.0.0.1 could read the site otherwise.
    """
    absolute = _ABSOLUTE.fullmatch(target)
    scheme, host, address = absolute.groups() if absolute else ("http", "", target)
    local = scheme.lower() == "http" and all(_LOCAL.fullmatch(name) for name in (host, *hosts))
    return address if local else None


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


def answer(out: Path, address: str | None) -> Answer:
    """What is said to a request for ``address``; None is an address of another machine."""
    if address is None:
        text = f"This server answers to {HOST} and localhost only."
        return Answer(HTTPStatus.FORBIDDEN, _notice("Not here", text))
    found = locate(out, address)
    if isinstance(found, Redirect):
        return Answer(HTTPStatus.FOUND, b"", headers=(("Location", found.to),))
    try:
        if found is not None:
            kind = TYPES.get(found.suffix, "application/octet-stream")
            return Answer(HTTPStatus.OK, found.read_bytes(), kind)
    except OSError:
        pass  # a build may have replaced the folder in this moment
    text = f"There is no {unquote(address)} on this site."
    return Answer(HTTPStatus.NOT_FOUND, _notice("Not found", text))


def _notice(title: str, text: str) -> bytes:
    """A plain page that says one thing."""
    template = Template((TEMPLATES / "notice.html").read_text("utf-8"))
    return template.substitute(title=html.escape(title), text=html.escape(text)).encode()


def in_part(whole: Answer, asked: str, if_tag: str | None) -> Answer:
    """The part of a file that the header ``Range`` asks for; the whole where it is not one part.

    ``if_tag`` is the header ``If-Range``.  The tag of a file is the digest of what is sent, so that
    parts of unlike files never meet.
    """
    if whole.status != HTTPStatus.OK:
        return whole
    tag, size = f'"{hashlib.sha256(whole.body).hexdigest()[:16]}"', len(whole.body)
    whole = replace(whole, headers=(("Accept-Ranges", "bytes"), ("ETag", tag)))
    part = _part(asked, size) if if_tag in (None, tag) else None
    if part is None:
        return whole
    if not part:
        place, body, status = f"*/{size}", b"", HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
    else:
        place, body = f"{part.start}-{part.stop - 1}/{size}", whole.body[part.start : part.stop]
        status = HTTPStatus.PARTIAL_CONTENT
    return Answer(status, body, whole.type, (*whole.headers, ("Content-Range", f"bytes {place}")))


def _part(asked: str, size: int) -> range | None:
    """The bytes that ``Range`` asks for of ``size``; None if it does not ask for one part."""
    match = _RANGE.fullmatch(asked)
    first, last = match.groups() if match else ("", "")
    if not first:
        return range(max(size - int(last), 0), size) if last else None
    if last and int(last) < int(first):
        return None
    return range(int(first), min(int(last) + 1, size) if last else size)

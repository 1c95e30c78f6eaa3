"""What of a request is taken, and which part of an answer is sent; for the server of the pages.

What is in doubt is refused and the connection closed, since the bytes of a body could pass for the
next request.
"""

from __future__ import annotations

import hashlib
import html
import re
from dataclasses import dataclass, replace
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from string import Template
from typing import Final

HOST: Final = "127.0.0.1"
HTML: Final = "text/html; charset=utf-8"
TEMPLATES: Final = Path(__file__).resolve().parents[2] / "templates" / "serve"

_LOCAL: Final = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?", re.IGNORECASE)
_ABSOLUTE: Final = re.compile(r"([^/?#]+)://([^/?#]*)(.*)")
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
#: A page has no use for a body; one that is not longer than this is skipped.
_BODY_BYTES: Final = 65_536


@dataclass(frozen=True)
class Answer:
    """What is sent to a browser, whole."""

    status: HTTPStatus
    body: bytes
    type: str = HTML
    headers: tuple[tuple[str, str], ...] = ()


class RefusedError(Exception):
    """A request that gets ``answer`` and nothing else."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status.phrase)
        self.answer = answer


def notice(title: str, text: str) -> bytes:
    """A plain page that says one thing."""
    template = Template((TEMPLATES / "notice.html").read_text("utf-8"))
    return template.substitute(title=html.escape(title), text=html.escape(text)).encode()


def is_local(host: str) -> bool:
    """Whether a request was sent to this machine by one of its own names.

    A page from elsewhere whose name suddenly leads to 127.0.0.1 could read the site otherwise.
    """
    return not host or _LOCAL.fullmatch(host) is not None


def accepted(target: str, headers: Message) -> tuple[str, int]:
    """The address that a request is for, and how many bytes of a body follow its headers.

    Raises ``RefusedError``.
    """
    return _address(target, headers.get_all("Host", [])), _body_length(headers)


def _address(target: str, hosts: list[str]) -> str:
    absolute = _ABSOLUTE.fullmatch(target)
    scheme, host, path = absolute.groups() if absolute else ("http", "", target)
    if len(hosts) > 1:
        raise _bad("The request names its host twice.")
    if scheme.lower() != "http" or not all(map(is_local, (host, *hosts))):
        text = f"This server answers to {HOST} and localhost only."
        raise RefusedError(Answer(HTTPStatus.FORBIDDEN, notice("Not here", text)))
    return path


def _body_length(headers: Message) -> int:
    lengths = headers.get_all("Content-Length", ["0"])
    odd = bool(headers.defects) or "Transfer-Encoding" in headers
    if odd or len(lengths) > 1 or not re.fullmatch("[0-9]{1,9}", lengths[0]):
        raise _bad("The length of the request's body is not plain.")
    if int(lengths[0]) > _BODY_BYTES:
        raise _bad("The request has a long body.")
    return int(lengths[0])


def _bad(text: str) -> RefusedError:
    return RefusedError(Answer(HTTPStatus.BAD_REQUEST, notice("Bad request", text)))


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

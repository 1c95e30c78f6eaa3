"""What a reader would see of a built page: its words and its figures, as digests and text."""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_IMAGE: Final = re.compile(r'<(?:img|object|embed)\b[^>]*?\s(?:src|data)="([^"]+)"')
_HIDDEN: Final = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL)
_TAG: Final = re.compile(r"<[^>]+>")


@dataclass(frozen=True)
class Page:
    """The words of a page and the digest of each figure, in the order in which they stand there.

    A figure whose file is missing has the digest "missing".
    """

    words: str
    figures: tuple[str, ...]


def read_page(path: Path) -> Page | None:
    """The page in ``path``: HTML, or a page of mystmd's site in JSON; None if it is not there."""
    if not path.is_file():
        return None
    text = path.read_text("utf-8", "replace")
    return _json_page(json.loads(text), path) if path.suffix == ".json" else _html_page(text, path)


def _html_page(text: str, path: Path) -> Page:
    visible = _TAG.sub(" ", _HIDDEN.sub(" ", text))
    figures = tuple(
        _digest(html.unescape(source), path.parent) for source in _IMAGE.findall(text)
        if source.startswith("data:image/svg") or source.endswith(".svg")
    )  # fmt: skip
    return Page(" ".join(html.unescape(visible).split()), figures)


def _json_page(content: Any, path: Path) -> Page:
    """mystmd gives nodes random keys, so that only what is shown is compared."""
    shown = list(_shown(content.get("mdast", content)))
    public = path.parent.parent / "public"
    figures = tuple(_json_figure(text, public) for text in shown if _is_figure(text))
    words = (word for text in shown if not _is_figure(text) for word in text.split())
    return Page(" ".join(words), figures)


def _is_figure(text: str) -> bool:
    """mystmd writes large figures to files and keeps small ones in the page."""
    return text.endswith(".svg") or text.startswith("<svg")


def _json_figure(text: str, public: Path) -> str:
    if text.startswith("<svg"):
        return hashlib.sha256(text.encode()).hexdigest()
    return _digest(text.lstrip("/"), public)


def _shown(node: Any) -> Iterator[str]:
    """Texts, results of inline code, and what the outputs of cells hold or point to."""
    if isinstance(node, list):
        for item in node:
            yield from _shown(item)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in ("value", "content", "path") and isinstance(value, str):
                yield value
            else:
                yield from _shown(value)


def _digest(source: str, folder: Path) -> str:
    if source.startswith("data:"):
        return hashlib.sha256(source.encode()).hexdigest()
    file = folder / source
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "missing"

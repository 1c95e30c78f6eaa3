"""Damaged files of the build's own: ``out/manifest.json`` and ``out/.index.json``.

A damaged one counts as none, or says what it said before; no name in it leads out of ``out/``, and
looking at what is stale neither fails nor hangs.  Half of the mutations of the content get a valid
checksum, so that what comes after it is attacked too.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from report.engine.manifest import (
    MANIFEST,
    with_checksum,
)

#: Values of every kind, and of every size, that may stand where another one belongs.
ODD: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 10**4000, 1e308, float("nan"), float("inf"), "", "x", "\ud800", "\0",
    [], {}, [[]], {"": None}, [0, 0, 0, 0, 0], [0, 0, 0, 0, "0" * 64], ["\udcff"], "0" * 64,
)  # fmt: skip
#: Names that lead elsewhere, or nowhere.
NAMES: Final = (
    "../../victim.txt", "/etc/passwd", "html/../../../victim.txt", "", ".", "..", "./a", "html//a",
    "html/./a", "a\\b", "html/a\0b", "html/\ud800", "html/", "/", "html", ".lock", "manifest.json",
    "a" * 5000, "/".join("a" * 5000), "site/../..", "checksum",
)  # fmt: skip
_LIMIT_S: Final = 20


def change_a_node(random: random.Random, content: Any) -> Any:
    """Put an odd value where another one is, or give it a hostile name, or bury it."""
    content = copy.deepcopy(content)
    places = list(_places(content))
    if not places:
        return content
    parent, key = random.choice(places)
    match random.randrange(5):
        case 0:
            parent[key] = random.choice(ODD)
        case 1 if isinstance(parent, dict):
            parent[random.choice(NAMES)] = parent.pop(key)
        case 2:
            parent[key] = _buried(parent[key], random.choice((2, 50)))
        case 3:
            del parent[key]
        case _:
            holder, other = random.choice(places)
            parent[key] = copy.deepcopy(holder[other])
    return content


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Each value below ``node``, as what holds it and its key there."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        yield node, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _buried(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def change_the_text(random: random.Random, text: bytes) -> bytes:
    """Flip, cut out or put in some bytes, or nest without end."""
    start = random.randrange(len(text))
    end = start + random.randrange(1, 200)
    flipped = bytes(byte ^ (1 << random.randrange(8)) for byte in text[start : start + 1])
    return random.choice(
        (
            text[:start] + flipped + text[start + 1 :],
            text[:start],
            text[:start] + text[end:],
            text[:start] + random.randbytes(end - start) + text[start:],
            text[:start] + text[start:end] + text[start:],
            b"[" * 100_000 + text,
            b'{"steps":' * 100_000,
            b"9" * 10_000,
            b"",
        )
    )


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path) -> None:
    (path / "full").mkdir(parents=True)


def _link(to: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(to)


#: What may stand where a file belongs.
KINDS: Final[dict[str, Callable[[Path], None]]] = {
    "a pipe": _pipe,
    "a folder": _folder,
    "a dangling link": _link("nowhere/at/all"),
    "a link to itself": _link(MANIFEST),
    "a device": _link("/dev/zero"),
}


def remove(path: Path) -> None:
    """Remove whatever it is."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def damage(random: random.Random, path: Path) -> str:
    """Damage one file; returns in which way."""
    text = path.read_bytes()
    way = random.choice(("node", "sealed node", "sealed node", "text", "kind"))
    if way == "kind":
        kind = random.choice(list(KINDS))
        path.unlink()
        KINDS[kind](path)
        return kind
    if way == "text":
        path.write_bytes(change_the_text(random, text))
        return way
    content = json.loads(text)
    del content["checksum"]
    for _ in range(random.randrange(1, 4)):
        content = change_a_node(random, content)
    path.write_text(with_checksum(content) if way == "sealed node" else json.dumps(content))
    return way


class HungError(Exception):
    """Something did not end; no ``OSError``, which the build takes for a file it cannot read."""


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise ``HungError`` in what hangs."""

    def wake(number: int, frame: FrameType | None) -> None:
        raise HungError(f"hung for {seconds} s")

    before = signal.signal(signal.SIGALRM, wake)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)

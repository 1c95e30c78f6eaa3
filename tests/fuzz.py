"""Attacks on what a build reads: files damaged in one place, each by a seed of its own."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from report.commands.check import read_expected
from report.engine.computing import compute
from report.engine.gather import gather
from report.errors import LONGEST, RidgepointError
from report.evidence.devices import read_devices
from report.evidence.reported import read_reported
from report.paper.bibliography import check_bibliography
from report.paper.manuscript import render_manuscript
from report.records.editions import read_editions
from report.records.filed import encode
from report.records.store import name_of, packed, read_record, record_name
from tests import factory
from tests.factory import ROOT
from tests.small import SMALL, small

#: One record in so many is computed from.
_COMPUTED: Final = 40
_ODD: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 1.5, -0.0, 5e-324, 1e18, 1e308, 2**53 + 1, 2**63, 10**310, "",
    "64", "x" * 1000, "\u202eabc", "a\nb", "\x00", "{{ v }}", "\\input{x}", [], {}, [[]], {"a": 1},
)  # fmt: skip
_WORDS: Final = (
    "2001-99-99", "!!python/object:os.system x", "9" * 5000, ".inf", "NaN", "-Infinity", "yes",
    "~", "<<: {a: 1}", "&a x", "*a", "1e400", "1E5", "-1", "[]", "{}", "[a, [b]]", '"\\ud800"',
    "\u202e", "\ud800", "[" * 5000, '"seed": 1, "seed": 1',
)  # fmt: skip


def _use_record(path: Path, random: Random) -> None:
    """Read a record of a study, and now and then compute its paper from it."""
    data, study = path.parents[1], path.parent.name
    stored, whole = read_record(path, data), small(study)
    if stored.record != whole and not stored.edited:
        assert path.name != record_name(whole), "unnoticed"
    if random.randrange(_COMPUTED) == 0:
        shutil.copytree(ROOT / "data" / "reported", data / "reported")
        shutil.copyfile(ROOT / "data" / "devices.yaml", data / "devices.yaml")
        factory.file_record(path, factory.text_of(path))
        found = compute(study, gather(study, data))
        json.dumps(found.as_json(study, ()), allow_nan=False)
        render_manuscript(ROOT / "templates" / "papers" / f"{study}.qmd.j2", found)


#: A kind of file: where it lies, and what a build does with it.
KINDS: Final[dict[str, tuple[str, Callable[[Path, Random], object]]]] = {
    **{study: (f"data/{study}", _use_record) for study in SMALL},
    "editions": ("data/editions.yaml", lambda path, _: read_editions(path.parent)),
    "devices": ("data/devices.yaml", lambda path, _: read_devices(path)),
    "expected": ("data/expected.yaml", lambda path, _: read_expected(path.parent)),
    "bib": ("data/references.bib", lambda p, _: check_bibliography(p.read_bytes(), p.name)),
    "reported": ("data/reported/conv_scaling.json", lambda path, _: read_reported(path)),
}


@cache
def _text(kind: str) -> bytes:
    return encode(small(kind)) if kind in SMALL else (ROOT / KINDS[kind][0]).read_bytes()


def wrong(kind: str, random: Random, room: Path) -> str:
    """What went wrong in one attack in a room of its own; nothing if it was used or refused."""
    place, use = KINDS[kind]
    is_json = kind in SMALL or place.endswith(".json")
    text = (damaged if is_json and random.random() < 0.8 else odd)(random, _text(kind))
    path = room / place
    if kind in SMALL:
        record, renamed = small(kind), random.random() < 0.5
        path /= name_of(text, record) if renamed else record_name(record)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(packed(text) if kind in SMALL else text)
    try:
        use(path, random)
    except RidgepointError as error:
        short = len(str(error)) <= LONGEST and "\n" not in str(error) and path.name in str(error)
        return "" if short else str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:400]
    return ""


def damaged(random: Random, text: bytes) -> bytes:
    """A JSON text with another value, name or order of one part, at any depth."""
    document = json.loads(text)
    holder, key = document, random.choice(tuple(document))
    while isinstance(inner := holder[key], dict | list) and inner and random.random() < 0.85:
        keys = tuple(inner) if isinstance(inner, dict) else range(len(inner))
        holder, key = inner, random.choice(keys)
    found, other = holder[key], random.choice(tuple(holder) if isinstance(holder, dict) else [0])
    number = found if isinstance(found, int | float) else 2
    match random.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.insert(key, found)
        case 2:
            holder[key] = random.choice(([found], str(found), -number, number * 10**9))
        case 3:
            holder[key], holder[other] = holder[other], found
        case 4 if isinstance(holder, dict):
            holder[random.choice(("", "batch", "\u202e", key + "s"))] = holder.pop(key)
        case _:
            holder[key] = random.choice(_ODD)
    return json.dumps(document).encode()


def odd(random: Random, text: bytes) -> bytes:
    """A text with other bytes or another word, or another text."""
    start = random.randrange(len(text))
    end = start + random.choice((0, 1, 3, 40, len(text)))
    word = random.choice(_WORDS).encode("utf-8", "surrogatepass")
    found = random.choice(list(re.finditer(rb"[^\s\[\]{},]+", text)))
    other = random.choice((b"", b"[" * 10**6, text * 2, b"x" * 10**7, b"- " * 10**5, word))
    bytes_ = text[:start] + random.randbytes(random.choice((0, 1, 2))) + text[end:]
    return random.choice((bytes_, text[: found.start()] + word + text[found.end() :], other))

"""``--check``: is everything that was built still right, and are its numbers the pinned ones?

``data/expected/<study>.json`` pins the numbers of a paper, with the names of the records that they
are of.  From the same records the numbers must be the same; from others they may move, but no
verdict may change.  ``--accept`` writes the file, ``--diff`` lists all that moved.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

from report.commands.arguments import request_of
from report.commands.console import shown
from report.core.errors import RidgepointError, unwritable
from report.core.records.store import strays
from report.core.records.strict import read_strictly
from report.engine.actions import load
from report.engine.gather import accept_records, compute_usable
from report.engine.pipeline import Request, look
from report.engine.steps import ARTIFACTS, FINDINGS, RECORDS
from report.paper.findings import Findings
from report.paper.manuscript import render_manuscript
from report.paper.pins import Pins, moves, pins_of

#: The folder of the data directory that holds the pinned numbers of each study.
EXPECTED: Final = "expected"
_REMEDY: Final = "restore it with git, or let 'python build.py --accept' write it"
#: How many numbers that moved are named.
_NAMED: Final = 10


class Paper(NamedTuple):
    """A paper of the present data: its numbers, unsupported sentences, and records left out."""

    pins: Pins
    unsupported: Sequence[str]
    left_out: Sequence[str]


class Review(NamedTuple):
    """The outcome of a check: ``faults`` let it fail, ``notes`` do not; a sentence each."""

    faults: tuple[str, ...]
    notes: tuple[str, ...]


def check(options: Namespace) -> int:
    """Print what is stale or moved; returns 1 if anything is wrong."""
    faults, notes = review(request_of(options))
    for sentence in (*(f"note: {note}" for note in notes), *faults):
        print(sentence)
    return 1 if faults else 0


def accept(options: Namespace) -> int:
    """Make the records of --use the edition, and pin the numbers of the present data.

    Studies that are not asked for stay as they are.  Raises ``RidgepointError`` for a study that
    cannot be computed, or a folder without permission.
    """
    request = request_of(options)
    for study, files in request.use.items():
        print(shown(accept_records(study, request.data, files)))
    request = request._replace(use={})
    stale = look(request).stale()
    texts = {s: _paper(s, request, stale).pins.as_text() for s in request.studies}
    for study, text in texts.items():
        path = _file(study, request.data)
        try:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8", newline="\n")
        except OSError as error:
            raise unwritable(error, place=path) from error
        print(shown(path))
    return 0


def list_moves(options: Namespace) -> int:
    """Print every item of the present data that differs from the pinned one."""
    request = request_of(options)
    stale = look(request).stale()
    for study in request.studies:
        pinned = read_pins(study, request.data)
        if pinned is None:
            print(f"{study}: {_unpinned(study)}")
            continue
        now = _paper(study, request, stale).pins
        moved = moves(pinned, now)
        records = "the same records" if pinned.records == now.records else "other records"
        print(f"{study}: {_counted(len(moved))} with {records}.")
        for move in moved:
            print(f"  {move.sentence}")
    return 0


def review(request: Request) -> Review:
    """Compare what was built with the present data, and its numbers with the pinned ones.

    Raises ``RidgepointError`` for a file of pinned numbers that cannot be understood.
    """
    stale = look(request, as_built=True).stale()
    faults: list[str] = []
    notes: list[str] = []
    for study in request.studies:
        pinned = read_pins(study, request.data)
        try:
            paper = _paper(study, request, stale)
        except RidgepointError as error:
            faults.append(str(error))
            continue
        faults += paper.unsupported
        if pinned is None:
            notes.append(f"{study}: {_unpinned(study)}")
        else:
            faults += verdict_changes(study, pinned, paper.pins)
            same = pinned.records == paper.pins.records
            (faults if same else notes).extend(moved_numbers(study, pinned, paper.pins))
        faults += (f"{study}: {why}" for why in paper.left_out)
        notes += strays(study, request.data)
    faults += (f"{step} is stale: {why}." for step, why in stale.items())
    return Review(tuple(faults), tuple(notes))


def read_pins(study: str, data: Path) -> Pins | None:
    """Read the pinned numbers of a study; None without a file.  Raises ``RecordError``."""
    path = _file(study, data)
    return read_strictly(path, Pins, _REMEDY, data) if path.exists() else None


def verdict_changes(study: str, pinned: Pins, now: Pins) -> Iterator[str]:
    """The claims with another verdict than the pinned one, and the audits that fail newly."""
    for claim, item in pinned.claims.items():
        old, new = item.get("verdict"), now.claims.get(claim, {}).get("verdict")
        if new is None:
            yield f"{study}: the claim {claim} is no longer made; it was {old}."
        elif new != old:
            yield f"{study}: the claim {claim} is {new}; it was {old}."
    for audit in now.audits:
        if audit not in pinned.audits:
            yield f"{study}: a reported value fails its audit newly: {audit}."


def moved_numbers(study: str, pinned: Pins, now: Pins) -> Iterator[str]:
    """How many numbers moved and why that matters, then the first ones with both contents."""
    moved = moves(pinned, now)
    if not moved:
        return
    accepting = f"'python build.py {study} --accept' pins the new numbers, --diff lists all"
    if pinned.records == now.records:
        yield f"{study}: {_counted(len(moved))} with the same records; {accepting}."
    else:
        outside = sum(move.outside for move in moved)
        yield (
            f"{study}: {_counted(len(moved))} with other records, {outside:,} outside the pinned "
            f"interval; {accepting}."
        )
    yield from (f"{study}: {move.sentence}" for move in moved[:_NAMED])


def _counted(moved: int) -> str:
    return "1 pinned number differs" if moved == 1 else f"{moved:,} pinned numbers differ"


def _unpinned(study: str) -> str:
    return f"no numbers are pinned yet; 'python build.py {study} --accept' pins them."


def _file(study: str, data: Path) -> Path:
    return data / EXPECTED / f"{study}.json"


def _paper(study: str, request: Request, stale: Collection[str]) -> Paper:
    """The paper of the present data, computed only where it was not built from them.

    Raises ``RidgepointError`` for a study that cannot be computed.
    """
    if {f"{study}/study", f"{study}/document"} & set(stale):
        chosen, findings = compute_usable(study, request.data)
        manuscript = render_manuscript(request.papers / f"{study}.qmd.j2", findings)
        return _paper_of(findings, chosen.origin, manuscript.unsupported, chosen.listing)
    folder = request.out / ARTIFACTS / study
    values = json.loads((request.out / f"values/{study}.json").read_text("utf-8"))
    listing = json.loads((folder / RECORDS).read_text("utf-8"))
    return _paper_of(load(folder / FINDINGS), values, values["unsupported"], listing)


def _paper_of(
    findings: Findings,
    origin: Mapping[str, Any],
    unsupported: Sequence[str],
    listing: Sequence[Mapping[str, Any]],
) -> Paper:
    left_out = [record["why"] for record in listing if record.get("left_out")]
    return Paper(pins_of(findings, record_names(origin)), unsupported, left_out)


def record_names(origin: Mapping[str, Any]) -> list[str]:
    """Name the records of a paper by time, device and hash; of an edited one the hash says less."""
    edited = {file for file, _ in origin["altered"]}
    return [
        f"{PurePath(file).stem}{' (edited)' if file in edited else ''}"
        for file in origin["records"]
    ]

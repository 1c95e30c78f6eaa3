"""What the papers would say differently from other data: ``python build.py --diff REV``.

Two builds of a study are compared by their ``values/<study>.json``, manuscripts and figures.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from report.commands.arguments import request_of
from report.commands.check import EXPECTED, list_moves
from report.commands.console import announcer, say, shown
from report.core.errors import RecordError, unwritable
from report.core.text.format import NO_BREAK, Style, quantity_text
from report.engine.cache import file_digest
from report.engine.pipeline import Announce, Failure, Request, World, build
from report.engine.place import only_build, put_folder, stage_in
from report.render.shell import PAPER_SCRIPTS, Settings, render_template, write_assets
from report.studies import STUDIES

#: A number of the prose with the link to its line in the list of provenance.
_LINKED: Final = re.compile(r"(?<!\\)\[((?:\\.|[^\[\]\\])*)\]\(#v-[\w-]+\)\{\.value\}")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
#: How many changes of each kind are printed of one study.
LIMIT: Final = 12


class Change(NamedTuple):
    """Something that differs: both sides as they are printed, empty where a side has none.

    Of files and figures the sides are digests.
    """

    name: str
    old: str
    new: str
    note: str = ""


class Studied(NamedTuple):
    """What a study has otherwise, by kind, and by side why it cannot be built."""

    study: str
    parts: Mapping[str, Sequence[Change]]
    refused: Mapping[str, Failure]

    @property
    def says(self) -> str:
        """The outcome in a sentence."""
        if self.refused:
            return f"it cannot be built from the {' and the '.join(self.refused)} data."
        counts = [f"{len(found):,} {kind}" for kind, found in self.parts.items() if found]
        return f"{', '.join(counts)} differ." if counts else "its data are the same."


def diff(options: Namespace) -> int:
    """Print what other data would make the papers say, and write the page that shows it.

    Compared with the pinned numbers it prints all that moved, and writes nothing.
    Returns 1 if a study cannot be built from today's data.
    """
    if options.diff == EXPECTED:
        return list_moves(options)
    request = request_of(options)
    origins, studies = difference(request, options.diff, announcer(quiet=options.quiet))
    page = shown(request.out / "diff" / "index.html")
    say("\n".join(lines(origins, studies, page)).replace(NO_BREAK, " "))
    if options.debug:
        traces = (side.trace for each in studies for side in each.refused.values())
        print("".join(traces), end="", file=sys.stderr)
    return int(any("new" in each.refused for each in studies))


def difference(
    request: Request, against: str, announce: Announce
) -> tuple[dict[str, str], tuple[Studied, ...]]:
    """Compare the papers from ``against``, a git revision or a directory, with those of today.

    Returns which data the old and the new ones are, and the outcome of each study.  Writes
    ``diff/`` below ``request.out`` in one step.  Raises ``RidgepointError`` if there are no data to
    compare with, or the page cannot be written.
    """
    waiting = partial(announce, "waiting for a build to end", 0.0, "")
    with only_build(request.out, waiting), stage_in(request.out) as scratch:
        data, words = find_data(against, request.data, scratch)
        origins = {"old": words, "new": shown(request.data)}
        studies = tuple(_study_all(request, data, scratch, announce))
        try:
            _write_page(origins, studies, scratch)
            put_folder("diff", request.out, scratch)
        except OSError as error:
            raise unwritable(error) from error
    return origins, studies


def _study_all(request: Request, old: Path, scratch: Path, announce: Announce) -> Iterator[Studied]:
    """Build what differs from the data of both sides, in the folders ``old`` and ``new``."""
    today = request._replace(outputs=(), engine="typst")
    sides = {"old": today._replace(data=old), "new": today}
    files = {s: differing(*(_inputs(s, side) for side in sides.values())) for s in request.studies}
    changed = tuple(study for study in files if files[study])
    failed: dict[str, tuple[Failure, ...]] = {}
    for age, side in sides.items() if changed else ():
        failed[age] = build(side._replace(studies=changed, out=scratch / age), announce).failed
    for study, found in files.items():
        refused = {age: each for age in failed for each in failed[age] if each.study == study}
        built = found and not refused
        parts = changes(study, scratch / "old", scratch / "new") if built else {}
        yield Studied(study, {"files of the data": found, **parts}, refused)


def _inputs(study: str, request: Request) -> dict[str, str]:
    """The files of the data that ``study`` is computed from, with their digests."""
    world = World(request)
    files = {name for step in world.study_steps(study) for name in step.files}
    paths = {name: world.source(name) for name in sorted(files) if name.startswith("data/")}
    return {n.removeprefix("data/"): d for n, p in paths.items() if (d := file_digest(p))}


def _write_page(origins: Mapping[str, str], studies: Sequence[Studied], scratch: Path) -> None:
    """Write ``diff/`` below ``scratch``: the page, its style and the figures of both sides."""
    folder = scratch / "diff"
    write_assets(folder)
    for study in (each.study for each in studies if "figures" in each.parts):
        for age in origins:
            drawn, others = scratch / age / "qmd" / study / "figures", ("*.pdf", "*.csv")
            if drawn.is_dir():  # without records a study has no figures
                shutil.copytree(drawn, folder / study / age, ignore=shutil.ignore_patterns(*others))
    content = {"origins": origins, "studies": studies}
    page = render_template("diff.html.j2", Settings(), root="", scripts=PAPER_SCRIPTS, **content)
    (folder / "index.html").write_text(page, "utf-8", newline="\n")


def lines(origins: Mapping[str, str], studies: Sequence[Studied], page: str) -> Iterator[str]:
    """The difference for a terminal or a log; of long lists the beginning."""
    yield from (f"{age}: {words}" for age, words in origins.items())
    yield "The code and the prose are today's on both sides; only the data differ."
    for studied in studies:
        yield f"\n{studied.study}: {studied.says}"
        yield from (f"  {age} data: {each.sentence}" for age, each in studied.refused.items())
        for kind, found in studied.parts.items():
            yield from (f"  {kind}" for _ in found[:1])
            for change in found[:LIMIT]:
                yield f"    {' '.join((change.name, change.note))}".rstrip()
                if kind not in ("files of the data", "figures"):
                    yield from (f"      {age}: {getattr(change, age) or 'none'}" for age in origins)
            if len(found) > LIMIT:
                yield f"    … and {len(found) - LIMIT:,} more, which the page lists"
    yield f"\nEverything, with the figures side by side: {page}"


def differing(old: Mapping[str, str], new: Mapping[str, str]) -> list[Change]:
    """What is not equal on both sides, in today's order, then what is gone."""
    sides = ((name, old.get(name, ""), new.get(name, "")) for name in {**new, **old})
    return [Change(*side) for side in sides if side[1] != side[2]]


def changes(study: str, old: Path, new: Path) -> dict[str, list[Change]]:
    """What differs in ``study`` between two folders that it was built in, by kind."""
    files = (out / f"values/{study}.json" for out in (old, new))
    one, other = (json.loads(file.read_text("utf-8")) for file in files)
    claims = [{c["sentence"]: c["verdict"] for c in x["claims"].values()} for x in (one, other)]
    texts = ((out / f"qmd/{study}/{study}.qmd").read_text("utf-8") for out in (old, new))
    drawn = ((out / f"qmd/{study}/figures").glob("*.svg") for out in (old, new))
    figures = ({path.stem: file_digest(str(path)) or "" for path in sorted(p)} for p in drawn)
    return {
        "claims": differing(*claims),
        "numbers": value_changes(one["values"], other["values"]),
        "places in the text": text_changes(*texts),
        "figures": differing(*figures),
    }


def value_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """The numbers that print otherwise, those first whose intervals have no number in common."""
    sides = ({id: _value(side[id]) for id in side} for side in (old, new))
    found = (each._replace(note=_note(each.name, old, new)) for each in differing(*sides))
    return sorted(found, key=lambda change: not change.note)


def _note(id: str, *sides: Mapping[str, Any]) -> str:
    intervals = [side[id]["interval"] for side in sides if id in side and side[id]["interval"]]
    apart = len(intervals) == 2 and max(low for low, _ in intervals) > min(h for _, h in intervals)
    return "intervals apart" if apart else ""


def _value(value: Mapping[str, Any]) -> str:
    """A number as the paper prints it, with its interval and samples, or why it is missing."""
    text, interval = str(value["printed"]), value["interval"]
    if interval and interval[0] != interval[1]:
        style: Style = "percent" if text.endswith("%") else "measured"
        text += f" [{', '.join(quantity_text(end, value['unit'], style) for end in interval)}]"
    details = (value["reason"], value["n"] and f"n = {value['n']:,}")
    return text + "".join(f" ({each})" for each in details if each)


def text_changes(old: str, new: str) -> list[Change]:
    """Where two manuscripts differ, by their sentences and the rows of their tables."""
    one, other = _sentences(old), _sentences(new)
    codes = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    places = ((one[i:j], other[k:m]) for tag, i, j, k, m in codes if tag != "equal")
    return [Change("", " ".join(gone), " ".join(come)) for gone, come in places]


def _sentences(manuscript: str) -> list[str]:
    plain = _LINKED.sub(lambda link: link[1].replace("\\", ""), manuscript)
    lines = (line.strip() for line in plain.splitlines() if line.strip())
    return [sentence for line in lines for sentence in _SENTENCE.split(line)]


def find_data(against: str, data: Path, scratch: Path) -> tuple[Path, str]:
    """The data directory that ``against`` names, and what a reader learns of where it is from.

    A git revision of the repository that holds ``data`` is unpacked below ``scratch``; else
    ``against`` is a directory of data.  Raises ``RecordError`` if it is neither, or holds no data.
    """
    commit, reason = _unpacked(against, data, scratch / "revision")
    if commit:
        return scratch / "revision", f"revision {against}, commit {commit[:12]}"
    if against and any((Path(against) / name).is_dir() for name in ("reported", *STUDIES)):
        return Path(against).resolve(), f"directory {against}"
    raise RecordError(
        f"--diff {against}: neither a directory of data nor a git revision ({reason}); name one of "
        "them ('git fetch --unshallow' gets old ones)."
    )


def _unpacked(revision: str, data: Path, target: Path) -> tuple[str, str]:
    """Unpack ``data`` as it was at a git revision.

    Returns the commit; or an empty text, and the reason as git gives it.
    """
    # A hook's variables would lead git elsewhere, and a name with a dash is an option.
    environment = {key: text for key, text in os.environ.items() if not key.startswith("GIT_")}
    archive, words = target.with_suffix(".zip"), () if revision.startswith("-") else (revision,)
    # git packs the folder that it is run in, and not the whole repository.
    command = ["git", "archive", "--format=zip", f"--output={archive}", *words, "--", "."]
    try:
        subprocess.run(command, cwd=data, env=environment, capture_output=True, check=True)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error).encode()
        return "", " ".join(said.decode("utf-8", "replace").split())
    with zipfile.ZipFile(archive) as files:  # which lets no name lead out, and makes no link
        try:
            files.extractall(target)
        except OSError as error:
            raise unwritable(error) from error
        return files.comment.decode(), ""

"""Compare the papers from today's data with papers from other data: ``build.py --diff REV``.

Both versions of a study are built.  Values, manuscripts and figures of the versions are compared.
"""

import re
import shutil
import sys
import zipfile
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final, NamedTuple

from report.commands.arguments import request_of
from report.commands.check import EXPECTED, list_changes
from report.commands.console import announcer, say, short_path
from report.core.errors import RecordError, RenderError
from report.core.system.exchange import read_pickle
from report.core.system.programs import run
from report.core.text.format import NO_BREAK
from report.engine.build import build
from report.engine.cache import file_digest
from report.engine.place import only_build, put_folder
from report.engine.plan import BuildPlan
from report.engine.steps import ARTIFACTS, FINDINGS, Announce, BuildRequest, Failure
from report.paper.findings import Findings
from report.paper.pins import KINDS, changed_items, pins_of
from report.render.shell import PAPER_SCRIPTS, Settings, render_template, write_assets
from report.studies import STUDIES

#: A number in the prose that links to its line in the list of provenance.
_LINKED_NUMBER: Final = re.compile(r"(?<!\\)\[((?:\\.|[^\[\]\\])*)\]\(#v-[\w-]+\)\{\.value\}")
#: Space between two sentences.
_SENTENCE_BREAK: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
#: Limit on the printed changes of one kind per study.
CHANGE_LIMIT: Final = 12
#: Time limit for unpacking a revision.
_GIT_LIMIT_S: Final = 600.0


class ListedChange(NamedTuple):
    """A difference between the ``old`` and the ``new`` text, as printed; "" for a missing text.

    The text of a file or figure is its digest.
    """

    name: str
    old: str
    new: str
    note: str = ""


class StudyDifference(NamedTuple):
    """The changes of a study by kind, and its failed builds by age ("old", "new") of the data."""

    study: str
    parts: Mapping[str, Sequence[ListedChange]]
    failures: Mapping[str, Failure]

    @property
    def sentence(self) -> str:
        """The difference, summarised in a sentence."""
        if self.failures:
            return f"it cannot be built from the {' and the '.join(self.failures)} data."
        counts = [f"{len(changes):,} {kind}" for kind, changes in self.parts.items() if changes]
        return f"{', '.join(counts)} differ." if counts else "its data are the same."


def diff(options: Namespace) -> int:
    """Print the differences between papers from today's and from other data; write a page.

    If the command line names no other data, only print the numbers that differ from their pins.
    Returns 1 if a study cannot be built from today's data, else 0.
    """
    if options.diff == EXPECTED:
        return list_changes(options)
    request = request_of(options)
    origins, studies = difference(request, options.diff, announcer(quiet=options.quiet))
    page = short_path(request.out / "diff" / "index.html")
    say("\n".join(lines(origins, studies, page)).replace(NO_BREAK, " "))
    for study in studies if options.debug else ():
        for failure in study.failures.values():
            print(failure.trace, end="", file=sys.stderr)
    return int(any("new" in study.failures for study in studies))


def difference(
    request: BuildRequest, against: str, announce: Announce
) -> tuple[dict[str, str], tuple[StudyDifference, ...]]:
    """Compare papers from the data ``against`` (git revision or directory) with today's papers.

    Writes ``diff/`` below ``request.out``.  Returns the names of old and new data, and one
    difference per study.  Raises ``RidgepointError`` for missing data, or if writing fails.
    """
    with only_build(request.out, announce) as scratch:
        data, name = find_data(against, request.data, scratch)
        origins = {"old": name, "new": short_path(request.data)}
        studies = tuple(_compare_studies(request, data, scratch, announce))
        _write_page(origins, studies, scratch)
        put_folder("diff", request.out, scratch)
    return origins, studies


def _compare_studies(
    request: BuildRequest, old_data: Path, scratch: Path, announce: Announce
) -> Iterator[StudyDifference]:
    """Build the studies whose data differ, in the folders ``old`` and ``new``; compare both."""
    today = request._replace(outputs=(), engine="typst")
    requests = {"old": today._replace(data=old_data), "new": today}
    files: dict[str, list[ListedChange]] = {}
    for study in request.studies:
        old, new = (_data_files(study, version) for version in requests.values())
        files[study] = list_differences(old, new)
    changed = tuple(study for study in files if files[study])
    failures: dict[str, dict[str, Failure]] = {study: {} for study in files}
    for age, version in requests.items() if changed else ():
        for failure in build(version._replace(studies=changed, out=scratch / age), announce).failed:
            failures.setdefault(failure.study, {})[age] = failure
    for study, file_changes in files.items():
        parts = {"files of the data": file_changes}
        if file_changes and not failures[study]:
            parts |= changes(study, scratch / "old", scratch / "new")
        yield StudyDifference(study, parts, failures[study])


def _data_files(study: str, request: BuildRequest) -> dict[str, str]:
    """Map the data files that ``study`` reads to their digests."""
    plan = BuildPlan(request)
    names = {name for step in plan.study_steps(study) for name in step.files}
    digests: dict[str, str] = {}
    for name in sorted(names):
        if name.startswith("data/") and (digest := file_digest(plan.paths[name])):
            digests[name.removeprefix("data/")] = digest
    return digests


def _write_page(
    origins: Mapping[str, str], studies: Sequence[StudyDifference], scratch: Path
) -> None:
    """Write ``diff/`` below ``scratch``: page, style sheet, old and new figures."""
    folder = scratch / "diff"
    write_assets(folder)
    vectors_only = shutil.ignore_patterns("*.pdf", "*.csv")
    for compared in studies:
        for age in origins if "figures" in compared.parts else ():
            figures = scratch / age / "qmd" / compared.study / "figures"
            if figures.is_dir():  # without records a study has no figures
                shutil.copytree(figures, folder / compared.study / age, ignore=vectors_only)
    content = {"origins": origins, "studies": studies}
    page = render_template("diff.html.j2", Settings(), root="", scripts=PAPER_SCRIPTS, **content)
    (folder / "index.html").write_text(page, "utf-8", newline="\n")


def lines(
    origins: Mapping[str, str], studies: Sequence[StudyDifference], page: str
) -> Iterator[str]:
    """Yield the differences for a terminal, at most ``CHANGE_LIMIT`` of each kind per study."""
    for age, name in origins.items():
        yield f"{age}: {name}"
    yield "Both sides are built by today's code and prose; only the data differ."
    for compared in studies:
        yield f"\n{compared.study}: {compared.sentence}"
        for age, failure in compared.failures.items():
            yield f"  {age} data: {failure.sentence}"
        for kind, kind_changes in compared.parts.items():
            if kind_changes:
                yield f"  {kind}"
            for change in kind_changes[:CHANGE_LIMIT]:
                yield f"    {' '.join((change.name, change.note))}".rstrip()
                for age in origins if kind not in ("files of the data", "figures") else ():
                    yield f"      {age}: {getattr(change, age) or 'none'}"
            if len(kind_changes) > CHANGE_LIMIT:
                yield f"    … and {len(kind_changes) - CHANGE_LIMIT:,} more, see the page"
    yield f"\nAll changes, with the figures side by side: {page}"


def list_differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[ListedChange]:
    """List the names whose texts differ, in the order of ``new``; removed names are last."""
    differences = []
    for name in {**new, **old}:
        before, now = old.get(name, ""), new.get(name, "")
        if before != now:
            differences.append(ListedChange(name, before, now))
    return differences


def changes(study: str, old: Path, new: Path) -> dict[str, list[ListedChange]]:
    """List the changes of ``study`` between two output folders, by kind."""
    pins, texts, figures = [], [], []
    for out in (old, new):
        findings: Findings = read_pickle(out / ARTIFACTS / study / FINDINGS)
        pins.append(pins_of(findings, ()))
        source = out / "qmd" / study
        texts.append((source / f"{study}.qmd").read_text("utf-8"))
        paths = sorted((source / "figures").glob("*.svg"))
        figures.append({path.stem: file_digest(str(path)) or "" for path in paths})
    numbers = []
    for item in changed_items(*pins):
        has_interval = item.now and "interval" in (item.pinned or {})
        note = "outside the old interval" if has_interval and item.is_outside else ""
        name = f"{KINDS[item.kind]} {item.name}"
        numbers.append(ListedChange(name, *item.changed_fields, note))
    return {
        "claims and numbers": numbers,
        "places in the text": text_changes(*texts),
        "figures": list_differences(*figures),
    }


def text_changes(old: str, new: str) -> list[ListedChange]:
    """List the sentences that differ between two manuscripts; omit tables, which are pinned."""
    before, now = _sentences(old), _sentences(new)
    matcher, places = SequenceMatcher(None, before, now, autojunk=False), []
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag != "equal":
            texts = " ".join(before[start:end]), " ".join(now[new_start:new_end])
            places.append(ListedChange("", *texts))
    return places


def _sentences(manuscript: str) -> list[str]:
    """Split a manuscript into sentences, without tables and without links of numbers."""
    sentences: list[str] = []
    for line in filter(None, map(str.strip, _LINKED_NUMBER.sub(r"\1", manuscript).splitlines())):
        if not line.startswith("|"):
            sentences += _SENTENCE_BREAK.split(line.replace("\\", ""))
    return sentences


def find_data(against: str, data: Path, scratch: Path) -> tuple[Path, str]:
    """Return the data directory that ``against`` names, and a description for readers.

    ``against`` is a git revision of the repository with ``data``, which is unpacked below
    ``scratch``, or a directory of data.  Raises ``RecordError`` for anything else.
    """
    commit, reason = unpack_revision(against, data, scratch / "revision")
    if commit:
        return scratch / "revision", f"revision {against}, commit {commit[:12]}"
    if against and any((Path(against) / name).is_dir() for name in ("reported", *STUDIES)):
        return Path(against).resolve(), f"directory {against}"
    raise RecordError(
        f"--diff {against}: neither a directory of data nor a git revision ({reason}); name one of "
        "them ('git fetch --unshallow' gets old revisions)."
    )


def unpack_revision(revision: str, data: Path, target: Path) -> tuple[str, str]:
    """Unpack ``data`` of a git revision; return its commit and "", or "" and git's message."""
    archive = target.with_suffix(".zip")
    # git would read a leading dash as an option.  The «.» packs only the current folder.
    names = () if revision.startswith("-") else (revision,)
    command = ("git", "archive", "--format=zip", f"--output={archive}", *names, "--", ".")
    try:
        finished = run(command, data, _GIT_LIMIT_S)
    except (RenderError, ValueError) as error:  # ValueError: a revision with a null character
        return "", str(error)
    if finished.returncode:
        return "", " ".join(finished.stderr.split())
    with zipfile.ZipFile(archive) as files:  # extracts nothing outside of target, and no links
        files.extractall(target)
        return files.comment.decode(), ""

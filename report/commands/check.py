"""Compare the outputs with the present data, and the numbers of papers with pinned numbers.

``data/expected/<study>.json`` pins the numbers of a paper and the names of its records.  If the
records are the same, no number may change.  If they are not, numbers may change, but no verdict.
``--check`` reports differences, ``--accept`` writes the file, ``--diff`` lists all changed numbers.
"""

from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, Final

from report.commands.arguments import request_of
from report.commands.console import short_path
from report.core.errors import RidgepointError, unwritable
from report.core.records.store import stray_files
from report.core.records.strict import read_strictly
from report.engine.plan import plan
from report.engine.steps import BuildRequest
from report.engine.writing import PaperResults, present_results
from report.evaluation import is_report, study_of
from report.evaluation.gather import accept_records
from report.paper.pins import Pins, changed_items, pins_of

#: Folder of the data directory with the pinned numbers of each study.
EXPECTED: Final = "expected"
_REMEDY: Final = "restore it with git, or let 'python build.py --accept' write it"
#: Largest number of changed numbers of a study that --check lists.
_LISTED_CHANGES: Final = 10


def check(options: Namespace) -> int:
    """Print stale outputs and changed numbers; return 1 if the check fails."""
    faults, notes = review(request_of(options))
    for note in notes:
        print("note:", note)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


def accept(options: Namespace) -> int:
    """Add the records of --use to the paper's edition, pin the present numbers, and return 0.

    Only requested studies change.  Raises ``RidgepointError`` for a study that cannot be computed,
    or a folder without write permission.
    """
    request = request_of(options)
    if options.replicate is None:
        for study, files in request.use.items():
            print(short_path(accept_records(study, request.data, files)))
        request = request._replace(use={})
    stale = plan(request).stale()
    texts: dict[str, str] = {}
    for study in request.studies:
        texts[study] = _present_pins(present_results(study, request, stale)).as_text()
    for study, text in texts.items():
        path = request.data / EXPECTED / f"{study}.json"
        try:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8", newline="\n")
        except OSError as error:
            raise unwritable(error, place=path) from error
        print(short_path(path))
    return 0


def list_changes(options: Namespace) -> int:
    """Print every item that differs from its pin; return 0."""
    request = request_of(options)
    stale = plan(request).stale()
    for study in request.studies:
        pinned = read_pins(study, request.data)
        if pinned is None:
            print(_unpinned_message(study))
            continue
        present = _present_pins(present_results(study, request, stale))
        differences = list(changed_numbers(study, pinned, present, limit=None))
        print(*differences or [f"{study}: no pinned number differs."], sep="\n")
    return 0


def review(request: BuildRequest) -> tuple[list[str], list[str]]:
    """Find stale outputs, unsupported sentences, differences from the pins, and unused files.

    Returns faults, which fail the check, and notes, as sentences.  Raises ``RidgepointError`` for a
    damaged file of pinned numbers.
    """
    stale = plan(request, as_built=True).stale()
    faults: list[str] = []
    notes: list[str] = []
    for study in request.studies:
        pinned = read_pins(study, request.data)
        try:
            results = present_results(study, request, stale)
        except RidgepointError as error:
            faults.append(str(error))
            continue
        faults += results.content["unsupported"]
        if pinned is None:
            notes.append(_unpinned_message(study))
        else:
            present = _present_pins(results)
            faults += verdict_changes(study, pinned, present)
            # Other records may change the numbers of a paper, but not those of a report, which is
            # pinned again for each new record.
            must_agree = pinned.records == present.records or is_report(study)
            (faults if must_agree else notes).extend(changed_numbers(study, pinned, present))
        for record in results.records:
            if record.get("left_out"):
                faults.append(f"{study}: {record['why']}")
        notes += stray_files(study, request.data)
    faults += (f"{step} is stale: {reason}." for step, reason in stale.items())
    return faults, notes


def read_pins(study: str, data: Path) -> Pins | None:
    """Read the pinned numbers of a study, or None; raise ``RecordError`` for a damaged file."""
    path = data / EXPECTED / f"{study}.json"
    return read_strictly(path, Pins, _REMEDY, data) if path.exists() else None


def verdict_changes(study: str, pinned: Pins, present: Pins) -> Iterator[str]:
    """Describe changed verdicts, and reported values that fail their audit only now."""
    for claim, item in pinned.claims.items():
        old, new = item.get("verdict"), present.claims.get(claim, {}).get("verdict")
        if new is None:
            yield f"{study}: the claim {claim} is no longer made; it was {old}."
        elif new != old:
            yield f"{study}: the claim {claim} is {new}; it was {old}."
    for audit in present.audits:
        if audit not in pinned.audits:
            yield f"{study}: a reported value newly fails its audit: {audit}."


def changed_numbers(
    study: str, pinned: Pins, present: Pins, limit: int | None = _LISTED_CHANGES
) -> Iterator[str]:
    """Yield the count of the numbers that differ from their pins, then the first ``limit``."""
    changed = changed_items(pinned, present)
    if changed:
        outside, records = "", "the same records"
        if pinned.records != present.records:
            records = "other records"
            outside = f", {sum(item.is_outside for item in changed):,} outside the pinned interval"
        numbers = "number differs" if len(changed) == 1 else "numbers differ"
        remedy = f"'{_pin_command(study)}' pins the new numbers, --diff lists all"
        yield f"{study}: {len(changed):,} pinned {numbers} with {records}{outside}; {remedy}."
    for item in changed[:limit]:
        yield f"{study}: {item.sentence}"


def _unpinned_message(study: str) -> str:
    return f"{study}: no numbers are pinned yet; '{_pin_command(study)}' pins them."


def _pin_command(paper: str) -> str:
    """Return the command that pins the numbers of a paper or of a report."""
    report = " --replicate" if is_report(paper) else ""
    return f"python build.py {study_of(paper)}{report} --accept"


def _present_pins(results: PaperResults) -> Pins:
    return pins_of(results.findings, record_names(results.content))


def record_names(content: Mapping[str, Any]) -> list[str]:
    """Return the names of a paper's records (time, device, hash); mark edited records."""
    edited = {file for file, _ in content["altered"]}
    names = []
    for file in content["records"]:
        names.append(PurePath(file).stem + (" (edited)" if file in edited else ""))
    return names

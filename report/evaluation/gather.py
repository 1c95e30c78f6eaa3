"""Choose and read the data of a paper, and compute its study.  No other module selects data.

``editions.yaml`` names the edition of each paper: the machines or records that it describes.  A
machine has a role there, such as ``cpu``, which says which sentences describe the machine.

One bad file must not stop a paper.  A record is left out, with a notice, if it cannot be read or
was edited, if its cases or rates are impossible, or if the study's code fails on it.

An empty paper must not replace a full paper.  So a bad record is an error if ``editions.yaml`` or
``--use`` names it, or if the study, or a machine with a role, has no good record.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from traceback import extract_tb
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from report.core.errors import RecordError, RidgepointError, StudyCodeError, StudyError
from report.core.missing import Missing
from report.core.records import EDITIONS, IMPORTED, OPERATORS, store
from report.core.records.choice import (
    ROLES,
    USE_OPTION,
    Choice,
    Choices,
    Edition,
    Role,
    choices_of,
    describe_incomplete,
    is_full,
    read_editions,
    write_edition,
)
from report.core.records.files import PROJECT_DATA, read_table, shared_file
from report.core.records.network_operators import read_operators
from report.core.records.record import ImportedRecord
from report.core.records.reported import read_devices, read_reported
from report.evidence.runs import device_labels
from report.instruments import gates
from report.instruments.counters.logs import join_logs
from report.instruments.judgement import usable_records
from report.paper.details import attributions, listing, unusable
from report.paper.findings import Findings, Inputs
from report.studies import STUDIES, attachments_of, find_study

#: Edition of a paper that has none in ``editions.yaml``.
_NO_EDITION: Final = Edition({})
#: Root of the project.
_ROOT: Final = PROJECT_DATA.parent
#: Folder of the package ``report``, with the folder ``studies``.
_REPORT: Final = _ROOT / "report"
#: Number of records that a notice names.
_LISTED_RECORDS: Final = 3
#: The remedy for a study that fails with every record.
_FIX_CODE: Final = "correct that line, or restore the data with git"
#: The remedy for a study that fails only with some records.
_FIX_DATA: Final = "the study can be computed from others, so restore this one, or measure again"
_Item = TypeVar("_Item", bound=store.StoredRecord[Any])


@dataclass(frozen=True)
class StudyData:
    """All data of a study, before records are chosen.

    ``measured``: own readable records.  ``imported``: readable records of other authors.
    ``refused``: file of a bad record → reason.  ``inputs``: all data except records.
    """

    measured: tuple[store.Stored, ...]
    imported: tuple[store.StoredImport, ...]
    refused: Mapping[str, str]
    inputs: Inputs


@dataclass(frozen=True)
class Chosen:
    """The inputs of a paper, and the use of every record of its study.

    ``notices`` describe faults of records, and ``listing`` describes how each record is used.  The
    records were chosen among the ``usable`` records of ``study_data``.  ``origin`` has facts that
    the paper prints:

    - ``records``, ``reported``: files, relative to the data directory;
    - ``devices``: names of the machines;
    - ``measured``: date of the edition or of a newer run, None if both are unknown;
    - ``altered``: edited records that are used, with their faults;
    - ``asked``: records that the user chose by ``--use``;
    - ``imported``: attributions of other authors' measurements;
    - ``byline``: a subtitle, only if the edition does not list the records.
    """

    inputs: Inputs
    origin: Mapping[str, Any]
    notices: tuple[str, ...]
    listing: Sequence[Mapping[str, Any]]
    usable: Sequence[store.Stored]
    study_data: StudyData

    @property
    def files(self) -> tuple[store.Stored | store.StoredImport, ...]:
        """All used records, one per file; a run that was measured in shards has several files."""
        records: list[store.Stored | store.StoredImport] = []
        for stored in self.inputs.records:
            for run in stored.runs:
                records += run.shards
        return (*records, *self.inputs.imported)


def compute_usable(
    study: str, data: Path, requested: Sequence[str] = ()
) -> tuple[Chosen, Findings]:
    """Choose the inputs of a study and compute the study without records that make it fail.

    Raises ``RecordError`` as ``choose_records`` does, and ``StudyError`` if no record is at fault.
    """
    refused: dict[str, str] = {}
    study_data = read_study_data(study, data)
    while True:
        chosen = choose_records(study, data, requested, refused, study_data=study_data)
        try:
            findings = compute(study, chosen.inputs)
            return with_gate_notes(study, chosen), findings
        except StudyError as error:
            faulty = _faulty_records(study, chosen.inputs, error)
            if not faulty:
                raise
            refused |= faulty


class _SeveralRecordsError(StudyError):
    """Error of a study that used several records, any of which may be at fault."""


def _faulty_records(study: str, inputs: Inputs, error: StudyError) -> dict[str, str]:
    """Map each record that causes an error of ``compute`` to the reason.

    If several records may be at fault, the study is computed from each record alone.  If the study
    fails with every record, no record is at fault.
    """
    file_in_error = str(error).partition(": ")[0].removeprefix("data/")
    if file_in_error in inputs.files:
        return {file_in_error: str(error)}
    if not isinstance(error, _SeveralRecordsError):
        return {}  # an error in code, or in a file that all records share
    inputs_by_file: dict[str, Inputs] = {}
    for stored in inputs.records:
        for run in stored.runs:
            run_alone = replace(run, others=())
            inputs_by_file[run.file] = replace(inputs, records=(run_alone,), imported=())
    for item in inputs.imported:
        inputs_by_file[item.file] = replace(inputs, records=(), imported=(item,))
    reasons: dict[str, str] = {}
    for file, inputs_of_file in inputs_by_file.items():
        try:
            compute(study, inputs_of_file)
        except RidgepointError as failure:
            # If the study works with another record, the data are at fault, not the code.
            reasons[file] = str(failure).replace(_FIX_CODE, _FIX_DATA)
    return reasons if len(reasons) < len(inputs_by_file) else {}


def compute(study: str, inputs: Inputs) -> Findings:
    """Compute ``study`` from its inputs.

    Errors that name a file of data are raised unchanged.  Other errors become a ``StudyError``.  If
    only code can be at fault, it names the line.  Otherwise it names the first input file and the
    number of other files, because code does not know from which file a number came.
    """
    try:
        return find_study(study)(inputs)
    except (NameError, ImportError, SyntaxError) as error:
        raise StudyError(f"{_last_line(error, _REPORT)}: {error}; correct that line.") from error
    except StudyCodeError as error:
        place = _last_line(error, _REPORT / "studies") or f"report/studies/{study}"
        raise StudyError(f"{place}: {error}; correct the study.") from error
    except Exception as error:
        message = str(error)
        if isinstance(error, RidgepointError) and message.startswith("data/"):
            raise
        first, more = next(iter(inputs.files), study), len(inputs.files) - 1
        several = f" and {more} more" if more > 0 else ""
        if not isinstance(error, RidgepointError):
            line = _last_line(error, _REPORT / "studies", _REPORT)
            message = f"{type(error).__name__}: {message} in {line}; {_FIX_CODE}."
        error_type = _SeveralRecordsError if several else StudyError
        raise error_type(f"data/{first}{several}: {message}") from error


def _last_line(error: Exception, *folders: Path) -> str:
    """Return file:line of the traceback's last line in the first folder with a line, or ""."""
    places = [(Path(frame.filename), frame.lineno) for frame in extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((Path(error.filename), error.lineno))
    for folder in folders:
        for file, line in reversed(places):
            if folder in file.parents:
                return f"{file.relative_to(_ROOT).as_posix()}:{line}"
    return ""


def read_study_data(study: str, data: Path) -> StudyData:
    """Read all records of a study, and the reported values, devices and networks of its paper."""
    measured, refused = usable_records(study, data)
    imported, refused_imports = store.read_usable_records(study, data, ImportedRecord)
    reported = f"reported/{study}.json"
    inputs = Inputs(
        records=(),
        reported=read_reported(shared_file(reported, data)),
        reported_file=reported if os.path.lexists(shared_file(reported, data)) else "",
        devices=read_devices(shared_file("devices.yaml", data)),
        networks=partial(read_operators, shared_file(OPERATORS, data)),
        # mypy does not know that classes can be hashed.
        table=cache(lambda name, row: read_table(data / study / name, row)),  # type: ignore[arg-type]
    )
    return StudyData(measured, imported, refused | refused_imports, inputs)


def choose_records(
    study: str,
    data: Path,
    requested: Sequence[str] = (),
    refused: Mapping[str, str] = MappingProxyType({}),
    editions: Mapping[str, Edition] | None = None,
    study_data: StudyData | None = None,
) -> Chosen:
    """Choose the records of ``study``, and read their attachments.

    - ``requested``: records of ``--use``, relative to ``data``.
    - ``refused``: records to omit, with the reasons.
    - ``editions``: study → its machines or records; by default read from ``editions.yaml``.
    - ``study_data``: data that were read before; by default they are read now.

    Raises ``RecordError`` if a record of the edition or of ``--use`` is bad, unknown or cannot be
    pooled, if the machine of a role has no record, or if no good record can replace a bad record.
    """
    given_edition = (read_editions(data, STUDIES) if editions is None else editions).get(study)
    edition = given_edition or _NO_EDITION
    study_data = study_data or read_study_data(study, data)
    bad = {**study_data.refused, **refused}
    while True:
        usable = _without_bad(study_data.measured, study, bad, edition, requested)
        imported = _without_bad(study_data.imported, f"{study}/{IMPORTED}", bad, _NO_EDITION)
        choices = choices_of(usable, given_edition, requested)
        owners = (*(choice.primary for choice in choices), *imported)
        attachments = _read_attachments(study, owners, data)
        if not attachments.unreadable:
            break
        bad |= attachments.unreadable
    altered: dict[str, str] = {}
    for item in (*study_data.measured, *study_data.imported):
        if item.edited:
            reasons = altered if item in (*usable, *imported) else bad
            reasons[item.file] = (
                f"data/{item.file}: {store.EDITED}, so it was edited after it was measured; restore"
                f" it with git, run the experiment again, or name it in data/{EDITIONS} to use it."
            )
    left_out = {file: f"left out: {reason}" for file, reason in bad.items()}
    choice_by_role = _choice_by_role(choices, edition)
    inputs = replace(
        study_data.inputs,
        records=tuple(replace(choice.primary, others=choice.used[1:]) for choice in choices),
        attachments=attachments.contents,
        imported=imported,
        roles={role: choice.primary.file for role, choice in choice_by_role.items()},
    )
    origin = _origin(inputs, choices, edition)
    origin["altered"] = [(file, store.EDITED) for file in altered]
    without_edition = given_edition is None and data != PROJECT_DATA
    if editions is None and (requested or without_edition):  # the authors did not choose them
        origin["byline"] = "Built with records that are not those of the paper's edition"
    notices = [*left_out.values(), *altered.values(), *attachments.notices]
    notices += store.stray_files(study, data)
    records = listing(usable, choices, imported)
    records += (unusable(file, reason) for file, reason in left_out.items())
    return Chosen(inputs, origin, tuple(notices), tuple(records), usable, study_data)


def _without_bad(
    items: Sequence[_Item],
    folder: str,
    bad: Mapping[str, str],
    edition: Edition,
    requested: Sequence[str] = (),
) -> tuple[_Item, ...]:
    """Return the records of ``folder`` that are not ``bad``.

    Edited records are included only if the edition or ``--use`` (``requested``) names them, or if
    all records are edited.  Raises ``RecordError`` for a bad record that the edition or ``--use``
    names, or that no other record can replace.
    """
    named_files = {*edition.files, *requested}
    good = [item for item in items if item.file not in bad]
    machines = {machine for machine in edition.roles.values() if isinstance(machine, str)}
    missing_machines = machines - {item.record.environment.key for item in good}
    for file, reason in bad.items():
        # File names consist of time, machine key and hash.  The whole key is compared, since one
        # key may be the beginning of another.
        key = file.partition("-")[2].rpartition("-")[0]
        is_needed = file in named_files or key in missing_machines or not good
        if is_needed and file.rpartition("/")[0] == folder:
            raise RecordError(reason)
    usable = [item for item in good if not item.edited or item.file in named_files]
    return tuple(usable or good)


class _Attachments(NamedTuple):
    """Attachments of records, and notices about missing attachments."""

    contents: dict[str, dict[str, bytes | Missing]]  # record file → name → content
    unreadable: dict[str, str]  # record file → reason
    notices: list[str]


def _read_attachments(
    study: str, owners: Iterable[store.StoredRecord[Any]], data: Path
) -> _Attachments:
    """Read those attachments of the records ``owners`` that a study needs.

    Logs of counters, which every shard of a run may have, are joined.  If any of them is missing,
    the joined log counts as missing.  Any other attachment belongs to one case, and so to one
    shard.
    """
    attachments: dict[str, dict[str, bytes | Missing]] = {}
    unreadable, notices = dict[str, str](), list[str]()
    for owner in owners:
        joined = attachments.setdefault(owner.file, {})
        for shard in owner.shards:
            try:
                contents = store.read_attachments(shard, attachments_of(study), data)
            except RecordError as error:
                unreadable[shard.file] = str(error)
                continue
            for name, content in contents.items():
                first = joined.setdefault(name, content)
                if isinstance(content, Missing):
                    joined[name] = content
                elif not isinstance(first, Missing):
                    joined[name] = join_logs(first, content, f"{shard.file}/{name}")
            if missing := [name for name, item in contents.items() if isinstance(item, Missing)]:
                notices.append(
                    f"data/{shard.file}: not beside the record: {', '.join(missing)}, so the paper "
                    "lacks values from there; put the folder of the record's name beside it, or "
                    "restore it with git."
                )
    return _Attachments(attachments, unreadable, notices)


def _origin(inputs: Inputs, choices: Choices, edition: Edition) -> dict[str, Any]:
    """Describe the chosen records by the fields of ``Chosen.origin``."""
    days, requested = [edition.date or ""], list[str]()
    for choice in choices:
        for run in choice.used:
            days.append(run.record.started[:10])
            requested += run.files if choice.named_by == USE_OPTION else ()
    return {
        "records": list(inputs.files),
        "reported": inputs.reported_file,
        "devices": device_labels(inputs.records),
        "measured": max(days) or None,
        "asked": requested,
        "imported": attributions(inputs.imported),
    }


def with_gate_notes(study: str, chosen: Chosen) -> Chosen:
    """Add notices about bimodal times, and about times that differ between runs of one machine."""
    bimodal, apart = list[str](), list[str]()
    for stored in chosen.inputs.records:
        if count := sum(any(gates.bimodal_times(case)) for case in stored.record.cases):
            bimodal.append(f"{stored.file} ({count})")
        times = gates.process_times(stored.record) if stored.others else {}
        for other in stored.others:
            if count := gates.count_disagreeing(times, gates.process_times(other.record)):
                apart.append(f"{stored.file} and {other.file} ({count})")
    notices = [*chosen.notices]
    if bimodal:
        notices.append(
            f"{study}: the processes of these cases fall into two groups, so that their medians "
            f"are printed as ranges and decide no claim: {_first(bimodal)}."
        )
    if apart:
        notices.append(
            f"{study}: runs of one machine are more than {gates.AGREEMENT_RATIO} times apart in "
            f"the counted series, which are not pooled: {_first(apart)}."
        )
    return replace(chosen, notices=tuple(notices))


def _first(records: Sequence[str]) -> str:
    """List the first ``_LISTED_RECORDS``, and count the others."""
    others = len(records) - _LISTED_RECORDS
    listed = ", ".join(records[:_LISTED_RECORDS])
    return f"{listed} and {others} more" if others > 0 else listed


def accept_records(study: str, data: Path, requested: Sequence[str]) -> Path:
    """Make the ``requested`` records the edition of a paper, in ``editions.yaml``.

    The edition names a machine by its key, so that a later run on the machine changes the paper.
    It names files only if a requested file is not the machine's newest suitable run.  Returns the
    written file.  Raises ``RecordError`` as ``choose_records`` does, and for a quick or custom run
    that would replace a full run.
    """
    edition = read_editions(data, STUDIES).get(study)
    usable = choose_records(study, data, requested).usable
    choices = choices_of(usable, edition, requested)
    choice_before = _choice_by_role(choices_of(usable, edition), edition)
    newest = {max(choice.used, key=store.start_and_file).file for choice in choices_of(usable)}
    roles: dict[Role, str | tuple[str, ...]] = {}
    for role, choice in _choice_by_role(choices, edition).items():
        new, old = choice.primary, choice_before.get(role)
        if old and is_full(old.primary) and not is_full(new):
            raise RecordError(
                f"{USE_OPTION} {new.file}: {describe_incomplete(new)} does not replace the full "
                f"run in the role {role}; measure the full plan, or leave out --accept."
            )
        files = tuple(run.file for run in choice.used)
        by_key = not choice.named_by or (choice.named_by == USE_OPTION and newest >= {*files})
        roles[role] = choice.key if by_key else files
    compared = tuple(choice.key for choice in choices if not choice.roles)
    date = max(choice.primary.record.started[:10] for choice in choices)
    return write_edition(study, Edition(roles, compared, date), data)


def _choice_by_role(choices: Choices, edition: Edition | None) -> dict[Role, Choice]:
    """Map each role to its machine's records, in the order of the edition, then of ``ROLES``."""
    by_role: dict[Role, Choice] = {}
    for role in (*(edition.roles if edition else ()), *ROLES):
        for choice in choices:
            if role in choice.roles:
                by_role[role] = choice
    return by_role

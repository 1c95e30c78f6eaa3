"""Choose and read the data of a paper, and compute its study; the only module that selects data.

One bad file must not stop a paper.  A record is left out, with a notice, if it cannot be read, if
it was edited, if its cases or rates are impossible, or if the study's code raises an error on it.

An empty paper must not replace a full paper.  So a bad record is an error if ``editions.yaml`` or
``--use`` names it, or if the study, or a machine with a role in that file, has no good record.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from traceback import extract_tb
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

from report.core.errors import RecordError, RidgepointError, StudyCodeError, StudyError
from report.core.missing import Missing
from report.core.records import EDITIONS, IMPORTED, OPERATORS
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
from report.core.records.files import PROJECT_DATA, read_table, shared
from report.core.records.network_operators import read_operators
from report.core.records.record import ImportedRecord
from report.core.records.reported import read_devices, read_reported
from report.core.records.store import (
    EDITED,
    Stored,
    StoredImport,
    StoredRecord,
    read_attachments,
    start_and_file,
    strays,
    survey,
)
from report.evidence.runs import device_labels
from report.instruments import gates
from report.instruments.counters.logs import join_logs
from report.instruments.judgement import usable_records
from report.paper.details import attributions, listing, unusable
from report.paper.findings import Findings, Inputs
from report.studies import STUDIES, attachments_of, find_study

_NO_EDITION: Final = Edition({})
_ROOT: Final = PROJECT_DATA.parent
_REPORT: Final = _ROOT / "report"
#: The remedy for a study that fails with every record.
_FIX_CODE: Final = "correct that line, or restore the data with git"
#: The remedy for a study that fails only with some records.
_FIX_DATA: Final = "the study can be computed from others, so restore this one, or measure again"
_EDITED: Final = (
    f"data/{{}}: {EDITED}, so it was edited after it was measured; restore it with git, run the "
    f"experiment again, or name it in data/{EDITIONS} to use it as it is."
)
#: Record file → attachments that the paper needs.
_Attachments: TypeAlias = dict[str, dict[str, bytes | Missing]]
#: The byline of a paper with other records; the authors answer only for those of their edition.
_FOREIGN: Final = "Built with records that are not those of the paper's edition"
_Item = TypeVar("_Item", bound=StoredRecord[Any])


@dataclass(frozen=True)
class StudyData:
    """All data of a study's paper.

    ``refused`` maps files of bad records to the reason.  ``inputs`` are all data except records.
    """

    measured: tuple[Stored, ...]
    published: tuple[StoredImport, ...]
    refused: Mapping[str, str]
    inputs: Inputs


@dataclass(frozen=True)
class Chosen:
    """The inputs of a paper, and the fate of every record of its study.

    ``notices`` describe faults of records, ``listing`` how each record is used.  ``choices`` were
    made among the ``usable`` records of the ``folder``.  ``origin`` is printed in the paper:

    - ``records``, ``reported``: files, relative to the data directory;
    - ``devices``: names of the machines;
    - ``measured``: date of the edition or of a newer run;
    - ``altered``: edited records of the study, with their faults;
    - ``asked``: records of ``--use``;
    - ``imported``: attributions of other authors' measurements;
    - ``byline``: only if the records are not those of the edition.
    """

    inputs: Inputs
    origin: Mapping[str, Any]
    notices: tuple[str, ...]
    listing: Sequence[Mapping[str, Any]]
    usable: Sequence[Stored]
    choices: Choices
    folder: StudyData

    @property
    def files(self) -> tuple[Stored | StoredImport, ...]:
        """All used records, as their files hold them."""
        files: list[Stored | StoredImport] = []
        for stored in self.inputs.records:
            for run in stored.runs:
                files += run.shards
        return (*files, *self.inputs.imported)


def compute_usable(
    study: str, data: Path, requested: Sequence[str] = ()
) -> tuple[Chosen, Findings]:
    """Choose the inputs of a study and compute it, leaving out records with which it fails.

    Raises ``RidgepointError`` if the data cannot be chosen (see ``choose_records``) or computed.
    """
    refused: dict[str, str] = {}
    folder = read_study_data(study, data)
    while True:
        chosen = choose_records(study, data, requested, refused, folder=folder)
        try:
            findings = compute(study, chosen.inputs)
            return with_gate_notes(study, chosen), findings
        except StudyError as error:
            faulty = _faulty_records(study, chosen.inputs, str(error))
            if not faulty:
                raise
            refused |= faulty


def _faulty_records(study: str, inputs: Inputs, error: str) -> dict[str, str]:
    """Find the records that cause an error of a study; map each to the reason.

    The record is named in ``error``, or else the study is computed from each record alone.  If it
    fails with every record, no record is to blame.
    """
    place = error.partition(": ")[0]
    if (named := place.removeprefix("data/")) in inputs.files:
        return {named: error}
    if not place.endswith(" more"):
        return {}  # an error in code, or a file that all records share
    inputs_of: dict[str, Inputs] = {}
    for stored in inputs.records:
        for run in stored.runs:
            inputs_of[run.file] = replace(inputs, records=(replace(run, others=()),), imported=())
    for item in inputs.imported:
        inputs_of[item.file] = replace(inputs, records=(), imported=(item,))
    reasons: dict[str, str] = {}
    for file, alone in inputs_of.items():
        try:
            compute(study, alone)
        except RidgepointError as failure:
            reasons[file] = str(failure).replace(_FIX_CODE, _FIX_DATA)
    return reasons if len(reasons) < len(inputs_of) else {}


def compute(study: str, inputs: Inputs) -> Findings:
    """Compute ``study`` from its inputs; raises ``StudyError``, which names the files or the line.

    Code that computes with numbers does not know which file they came from, so its errors name all
    input files.
    """
    try:
        return find_study(study)(inputs)
    except (NameError, ImportError, SyntaxError) as error:
        raise StudyError(f"{_line(error, _REPORT)}: {error}; correct that line.") from error
    except StudyCodeError as error:
        place = _line(error, _REPORT / "studies") or f"report/studies/{study}"
        raise StudyError(f"{place}: {error}; correct the study.") from error
    except Exception as error:
        message = str(error)
        if isinstance(error, RidgepointError) and message.startswith("data/"):
            raise
        first, more = next(iter(inputs.files), study), len(inputs.files) - 1
        files = f"data/{first} and {more} more" if more > 0 else f"data/{first}"
        if not isinstance(error, RidgepointError):
            line = _line(error, _REPORT / "studies", _REPORT)
            message = f"{type(error).__name__}: {message} in {line}; {_FIX_CODE}."
        raise StudyError(f"{files}: {message}") from error


def _line(error: Exception, *folders: Path) -> str:
    """Return the last line of the traceback in ``folders``, tried in turn; empty if in none."""
    places = [(Path(frame.filename), frame.lineno) for frame in extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((Path(error.filename), error.lineno))
    for folder in folders:
        for file, line in reversed(places):
            if folder in file.parents:
                return f"{file.relative_to(_ROOT).as_posix()}:{line}"
    return ""


def read_study_data(study: str, data: Path) -> StudyData:
    """Read all records of a study and all other data of its paper."""
    measured, refused = usable_records(study, data)
    published, refused_imports = survey(study, data, ImportedRecord)
    reported = f"reported/{study}.json"
    inputs = Inputs(
        records=(),
        reported=read_reported(shared(reported, data)),
        reported_file=reported if os.path.lexists(shared(reported, data)) else "",
        devices=read_devices(shared("devices.yaml", data)),
        networks=partial(read_operators, shared(OPERATORS, data)),
        table=lambda name, row: read_table(data / study / name, row),
    )
    return StudyData(measured, published, refused | refused_imports, inputs)


def choose_records(
    study: str,
    data: Path,
    requested: Sequence[str] = (),
    refused: Mapping[str, str] = MappingProxyType({}),
    editions: Mapping[str, Edition] | None = None,
    folder: StudyData | None = None,
) -> Chosen:
    """Choose the records of ``study``, and read their attachments.

    - ``requested``: records of ``--use``, relative to ``data``.
    - ``refused``: records to omit, with the reasons.
    - ``editions``: used instead of the editions of ``data``.
    - ``folder``: records that were read before; by default they are read now.

    Raises ``RecordError`` for a named record that is bad, for a role without a machine, and for a
    bad record that no good record can replace.
    """
    named = (read_editions(data, STUDIES) if editions is None else editions).get(study)
    edition = named or _NO_EDITION
    folder = folder or read_study_data(study, data)
    bad = {**folder.refused, **refused}
    while True:
        usable = _usable(folder.measured, study, bad, edition, requested)
        imported = _usable(folder.published, f"{study}/{IMPORTED}", bad, _NO_EDITION)
        choices = choices_of(usable, named, requested)
        attachments, unreadable = _read_attachments(study, choices, imported, data)
        if not unreadable:
            break
        bad |= unreadable
    altered: dict[str, str] = {}
    for item in (*folder.measured, *folder.published):
        if item.edited:
            reasons = altered if item in (*usable, *imported) else bad
            reasons[item.file] = _EDITED.format(item.file)
    left_out = {file: f"left out: {reason}" for file, reason in bad.items()}
    inputs = _inputs(folder.inputs, choices, imported, attachments, edition)
    origin = _origin(inputs, choices, edition) | {"altered": [(file, EDITED) for file in altered]}
    if editions is None and (requested or (named is None and data != PROJECT_DATA)):
        origin["byline"] = _FOREIGN
    notices = [*left_out.values(), *altered.values(), *_missing_attachments(attachments)]
    notices += strays(study, data)
    records = listing(usable, choices, imported)
    records += (unusable(file, reason) for file, reason in left_out.items())
    return Chosen(inputs, origin, tuple(notices), tuple(records), usable, choices, folder)


def _usable(
    items: Sequence[_Item],
    folder: str,
    bad: Mapping[str, str],
    edition: Edition,
    requested: Sequence[str] = (),
) -> tuple[_Item, ...]:
    """Return the good records; edited records only if named, or if all records are edited.

    Raises ``RecordError`` for a bad record that is named, or that no good record can replace.
    """
    named = {*edition.files, *requested}
    good = [item for item in items if item.file not in bad]
    machines = {machine for machine in edition.roles.values() if isinstance(machine, str)}
    absent = machines - {item.record.environment.key for item in good}
    for file, reason in bad.items():
        # File names consist of time, machine key and hash.  The whole key is compared, since one
        # key may be the beginning of another.
        key = file.partition("-")[2].rpartition("-")[0]
        needed = file in named or key in absent or not good
        if needed and file.rpartition("/")[0] == folder:
            raise RecordError(reason)
    return tuple(item for item in good if not item.edited or item.file in named) or tuple(good)


def _read_attachments(
    study: str, choices: Choices, imported: Sequence[StoredImport], data: Path
) -> tuple[_Attachments, dict[str, str]]:
    """Read the attachments of primary and imported records; also map bad records to the reason."""
    owners: list[StoredRecord[Any]] = []
    for choice in choices:
        owners += choice.primary.shards
    attachments: _Attachments = {}
    bad: dict[str, str] = {}
    for item in (*owners, *imported):
        try:
            attachments[item.file] = read_attachments(item, attachments_of(study), data)
        except RecordError as error:
            bad[item.file] = str(error)
    return attachments, bad


def _inputs(
    plain: Inputs,
    choices: Choices,
    imported: tuple[StoredImport, ...],
    attachments: _Attachments,
    edition: Edition,
) -> Inputs:
    """Add the chosen records and their attachments to the inputs of a study."""
    records = tuple(replace(choice.primary, others=choice.used[1:]) for choice in choices)
    choice_by_role = _choice_by_role(choices, edition)
    joined = {stored.file: _joined_attachments(stored.files, attachments) for stored in records}
    return replace(
        plain,
        records=records,
        attachments=joined | {item.file: attachments[item.file] for item in imported},
        imported=imported,
        roles={role: choice.primary.file for role, choice in choice_by_role.items()},
    )


def _origin(inputs: Inputs, choices: Choices, edition: Edition) -> dict[str, Any]:
    """Describe the chosen records for the paper, see ``Chosen``."""
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


def _joined_attachments(
    files: Sequence[str], attachments: _Attachments
) -> dict[str, bytes | Missing]:
    """Join the attachments of a run's shards.

    Every shard may have logs of counters, which are joined.  Any other file belongs to one case,
    and so to one shard.
    """
    joined: dict[str, bytes | Missing] = {}
    for file in files:
        for name, content in attachments[file].items():
            first = joined.setdefault(name, content)
            if isinstance(content, Missing):
                joined[name] = content
            elif not isinstance(first, Missing):
                joined[name] = join_logs(first, content, f"{file}/{name}")
    return joined


def _missing_attachments(attachments: _Attachments) -> Iterator[str]:
    """Describe the missing attachments of each record."""
    for file, contents in attachments.items():
        missing = [name for name, content in contents.items() if isinstance(content, Missing)]
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            yield (
                f"data/{file}: {', '.join(missing)} {verb} not beside the record, so the paper "
                "lacks values from there; put the folder of the record's name beside it, or "
                "restore it with git."
            )


def with_gate_notes(study: str, chosen: Chosen) -> Chosen:
    """Add notices of bimodal series, and of series that differ between runs of one machine."""
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
            f"are printed as ranges and decide no claim: {', '.join(bimodal)}."
        )
    if apart:
        notices.append(
            f"{study}: runs of one machine are more than {gates.AGREEMENT_RATIO} times apart in "
            f"the counted series, which are not pooled: {', '.join(apart)}."
        )
    return replace(chosen, notices=tuple(notices))


def accept_records(study: str, data: Path, requested: Sequence[str]) -> Path:
    """Make the ``requested`` records the edition of a paper, in ``editions.yaml``.

    The edition names a machine by its key, so that a later run on the machine changes the paper.
    Records that are not the machine's newest full runs are named by file.  Returns the written
    file.  Raises ``RecordError`` for unusable records, and for a quick run that would replace a
    full run.
    """
    edition = read_editions(data, STUDIES).get(study, _NO_EDITION)
    chosen = choose_records(study, data, requested)
    before = _choice_by_role(choose_records(study, data, folder=chosen.folder).choices, edition)
    unnamed = choose_records(study, data, editions={}, folder=chosen.folder)
    newest = {max(choice.used, key=start_and_file).file for choice in unnamed.choices}
    roles: dict[Role, str | tuple[str, ...]] = {}
    for role, choice in _choice_by_role(chosen.choices, edition).items():
        new, old = choice.primary, before.get(role)
        if old and is_full(old.primary) and not is_full(new):
            raise RecordError(
                f"{USE_OPTION} {new.file}: {describe_incomplete(new)} does not replace the full "
                f"run in the role {role}; measure the full plan, or leave out --accept."
            )
        files = tuple(run.file for run in choice.used)
        by_key = not choice.named_by or (choice.named_by == USE_OPTION and newest >= {*files})
        roles[role] = choice.key if by_key else files
    compared = tuple(choice.key for choice in chosen.choices if not choice.roles)
    date = max(choice.primary.record.started[:10] for choice in chosen.choices)
    return write_edition(study, Edition(roles, compared, date), data)


def _choice_by_role(choices: Choices, edition: Edition) -> dict[Role, Choice]:
    """Map the roles, in the order of the edition, to the records of their machines."""
    by_role: dict[Role, Choice] = {}
    for role in (*edition.roles, *ROLES):
        for choice in choices:
            if role in choice.roles:
                by_role[role] = choice
    return by_role

"""Choosing and reading all that a paper is made from, and computing it; nothing else reads data.

A record is left out with a notice, so that one bad file stops no paper, if it cannot be read (cut
off, of another tool or study, too large), if a file that the paper needs is not beside it, if its
cases or rates cannot be, if the study cannot be computed from it, or if its content is not what its
experiment wrote.  So are records of others.  A record that ``editions.yaml`` or ``--use`` names is
an error instead; so is a bad record where the study, or a machine that plays a role, has no good
one: an empty paper must not replace a full one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from traceback import extract_tb
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

from report.core.errors import RecordError, RidgepointError, StudyCodeError, StudyError, reason_of
from report.core.missing import Missing
from report.core.records import ENDING, IMPORTED, OPERATORS
from report.core.records.choice import Choice, Choices, agreeing, choices_of, is_full, kind
from report.core.records.devices import read_devices
from report.core.records.editions import (
    EDITIONS,
    ROLES,
    Edition,
    Role,
    read_editions,
    write_edition,
)
from report.core.records.files import shared
from report.core.records.imported import ImportedRecord
from report.core.records.network_operators import read_operators
from report.core.records.record import Head, Record
from report.core.records.reported import read_reported
from report.core.records.store import (
    EDITED,
    LARGEST_ATTACHED,
    Filed,
    Listed,
    Stored,
    StoredImport,
    read_attachments,
    read_record,
    strays,
    survey,
)
from report.engine.steps import ROOT
from report.evidence.case_checks import check_layers
from report.evidence.runs import labels
from report.instruments import gates
from report.instruments.counters.logs import joined_logs
from report.paper.details import attributions, listing, unusable
from report.paper.findings import Findings, Inputs
from report.studies import STUDIES, attachments_of, find_study

#: All attachments that a paper is computed from (B).
_LARGEST_ATTACHED: Final = 4 * LARGEST_ATTACHED
_NOBODY: Final = Edition({})
_REPORT: Final = ROOT / "report"
#: What to do where a study fails, and where it fails with this record alone.
_OF_CODE: Final = "correct that line, or restore the data with git"
_OF_DATA: Final = "the study can be computed from others, so restore this one, or measure again"
_EDITED: Final = (
    f"data/{{}}: {EDITED}, so it was edited after it was measured; restore it with git, run the "
    f"experiment again, or name it in data/{EDITIONS} to use it as it is."
)
#: The files beside each record that the paper needs, by its file.
_Attachments: TypeAlias = dict[str, dict[str, bytes | Missing]]
_Item = TypeVar("_Item", bound=Filed[Any])
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Chosen:
    """All that a paper is computed from, and what it says of its records.

    ``notices`` are what is wrong with records; ``listing`` says of every one what became of it.
    ``usable`` are the own records that there are to choose from, ``choices`` what is chosen.

    ``origin`` is what the paper says of its data: ``records`` and ``reported``, files relative to
    the data directory, ``devices``, the names of the machines, ``measured``, the day of the edition
    or of a newer run, ``altered``, all records of the study, used or not, that are not what their
    names say, with the way, ``asked``, those that this build alone uses, and ``imported``, the
    attributions of what others measured.
    """

    inputs: Inputs
    origin: Mapping[str, Any]
    notices: tuple[str, ...]
    listing: Sequence[Mapping[str, Any]]
    usable: Sequence[Listed]
    choices: Choices

    @property
    def files(self) -> tuple[Stored | StoredImport, ...]:
        """All records that are used, as their files hold them."""
        runs = (run for stored in self.inputs.records for run in stored.runs)
        return (*(part for run in runs for part in run.shards), *self.inputs.imported)


# -------------------------------------------------------------------------------------- computing


def compute_usable(study: str, data: Path, asked: Sequence[str] = ()) -> tuple[Chosen, Findings]:
    """The records that are chosen for a study with all that it reads, and what it finds in that.

    A record that the study cannot be computed from is left out.  Raises ``RidgepointError`` as
    ``choose`` and ``compute`` do.
    """
    refused: dict[str, str] = {}
    while True:
        chosen = choose(study, data, asked, refused)
        try:
            return chosen, compute(study, chosen.inputs)
        except StudyError as error:
            if not (found := _at_fault(study, chosen.inputs, str(error))):
                raise
            refused |= found


def _at_fault(study: str, inputs: Inputs, said: str) -> dict[str, str]:
    """The records that a study fails with, beside those that it does not fail with, and why.

    That is the one which an error names, or else each with which alone the study fails.
    """
    place = said.partition(": ")[0]
    if (named := place.removeprefix("data/")) in inputs.files:
        return {named: said}
    if not place.endswith(" more"):
        return {}  # a slip in code, or a file that all share
    nothing = replace(inputs, records=(), imported=())
    runs = [replace(run, others=()) for stored in inputs.records for run in stored.runs]
    own, bad = _each(runs, lambda run: compute(study, replace(nothing, records=(run,))))
    theirs, worse = _each(
        inputs.imported, lambda i: compute(study, replace(nothing, imported=(i,)))
    )
    if not (own or theirs):
        return {}
    return {file: why.replace(_OF_CODE, _OF_DATA) for file, why in (bad | worse).items()}


def compute(study: str, inputs: Inputs) -> Findings:
    """What ``study`` finds in its inputs; raises ``StudyError`` that names the files at fault.

    What computes on numbers does not know from which file they came, so that all are named then.
    """
    try:
        return find_study(study)(inputs)
    except (NameError, ImportError, SyntaxError) as error:
        raise StudyError(f"{_line(error, _REPORT)}: {error}; correct that line.") from error
    except StudyCodeError as error:
        place = _line(error, _REPORT / "studies") or f"report/studies/{study}"
        raise StudyError(f"{place}: {error}; correct the study.") from error
    except Exception as error:
        said = str(error)
        if isinstance(error, RidgepointError) and said.startswith("data/"):
            raise
        first, more = next(iter(inputs.files), study), len(inputs.files) - 1
        files = f"data/{first} and {more} more" if more > 0 else f"data/{first}"
        if not isinstance(error, RidgepointError):
            what = type(error).__name__
            said = f"{what}: {said} in {_line(error, _REPORT / 'studies', _REPORT)}; {_OF_CODE}."
        raise StudyError(f"{files}: {said}") from error


def _line(error: Exception, *folders: Path) -> str:
    """The last line that led to ``error`` in the first of ``folders`` that has one, else empty."""
    places = [(Path(frame.filename), frame.lineno) for frame in extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((Path(error.filename), error.lineno))
    below = ([place for place in places if folder in place[0].parents] for folder in folders)
    for found in filter(None, below):
        file, line = found[-1]
        return f"{file.relative_to(ROOT).as_posix()}:{line}"
    return ""


# --------------------------------------------------------------------------------------- choosing


def choose(
    study: str,
    data: Path,
    asked: Sequence[str] = (),
    refused: Mapping[str, str] = MappingProxyType({}),
    editions: Mapping[str, Edition] | None = None,
) -> Chosen:
    """The records that the paper of ``study`` uses, and all else that it reads.

    ``asked`` are records that the user wants in this build, relative to ``data``; ``refused`` are
    left out, each for its reason; ``editions`` are those of ``data`` unless others are given.
    Raises ``RecordError`` for a named record that cannot be used, for a role without a machine, and
    for a bad record without a good one.
    """
    edition = (read_editions(data, STUDIES) if editions is None else editions).get(study)
    own, bad = survey(study, data, Head)
    theirs, bad_imports = survey(study, data, ImportedRecord)
    bad |= {**bad_imports, **refused}
    while True:
        usable = _usable(own, study, bad, edition or _NOBODY, asked)
        imported = _usable(theirs, f"{study}/{IMPORTED}", bad, _NOBODY)
        choices = choices_of(usable, edition, asked)
        agreed, attachments, broken = _read_used(study, choices, imported, data)
        if not broken:
            break
        bad |= broken
    edited = {item.file: _EDITED.format(item.file) for item in (*own, *theirs) if item.edited}
    kept = {item.file for item in (*usable, *imported)}
    bad |= {file: why for file, why in edited.items() if file not in kept}
    altered = {file: why for file, why in edited.items() if file in kept}
    left_out = {file: f"left out: {why}" for file, why in bad.items()}
    inputs = _inputs(study, data, agreed, imported, attachments, edition or _NOBODY)
    return Chosen(
        inputs=inputs,
        origin={
            **_origin(inputs, agreed, edition or _NOBODY),
            "altered": [(file, EDITED) for file in altered],
            "imported": attributions(imported),
        },
        notices=(
            *left_out.values(),
            *altered.values(),
            *_without_files(attachments),
            *strays(study, data),
            *_noted(study, inputs),
        ),
        listing=(
            *listing(usable, agreed, imported),
            *(unusable(file, why) for file, why in left_out.items()),
        ),
        usable=usable,
        choices=agreed,
    )


def _read_used(
    study: str, choices: Choices, imported: Sequence[StoredImport], data: Path
) -> tuple[tuple[Choice[Record], ...], _Attachments, dict[str, str]]:
    """The choices less what contradicts the others, what lies beside the records, and what is bad.

    Of runs that are pooled, the paper needs the files of the one that speaks for all.
    """
    parts = (part for choice in choices for item in choice.used for part in item.shards)
    whole, broken = _each(parts, lambda item: _checked(read_record(data / item.file, data)))
    if broken:
        return (), {}, broken
    agreed = tuple(agreeing(choice, whole) for choice in choices)
    speaking = (part for choice in agreed for part in choice.primary.shards)
    wanted = attachments_of(study)
    left = _LARGEST_ATTACHED

    def beside(item: Filed[Any]) -> dict[str, bytes | Missing]:
        nonlocal left
        files = read_attachments(item, wanted, data, min(left, LARGEST_ATTACHED))
        left -= sum(len(content) for content in files.values() if isinstance(content, bytes))
        return files

    attachments, broken = _each((*speaking, *imported), beside)
    return agreed, attachments, broken


def _origin(inputs: Inputs, choices: Choices, edition: Edition) -> dict[str, Any]:
    """What a paper says of the records that were chosen for it."""
    named = (item for choice in choices if choice.by == "--use" for item in choice.used)
    days = [item.record.started[:10] for choice in choices for item in choice.used]
    return {
        "records": list(inputs.files),
        "reported": inputs.reported_file,
        "devices": labels(inputs.records),
        "measured": max((*days, edition.date or "")) or None,
        "asked": [file for item in named for file in item.files],
    }


def _usable(
    found: Sequence[_Item],
    folder: str,
    bad: Mapping[str, str],
    edition: Edition,
    asked: Sequence[str] = (),
) -> tuple[_Item, ...]:
    """The records of a folder that are not ``bad``, less those edited unless there are no others.

    Raises ``RecordError`` for a bad record that is named, or that has no good one beside it.
    """
    named = {*edition.files, *asked}
    good = [item for item in found if item.file not in bad]
    roles = {who for who in edition.roles.values() if isinstance(who, str)}
    lost = roles - {item.record.environment.key for item in good}
    for file, why in bad.items():
        # A key may be the beginning of another's; it stands between the time and the hash.
        key = file.partition("-")[2].rpartition("-")[0]
        needed = file in named or key in lost or not good
        if needed and file.rpartition("/")[0] == folder:
            raise RecordError(why)
    return tuple(item for item in good if not item.edited or item.file in named) or tuple(good)


def _each(
    items: Iterable[_Item], use: Callable[[_Item], _Made]
) -> tuple[dict[str, _Made], dict[str, str]]:
    """What ``use`` makes of each record, by its file, and why some cannot be used after all."""
    made: dict[str, _Made] = {}
    bad: dict[str, str] = {}
    for item in items:
        try:
            made[item.file] = use(item)
        except Exception as error:
            said, record = reason_of(error), item.file.removesuffix(ENDING)
            is_named = record in said.partition(": ")[0]
            bad[item.file] = said if is_named else f"data/{item.file}: {said}"
    return made, bad


def _checked(stored: Stored) -> Stored:
    """The same record; raises ``RidgepointError`` if it says what cannot be."""
    if not stored.record.cases:
        raise RecordError(f"data/{stored.file}: cases: found none; measure again.")
    check_layers(stored)
    if why := gates.problem(stored.record):
        raise RecordError(f"data/{stored.file}: {why}, which cannot be; measure again.")
    return stored


# ---------------------------------------------------------------------------------- what is chosen


def _inputs(
    study: str,
    data: Path,
    choices: Sequence[Choice[Record]],
    imported: tuple[StoredImport, ...],
    attachments: _Attachments,
    edition: Edition,
) -> Inputs:
    """The inputs of ``study`` with the records that were chosen."""
    own = tuple(replace(choice.primary, others=choice.used[1:]) for choice in choices)
    reported = f"reported/{study}.json"
    cast = {role: choice.primary.file for choice in choices for role in choice.roles}
    return Inputs(
        records=own,
        reported=read_reported(shared(reported, data)),
        reported_file=reported if os.path.lexists(shared(reported, data)) else "",
        devices=read_devices(shared("devices.yaml", data)),
        attachments={
            **{stored.file: _joined(stored.files, attachments) for stored in own},
            **{item.file: attachments[item.file] for item in imported},
        },
        imported=imported,
        networks=partial(read_operators, shared(OPERATORS, data)),
        roles={role: cast[role] for role in (*edition.roles, *ROLES) if role in cast},
    )


def _joined(files: Sequence[str], attachments: _Attachments) -> dict[str, bytes | Missing]:
    """The files beside a run; of a merged one, those of all its shards.

    What was counted of its cases is joined; other files belong to one case, and so to one shard.
    """
    found: dict[str, bytes | Missing] = {}
    for file in files:
        for name, content in attachments[file].items():
            first = found.setdefault(name, content)
            if isinstance(content, Missing):
                found[name] = content
            elif not isinstance(first, Missing):
                found[name] = joined_logs(first, content, f"{file}/{name}")
    return found


def _without_files(attachments: _Attachments) -> Iterator[str]:
    """A sentence for each record that lacks files that the paper needs."""
    for file, contents in attachments.items():
        lacking = [name for name, content in contents.items() if isinstance(content, Missing)]
        if lacking:
            verb = "is" if len(lacking) == 1 else "are"
            yield (
                f"data/{file}: {', '.join(lacking)} {verb} not beside the record, so that what the "
                "paper takes from there is missing; put the folder of the record's name beside it, "
                "or restore it with git."
            )


def _noted(study: str, inputs: Inputs) -> Iterator[str]:
    """What the gates say of the series that a paper uses, in a sentence each after its name."""
    counted = {
        stored.file: sum(any(gates.bimodal_times(case)) for case in stored.record.cases)
        for stored in inputs.records
    }
    if bimodal := [f"{file} ({count})" for file, count in counted.items() if count]:
        yield (
            f"{study}: the processes of these cases fall into two groups, so that their medians "
            f"are printed as ranges and decide no claim: {', '.join(bimodal)}."
        )
    apart = [
        f"{stored.file} and {other.file} ({count})"
        for stored in inputs.records
        for other in stored.others
        if (count := gates.disagreeing(stored.record, other.record))
    ]
    if apart:
        yield (
            f"{study}: runs of one machine are more than {gates.AGREE} times apart in so many "
            f"series, which are not pooled: {', '.join(apart)}."
        )


# ----------------------------------------------------------------------------------- the edition


def accept_records(study: str, data: Path, asked: Sequence[str]) -> Path:
    """Write to ``editions.yaml`` the roles that machines have with the records ``asked`` for.

    A machine has its role by its key, so that a later run there changes the paper, unless another
    than its newest full run was asked for.  Returns the file.  Raises ``RecordError`` for records
    that cannot be used, and for a quick run in the role of a full one.
    """
    edition = read_editions(data, STUDIES).get(study)
    chosen = choose(study, data, asked)
    before = {role: choice for choice in choose(study, data).choices for role in choice.roles}
    after = {role: choice for choice in chosen.choices for role in choice.roles}
    for role, choice in after.items():
        new, old = choice.primary, before.get(role)
        if old and is_full(old.primary) and not is_full(new):
            raise RecordError(
                f"--use {new.file}: {kind(new)} does not replace the full run in the role {role}; "
                "measure the full plan, or leave out --accept."
            )
    newest = {
        max(choice.used, key=lambda item: (item.record.started, item.file)).file
        for choice in choose(study, data, editions={}).choices
    }
    roles: dict[Role, str | tuple[str, ...]] = {}
    for role in (role for role in (*(edition or _NOBODY).roles, *ROLES) if role in after):
        files = tuple(item.file for item in after[role].used)
        by_key = not after[role].by or (after[role].by == "--use" and newest >= {*files})
        roles[role] = _key(after[role]) if by_key else files
    compared = tuple(_key(choice) for choice in chosen.choices if not choice.roles)
    date = max(choice.primary.record.started[:10] for choice in chosen.choices)
    return write_edition(study, Edition(roles, compared, date), data)


def _key(choice: Choice[Head]) -> str:
    return choice.primary.record.environment.key

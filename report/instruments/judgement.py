"""Use of a record, by one rule for the end of a run, ``check``, ``list`` and builds."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from report.core.errors import RecordError, RidgepointError, StudyError
from report.core.records.choice import Choice, choices_of, use_in_build, without_contradictions
from report.core.records.editions import read_editions
from report.core.records.layers import Layer
from report.core.records.record import Head, Record
from report.core.records.store import Stored, read_record, survey
from report.instruments import gates
from report.theory.work import check


@dataclass(frozen=True)
class Judgement:
    """Use of a record: possible or not, in the next build or not, and its role or the reason."""

    usable: bool
    used: bool
    words: str


def refusal(record: Record) -> str | None:
    """Explain why no paper can use a record, and what to do; None if papers can."""
    if not record.cases:
        return "cases: found none; measure again."
    if fault := impossible_layer(record):
        return fault
    if problem := gates.problem(record):
        return f"{problem}; measure again with --wait-quiet 10."
    return None


def checked(stored: Stored) -> Stored:
    """Return the same record; raises ``RecordError`` if no paper can use it."""
    if reason := refusal(stored.record):
        raise RecordError(f"data/{stored.file}: {reason}")
    return stored


def impossible_layer(record: Record) -> str | None:
    """Describe the first layer that cannot have run, if any."""
    checked_already: set[int] = set()
    for index, case in enumerate(record.cases):
        # By identity, since cases of one network share their layers, of which it has hundreds.
        if id(case.layers) in checked_already:
            continue
        checked_already.add(id(case.layers))
        for layer in case.layers:
            if fault := _layer_fault(layer):
                return f"cases[{index}]: {fault}"
    return None


@lru_cache(maxsize=2**14)
def _layer_fault(layer: Layer) -> str | None:
    """Explain why a layer cannot have run; cached, since runs of a study share their layers."""
    try:
        check(layer)
    except StudyError as error:
        return str(error)
    return None


def judge(study: str, file: str, data: Path) -> Judgement:
    """Judge the record ``file`` (relative to ``data``) as the next build from ``data`` does.

    Raises ``RidgepointError`` for a folder or an edition that cannot be read.
    """
    listed, _ = survey(study, data, Head)
    edition = read_editions(data).get(study)
    refused: dict[str, str] = {}
    while True:
        choices = choices_of([item for item in listed if item.file not in refused], edition)
        own = [choice for choice in choices if file in _used_files(choice)]
        pooled = [name for choice in own for name in _used_files(choice)]
        whole, broken = _read([file, *pooled], data)
        if file in broken:
            return Judgement(usable=False, used=False, words=broken[file])
        if not broken:
            used, words = use_in_build(
                [without_contradictions(choice, whole) for choice in own] or choices, file
            )
            return Judgement(usable=True, used=used, words=words)
        refused |= broken


def _used_files(choice: Choice[Head]) -> list[str]:
    """List the files of all runs that a choice pools, with all their shards."""
    return [part.file for item in choice.used for part in item.shards]


def _read(files: Iterable[str], data: Path) -> tuple[dict[str, Stored], dict[str, str]]:
    """Read records that papers can use; return the others with their reasons."""
    whole, broken = dict[str, Stored](), dict[str, str]()
    for file in dict.fromkeys(files):
        try:
            whole[file] = checked(read_record(data / file, data))
        except RidgepointError as error:
            broken[file] = str(error)
    return whole, broken

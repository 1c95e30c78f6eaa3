"""Decide whether papers can use a record, for experiments, builds, and ``check`` and ``list``."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from report.core.errors import RecordError, StudyError, reason_of
from report.core.records.choice import choices_of, read_editions, use_in_build
from report.core.records.layers import Layer
from report.core.records.record import Record
from report.core.records.store import Stored, read_usable_records
from report.instruments import gates
from report.theory.work import check_shapes


@dataclass(frozen=True)
class Judgement:
    """Whether papers can use a record (``usable``), and whether the next build uses it (``used``).

    ``explanation`` states the role of the record in the paper, or why the record is not used.
    """

    usable: bool
    used: bool
    explanation: str


def reason_unusable(record: Record) -> str | None:
    """Explain why no paper can use a record, and what to do; return None if papers can use it."""
    if not record.cases:
        return "cases: found none; measure again."
    if fault := _impossible_layer(record):
        return fault
    if problem := gates.impossible_rate(record):
        return f"{problem}; measure again with --wait-quiet 10 (minutes)."
    return None


def require_usable(stored: Stored) -> Stored:
    """Return ``stored`` unchanged; raise ``RecordError`` if no paper can use the record."""
    if reason := reason_unusable(stored.record):
        raise RecordError(f"data/{stored.file}: {reason}")
    return stored


def _impossible_layer(record: Record) -> str | None:
    """Describe the first layer that cannot have run; return None if all layers are possible."""
    checked_already: set[int] = set()
    for index, case in enumerate(record.cases):
        # Layers are compared by identity, since cases of one network share hundreds of layers.
        if id(case.layers) in checked_already:
            continue
        checked_already.add(id(case.layers))
        for layer in case.layers:
            if fault := _layer_fault(layer):
                return f"cases[{index}]: {fault}"
    return None


@lru_cache(maxsize=2**14)
def _layer_fault(layer: Layer) -> str | None:
    """Explain why a layer cannot have run, or return None; cached, since records share layers."""
    try:
        check_shapes(layer)
    except StudyError as error:
        return str(error)
    return None


def usable_records(study: str, data: Path) -> tuple[tuple[Stored, ...], dict[str, str]]:
    """Return the usable records of a study, and file → reason for every unusable record."""
    usable: list[Stored] = []
    records, refused = read_usable_records(study, data)
    for stored in records:
        try:
            usable.append(require_usable(stored))
        except RecordError as error:
            refused[stored.file] = str(error)
        except Exception as error:
            refused[stored.file] = f"data/{stored.file}: {reason_of(error)}"
    return tuple(usable), refused


def judge(study: str, file: str, data: Path) -> Judgement:
    """Judge the record ``file`` (relative to ``data``) for the next build of a study's paper.

    Raises ``RidgepointError`` if ``editions.yaml`` cannot be read.
    """
    usable, refused = usable_records(study, data)
    if file in refused:
        return Judgement(usable=False, used=False, explanation=refused[file])
    choices = choices_of(usable, read_editions(data).get(study))
    used, explanation = use_in_build(choices, file)
    return Judgement(usable=True, used=used, explanation=explanation)

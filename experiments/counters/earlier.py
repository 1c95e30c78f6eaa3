"""Executed work in records of earlier runs, so that no case is counted twice.

Equal layers and factors execute the same multiply-adds with one version of PyTorch and one
instruction set, whatever the processor: all records in ``data/`` agree, on AMD and on Intel.
Valgrind shows programs no wider vectors than those of AVX2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from experiments.machine.code import ROOT
from experiments.machine.processor import cpu
from report.core.records.layers import Layer
from report.core.records.record import Factors, Level, Record, Sample
from report.core.records.store import survey

#: Name of the file beside a record that names the records of earlier counts, and its meaning.
TOOL: Final = "earlier-counts"
MEANING: Final = "the earlier record from which the executed work of each case is taken"

#: Vector extensions that valgrind executes.
_EMULATED: Final = frozenset({"avx", "avx2", "f16c", "fma", "neon"})

CountedCase: TypeAlias = tuple[frozenset[tuple[str, Level]], tuple[Layer, ...]]


class EarlierCount(NamedTuple):
    """Counts of a case, and the record that contains them."""

    samples: tuple[Sample, ...]
    record: str


def case_key(factors: Factors, layers: tuple[Layer, ...]) -> CountedCase:
    """Return a key that is equal for cases that execute the same work."""
    return frozenset(factors.items()), layers


def earlier_counts(
    study: str, quantity: str, records: Path, torch: str
) -> dict[CountedCase, EarlierCount]:
    """Read what records of the study, here and in the checkout, have counted as this run would.

    ``torch`` is the version of PyTorch; the instruction set is this processor's.
    """
    counts: dict[CountedCase, EarlierCount] = {}
    own_extensions = _EMULATED.intersection(cpu().vector_extensions)
    for folder in {records.resolve(), ROOT / "data"}:
        for stored in survey(study, folder, Record)[0]:
            facts = stored.record.environment
            extensions = _EMULATED.intersection(facts.cpu.vector_extensions)
            if stored.edited or (facts.torch.version, extensions) != (torch, own_extensions):
                continue
            for case in stored.record.cases:
                if quantity in case.series:
                    count = EarlierCount(case.series[quantity], stored.file)
                    counts[case_key(case.factors, case.layers)] = count
    return counts

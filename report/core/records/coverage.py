"""List the cases in all records of a study, to check sentences such as "not measured on a GPU".

A paper computes only from the records of its edition (``data/editions.yaml``), but such a sentence
is about all records of the study.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

import msgspec

from report.core.records.quantities import QUANTITIES
from report.core.records.record import Factors, Level
from report.core.records.store import Stored, start_and_file

#: Device in a template's selectors → device in records.
DEVICES: Final = {"cpu": "cpu", "gpu": "cuda"}


class CoveredCase(msgspec.Struct, frozen=True, gc=False):
    """A case with status ok: device, factors, measured quantities, and file of the record."""

    device: str
    factors: Factors
    quantities: tuple[str, ...]
    file: str


def newest_record_with(
    cases: Sequence[CoveredCase], selectors: Collection[str], factors: Mapping[str, Level]
) -> str:
    """Return the file of the newest record with a matching case; empty if no case matches.

    A case matches if it was measured on one of the devices in ``selectors`` (on any, if there are
    none), has all quantities in ``selectors``, and the levels in ``factors``.  ``cases`` are sorted
    as by ``covered_cases``.  Raises ``ValueError`` for a factor that no case has.
    """
    recorded_factors = set[str]()
    for case in cases:
        recorded_factors.update(case.factors)
    for name in factors:
        if name not in recorded_factors:
            names = ", ".join(sorted(recorded_factors)) or "none"
            raise ValueError(f"{name} is no factor of a record; these are: {names}")
    devices = [DEVICES[name] for name in selectors if name in DEVICES]
    quantities = {name for name in selectors if name not in DEVICES}
    for case in cases:
        is_on_device = not devices or case.device in devices
        is_measured = quantities.issubset(case.quantities)
        if is_on_device and is_measured and factors.items() <= case.factors.items():
            return case.file
    return ""


def covered_cases(usable: Iterable[Stored]) -> tuple[CoveredCase, ...]:
    """List the cases with status ok of full and custom runs, newest run first."""
    cases: list[CoveredCase] = []
    for run in sorted(usable, key=start_and_file, reverse=True):
        if run.record.protocol.plan == "quick":
            continue
        device = run.record.environment.device
        for case in run.record.cases:
            if case.status != "ok":
                continue
            quantities = set(case.series)
            for round_ in case.rounds:
                if round_.status == "ok":
                    quantities.update(round_.series)
            cases.append(CoveredCase(device, case.factors, tuple(sorted(quantities)), run.file))
    return tuple(cases)


def check_selectors(selectors: Iterable[object]) -> None:
    """Raise ``ValueError`` for a selector that is neither a device nor a quantity."""
    for name in selectors:
        if name in DEVICES or name in QUANTITIES:
            continue
        suggestions = get_close_matches(str(name), QUANTITIES, n=3) or sorted(QUANTITIES)
        raise ValueError(
            f"{name} is no device or quantity; write cpu, gpu, or a quantity: "
            f"{', '.join(suggestions)}"
        )

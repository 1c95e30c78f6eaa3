"""Check factors (name → level) and layers of a record's cases before a study computes."""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from report.core.errors import StudyError
from report.core.records.layers import Layer
from report.core.records.quantities import LARGEST
from report.core.records.record import Level
from report.core.records.store import Stored

#: Allowed levels of a factor: ``int`` (whole numbers from 1 on), ``str`` (any text), or some texts.
AllowedLevels: TypeAlias = type[int] | type[str] | Collection[str]

_REMEDY: Final = "run the experiment of this version again"


def check_factors(
    stored: Stored,
    needed: Mapping[str, Mapping[str, AllowedLevels]],
    optional: Mapping[str, AllowedLevels] = MappingProxyType({}),
    closed: Collection[str] = (),
) -> None:
    """Raise ``StudyError`` for a case with a missing factor or a level that is not allowed.

    - ``needed``: subject of the study (empty if cases have no subject) → required factors and their
      levels; cases of other subjects may have any factors;
    - ``optional``: factors that cases may lack, and their levels;
    - ``closed``: subjects whose cases must have no further factor.
    """
    for index, case in enumerate(stored.record.cases):
        subject = str(case.factors.get("subject", ""))
        required: dict[str, AllowedLevels] = {} if "" in needed else {"subject": str}
        required |= needed.get(subject, {})
        faults: dict[str, str | None] = {}
        if subject in closed:
            unknown = case.factors.keys() - required.keys() - optional.keys()
            faults |= dict.fromkeys(sorted(unknown), "this study has no such factor")
        for name, allowed in required.items():
            faults[name] = _fault(case.factors.get(name), allowed)
        for name, allowed in optional.items():
            if name in case.factors:
                faults[name] = _fault(case.factors[name], allowed)
        for name, fault in faults.items():
            if fault:
                place = f"data/{stored.file}: cases[{index}].factors.{name}"
                raise StudyError(f"{place}: {fault}; {_REMEDY}.")


def _fault(level: Level | None, allowed: AllowedLevels) -> str | None:
    """Explain why a level (None if missing) is not allowed; return None if it is allowed."""
    if level is None:
        return "this factor is missing"
    if allowed is int:
        is_allowed = type(level) is int and 1 <= level <= LARGEST
        return None if is_allowed else f"expected a whole number from 1 on, found {level!r}"
    if not isinstance(level, str):
        return f"expected text, found {level!r}"
    if allowed is str or level in allowed:  # type: ignore[operator]
        return None
    return f"expected one of {', '.join(allowed)}, found {level!r}"  # type: ignore[arg-type]


def check_layers(
    stored: Stored, expected: Callable[[Mapping[str, Level]], Layer], subject: str
) -> None:
    """Raise ``StudyError`` if the layers of ``subject`` are missing or contradict the factors.

    ``expected`` returns the layer that follows from a case's factors.  Names of layers are not
    compared.
    """
    for index, case in enumerate(stored.record.cases):
        if case.factors.get("subject") != subject:
            continue
        place = f"data/{stored.file}: cases[{index}].layers"
        if case.status == "ok" and not case.layers:
            raise StudyError(f"{place}: found no layer of a case that ran; {_REMEDY}.")
        for layer in case.layers:
            expected_layer = msgspec.structs.replace(expected(case.factors), name=layer.name)
            if layer != expected_layer:
                raise StudyError(
                    f"{place}: found {layer}, but the factors imply {expected_layer}; {_REMEDY}."
                )

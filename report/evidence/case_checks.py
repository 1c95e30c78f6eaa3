"""Checks of a record's cases before a study computes: their factors, and the layers that ran."""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from report.core.errors import StudyError
from report.core.records.layers import Layer
from report.core.records.quantities import LARGEST
from report.core.records.record import Level
from report.core.records.store import Stored

#: Levels of a factor: whole numbers from 1 on, any text, or one of several texts.
AllowedLevels: TypeAlias = type[int] | type[str] | Collection[str]

_REMEDY: Final = "run the experiment of this version again"


def check_factors(
    stored: Stored,
    needed: Mapping[str, Mapping[str, AllowedLevels]],
    optional: Mapping[str, AllowedLevels] = MappingProxyType({}),
    closed: Collection[str] = (),
) -> None:
    """Raise ``StudyError`` for a case that lacks a factor of its subject, or has another level.

    ``needed`` maps each subject of the study to its factors and their levels; the subject is empty
    if the cases name none.  Cases of other subjects are not checked.  A case may lack ``optional``
    factors.  A case of a subject in ``closed`` must not have other factors.
    """
    for index, case in enumerate(stored.record.cases):
        subject = str(case.factors.get("subject", ""))
        own: Mapping[str, AllowedLevels] = {} if "" in needed else {"subject": str}
        looked_up = {**own, **needed.get(subject, {})}
        present = {name: levels for name, levels in optional.items() if name in case.factors}
        known = looked_up.keys() | optional
        strange = sorted(case.factors.keys() - known) if subject in closed else ()
        faults = {
            **dict.fromkeys(strange, "this study has no such factor"),
            **{n: _fault(case.factors.get(n), ls) for n, ls in (looked_up | present).items()},
        }
        for name, fault in faults.items():
            if fault:
                place = f"data/{stored.file}: cases[{index}].factors.{name}"
                raise StudyError(f"{place}: {fault}; {_REMEDY}.")


def _fault(level: Level | None, levels: AllowedLevels) -> str | None:
    if level is None:
        return "this factor is missing"
    if levels is int:
        right = type(level) is int and 1 <= level <= LARGEST
        return None if right else f"expected a whole number from 1 on, found {level!r}"
    if not isinstance(level, str):
        return f"expected text, found {level!r}"
    if levels is str or level in levels:  # type: ignore[operator]
        return None
    return f"expected one of {', '.join(levels)}, found {level!r}"  # type: ignore[arg-type]


def check_ran(
    stored: Stored, expected: Callable[[Mapping[str, Level]], Layer], subject: str
) -> None:
    """Raise ``StudyError`` for a layer of ``subject`` that is missing or contradicts its factors.

    Networks name their layers as they like.
    """
    for index, case in enumerate(stored.record.cases):
        if case.factors.get("subject") != subject:
            continue
        place = f"data/{stored.file}: cases[{index}].layers"
        if case.status == "ok" and not case.layers:
            raise StudyError(f"{place}: found no layer of a case that ran; {_REMEDY}.")
        for ran in case.layers:
            if msgspec.structs.replace(expected(case.factors), name=ran.name) != ran:
                raise StudyError(
                    f"{place}: found {ran}, which is not the layer that this study is about; "
                    f"{_REMEDY}."
                )

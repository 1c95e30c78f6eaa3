"""Records as a tidy frame: one row a sample.

Columns are named by ``Column``; a sample's unit stands in its own column, because one frame holds
all quantities.  Factors, and the conditions of what others measured, become columns of their own,
named as in the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias

from report.records.imported import StoredImport
from report.records.record import Case, Series
from report.records.store import Stored
from report.system.spreadsheet import csv_of

if TYPE_CHECKING:
    import pandas as pd


class Column(StrEnum):
    """The columns that every frame has beside the factors."""

    FILE = "file"
    DEVICE = "device"
    CASE = "case"
    QUANTITY = "quantity"
    UNIT = "unit"
    PROCESS = "process"
    POLICY = "policy"
    REPETITION = "repetition"
    VALUE = "value"


def sample_frame(stored: Iterable[Stored | StoredImport]) -> pd.DataFrame:
    """All samples of all cases, one row each; values in the unit that the row names."""
    # Samples are spread over rows last, which is much quicker than a mapping for each of them.
    rows = (
        {**row, Column.REPETITION: list(range(len(samples))), Column.VALUE: list(samples)}
        for row, samples in _series_rows(stored)
    )
    series = _frame(rows)
    spread = [str(Column.REPETITION), str(Column.VALUE)]
    return series.explode(spread, ignore_index=True).infer_objects() if len(series) else series


def write_samples(stored: Sequence[Stored | StoredImport], stream: IO[str]) -> None:
    """Write what ``sample_frame`` holds as CSV, series by series, since all need much room at once.

    A whole number stays one, also where other cases lack its factor.
    """
    names = dict.fromkeys(
        name for common, series in _case_rows(stored) if any(series) for name in (*common, *_OWN)
    )
    stream.write(_line((*names, Column.REPETITION, Column.VALUE)) + "\n")
    for common, series in _case_rows(stored):
        cells = {name: _cell(common.get(name)) for name in names}
        for own, samples in series:
            begin = ",".join((cells | {name: _cell(own[name]) for name in _OWN}).values())
            stream.write("".join([f"{begin},{i},{value!r}\n" for i, value in enumerate(samples)]))


def _line(cells: Iterable[Any]) -> str:
    """The cells as a line of CSV without its end."""
    return ",".join(map(_cell, cells))


@lru_cache(maxsize=10_000, typed=True)
def _cell(content: Any) -> str:
    """One of them; most stand in thousands of lines."""
    return csv_of([(content, "")]).removesuffix(",\n")


#: The columns in which series of one case differ.
_OWN: Final = (Column.PROCESS, Column.POLICY, Column.QUANTITY, Column.UNIT)
_Row: TypeAlias = tuple[dict[str, Any], Sequence[float]]


def _series_rows(stored: Iterable[Stored | StoredImport]) -> Iterator[_Row]:
    """What all samples of a series have in common, with these samples."""
    for common, series in _case_rows(stored):
        yield from ((common | own, samples) for own, samples in series)


def _case_rows(
    stored: Iterable[Stored | StoredImport],
) -> Iterator[tuple[dict[str, Any], Iterator[_Row]]]:
    """What all samples of a case have in common, with its series and what is theirs alone."""
    for item in stored:
        for index, case in enumerate(item.record.cases):
            yield _case_columns(item, index, case), _own_rows(case)


def _own_rows(case: Case) -> Iterator[_Row]:
    for process, policy, measured in _measured(case):
        for series in measured:
            own = (process, policy, series.quantity, series.unit)
            yield dict(zip(_OWN, own, strict=True)), series.samples


def _measured(case: Case) -> list[tuple[int | None, str | None, tuple[Series, ...]]]:
    """The series of a case with their process and memory policy."""
    rounds = [(round_.process, round_.policy, round_.series) for round_ in case.rounds]
    return [(None, None, case.series), *rounds]


def _case_columns(item: Stored | StoredImport, index: int, case: Case) -> dict[str, Any]:
    conditions = item.record.conditions if isinstance(item, StoredImport) else {}
    return {
        **conditions,
        **case.factors,
        Column.FILE: item.file,
        Column.DEVICE: item.record.environment.key,
        Column.CASE: index,
    }


def _frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame.from_records([{str(k): v for k, v in row.items()} for row in rows])

"""Records as a tidy frame: one row a sample.

A sample's unit stands in its own column, because one frame holds all quantities.  Factors, and the
conditions of what others measured, become columns of their own, named as in the record; where that
is the name of another column, «policy» say, it is ``case_policy``.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from report.core.records.imported import ImportedRecord
from report.core.records.quantities import QUANTITIES
from report.core.records.record import Case, Policy
from report.core.records.store import Stored, StoredImport
from report.core.system.spreadsheet import csv_of

if TYPE_CHECKING:
    import pandas as pd

#: The columns in which series of one case differ.
_OF_SERIES: Final = ("process", "policy", "quantity", "unit")
_TAKEN: Final = {"file", "device", "case", *_OF_SERIES, "repetition", "value"}
#: Stands in a line for what all lines of its series begin with.
_BEGIN: Final = "\0"


def sample_frame(stored: Sequence[Stored | StoredImport]) -> pd.DataFrame:
    """All samples of all cases, one row each; values in the unit that the row names."""
    stream = io.StringIO()
    write_samples(stored, stream)
    stream.seek(0)
    return read_samples(stream)


def read_samples(written: Path | IO[str]) -> pd.DataFrame:
    """The frame of what ``write_samples`` wrote, which may be packed."""
    import pandas as pd

    return pd.read_csv(written, keep_default_na=False, na_values=[""], low_memory=False)


def write_samples(stored: Sequence[Stored | StoredImport], stream: IO[str]) -> None:
    """Write all samples as CSV, one row each, series by series.

    A whole number stays one, also where other cases lack its factor.
    """
    # By hand, since 725,000 rows take 0.3 s so, and 4 s by a frame and its ``to_csv``.
    names = [*dict.fromkeys(name for common, _ in _cases(stored) for name in common)]
    stream.write(csv_of([(*names, *_OF_SERIES, "repetition", "value")]))
    for common, case in _cases(stored):
        cells = ",".join([_cell(common.get(name)) for name in names])
        rounds = ((each.process, each.policy, each.series) for each in case.rounds)
        for process, policy, measured in ((None, None, case.series), *rounds):
            for name, samples in measured.items():
                begin = f"{cells},{_own(process, policy, name)}"
                stream.write((_rows(len(samples)) % samples).replace(_BEGIN, begin))


@lru_cache
def _own(process: int | None, policy: Policy | None, quantity: str) -> str:
    """The cells of the columns ``_OF_SERIES``."""
    return ",".join(map(_cell, (process, policy, quantity, QUANTITIES[quantity].unit)))


@lru_cache
def _rows(count: int) -> str:
    """The lines of so many samples, which lack what each begins with, and the values."""
    return "".join(f"{_BEGIN},{index},%r\n" for index in range(count))


@lru_cache(maxsize=10_000, typed=True)
def _cell(content: Any) -> str:
    """A cell as it stands in a line; most stand in thousands of lines."""
    return csv_of([(content, "")]).removesuffix(",\n")


def _cases(stored: Iterable[Stored | StoredImport]) -> Iterator[tuple[dict[str, Any], Case]]:
    """The cases that have samples, with what all of these have in common."""
    for item in stored:
        record = item.record
        conditions = record.conditions if isinstance(record, ImportedRecord) else {}
        for index, case in enumerate(record.cases):
            if any(case.all_series):
                place = {"file": item.file, "device": record.environment.key, "case": index}
                own = {**conditions, **case.factors}
                named = {f"case_{n}" if n in _TAKEN else n: level for n, level in own.items()}
                yield {**named, **place}, case

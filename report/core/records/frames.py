"""Convert records to tables: a CSV file of one row per series, a frame of one row per sample.

The unit is a column, because one table contains all quantities.  Factors, and conditions of
imported records, become columns of the same name.  A factor with the name of another column, such
as ``policy``, becomes ``case_policy``.

The events of PyTorch's allocator are left out: they are a list in order, not samples, and more
numerous than all samples.  Readers find them in the attachment of the record.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from report.core.records.file_format import EVENT_QUANTITIES
from report.core.records.quantities import QUANTITIES
from report.core.records.record import Case, ImportedRecord, Level, Policy, SeriesByQuantity
from report.core.records.store import Stored, StoredImport
from report.core.system.spreadsheet import csv_of

if TYPE_CHECKING:
    import pandas as pd

#: Columns that differ between the series of one case; the last has all samples of a series.
_SERIES_COLUMNS: Final = ("process", "policy", "quantity", "unit", "samples")
#: Names of columns that a factor must not have.
_RESERVED_COLUMNS: Final = {"file", "device", "case", *_SERIES_COLUMNS, "repetition", "value"}


def sample_frame(stored: Sequence[Stored | StoredImport]) -> "pd.DataFrame":
    """Return a frame with one row per sample of all records; each row states its unit."""
    stream = io.StringIO()
    write_samples(stored, stream)
    stream.seek(0)
    return read_samples(stream)


def read_samples(file: Path | IO[str]) -> "pd.DataFrame":
    """Read a CSV file that ``write_samples`` wrote, gzipped or not; return one row per sample."""
    import pandas as pd

    series = pd.read_csv(file, keep_default_na=False, na_values=[""], low_memory=False)
    samples = series.pop("samples").astype(str).str.split(" ")
    frame = series.assign(value=samples).explode("value")
    frame.insert(len(frame.columns) - 1, "repetition", frame.groupby(level=0).cumcount())
    frame["value"] = pd.to_numeric(frame["value"])
    return frame.reset_index(drop=True)


def write_samples(stored: Sequence[Stored | StoredImport], stream: IO[str]) -> None:
    """Write all samples as CSV: one row per series, with its samples separated by spaces.

    Whole numbers stay whole, even in a column with empty cells.
    """
    # Formatted by hand, since a data frame's ``to_csv`` takes ten times as long.
    columns: dict[str, None] = {}
    for case_columns, _ in _cases(stored):
        columns |= dict.fromkeys(case_columns)
    stream.write(csv_of([(*columns, *_SERIES_COLUMNS)]))
    for case_columns, case in _cases(stored):
        case_cells = ",".join(map(_cell_of, map(case_columns.get, columns)))
        lines: list[str] = []  # written together, since each call of ``write`` takes long
        series_of_case: list[tuple[int | str, Policy | None, SeriesByQuantity]]
        series_of_case = [("", None, case.series)]
        for round_ in case.rounds:
            series_of_case.append((round_.process, round_.policy, round_.series))
        for process, policy, series in series_of_case:
            for quantity, samples in series.items():
                if quantity in EVENT_QUANTITIES:
                    continue
                unit = QUANTITIES[quantity].unit
                array = msgspec.json.encode(samples, enc_hook=list).decode()
                numbers = array[1:-1].replace(",", " ")
                lines.append(f"{case_cells},{process},{policy or ''},{quantity},{unit},{numbers}\n")
        stream.write("".join(lines))


@lru_cache(maxsize=2**12, typed=True)
def _cell_of(level: Level | None) -> str:
    """Return one cell of a CSV file; cached, since most cells of a column are equal."""
    return csv_of([(level, None)]).removesuffix(",\n")


def _cases(stored: Iterable[Stored | StoredImport]) -> Iterator[tuple[dict[str, Any], Case]]:
    """Yield each case that has samples, with the columns that all its samples share."""
    for item in stored:
        record = item.record
        conditions = record.conditions if isinstance(record, ImportedRecord) else {}
        for index, case in enumerate(record.cases):
            if not any(case.all_series):
                continue
            columns: dict[str, Any] = {}
            for name, level in {**conditions, **case.factors}.items():
                columns[f"case_{name}" if name in _RESERVED_COLUMNS else name] = level
            columns |= {"file": item.file, "device": record.environment.key, "case": index}
            yield columns, case

"""A paper in a notebook: its samples, tables, values and claims, as pandas frames."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from report.core.errors import RecordError
from report.engine.plan import plan
from report.engine.steps import ROOT, BuildRequest
from report.engine.writing import present_results
from report.studies import find_study


class PaperValue(NamedTuple):
    """A number of a paper, with its interval at the confidence ``level``.

    ``number`` is None if it is missing for a ``reason``.  ``files`` are the files behind the
    number, relative to the data directory.
    """

    number: float | None
    unit: str
    interval: Sequence[float] | None
    level: float | None
    formula: str
    files: Sequence[str]
    printed: str
    reason: str | None


class OpenPaper:
    """The numbers of a paper: tables by id, values by name, and a frame with a row per claim.

    ``attrs["notes"]`` of a table holds its notes, such as the reason why a cell is missing.
    """

    def __init__(
        self, source: str, content: Mapping[str, Any], samples: Callable[[], pd.DataFrame]
    ) -> None:
        self.study, self.source, self._samples = content["study"], source, samples
        fields = ("number", "unit", "interval", "confidence", "formula", "sources")
        self.values: dict[str, PaperValue] = {}
        for name, value in sorted(content["values"].items()):
            self.values[name] = PaperValue(*map(value.get, (*fields, "printed", "reason")))
        self.tables = {id: _frame(table) for id, table in sorted(content["tables"].items())}
        claims = pd.DataFrame.from_dict(content["claims"], orient="index")
        self.claims = claims.reindex(columns=["sentence", "verdict", "because"]).sort_index()

    @cached_property
    def samples(self) -> pd.DataFrame:
        """All samples of the records that the paper uses, a row per sample with its unit."""
        return self._samples()

    def __repr__(self) -> str:
        """Summarize the contents of the paper."""
        tables = ", ".join(f"{id} ({len(frame)} rows)" for id, frame in self.tables.items())
        verdicts = self.claims["verdict"].value_counts().items()
        return (
            f"{self.study}, {self.source}\n"
            "samples: all samples of its records, a row per sample\n"
            f"tables: {tables}\n"
            f"values: {', '.join(self.values)}\n"
            f"claims: {', '.join(f'{count} {verdict}' for verdict, count in verdicts)}"
        )

    def _repr_html_(self) -> str:
        """Summarize the contents of the paper in HTML, for notebooks."""
        first, *parts = escape(repr(self)).splitlines()
        return f"<p>{first}</p><ul>{''.join(f'<li>{part}</li>' for part in parts)}</ul>"


def open_paper(
    study: str, *, out: str | Path = ROOT / "out", data: str | Path = ROOT / "data"
) -> OpenPaper:
    """Open the paper of a study: from the build in ``out`` if it is up to date, else computed now.

    Writes nothing.  Raises ``RidgepointError`` for an unknown study, a study without records in
    ``data``, and a study that cannot be computed.
    """
    find_study(study)
    request = BuildRequest((study,), (), Path(out).resolve(), data=Path(data).resolve())
    results = present_results(study, request, plan(request).stale())
    if not results.content["records"]:
        raise RecordError(
            f"{request.data / study}: no record of this study; measure one, or name another folder "
            "of data."
        )
    return OpenPaper(results.source, results.content, results.samples)


def _frame(table: Mapping[str, Any]) -> pd.DataFrame:
    """Convert a table to a frame of texts, integers and floats; headings contain units."""
    columns = {}
    for index, column in enumerate(table["columns"]):
        cells = [row[index] for row in table["rows"]]
        heading = column["name"]
        if column["unit"] not in ("", "1"):
            heading += f" ({column['unit']})"
        all_integers = all(isinstance(cell, int) for cell in cells if cell is not None)
        dtype: Any = "string" if not column["unit"] else "Int64" if all_integers else "float64"
        columns[heading] = pd.array(cells, dtype)
    frame = pd.DataFrame(columns)
    frame.attrs = {"caption": table["caption"], "notes": table["notes"]}
    return frame

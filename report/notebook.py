"""A paper in a notebook: its samples, tables, values and claims, as frames of pandas."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from report.core.errors import RecordError
from report.core.records.frames import read_samples, sample_frame
from report.engine.gather import compute_usable
from report.engine.pipeline import ROOT, Request, look
from report.engine.steps import ARTIFACTS, SAMPLES
from report.paper.manuscript import render_manuscript
from report.studies import find_study


class PaperValue(NamedTuple):
    """A number of a paper, whose interval holds at ``level``; without one, ``reason`` says why.

    ``files`` are those that it was computed from, relative to the data directory.
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
    """The numbers of a paper: tables by their ids, values by their names, claims one a row.

    The notes of a table, such as why a cell is missing, are in ``attrs["notes"]`` of its frame.
    """

    def __init__(
        self, origin: str, content: Mapping[str, Any], samples: Callable[[], pd.DataFrame]
    ) -> None:
        self.study, self.origin, self._samples = content["study"], origin, samples
        fields = ("number", "unit", "interval", "confidence", "formula", "sources")
        self.values = {
            name: PaperValue(*map(value.get, (*fields, "printed", "reason")))
            for name, value in sorted(content["values"].items())
        }
        self.tables = {id: _frame(table) for id, table in sorted(content["tables"].items())}
        claims = pd.DataFrame.from_dict(content["claims"], orient="index")
        self.claims = claims.reindex(columns=["sentence", "verdict", "because"]).sort_index()

    @cached_property
    def samples(self) -> pd.DataFrame:
        """Every sample of the records that the paper uses, one a row, in the unit that it names."""
        return self._samples()

    def __repr__(self) -> str:
        """List what the paper holds."""
        tables = ", ".join(f"{id} ({len(frame)} rows)" for id, frame in self.tables.items())
        verdicts = self.claims["verdict"].value_counts().items()
        return (
            f"{self.study}, {self.origin}\n"
            "samples: every sample of its records, one a row\n"
            f"tables: {tables}\n"
            f"values: {', '.join(self.values)}\n"
            f"claims: {', '.join(f'{count} {verdict}' for verdict, count in verdicts)}"
        )

    def _repr_html_(self) -> str:
        """List what the paper holds, as notebooks show it."""
        first, *parts = escape(repr(self)).splitlines()
        return f"<p>{first}</p><ul>{''.join(f'<li>{part}</li>' for part in parts)}</ul>"


def open_paper(
    study: str, *, out: str | Path = ROOT / "out", data: str | Path = ROOT / "data"
) -> OpenPaper:
    """Open the paper of a study: as built in ``out`` if that is up to date, else computed now.

    Nothing is written.  Raises ``RidgepointError`` for a study that is unknown, that has no records
    in ``data``, or that cannot be computed.
    """
    find_study(study)
    request = Request((study,), (), Path(out).resolve(), data=Path(data).resolve())
    if {f"{study}/study", f"{study}/document"} & look(request).stale().keys():
        chosen, findings = compute_usable(study, request.data)
        paper = render_manuscript(request.papers / f"{study}.qmd.j2", findings)
        content = paper.findings.as_json(study, chosen.inputs.files)
        origin, samples = f"computed from {request.data}", partial(sample_frame, chosen.files)
    else:
        content = json.loads((request.out / "values" / f"{study}.json").read_text("utf-8"))
        written = request.out / ARTIFACTS / study / SAMPLES
        origin, samples = f"as built in {request.out}", partial(read_samples, written)
    if not content["records"]:
        raise RecordError(
            f"{request.data / study}: no record of this study; measure one, or name another folder "
            "of data."
        )
    return OpenPaper(origin, content, samples)


def _frame(table: Mapping[str, Any]) -> pd.DataFrame:
    """A table with units in its headings: texts, whole numbers, and others as floats."""
    columns = {}
    for place, column in enumerate(table["columns"]):
        cells = [row[place] for row in table["rows"]]
        heading = column["name"]
        if column["unit"] not in ("", "1"):
            heading += f" ({column['unit']})"
        whole = all(isinstance(cell, int) for cell in cells if cell is not None)
        dtype: Any = "string" if not column["unit"] else "Int64" if whole else "float64"
        columns[heading] = pd.array(cells, dtype)
    frame = pd.DataFrame(columns)
    frame.attrs = {"caption": table["caption"], "notes": table["notes"]}
    return frame

"""What pages show of numbers, the first ones and those that are opened, and of all records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from report.core.errors import TemplateError
from report.core.missing import Missing
from report.core.records.choice import Choices, fate
from report.core.records.record import Outcome
from report.core.records.store import EDITED, Listed, StoredImport
from report.core.statistics.estimates import Estimate
from report.core.text.format import quantity_text
from report.paper.findings import Findings, Inputs
from report.paper.values import Value, declare
from report.quantity.expression import Derived, Quantity, Sampled
from report.quantity.intervals import Process

#: Series that are drawn of one number, and samples that are drawn of one process.
_MOST_SERIES: Final = 6
_MOST_SAMPLES: Final = 24
#: Samples are drawn in this many steps between the least and the largest.
_STEPS: Final = 1000
#: What is said of a record of which nothing is known.
_UNKNOWN: Final[Mapping[str, Any]] = {
    "origin": "", "started": "", "plan": "", "machine": "", "commit": None, "clean": True,
    "ok": 0, "others": {}, "used": False, "altered": [],
}  # fmt: skip


def details(values: Iterable[Value], inputs: Inputs) -> dict[str, Any]:
    """Every value by its anchor, the series behind them once each, and the records they are from.

    All numbers that a reader sees are finished text; positions of samples are whole numbers from
    0 (the least of the series) to 1000 (the largest).
    """
    series: dict[Sampled, int] = {}
    shown: dict[Quantity, str] = {}
    found = {value.anchor: _of_value(value, series, shown) for value in values}
    runs = (run for stored in inputs.records for run in stored.runs)
    parts = {part.file: part.record for run in runs for part in run.shards}
    return {
        "values": found,
        "series": [_of_series(leaf, inputs) for leaf in series],
        "records": {
            file: {
                "machine": record.environment.label,
                "started": record.started[:10],
                "commit": (record.code.commit or "")[:12],
                "cases": len(record.cases),
            }
            for file, record in parts.items()
        },
    }


def _of_value(
    value: Value, series: dict[Sampled, int], shown: dict[Quantity, str]
) -> dict[str, Any]:
    quantity, found, whole = value.quantity, value.number, value.as_json()
    leaves = [leaf for leaf in quantity.leaves if isinstance(leaf, Sampled)] if quantity else []
    drawn = [series.setdefault(leaf, len(series)) for leaf in leaves[:_MOST_SERIES]]
    numbers = in_numbers(quantity, shown) if isinstance(quantity, Derived) else ""
    given = {
        **{key: whole[key] for key in ("name", "printed", "reason", "formula", "sources")},
        "numbers": numbers if numbers != value.formula else "",
        "series": drawn,
        "more": len(leaves) - len(drawn),
    }
    if isinstance(found, Estimate) and value.parts.bounds:
        interval = f"{value.parts.bounds} {value.parts.unit}".rstrip()
        given |= {"interval": interval, "level": f"{100 * found.confidence:.0f} %", "n": found.n}
    return {key: content for key, content in given.items() if content}


def in_numbers(quantity: Derived, shown: dict[Quantity, str]) -> str:
    """The formula of ``quantity`` with the number of each named part; ``shown`` remembers them."""

    def show(part: Quantity) -> str:
        if isinstance(part, Derived) and not part.name:
            return part.written(show)
        if part not in shown:
            value = declare("part", part)
            shown[part] = value.number.reason if isinstance(value.number, Missing) else value.plain
        return shown[part]

    return quantity.written(show)


def _of_series(leaf: Sampled, inputs: Inputs) -> dict[str, Any]:
    samples = [sample for process in leaf.processes for sample in process.samples]
    low, high, unit = min(samples), max(samples), str(leaf.unit)
    runs = list(dict.fromkeys(process.run for process in leaf.processes))
    return {
        "name": leaf.name,
        "low": quantity_text(low, unit),
        "high": quantity_text(high, unit),
        "n": len(samples),
        "files": list(inputs.shards(leaf.files)),
        "processes": [
            [runs.index(process.run), int(process.disturbed), *_drawn(process, low, high)]
            for process in leaf.processes
        ],
    }


def _drawn(process: Process, low: float, high: float) -> Sequence[int]:
    """Positions of the samples; of many, those at equal steps of rank, with both extremes."""
    ordered = sorted(process.samples)
    last = len(ordered) - 1
    if last >= _MOST_SAMPLES:
        ranks = {round(k * last / (_MOST_SAMPLES - 1)) for k in range(_MOST_SAMPLES)}
        ordered = [ordered[rank] for rank in sorted(ranks)]
    width = high - low
    return [round(_STEPS * (sample - low) / width) if width else _STEPS // 2 for sample in ordered]


def summary_of(study: str, findings: Findings, front: Mapping[str, Any]) -> dict[str, Any]:
    """Summarize a paper for lists: the ``question`` and ``headline`` (value: words) of its front
    matter, and its key figure.

    The first figure stands in where the study names none, or these data do not draw the named one;
    numbers that are missing are left out.  Raises ``TemplateError`` for a headline that
    names no value.
    """
    headline = []
    for id, words in (front.get("headline") or {}).items():
        if id not in findings.values:
            place = f"templates/papers/{study}.qmd.j2: headline"
            raise TemplateError(f"{place}: {id} is no value of the study; fix the name.")
        value = findings.values[id]
        if not isinstance(value.number, Missing):
            shown = {"printed": value.plain, "interval": value.parts.bounds, "anchor": value.anchor}
            headline.append({"label": str(words), **shown})
    figures = findings.figures
    figure = figures.get(findings.key_figure) or next(iter(figures.values()), None)
    return {
        "question": " ".join(str(front.get("question", "")).split()),
        "headline": headline,
        "figure": figure and [f"figures/{figure.name}.svg", figure.alt, figure.id],
    }


# ----------------------------------------------------------------------------------------- records


def listing(
    listed: Iterable[Listed], choices: Choices, imported: Iterable[StoredImport] = ()
) -> list[dict[str, Any]]:
    """The own records, newest first, with what a build makes of each; then those of others."""
    newest = sorted(listed, key=lambda item: (item.record.started, item.file), reverse=True)
    own = [_own(item, *fate(choices, item.file)) for item in newest]
    return [*own, *map(_imported, imported)]


def unusable(file: str, why: str) -> dict[str, Any]:
    """A file among the records that is left out, in the form of ``listing``."""
    return {**_UNKNOWN, "file": file, "why": why, "left_out": True}


def _own(item: Listed, used: bool, words: str) -> dict[str, Any]:
    record, shard = item.record, item.record.shard
    part = f", shard {shard.number:,} of {shard.of:,}" if shard else ""
    return {
        **_UNKNOWN,
        "file": item.file,
        "started": record.started,
        "plan": f"{record.protocol.plan}{part}",
        "machine": record.environment.label,
        "commit": record.code.commit,
        "clean": record.code.tree_clean,
        **_outcomes(record.cases),
        "used": used,
        "why": words,
        "altered": [EDITED] * item.edited,
    }


def _imported(item: StoredImport) -> dict[str, Any]:
    record, origin = item.record, item.record.origin
    return {
        **_UNKNOWN,
        "file": item.file,
        "origin": f"measured by {origin.author}, licence {origin.licence}",
        "started": record.started or "",
        "plan": "imported",
        "machine": record.environment.model,
        "commit": origin.commit,
        **_outcomes(record.cases),
        "used": True,
        "why": "used beside the own records",
        "altered": [EDITED] * item.edited,
    }


def _outcomes(cases: Sequence[Outcome]) -> dict[str, Any]:
    """How many cases went well, and how many others ended in which way."""
    counts = Counter(case.status.replace("_", " ") for case in cases)
    return {"ok": counts.pop("ok", 0), "others": dict(sorted(counts.items()))}


def attributions(stored: Iterable[StoredImport]) -> tuple[dict[str, Any], ...]:
    """An attribution for all records of one origin, in the order of their files.

    ``line`` names the devices with who measured on them, for lists of machines.
    """
    names = ("author", "licence", "address", "commit", "instrument")
    found: dict[tuple[str | None, ...], list[str]] = {}
    for each in stored:
        origin = tuple(getattr(each.record.origin, name) for name in names)
        found.setdefault(origin, []).append(each.record.environment.model)
    return tuple(
        {
            **dict(zip(names, origin, strict=True)),
            "devices": (own := list(dict.fromkeys(devices))),
            "files": len(devices),
            "line": f"{', '.join(own)}: measured by {origin[0]}, licence {origin[1]}",
        }
        for origin, devices in found.items()
    )

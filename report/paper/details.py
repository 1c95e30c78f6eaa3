"""Details that pages show: the origin of each number, key results of a paper, and all records."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final

from report.core.errors import TemplateError
from report.core.missing import Missing
from report.core.records.choice import Choices, use_in_build
from report.core.records.store import EDITED, Stored, StoredImport, start_and_file
from report.core.statistics.estimates import Estimate
from report.core.text.format import quantity_text
from report.paper.findings import Findings, Inputs
from report.paper.values import Value, declare
from report.quantity.expression import Derived, MeasuredSeries, Quantity
from report.quantity.intervals import Process

#: Largest number of series drawn for one value.
_MOST_SERIES: Final = 6
#: Largest number of samples drawn for one process.
_MOST_SAMPLES: Final = 24
#: Lists of papers show at most this many claims of a paper's headline.
_MOST_CLAIMS: Final = 3
#: Steps between the positions of the smallest and the largest sample of a series.
_STEPS: Final = 1000
#: Fields of a record in ``listing``, with their defaults.  ``ok``: number of measured cases;
#: ``others``: numbers of other cases by status; ``clean``: all changes of the code were committed.
_LISTED_FIELDS: Final[Mapping[str, Any]] = {
    "origin": "", "started": "", "plan": "", "machine": "", "commit": None, "clean": True,
    "ok": 0, "others": {}, "used": False, "altered": [],
}  # fmt: skip


def details(values: Iterable[Value], inputs: Inputs) -> dict[str, Any]:
    """Collect details of ``values`` by anchor, the series behind them, and ``inputs.records``.

    Each series is listed once.  Numbers that a reader sees are text.  Positions of samples are
    whole numbers from 0 (smallest sample) to ``_STEPS`` (largest sample).
    """
    series: dict[MeasuredSeries, int] = {}
    texts: dict[Quantity, str] = {}
    by_anchor = {value.anchor: _value_details(value, series, texts) for value in values}
    records = {}
    for run in chain(*(stored.runs for stored in inputs.records)):
        for shard in run.shards:
            records[shard.file] = {
                "machine": shard.record.environment.label,
                "started": shard.record.started[:10],
                "commit": (shard.record.code.commit or "")[:12],
                "cases": len(shard.record.cases),
            }
    drawn = [_series_details(leaf, inputs) for leaf in series]
    return {"values": by_anchor, "series": drawn, "records": records}


def _value_details(
    value: Value, series: dict[MeasuredSeries, int], texts: dict[Quantity, str]
) -> dict[str, Any]:
    """Collect the details of a value; add its series to ``series`` (series → index)."""
    quantity, result, as_json = value.quantity, value.number, value.as_json()
    leaves = quantity.leaves if quantity else ()
    sampled = [leaf for leaf in leaves if isinstance(leaf, MeasuredSeries)]
    indexes = [series.setdefault(leaf, len(series)) for leaf in sampled[:_MOST_SERIES]]
    numbers = formula_with_numbers(quantity, texts) if isinstance(quantity, Derived) else ""
    fields = {
        **{key: as_json[key] for key in ("name", "printed", "reason", "sources")},
        # The formula of a measured or counted number would only repeat a name in the program.
        "formula": value.formula if isinstance(quantity, Derived) else "",
        "numbers": numbers if numbers != value.formula else "",
        "series": indexes,
        "more": len(sampled) - len(indexes),
    }
    if isinstance(result, Estimate) and value.parts.bounds:
        interval = f"{value.parts.bounds} {value.parts.unit}".rstrip()
        level = "" if result.level is None else f" at {100 * result.level:.0f} %"
        fields |= {"interval": f"{interval}{level}", "n": result.n}
    return {key: content for key, content in fields.items() if content}


def formula_with_numbers(quantity: Derived, texts: dict[Quantity, str]) -> str:
    """Write a formula with numbers in place of its named parts; ``texts`` caches the numbers."""

    def text_of(part: Quantity) -> str:
        if isinstance(part, Derived) and not part.name:
            return part.write_formula(text_of)
        if part not in texts:
            value = declare("part", part)
            texts[part] = value.number.reason if isinstance(value.number, Missing) else value.plain
        return texts[part]

    return quantity.write_formula(text_of)


def _series_details(leaf: MeasuredSeries, inputs: Inputs) -> dict[str, Any]:
    """Describe a series of samples; a process is its run's index, 1 if disturbed, and positions."""
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
            [runs.index(process.run), int(process.disturbed), *_positions(process, low, high)]
            for process in leaf.processes
        ],
    }


def _positions(process: Process, low: float, high: float) -> Sequence[int]:
    """Return the positions of sorted samples, of at most ``_MOST_SAMPLES`` equally spaced ranks."""
    ordered = sorted(process.samples)
    last = len(ordered) - 1
    if last >= _MOST_SAMPLES:
        ranks = {round(k * last / (_MOST_SAMPLES - 1)) for k in range(_MOST_SAMPLES)}
        ordered = [ordered[rank] for rank in sorted(ranks)]
    width = high - low
    return [round(_STEPS * (sample - low) / width) if width else _STEPS // 2 for sample in ordered]


def summary_of(
    study: str, findings: Findings, front: Mapping[str, Any], text: str
) -> dict[str, Any]:
    """Summarize a paper for lists: ``question``, first claims of the ``headline``, key ``figure``.

    A claim is shown with the first of its ``numbers``, and left out if this number is missing.
    The figure is ``findings.shown_figure``, or None if the ``text`` of the paper lacks that figure.
    ``front`` is the front matter.  Raises ``TemplateError`` for an id in ``headline`` that is no
    claim.
    """
    headline = []
    for id in front.get("headline") or ():
        if id not in findings.claims:
            place = f"templates/papers/{study}.qmd.j2: headline"
            raise TemplateError(f"{place}: {id} is no claim of the study; fix the name.")
        claim = findings.claims[id]
        value = next((findings.values[number] for number in claim.numbers), None)
        if value and not isinstance(value.number, Missing):
            printed = value.in_two_digits()
            # An interval with more digits than the rounded value would not match it.
            bounds = value.parts.bounds if printed == value.plain else ""
            verdict_note = "" if claim.verdict == "supported" else f" ({claim.verdict})"
            headline.append({
                "label": claim.title + verdict_note,
                "printed": printed,
                "interval": bounds,
                "anchor": value.anchor,
                "id": value.id,
            })  # fmt: skip
    figure = findings.shown_figure
    if figure and f"{{#{figure.id}" not in text:
        figure = None  # the template does not print this figure
    return {
        "question": " ".join(str(front.get("question", "")).split()),
        "headline": headline[:_MOST_CLAIMS],
        "figure": figure and [f"figures/{figure.name}.svg", figure.alt, figure.id],
    }


def listing(
    listed: Iterable[Stored], choices: Choices, imported: Iterable[StoredImport] = ()
) -> list[dict[str, Any]]:
    """List own records with their use in this build, newest first; then ``imported`` records."""
    newest_first = sorted(listed, key=start_and_file, reverse=True)
    own = [_own_record(item, *use_in_build(choices, item.file)) for item in newest_first]
    return [*own, *map(_imported_record, imported)]


def unusable(file: str, why: str) -> dict[str, Any]:
    """Describe a file that cannot be used as a record, with the fields of ``listing``."""
    return {**_LISTED_FIELDS, "file": file, "why": why, "left_out": True}


def _own_record(item: Stored, used: bool, reason: str) -> dict[str, Any]:
    record, shard = item.record, item.record.shard
    shard_text = f", shard {shard.number:,} of {shard.of:,}" if shard else ""
    return _list_entry(item) | {
        "started": record.started,
        "plan": f"{record.protocol.plan}{shard_text}",
        "machine": record.environment.label,
        "commit": record.code.commit,
        "clean": record.code.tree_clean,
        "used": used,
        "why": reason,
    }


def _imported_record(item: StoredImport) -> dict[str, Any]:
    record, origin = item.record, item.record.origin
    return _list_entry(item) | {
        "origin": f"measured by {origin.author}, licence {origin.licence}",
        "started": record.started or "",
        "plan": "imported",
        "machine": record.environment.model,
        "commit": origin.commit,
        "used": True,
        "why": "used beside the own records",
    }


def _list_entry(item: Stored | StoredImport) -> dict[str, Any]:
    """Describe a record by its file and the number of its cases per status."""
    counts = Counter(case.status.replace("_", " ") for case in item.record.cases)
    return {
        **_LISTED_FIELDS,
        "file": item.file,
        "ok": counts.pop("ok", 0),
        "others": dict(sorted(counts.items())),
        "altered": [EDITED] * item.edited,
    }


def attributions(stored: Iterable[StoredImport]) -> tuple[dict[str, Any], ...]:
    """List the origins of imported records, in the order of their files.

    ``line`` names the devices of an origin and its author, for lists of machines.
    """
    names = ("author", "licence", "address", "commit", "instrument")
    credits: dict[tuple[str | None, ...], dict[str, Any]] = {}
    for item in stored:
        origin = attrgetter(*names)(item.record.origin)
        first = {**dict(zip(names, origin, strict=True)), "devices": [], "files": 0}
        credit = credits.setdefault(origin, first)
        credit["files"] += 1
        if item.record.environment.model not in credit["devices"]:
            credit["devices"].append(item.record.environment.model)
        line = f"measured by {credit['author']}, licence {credit['licence']}"
        credit["line"] = f"{', '.join(credit['devices'])}: {line}"
    return tuple(credits.values())

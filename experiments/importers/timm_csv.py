"""timm's benchmark tables: one row a network, conditions in the name of the file.

``benchmark.py`` of timm prints the mean step time over its repetitions in ms, images a second over
the same, parameters and activations in millions and multiply-adds of one image as «GMACs», all but
the time rounded to two places.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from experiments.importers.imported import Imported, Source, case, environment, scaled
from report.records.imported import ImportedEnvironment
from report.records.record import Case, Sample

_NAME: Final = re.compile(
    r"benchmark-(?P<kind>infer|train)-(?P<precision>[a-z0-9_]+)-(?P<layout>nchw|nhwc)"
    r"-pt(?P<torch>\d{3})-(?P<cuda>cu\d{3}|cpu)-(?P<device>[a-z0-9_]+?)(?P<dynamo>-dynamo)?\.csv"
)
_DIRECTIONS: Final = {"infer": "inference", "train": "training"}
#: Column without its prefix → quantity, factor to its unit, whether it counts.
_MEASURED: Final = {
    "step_time": ("mean_time", "1e-3", False),
    "samples_per_sec": ("image_rate", "1", False),
    "gmacs": ("multiply_adds", "1e9", True),
    "macts": ("activations", "1e6", True),
    "param_count": ("parameters", "1e6", True),
}
_ROUNDING: Final = {
    "mean_time": 1e-6,
    "image_rate": 0.01,
    "multiply_adds": 1e7,
    "activations": 1e4,
    "parameters": 1e4,
}
#: Time and rate come from the same steps; where they are further apart, columns were mixed up.
_LARGEST_DISAGREEMENT: Final = 0.1
_MISSING: Final = {
    "repetitions": "timm's table gives the mean alone; its script repeats 40 steps by default",
    "warm_up": "timm's table does not say it; its script warms up for 10 steps by default",
}


def detects(source: Source) -> bool:
    """Whether the first line has a network and a step time."""
    names = _header(source)
    return "model" in names and any(f"{kind}_step_time" in names for kind in _DIRECTIONS)


def _header(source: Source) -> list[str]:
    first = source.content.partition(b"\n")[0].decode("utf-8", "replace")
    return first.strip().removeprefix("\ufeff").split(",")


def read(source: Source) -> Imported:
    """The table of a file; raises ``RefusedError`` for what its name and columns do not say."""
    kinds = [kind for kind in _DIRECTIONS if f"{kind}_step_time" in _header(source)]
    if len(kinds) > 1:
        raise source.refused("found inference and training in one table; split it")
    conditions, machine = _conditions(source, kinds[0])
    cases = tuple(_cases(source, f"{kinds[0]}_"))
    if not cases:
        raise source.refused("found a header and no row; fetch the file again")
    measured = {series.quantity for each in cases for series in each.series}
    return Imported(
        instrument="benchmark.py of timm",
        environment=machine,
        # Rows without a time come last, so that the others stand in one table of the record.
        cases=tuple(sorted(cases, key=lambda each: each.status != "ok")),
        unstated="timm's table and the name of its file do not say it",
        conditions=conditions,
        rounding={name: step for name, step in _ROUNDING.items() if name in measured},
        missing=_MISSING,
    )


def _conditions(source: Source, kind: str) -> tuple[dict[str, str], ImportedEnvironment]:
    """What holds for the whole file, from its name and from what the user says."""
    matched = _NAME.fullmatch(source.name.removesuffix(".gz"))
    named = matched.groupdict() if matched else {}
    if named and named["kind"] != kind:
        raise source.refused(
            f"the name says {named['kind']}, the columns say {kind}; mend the name"
        )
    said = {
        "precision": named.get("precision"),
        "layout": named.get("layout"),
        "compiler": None if not named else "dynamo" if named["dynamo"] else "none",
        "torch": _version(named["torch"]) if named else None,
        "cuda": _cuda(named["cuda"]) if named else None,
    }
    for name, value in source.given.items():
        if name not in said:
            raise source.refused(f"--set {name}: possible are {', '.join(said)}; mend the name")
        if said[name] not in (None, value):
            raise source.refused(f"--set {name}={value}: the file's name says {said[name]}")
    known = {**said, **source.given}
    for name, value in known.items():
        if value is None:
            raise source.refused(f"its name does not say the {name}; give it with --set {name}=…")
    conditions = {name: str(known[name]) for name in ("precision", "layout", "compiler")}
    machine = environment(
        "cpu" if known["cuda"] == "none" else "cuda",
        source.device or _device(source, named.get("device")),
        framework=f"PyTorch {known['torch']}",
        cuda=None if known["cuda"] == "none" else known["cuda"],
    )
    return {"direction": _DIRECTIONS[kind], **conditions}, machine


def _device(source: Source, token: str | None) -> str:
    """The device that the file's name tells; raises ``RefusedError`` where it is no full name."""
    matched = re.fullmatch(r"rtx(\d{4})", token or "")
    if matched is None:
        raise source.refused(
            f"its name calls the device {token or 'nothing'}, which is no full name; give it with "
            "--device"
        )
    return f"NVIDIA GeForce RTX {matched[1]}"


def _version(digits: str) -> str:
    """«113» is PyTorch 1.13 and «240» is 2.4.0, since versions before 2 had two places."""
    return f"1.{digits[1:]}" if digits.startswith("1") else ".".join(digits)


def _cuda(text: str) -> str:
    digits = text.removeprefix("cu")
    return "none" if text == "cpu" else f"{digits[:2]}.{digits[2:]}"


def _cases(source: Source, prefix: str) -> Iterator[Case]:
    seen: dict[tuple[object, ...], int] = {}
    rows = csv.DictReader(source.lines, restkey="")
    _check_columns(source, rows.fieldnames or (), prefix)
    for line, row in enumerate(rows, start=2):
        if "" in row or None in row.values():
            raise source.refused(f"line {line}: found another number of columns; fetch it again")
        found = _case(source, line, row, prefix)
        first = seen.setdefault(tuple(found.factors.values()), line)
        if first != line:
            raise source.refused(f"line {line}: found the case of line {first} again; remove one")
        yield found


def _check_columns(source: Source, names: Sequence[str], prefix: str) -> None:
    """Refuse a table with a column whose unit is not known, or without one that is needed."""
    measured = (f"{prefix}{n}" for n in ("img_size", "batch_size", "step_time", "samples_per_sec"))
    needed = ("model", *measured)
    known = {*needed, f"{prefix}gmacs", f"{prefix}macts", "param_count"}
    for name in names:
        if name not in known:
            raise source.refused(f"column {name}: its unit is not known; remove the column")
    for name in needed:
        if name not in names:
            raise source.refused(f"column {name}: not found; fetch the file again")


def _case(source: Source, line: int, row: Mapping[str, str], prefix: str) -> Case:
    measured: dict[str, list[Sample]] = {}
    for column, (quantity, factor, whole) in _MEASURED.items():
        name = column if column == "param_count" else f"{prefix}{column}"
        if not row.get(name):
            continue
        number = scaled(row[name], factor, whole=whole)
        if number is None or (number == 0 and quantity in ("mean_time", "image_rate")):
            raise source.refused(f"line {line}, {name}: found {row[name]!r}, which is no amount")
        measured[quantity] = [number]
    factors = {
        name: _count(source, line, f"{prefix}{column}", row)
        for name, column in (("batch", "batch_size"), ("image", "img_size"))
        if row[f"{prefix}{column}"]
    }
    if "batch" in factors and "mean_time" in measured and "image_rate" in measured:
        ((time,), (rate,)) = measured["mean_time"], measured["image_rate"]
        if abs(factors["batch"] / time / rate - 1) > _LARGEST_DISAGREEMENT:
            raise source.refused(f"line {line}: batch, time and rate contradict; fetch it again")
        return case({"network": row["model"], **factors}, measured)
    return case({"network": row["model"], **factors}, measured, "the table gives no time")


def _count(source: Source, line: int, name: str, row: Mapping[str, str]) -> int:
    """A whole number from 1 on; older tables print them as 1024.0."""
    number = scaled(row[name], "1", whole=True)
    if not number:
        raise source.refused(f"line {line}, {name}: found {row[name]!r}, which is no count")
    return int(number)

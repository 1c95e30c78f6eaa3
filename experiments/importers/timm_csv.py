"""timm's benchmark tables: one row a network, conditions in the name of the file.

``benchmark.py`` of timm prints the mean step time over its repetitions in ms, images a second over
the same, parameters and activations in millions and multiply-adds of one image as «GMACs», all but
the time rounded to two places.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from typing import Final

from experiments.importers.imported import Imported, Source, case, environment, scaled
from report.records.imported import ImportedEnvironment
from report.records.record import Case, Factor, Sample

_NAME: Final = re.compile(
    r"benchmark-(?P<kind>infer|train)-(?P<precision>[a-z0-9_]+)-(?P<layout>nchw|nhwc)"
    r"-pt(?P<torch>\d{3})-(?P<cuda>cu\d{3}|cpu)-(?P<device>[a-z0-9_]+?)(?P<dynamo>-dynamo)?\.csv"
)
_CONDITIONS: Final = ("precision", "layout", "compiler", "torch", "cuda")
_DIRECTIONS: Final = {"infer": "inference", "train": "training"}
#: Column without its prefix → quantity, factor to its unit, step of rounding in it; what is rounded
#: to more than 1 counts.
_MEASURED: Final = {
    "step_time": ("mean_time", "1e-3", 1e-6),
    "samples_per_sec": ("image_rate", "1", 0.01),
    "gmacs": ("multiply_adds", "1e9", 1e7),
    "macts": ("activations", "1e6", 1e4),
    "param_count": ("parameters", "1e6", 1e4),
}
_NEEDED: Final = ("model", "img_size", "batch_size", "step_time", "samples_per_sec")
_FACTORS: Final = {"batch": "batch_size", "image": "img_size"}
#: Time and rate come from the same steps; where they are further apart, columns were mixed up.
_LARGEST_DISAGREEMENT: Final = 0.1
_MISSING: Final = {
    "repetitions": "timm's table gives the mean alone; its script repeats 40 steps by default",
    "warm_up": "timm's table does not say it; its script warms up for 10 steps by default",
}


def detects(source: Source) -> bool:
    """Whether the first line has a network and a step time."""
    return bool(_kinds(source))


def _kinds(source: Source) -> list[str]:
    names = source.first_line.split(",")
    return [kind for kind in _DIRECTIONS if {"model", f"{kind}_step_time"} <= set(names)]


def read(source: Source) -> Imported:
    """The table of a file; raises ``RefusedError`` for what its name and columns do not say."""
    kind, *more = _kinds(source)
    if more:
        raise source.refused("found inference and training in one table; split it")
    conditions, machine = _conditions(source, kind)
    rows = csv.DictReader(source.lines, restkey="")
    names = {name: name.removeprefix(f"{kind}_") for name in rows.fieldnames or ()}
    for name, plain in names.items():
        if plain not in (*_NEEDED, *_MEASURED):
            raise source.refused(f"column {name}: its unit is not known; remove the column")
    if lacking := set(_NEEDED) - set(names.values()):
        raise source.refused(f"column {min(lacking)}: not found; fetch the file again")
    found: dict[tuple[Factor, ...], tuple[int, Case]] = {}
    for line, row in enumerate(rows, start=2):
        if "" in row or None in row.values():
            raise source.refused(f"line {line}: found another number of columns; fetch it again")
        one = _case(source, line, {names[name]: (name, row[name]) for name in names})
        first, _ = found.setdefault(tuple(one.factors.values()), (line, one))
        if first != line:
            raise source.refused(f"line {line}: found the case of line {first} again; remove one")
    if not found:
        raise source.refused("found a header and no row; fetch the file again")
    cases = [one for _, one in found.values()]
    measured = {name for one in cases for name in one.series}
    return Imported(
        instrument="benchmark.py of timm",
        environment=machine,
        # Rows without a time come last, so that the others stand in one table of the record.
        cases=tuple(sorted(cases, key=lambda one: one.status != "ok")),
        unstated="timm's table and the name of its file do not say it",
        conditions=conditions,
        rounding={name: step for name, _, step in _MEASURED.values() if name in measured},
        missing=_MISSING,
    )


def _case(source: Source, line: int, cells: Mapping[str, tuple[str, str]]) -> Case:
    """A row, whose ``cells`` are by their plain names: the name of the column, and its text."""

    def number(plain: str, factor: str, *, whole: bool) -> Sample:
        name, text = cells[plain]
        value = scaled(text, factor, whole=whole)
        if value is None or (value == 0 and plain not in ("gmacs", "macts", "param_count")):
            raise source.refused(f"line {line}, {name}: found {text!r}, which is no amount")
        return value

    there = [plain for plain, (_, text) in cells.items() if text]
    # Older tables print counts as 1024.0.
    factors = {
        name: number(plain, "1", whole=True) for name, plain in _FACTORS.items() if plain in there
    }
    measured = {
        quantity: number(plain, factor, whole=step > 1)
        for plain, (quantity, factor, step) in _MEASURED.items()
        if plain in there
    }
    known = "batch" in factors and {"mean_time", "image_rate"} <= measured.keys()
    if known:
        product = measured["mean_time"] * measured["image_rate"]
        if abs(factors["batch"] / product - 1) > _LARGEST_DISAGREEMENT:
            raise source.refused(f"line {line}: batch, time and rate contradict; fetch it again")
    samples = {name: [value] for name, value in measured.items()}
    reason = None if known else "the table gives no time"
    return case({"network": cells["model"][1], **factors}, samples, reason)


def _conditions(source: Source, kind: str) -> tuple[dict[str, str], ImportedEnvironment]:
    """What holds for the whole file, from its name and from what the user says."""
    matched = _NAME.fullmatch(source.name.removesuffix(".gz"))
    named = matched.groupdict() if matched else {}
    if named and named["kind"] != kind:
        raise source.refused(f"the name says {named['kind']}, the columns say {kind}; fix the name")
    said: dict[str, str | None] = dict.fromkeys(_CONDITIONS)
    if named:
        digits, cuda = named["torch"], named["cuda"].removeprefix("cu")
        said = {
            "precision": named["precision"],
            "layout": named["layout"],
            "compiler": "dynamo" if named["dynamo"] else "none",
            # «113» is PyTorch 1.13 and «240» is 2.4.0: versions before 2 had two places.
            "torch": f"1.{digits[1:]}" if digits[0] == "1" else ".".join(digits),
            "cuda": "none" if cuda == "cpu" else f"{cuda[:2]}.{cuda[2:]}",
        }
    source.refuse_others(said)
    known = {name: source.said(name, value) for name, value in said.items()}
    token = named.get("device") or "nothing"
    if device := re.fullmatch(r"rtx(\d{4})", token):
        token = f"NVIDIA GeForce RTX {device[1]}"
    elif not source.device:
        raise source.refused(
            f"its name calls the device {token}, which is no full name; give it with --device"
        )
    on_cpu = known["cuda"] == "none"
    machine = environment(
        "cpu" if on_cpu else "cuda",
        source.device or token,
        framework=f"PyTorch {known['torch']}",
        cuda=None if on_cpu else known["cuda"],
    )
    conditions = {name: known[name] for name in _CONDITIONS[:3]}
    return {"direction": _DIRECTIONS[kind], **conditions}, machine

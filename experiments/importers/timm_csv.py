"""timm's benchmark tables: one row a network, conditions in the name of the file.

``benchmark.py`` of timm prints the mean step time over its repetitions in ms, images a second over
the same, parameters and activations in millions and multiply-adds of one image as «GMACs», all but
the time rounded to two places.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from experiments.importers.imported import Imported, Source, environment, scaled
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
    return [k for k in _DIRECTIONS if {"model", f"{k}_step_time"} <= set(source.columns)]


def read(source: Source) -> Imported:
    """The table of a file; raises ``RefusedError`` for what its name and columns do not say."""
    kind, *more = _kinds(source)
    if more:
        raise source.refused("found inference and training in one table; split it")
    conditions, machine = _conditions(source, kind)
    header, rows = source.table()
    names = {name.removeprefix(f"{kind}_"): name for name in header}
    for plain, name in names.items():
        if plain not in (*_NEEDED, *_MEASURED):
            raise source.refused(f"column {name}: its unit is not known; remove the column")
    if lacking := set(_NEEDED) - names.keys():
        raise source.refused(f"column {min(lacking)}: not found; fetch the file again")
    found: dict[tuple[Factor, ...], tuple[int, Case]] = {}
    for line, row in rows:
        case = _case(source, line, row, names)
        first, _ = found.setdefault(tuple(case.factors.values()), (line, case))
        if first != line:
            raise source.refused(f"line {line}: found the case of line {first} again; remove one")
    cases = tuple(case for _, case in found.values())
    measured = {name for case in cases for name in case.series}
    return Imported(
        instrument="benchmark.py of timm",
        environment=machine,
        cases=cases,
        unstated="timm's table and the name of its file do not say it",
        conditions=conditions,
        rounding={name: step for name, _, step in _MEASURED.values() if name in measured},
        missing=_MISSING,
    )


def _case(source: Source, line: int, row: Mapping[str, str], names: Mapping[str, str]) -> Case:
    """The network of a row; ``names`` are those of the columns by the plain ones."""

    def number(plain: str, factor: str, *, whole: bool) -> Sample:
        text = row[names[plain]]
        value = scaled(text, factor, whole=whole)
        if value is None or (value == 0 and plain not in ("gmacs", "macts", "param_count")):
            raise source.refused(f"line {line}, {names[plain]}: found {text!r}, which is no amount")
        return value

    there = {plain for plain, name in names.items() if row[name]}
    # Older tables print counts as 1024.0.
    factors = {n: number(p, "1", whole=True) for n, p in _FACTORS.items() if p in there}
    measured = {
        quantity: (number(plain, factor, whole=step > 1),)
        for plain, (quantity, factor, step) in _MEASURED.items()
        if plain in there
    }
    known = "batch" in factors and {"mean_time", "image_rate"} <= measured.keys()
    if known:
        product = measured["mean_time"][0] * measured["image_rate"][0]
        if abs(factors["batch"] / product - 1) > _LARGEST_DISAGREEMENT:
            raise source.refused(f"line {line}: batch, time and rate contradict; fetch it again")
    return Case(
        factors={"network": row["model"], **factors},
        status="ok" if known else "unavailable",
        reason=None if known else "the table gives no time",
        series=measured,
    )


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
    elif "device" not in source.given:
        raise source.refused(
            f"its name calls the device {token}, which is no full name; give it with --device"
        )
    on_cpu = known["cuda"] == "none"
    machine = environment(
        "cpu" if on_cpu else "cuda",
        source.given.get("device", token),
        framework=f"PyTorch {known['torch']}",
        cuda=None if on_cpu else known["cuda"],
    )
    conditions = {name: known[name] for name in _CONDITIONS[:3]}
    return {"direction": _DIRECTIONS[kind], **conditions}, machine

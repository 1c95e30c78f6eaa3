"""``python -m experiments theory NETWORK``: tables on the screen, one JSON object, or figures."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from experiments.harness.isolated import ROOT
from experiments.harness.study import UsageError
from report.errors import MeasurementError
from report.evidence.devices import Operation, read_devices
from report.theory.network import HEADINGS, Row, Theory
from report.theory.roofline import Roof, sheet_roof

if TYPE_CHECKING:
    from experiments.harness.operators import Input

#: With more modules the table shows those with most multiply-adds.
_MODULES: Final = 40
_INPUT: Final = re.compile(r"(?:([a-z0-9]+):)?(\d+(?:,\d+)*)")


def add_theory(go: argparse.ArgumentParser) -> None:
    """The options of ``theory``."""
    go.add_argument(
        "network",
        help="torchvision:resnet50, timm:resnet50, study:ResNet-20, or my_file.py:function, which "
        "returns the module",
    )
    go.add_argument(
        "--input",
        dest="inputs",
        action="append",
        default=[],
        metavar="[TYPE:]N,C,H,W",
        help="shape of an input, such as 2,3,64,64 or int64:2,128; may be repeated",
    )
    go.add_argument("--batch", type=int, default=1, metavar="N", help="images a call; default: 1")
    go.add_argument(
        "--image", type=int, metavar="PIXELS", help="pixels a side; default: the network's own"
    )
    go.add_argument("--train", action="store_true", help="a whole training step")
    go.add_argument(
        "--dtype", choices=("float32", "bfloat16", "float16"), default="float32",
        help="type of parameters and images; default: float32",
    )  # fmt: skip
    go.add_argument(
        "--device-peaks",
        metavar="NAME",
        help="also the least time on a device of data/devices.yaml, such as A100",
    )
    go.add_argument("--json", action="store_true", help="print one JSON object")
    go.add_argument(
        "--figures", type=Path, metavar="DIR", help="write a roofline and a timeline of memory"
    )
    go.add_argument("--debug", action="store_true", help="show tracebacks")


def theory(options: argparse.Namespace) -> int:
    """Tell the theory of a network; 1 if an operator is not known."""
    from experiments.theory.checked import checked
    from experiments.theory.networks import network

    named = network(options.network)
    inputs = inputs_of(options, named.image)
    found = checked(in_type(named.build, options.dtype), inputs, train=options.train)
    roof = _roof(options.device_peaks, options.dtype) if options.device_peaks else None
    print(_json(found, roof) if options.json else _told(found, roof))
    if options.figures is not None:
        from experiments.theory.figures import write_figures

        write_figures(found, options.figures, roof)
    if found.refused:
        names = ", ".join(found.refused)
        raise UnknownOperatorError(
            f"{options.network}: {names}: the work of this operator is not known, so that no sum "
            "is told; add it to report/theory/operators.py."
        )
    return 0


def in_type(build: Any, dtype: str) -> Any:
    """``build`` with parameters of another type."""
    if dtype == "float32":
        return build

    def built() -> Any:
        import torch

        return build().to(getattr(torch, dtype))

    return built


def inputs_of(options: argparse.Namespace, image: tuple[int, int, int]) -> list[Input]:
    """The inputs that the command line asks for: images of the network's own unless told."""
    from experiments.harness.operators import Input

    if not options.inputs:
        channels, *own = image
        sides = own if options.image is None else [options.image] * 2
        if min(options.batch, *sides) < 1:
            raise UsageError("--batch and --image are whole numbers from 1 on.")
        return [Input((options.batch, channels, *sides), options.dtype)]
    found = []
    for text in options.inputs:
        matched = _INPUT.fullmatch(text)
        if matched is None:
            raise UsageError(f"--input {text!r} is not possible; give a shape such as 2,3,64,64.")
        shape = tuple(map(int, matched[2].split(",")))
        found.append(Input(shape, matched[1] or options.dtype))
    return found


class UnknownOperatorError(MeasurementError):
    """A network has an operator whose work is not known; the message names it."""


def _roof(name: str, dtype: str) -> Roof:
    """The data-sheet roof of a device; raises ``UsageError`` for one that is not there."""
    devices = read_devices(ROOT / "data" / "devices.yaml")
    begins = (d for d in devices.devices if d.key.startswith(name.casefold()))
    device = devices.find(name) or next(begins, None)
    operation: Operation = dtype  # type: ignore[assignment]
    arithmetic = device.peak(operation) if device else None
    memory = device.peak("memory") if device else None
    if device is None or arithmetic is None or memory is None:
        known = ", ".join(d.key for d in devices.devices if d.peak(operation) and d.peak("memory"))
        raise UsageError(f"--device-peaks {name}: no peaks in {dtype}; known are {known}.")
    return sheet_roof(arithmetic.rate, memory.rate)


def least_time(found: Theory, roof: Roof) -> float:
    """Seconds that the operators take at least, one by one, each at the nearer ceiling."""
    return sum(
        max(each.flops / roof.peak.value, each.bytes / roof.bandwidth.value)
        for each in found.loads
        if each is not None
    )


def _json(found: Theory, roof: Roof | None) -> str:
    content: dict[str, Any] = {
        "parameters": found.parameters,
        "unused_parameters": list(found.network.unused),
        "multiply_adds": found.multiply_adds,
        "bytes": found.bytes,
        "peak_bytes": found.peak.total if found.peak else None,
        "complete": found.complete,
        "may_take_more": list(found.open),
        "refused": list(found.refused),
        "kinds": [asdict(row) for row in found.by_kind],
        "modules": [asdict(row) for row in found.by_module],
    }
    if roof is not None and not found.refused:
        content["least_time_s"] = least_time(found, roof)
    return json.dumps(content, ensure_ascii=False, indent=1)


def _told(found: Theory, roof: Roof | None) -> str:
    """Two tables and the sums."""
    modules = sorted(found.by_module, key=lambda row: -row.multiply_adds)[:_MODULES]
    shown = [row for row in found.by_module if row in modules]
    parts = [_table("Module", shown), _table("Operators", found.by_kind), _sums(found)]
    if roof is not None and not found.refused:
        parts.append(f"Least time on this roof: {1e3 * least_time(found, roof):.4g} ms")
    return "\n\n".join(parts)


def _sums(found: Theory) -> str:
    lines = [f"Parameters: {found.parameters:,}"]
    if unused := found.network.unused:
        lines.append(f"Never read: {', '.join(unused)}")
    if not found.refused:
        lines.append(f"Multiply-adds: {found.multiply_adds:,}")
        lines.append(f"Compulsory traffic: {found.bytes:,} B, operator by operator")
    if found.peak is not None:
        least = "" if found.complete else "at least "
        at = found.peak.operator
        where = f"{at.name} of {at.module or 'the network'}"
        lines.append(f"Peak memory: {least}{found.peak.total:,} B, in {where}")
    return "\n".join(lines)


def _table(first: str, rows: Sequence[Row]) -> str:
    """Rows in columns, numbers to the right."""
    lines = [(first, *HEADINGS), *((row.name, *row.cells) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )

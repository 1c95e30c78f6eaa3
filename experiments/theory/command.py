"""``python -m experiments theory NETWORK``: tables on the screen, one JSON object, or figures."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from experiments.harness.study import UsageError
from report.errors import MeasurementError

if TYPE_CHECKING:
    from experiments.harness.operators import Input

_INPUT: Final = re.compile(r"(?:([a-z0-9]+):)?(\d+(?:,\d+)*)")


class UnknownOperatorError(MeasurementError):
    """A network has an operator whose work is not known; the message names it."""


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
    from experiments.theory import printed
    from experiments.theory.checked import checked
    from experiments.theory.networks import network

    named = network(options.network)
    inputs = inputs_of(options, named.image)
    found = checked(in_type(named.build, options.dtype), inputs, train=options.train)
    roof = printed.sheet(options.device_peaks, options.dtype) if options.device_peaks else None
    print((printed.as_json if options.json else printed.as_tables)(found, roof))
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

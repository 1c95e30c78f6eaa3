"""``python -m experiments theory NETWORK``: tables on the screen, one JSON object, or figures."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from experiments.harness.study import UsageError
from report.errors import MeasurementError
from report.theory.allocator_options import Options, options_of

if TYPE_CHECKING:
    from experiments.harness.operators import Input
    from report.theory.network import Theory

_INPUT: Final = re.compile(r"(?:([a-z0-9]+):)?(\d+(?:,\d+)*)")


class UnknownOperatorError(MeasurementError):
    """A network has an operator whose work is not known; the message names it."""


def add_theory(go: argparse.ArgumentParser) -> None:
    """The options of ``theory``."""
    go.add_argument(
        "network",
        nargs="?",
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
    _add_device(go)
    go.add_argument("--json", action="store_true", help="print one JSON object")
    go.add_argument(
        "--figures", type=Path, metavar="DIR", help="write a roofline and a timeline of memory"
    )
    go.add_argument(
        "--capture", action="store_true",
        help="write the operators of the studies' networks anew for papers, and nothing else",
    )  # fmt: skip
    go.add_argument("--debug", action="store_true", help="show tracebacks")


def _add_device(go: argparse.ArgumentParser) -> None:
    """The options that ask for a device which need not be there."""
    go.add_argument(
        "--device-peaks",
        metavar="NAME",
        help="also the least time and the attainable rate on a device of data/devices.yaml, such "
        "as A100, or on the measured roofs of a record (a .zip file)",
    )
    go.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="where the memory is predicted: on this processor, or (experimental, see docs/gpu.md) "
        "on a GPU, which need not be there",
    )
    go.add_argument(
        "--allocator",
        metavar="OPTIONS",
        help="with --device cuda: options of PyTorch's allocator, such as "
        "expandable_segments:True; default: PYTORCH_ALLOC_CONF",
    )


def theory(options: argparse.Namespace) -> int:
    """Tell the theory of a network; 1 if an operator is not known."""
    from experiments.theory import printed
    from experiments.theory.checked import checked
    from experiments.theory.networks import FORMS, network
    from experiments.theory.roofs import named_roof

    if options.capture:
        from experiments.theory.capturing import write_networks

        write_networks()
        return 0
    if options.network is None:
        raise UsageError(f"Name a network: {FORMS}.")
    allocator = allocator_options(options.device, options.allocator)
    named = network(options.network)
    inputs = inputs_of(options, named.image)
    roof = named_roof(options.device_peaks, options.dtype) if options.device_peaks else None
    found = checked(
        in_type(named.build, options.dtype),
        inputs,
        train=options.train,
        allocator=allocator,
        roof=roof and roof.roof,
    )
    print((printed.as_json if options.json else printed.as_tables)(found, roof))
    if options.figures is not None:
        from experiments.theory.figures import write_figures

        write_figures(found, options.figures, roof)
    _refuse(found, options.network)
    return 0


def _refuse(found: Theory, network: str) -> None:
    """Raise ``UnknownOperatorError`` for a network of which something is not known."""
    if found.refused:
        raise UnknownOperatorError(
            f"{network}: {', '.join(found.refused)}: the work of this operator is not known, so "
            "that no sum is told; add it to report/theory/operators.py."
        )
    if found.unlike_gpu:
        raise UnknownOperatorError(
            f"{network}: {', '.join(found.unlike_gpu)}: a GPU runs other kernels there, so that no "
            "peak is told; ask where PyTorch has a GPU, or leave out --device cuda."
        )


def allocator_options(device: str, text: str | None) -> Options | None:
    """The options of the allocator of a GPU, by default those of the environment; None on a CPU.

    Raises ``UsageError`` where the allocator is off, ``StudyError`` for an option not modelled.
    """
    if device == "cpu":
        if text is not None:
            raise UsageError("--allocator is that of a GPU; add --device cuda.")
        return None
    if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        raise UsageError(
            "PYTORCH_NO_CUDA_MEMORY_CACHING turns the allocator off, which is modelled; unset it."
        )
    if text is None:
        old = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
        text = os.environ.get("PYTORCH_ALLOC_CONF", old)
    return options_of(text)


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

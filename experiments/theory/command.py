"""``python -m experiments theory NETWORK``: print the theory of a network, and draw figures.

The theory is the work, traffic, memory and least time of one call, computed from the operators that
the network calls.  A capture lists these operators.
"""

import argparse
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from experiments.machine.runtime import import_torch
from experiments.theory import printed
from experiments.theory.capture_cache import CaptureAt, with_disk_cache
from experiments.theory.captures import CapturePolicy, Input
from experiments.theory.checked import capture_theory
from experiments.theory.networks import (
    NAME_FORMS,
    find_network,
    named_limit,
    named_roof,
    users_code,
    with_layout,
)
from report.core.errors import MeasurementError, UsageError
from report.core.records.operations import ITEM_BYTES
from report.theory.allocator import Options, parse_options
from report.theory.network import BatchSearch, Theory, search_batches

#: Options that are fields of ``CapturePolicy``.
_POLICY_OPTIONS: Final = ("optimizer", "update", "accumulate", "checkpoint", "autocast")

#: Options of ``theory`` in the format of ``report.core.system.commandline``.
OPTIONS: Final = f"""\
network  NETWORK?  {NAME_FORMS}, which returns the module
--input  [TYPE:]N,C,H,W...  shape of an input, such as 2,3,64,64 or int64:2,128; may be repeated;
  N stands for the batch, which is the first extent where no input has one
--batch  COUNT [1]  images a call
--image  COUNT  pixels a side; default: the network's own
--train  –  a whole training step
--optimizer  sgd|momentum|adam|adamw|adafactor [momentum]  with --train
--update  single|foreach|fused  how it updates parameters; default: PyTorch's, single on a CPU and
  foreach on a GPU
--accumulate  N [1]  batches per update
--checkpoint  MODULE...  compute its activations again in the backward pass; may be repeated
--autocast  bfloat16|float16  compute in this type where it is safe
--channels-last  –  the layout of images
--dtype  float32|bfloat16|float16 [float32]  type of parameters and images
--device-peaks  DEVICE  also the least time and the attainable rate on a device of
  data/devices.yaml, such as A100, or on the measured roofs of a record (a .json file)
--device  cpu|cuda [cpu]  where the memory is predicted: on this processor, or on a GPU,
  which need not be there (see docs/measuring.md)
--allocator  OPTIONS  with --device cuda: options of PyTorch's allocator, such as
  expandable_segments:True; default: PYTORCH_ALLOC_CONF
--fits  LIMIT  the largest batch whose memory fits into 8GB, a GPU of data/devices.yaml such as
  T4, or the machine of a record (record:FILE.json); --batch is not read
--json  –  print one JSON object
--figures  DIR  write a roofline and a timeline of memory, or memory over the batch
--capture  –  write the operators of the studies' networks anew for papers, and nothing else
"""


def theory(options: argparse.Namespace) -> int:
    """Print the theory of a network, or the largest batch that fits; return the exit code 0.

    With ``--capture``, writes the operators of the studies' networks instead.  Raises
    ``MeasurementError`` after printing a theory in which the work or peak of an operator is
    unknown.
    """
    if options.capture:
        from experiments.theory.operators import write_networks

        write_networks()
        return 0
    if options.network is None:
        raise UsageError(f"Name a network: {NAME_FORMS}.")
    limit = named_limit(options.fits) if options.fits else None
    device = "cuda" if limit and limit.is_gpu else options.device
    roof = named_roof(options.device_peaks, options.dtype) if options.device_peaks else None
    with users_code(options.network):
        theory_at = _theory_by_name(options, device)
        if limit:
            result: Theory | BatchSearch = search_batches(theory_at, limit.bytes)
        else:
            result = replace(theory_at(None, None), roof=roof)
    limit_name = limit.name if limit else ""
    print(printed.as_text(result, limit_name, json=options.json))
    if options.figures is not None:
        printed.write(options.figures, printed.drawings(result, limit_name))
    if isinstance(result, Theory):
        _refuse_unknown_work(result, options.network)
    return 0


def _theory_by_name(options: argparse.Namespace, device: str) -> CaptureAt:
    """Return a function that captures the named network, or reads the capture from a disk cache."""
    allocator = allocator_options(device, options.allocator)
    policy_options = {name: getattr(options, name) for name in _POLICY_OPTIONS}
    policy = CapturePolicy(**policy_options)
    find_once = cache(find_network)

    def capture_at(batch: int | None, probe: int | None) -> Theory:
        build, image = find_once(options.network)
        return capture_theory(
            with_layout(build, options.dtype, options.channels_last),
            inputs_of(options, image),
            batch=batch,
            probe=probe,
            train=options.train,
            allocator=allocator,
            policy=policy,
        )

    request = {"allocator": allocator, **policy_options}
    for name in ("network", "input", "batch", "image", "dtype", "channels_last", "train"):
        request[name] = getattr(options, name)
    request["gpu"] = device == "cuda" and import_torch().cuda.is_available()
    return with_disk_cache(capture_at, request)


def _refuse_unknown_work(theory: Theory, network: str) -> None:
    """Raise ``MeasurementError`` if the network's work, or its peak memory on a GPU, is unknown."""
    if theory.unknown_operators:
        remedy = "add its work to report/theory/operators.py"
        operators = ", ".join(theory.unknown_operators)
        raise MeasurementError(f"{network}: the work of {operators} is unknown; {remedy}.")
    if theory.names_replaced_on_gpu:
        modules = ", ".join(theory.names_replaced_on_gpu)
        remedy = "run this command where PyTorch has a GPU, or leave out --device cuda"
        raise MeasurementError(f"{network}: a GPU runs other kernels for {modules}; {remedy}.")


def allocator_options(device: str, text: str | None) -> Options | None:
    """Parse options of a GPU's allocator, by default from the environment; None on a CPU.

    Raises ``UsageError`` for options on a CPU and if the environment turns the allocator off, and
    ``StudyError`` for an option that is not modelled.
    """
    if device == "cpu":
        if text is not None:
            raise UsageError("--allocator describes a GPU's allocator; add --device cuda.")
        return None
    if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        raise UsageError("PYTORCH_NO_CUDA_MEMORY_CACHING turns off the allocator; unset it.")
    if text is None:
        by_old_name = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
        text = os.environ.get("PYTORCH_ALLOC_CONF", by_old_name)
    return parse_options(text)


def inputs_of(options: argparse.Namespace, image: tuple[int, ...]) -> list[Input]:
    """Return the inputs that the command line describes, by default images.

    ``image`` (channels, height, width) is the shape for which the network was made, or empty if
    unknown.  Raises ``UsageError`` if no shape is known, and for an impossible shape or type.
    """
    if not options.input:
        if not image and options.image is None:
            forms = "it, such as --input N,3,224,224, or --image 224 for 3 channels"
            raise UsageError(f"The input shape of {options.network} is unknown; give {forms}.")
        channels, *default_sides = image or (3,)
        sides = default_sides if options.image is None else [options.image] * 2
        images = ("N", channels, *sides)
        return inputs_of_shapes([images], [options.dtype], options.channels_last, options.batch)
    shapes, types = [], []
    for text in options.input:
        dtype, _, shape = text.rpartition(":")
        if not re.fullmatch(r"(\d+|N)(,(\d+|N))*", shape):
            raise UsageError(f"--input {text!r} is not possible; give a shape such as 2,3,64,64.")
        if dtype and dtype not in ITEM_BYTES:
            raise UsageError(f"--input {text!r}: the types are {', '.join(ITEM_BYTES)}.")
        shapes.append(shape.split(","))
        types.append(dtype or options.dtype)
    return inputs_of_shapes(shapes, types, options.channels_last, options.batch)


def inputs_of_shapes(
    shapes: Sequence[Sequence[int | str]], types: Sequence[str], channels_last: bool, batch: int = 1
) -> list[Input]:
    """Return inputs of these shapes, with ``batch`` in place of each ``N``.

    An axis of extent ``N`` is a batch axis.  If no shape has an ``N``, the first axis of each input
    is the batch axis.  ``channels_last`` applies to inputs of four axes.
    """
    has_batch_axis = any("N" in shape for shape in shapes)
    inputs = []
    for shape, dtype in zip(shapes, types, strict=True):
        extents = tuple(batch if n == "N" else int(n) for n in shape)
        batch_axes: tuple[int, ...] = (0,)
        if has_batch_axis:
            batch_axes = tuple(axis for axis, n in enumerate(shape) if n == "N")
        inputs.append(Input(extents, dtype, channels_last and len(shape) == 4, batch_axes))
    return inputs

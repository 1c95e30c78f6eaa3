"""``python -m experiments theory NETWORK``: tables on the screen, one JSON object, or figures."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from experiments.theory.networks import FORMS
from report.errors import MeasurementError, UsageError
from report.records.operations import ITEM_BYTES
from report.theory.allocator import Options, options_of

if TYPE_CHECKING:
    from experiments.harness.operators import Build, Input, Policy
    from report.theory.network import Theory

_INPUT: Final = re.compile(r"(?:([a-z0-9]+):)?((?:\d+|N)(?:,(?:\d+|N))*)")
#: The options that ``policy_of`` takes.
_POLICY: Final = ("optimizer", "update", "accumulate", "checkpoint", "autocast")

#: The options of ``theory``, as the command line reads them.
OPTIONS: Final = f"""\
network  NETWORK?  {FORMS}, which returns the module
--input  [TYPE:]N,C,H,W...  shape of an input, such as 2,3,64,64 or int64:2,128; may be repeated;
  N stands for the batch, which is the first extent where no input has one
--batch  N [1]  images a call
--image  N  pixels a side; default: the network's own
--train  –  a whole training step
--optimizer  sgd|momentum|adam|adamw|adafactor [momentum]  with --train
--update  single|foreach|fused  how it updates parameters; default: PyTorch's, single on a CPU and
  foreach on a GPU
--accumulate  N [1]  batches before each update
--checkpoint  MODULE...  compute its activations again in the backward pass; may be repeated
--autocast  bfloat16|float16  compute in this type where it is safe
--channels-last  –  the layout of images
--dtype  float32|bfloat16|float16 [float32]  type of parameters and images
--device-peaks  DEVICE  also the least time and the attainable rate on a device of
  data/devices.yaml, such as A100, or on the measured roofs of a record (a .zip file)
--device  cpu|cuda [cpu]  where the memory is predicted: on this processor, or on a GPU,
  which need not be there (see docs/measuring.md)
--allocator  OPTIONS  with --device cuda: options of PyTorch's allocator, such as
  expandable_segments:True; default: PYTORCH_ALLOC_CONF
--fits  LIMIT  the largest batch whose memory fits into 8GB, a GPU of data/devices.yaml such as
  T4, or the machine of a record (record:FILE.zip); --batch is not read
--json  –  print one JSON object
--figures  DIR  write a roofline and a timeline of memory, or memory over the batch
--capture  –  write the operators of the studies' networks anew for papers, and nothing else
"""


def theory(options: argparse.Namespace) -> int:
    """Tell the theory of a network; 1 if an operator is not known."""
    from experiments.theory import printed
    from experiments.theory.checked import at_batch, checked
    from experiments.theory.networks import network
    from experiments.theory.roofs import named_limit, named_roof
    from report.theory.fits import fits

    if options.capture:
        from experiments.theory.capturing import write_networks

        write_networks()
        return 0
    if options.network is None:
        raise UsageError(f"Name a network: {FORMS}.")
    limit = named_limit(options.fits) if options.fits else None
    device = "cuda" if limit and limit.gpu else options.device
    allocator = allocator_options(device, options.allocator)
    named = network(options.network)
    roof = named_roof(options.device_peaks, options.dtype) if options.device_peaks else None
    make = partial(
        checked,
        prepared(named.build, options.dtype, options.channels_last),
        train=options.train,
        allocator=allocator,
        roof=roof and roof.roof,
        policy=policy_of(device, **{name: getattr(options, name) for name in _POLICY}),
    )
    inputs = inputs_of(options, named.image)
    if limit:
        frontier = fits(lambda n, probe: make(at_batch(inputs, n), probe=probe), limit.bytes)
        show = printed.fits_as_json if options.json else printed.fits_as_text
        print(show(frontier, limit.name))
        if options.figures is not None:
            from experiments.theory.figures import fits_figure, write

            write(options.figures, {"fits": fits_figure(frontier, limit.name)})
        return 0
    found = make(inputs)
    print((printed.as_json if options.json else printed.as_tables)(found, roof))
    if options.figures is not None:
        from experiments.theory.figures import memory, roofline, write

        drawings = {"memory": memory(found)}
        write(options.figures, drawings | ({"roofline": roofline(found, roof)} if roof else {}))
    _refuse(found, options.network)
    return 0


def _refuse(found: Theory, network: str) -> None:
    """Raise ``MeasurementError`` for a network of which something is not known."""
    if found.refused:
        raise MeasurementError(
            f"{network}: {', '.join(found.refused)}: the work of this operator is not known, so "
            "that no sum is told; add it to report/theory/operators.py."
        )
    if found.unlike_gpu:
        raise MeasurementError(
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


def policy_of(
    device: str,
    *,
    optimizer: str = "momentum",
    update: str | None = None,
    accumulate: int = 1,
    checkpoint: Sequence[str] = (),
    autocast: str | None = None,
) -> Policy:
    """How a network is called; parameters are updated by PyTorch's default unless said.

    Raises ``UsageError`` for what is not possible.
    """
    from experiments.harness.operators import Policy

    if accumulate < 1:
        raise UsageError("--accumulate is a whole number from 1 on.")
    if update is None:
        update = "foreach" if device == "cuda" and optimizer != "adafactor" else "single"
    if (optimizer, update) == ("adafactor", "fused"):
        raise UsageError("PyTorch has no fused Adafactor; choose single or foreach.")
    return Policy(autocast, optimizer, update, accumulate, tuple(checkpoint))  # type: ignore[arg-type]


def prepared(build: Build, dtype: str, channels_last: bool = False) -> Build:
    """``build`` with parameters of another type and layout."""

    def built() -> Any:
        import torch

        layout = torch.channels_last if channels_last else torch.preserve_format
        return build().to(getattr(torch, dtype)).to(memory_format=layout)

    return built


def inputs_of(options: argparse.Namespace, image: tuple[int, int, int]) -> list[Input]:
    """The inputs that the command line asks for: images of the network's own by default."""
    if not options.input:
        channels, *own = image
        sides = own if options.image is None else [options.image] * 2
        if min(options.batch, *sides) < 1:
            raise UsageError("--batch and --image are whole numbers from 1 on.")
        shape = ("N", channels, *sides)
        return shaped([shape], [options.dtype], options.channels_last, options.batch)
    shapes, types = [], []
    for text in options.input:
        matched = _INPUT.fullmatch(text)
        if matched is None:
            raise UsageError(f"--input {text!r} is not possible; give a shape such as 2,3,64,64.")
        dtype = matched[1] or options.dtype
        if dtype not in ITEM_BYTES:
            raise UsageError(f"--input {text!r}: the types are {', '.join(ITEM_BYTES)}.")
        shapes.append([each if each == "N" else int(each) for each in matched[2].split(",")])
        types.append(dtype)
    return shaped(shapes, types, options.channels_last, options.batch)


def shaped(
    shapes: Sequence[Sequence[int | str]], types: Sequence[str], channels_last: bool, batch: int = 1
) -> list[Input]:
    """Inputs of these shapes; ``N`` stands for the batch, else it is the first extent."""
    from experiments.harness.operators import Input

    marked = any("N" in shape for shape in shapes)
    return [
        Input(
            tuple(batch if n == "N" else int(n) for n in shape),
            dtype,
            channels_last and len(shape) == 4,
            tuple(axis for axis, n in enumerate(shape) if n == "N") if marked else (0,),
        )
        for shape, dtype in zip(shapes, types, strict=True)
    ]

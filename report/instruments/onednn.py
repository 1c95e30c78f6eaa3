"""What oneDNN prints of a call with ``ONEDNN_VERBOSE=1``, read strictly; pure.

A line a primitive tells its kind, the implementation that was chosen (``jit:avx512_core`` is code
generated for AVX-512), its tensors with their layouts, and the shape (oneDNN 3.12, "Verbose mode",
https://uxlfoundation.github.io/oneDNN/dev_guide_verbose.html).  In a layout such as ``aBcd16b`` the
letters are the dimensions from the outermost on; a capital one is split into blocks, whose size
stands before its small letter.  A dimension that does not fill its last block is filled up with
zeros, which are multiplied like all else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from report.errors import RecordError
from report.instruments.counters.logs import REMEDY
from report.records.record import Factor

#: The instructions of a log: all of the processor, or those of the one that lackey plays.
NATIVE: Final = "native"
AVX2: Final = "avx2"

_PREFIX: Final = "onednn_verbose,v1,"
_ISA: Final = "info,cpu,isa:"
_EXECUTED: Final = "primitive,exec,cpu,"
#: kind, implementation, propagation, tensors, attributes, auxiliary, problem, time
_FIELDS: Final = 8
#: The factors that name a log.
_NAMED: Final = ("subject", "variant", "channels", "kernel", "input", "pass", "layout", "batch")
_BLOCK: Final = re.compile(r"(\d+)([a-z])")
_EXTENT: Final = re.compile(r"([a-z]+)(\d+)")


@dataclass(frozen=True)
class Primitive:
    """One primitive that was executed; ``layouts`` are those of its tensors by their short names.

    ``problem`` is its shape as oneDNN writes it.
    """

    kind: str
    implementation: str
    layouts: Mapping[str, str]
    problem: str


@dataclass(frozen=True)
class Log:
    """What a process said: the instructions that oneDNN may use, and the primitives in order."""

    instructions: str
    primitives: tuple[Primitive, ...]

    @property
    def convolutions(self) -> tuple[Primitive, ...]:
        """The convolutions alone, without what copies tensors into other layouts."""
        return tuple(each for each in self.primitives if each.kind == "convolution")


def log_file(factors: Mapping[str, Factor], instructions: str) -> str:
    """The name of the file beside a record that holds the log of a case."""
    words = "-".join(str(factors[name]) for name in _NAMED if name in factors)
    return f"onednn.{words.replace(' ', '-').replace('_', '-')}.{instructions}.txt"


def parse_log(text: str, place: str) -> Log:
    """The log of one process; raises ``RecordError`` for what is cut off or of another version."""
    instructions, primitives = None, []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith(_PREFIX):
            raise RecordError(
                f"{place}: line {number}: expected {_PREFIX}…, found {line[:40]!r}; {REMEDY}."
            )
        said = line.removeprefix(_PREFIX)
        if said.startswith(_ISA):
            instructions = said.removeprefix(_ISA)
        elif said.startswith(_EXECUTED):
            primitives.append(_primitive(said.removeprefix(_EXECUTED), f"{place}: line {number}"))
    if not instructions or not text.endswith("\n"):
        raise RecordError(f"{place}: the log is cut off, or names no instructions; {REMEDY}.")
    return Log(instructions, tuple(primitives))


def _primitive(text: str, place: str) -> Primitive:
    fields = text.split(",")
    if len(fields) != _FIELDS:
        raise RecordError(f"{place}: expected {_FIELDS} fields, found {len(fields)}; {REMEDY}.")
    kind, implementation, _, tensors, _, _, problem, _ = fields
    layouts = dict(_layout(tensor, place) for tensor in tensors.split())
    return Primitive(kind, implementation, layouts, problem)


def _layout(tensor: str, place: str) -> tuple[str, str]:
    """``wei:f32:a:blocked:ABcd16b16a::f0`` as name and layout; none of a tensor without memory."""
    parts = tensor.split(":")
    if len(parts) < 5:
        raise RecordError(f"{place}: {tensor!r} is no tensor; {REMEDY}.")
    return parts[0], parts[4]


def block(layout: str, dimension: str) -> int:
    """How many elements of a dimension one block holds; 1 where it is not split."""
    sizes = [int(size) for size, letter in _BLOCK.findall(layout) if letter == dimension]
    found = 1
    for size in sizes:  # a block may be split again
        found *= size
    return found


def multiply_adds(convolution: Primitive) -> int:
    """What one pass of a convolution executes (MAC), its channels filled up to whole blocks.

    Positions that the kernel may skip, since they lie on padding, are counted.  Raises
    ``RecordError`` for a shape that is none of a convolution.
    """
    extents = {name: int(size) for name, size in _EXTENT.findall(convolution.problem)}
    if not {"mb", "ic", "oc"} <= set(extents):
        raise RecordError(
            f"{convolution.problem!r} is no shape of a convolution of oneDNN; {REMEDY}."
        )
    groups, weights = extents.get("g", 1), convolution.layouts.get("wei", "")
    outputs, inputs = extents["oc"] // groups, extents["ic"] // groups
    # Groups are the first dimension of the weights where there are any.
    grouped = "g" in extents
    of_groups, of_outputs, of_inputs = "abc" if grouped else " ab"
    total = extents["mb"] * _up(groups, block(weights, of_groups))
    total *= _up(outputs, block(weights, of_outputs)) * _up(inputs, block(weights, of_inputs))
    for axis in "dhw":
        total *= extents.get(f"o{axis}", 1) * extents.get(f"k{axis}", 1)
    return total


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple

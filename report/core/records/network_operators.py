"""The operators of timm's networks: ``data/operators-of-timm.jsonl.gz``, one line per network.

timm is a library of image networks.  ``python -m benchmarks.timm_networks`` runs its networks on
tensors that have shapes but no memory, and writes the file.  All numbers follow from shapes; none
is measured.
"""

import gzip
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Final

import msgspec

from report.core.errors import RecordError
from report.core.records.files import read_file, unpacked
from report.core.records.strict import parse_json, repeated

_REMEDY: Final = "restore the file with git"

Count = Annotated[int, msgspec.Meta(ge=0)]


class SurveyOperator(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One call of an operator on one image.

    ``name``: ATen's name.  ``weights``: number of parameters that the operator reads.  ``reads``,
    ``writes``: number of elements of its other operands, and of its results.
    """

    name: str
    multiply_adds: Count
    weights: Count
    reads: Count
    writes: Count


class NetworkOperators(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A network on square images of ``side`` pixels, with its number of parameters.

    ``operators``: empty if only bytes were counted, as for transformers.
    ``half_bytes``, ``single_bytes``: bytes that a GPU moves per image under PyTorch's autocast to
    float16; 0 if not counted.  The normalizations that timm can compute in either type count as
    float16 in ``half_bytes`` and as float32 in ``single_bytes``.
    """

    network: str
    side: Annotated[int, msgspec.Meta(gt=0)]
    parameters: Count
    operators: tuple[SurveyOperator, ...]
    half_bytes: Count = 0
    single_bytes: Count = 0


def write_operators(path: Path, networks: Iterable[NetworkOperators]) -> None:
    """Write one line per network, sorted by name; equal networks give equal bytes."""
    ordered = sorted(networks, key=attrgetter("network"))
    lines = b"".join(msgspec.json.encode(network) + b"\n" for network in ordered)
    path.write_bytes(gzip.compress(lines, mtime=0))


def read_operators(path: Path) -> tuple[NetworkOperators, ...]:
    """Read the file that ``write_operators`` wrote; return () if there is no file.

    Raises ``RecordError`` for an invalid file, and for a network that appears twice at one size.
    """
    if not path.exists() and not path.is_symlink():
        return ()
    place = f"data/{path.name}"
    text = unpacked(read_file(path, place, _REMEDY, path.parent), place, _REMEDY)
    lines = text.splitlines()
    networks = tuple(parse_json(line, NetworkOperators, place, _REMEDY) for line in lines)
    names = [f"{network.network} at {network.side} pixels" for network in networks]
    if duplicate := repeated(names):
        raise RecordError(f"{place}: found {duplicate} twice; {_REMEDY}.")
    return networks

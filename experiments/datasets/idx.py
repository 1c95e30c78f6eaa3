"""IDX, the format of MNIST's own files: big-endian magic number and sizes, then unsigned bytes.

The magic number is 2,049 for labels (one size: their count) and 2,051 for images (three sizes:
count, rows, columns); see the description of the files on yann.lecun.com/exdb/mnist.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

import numpy as np

from experiments.datasets.images import Bytes
from experiments.datasets.refusal import refusal

LABELS_MAGIC: Final = 2049
IMAGES_MAGIC: Final = 2051
SIDE: Final = 28

_NAMES: Final = {LABELS_MAGIC: "IDX labels", IMAGES_MAGIC: "IDX images"}
_WORD: Final = 4


def images_of(content: bytes, path: Path) -> Bytes:
    """``(N, 28, 28)`` from the bytes of a file; ``path`` serves the errors.

    Raises ``DataSetError`` for an empty, truncated or overlong file, a wrong magic number, and
    images of another size.
    """
    count, *sides = _sizes(content, path, IMAGES_MAGIC, 3)
    if sides != [SIDE, SIDE]:
        found = "×".join(f"{side:,}" for side in sides)
        raise refusal(path, "byte 8", f"images of {found} pixels", f"MNIST's {SIDE}×{SIDE}")
    return _body(content, path, 4 * _WORD, count, SIDE * SIDE).reshape(count, SIDE, SIDE)


def labels_of(content: bytes, path: Path) -> Bytes:
    """``(N,)`` from the bytes of a file, each from 0 to 9; ``path`` serves the errors.

    Raises ``DataSetError`` as ``images_of`` does, and for a label above 9.
    """
    (count,) = _sizes(content, path, LABELS_MAGIC, 1)
    labels = _body(content, path, 2 * _WORD, count, 1)
    wrong = np.flatnonzero(labels > 9)
    if len(wrong):
        first = int(wrong[0])
        place = f"byte {2 * _WORD + first:,}"
        raise refusal(path, place, f"the label {labels[first]}", "a digit from 0 to 9")
    return labels


def _sizes(content: bytes, path: Path, magic: int, sizes: int) -> list[int]:
    """The sizes after the magic number, the count first."""
    wanted = f"the magic number {magic:,} of {_NAMES[magic]}"
    if not content:
        raise refusal(path, "byte 0", "an empty file", wanted)
    header = _WORD * (1 + sizes)
    if len(content) >= _WORD and (found := int.from_bytes(content[:_WORD])) != magic:
        of = f" of {_NAMES[found]}" if found in _NAMES else ""
        raise refusal(path, "byte 0", f"the number {found:,}{of}", wanted)
    if len(content) < header:
        end = f"byte {len(content)}"
        raise refusal(path, end, "the end of the file", f"a header of {header} bytes")
    values = list(struct.unpack(f">{sizes}I", content[_WORD:header]))
    if values[0] == 0:
        raise refusal(path, f"byte {_WORD}", "a count of 0", "at least one entry")
    return values


def _body(content: bytes, path: Path, header: int, count: int, each: int) -> Bytes:
    """What follows the header; it must be as long as the header says, no more and no less."""
    whole = header + count * each
    announced = f"{whole:,} bytes, as its header announces {count:,} entries of {each:,}"
    if len(content) < whole:
        raise refusal(path, f"byte {len(content):,}", "the end of the file", announced)
    if len(content) > whole:
        raise refusal(path, f"byte {whole:,}", f"{len(content) - whole:,} bytes more", announced)
    return np.frombuffer(content, np.uint8, offset=header)

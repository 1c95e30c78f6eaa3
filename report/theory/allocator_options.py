"""Options of PyTorch's CUDA allocator, as ``PYTORCH_ALLOC_CONF`` sets them: modelled or refused.

The names are those of ``c10/core/AllocatorConfig.h`` and ``c10/cuda/CUDAAllocatorConfig.h`` of
PyTorch 2.13.  An option that would change which bytes a request takes, and that the model does not
know, is refused by name; options of page-locked memory and of locks change none on the device.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from report.errors import StudyError

MIB: Final = 2**20
#: Every block is a multiple of this many bytes (``kMinBlockSize``).
ROUNDING: Final = 512
#: Intervals of sizes that have divisions of their own: from 1 MiB to 64 GiB by powers of two
#: (``kRoundUpPowerOfTwoIntervals``).
_INTERVALS: Final = 16
#: What an oversize block may have more than its request (``max_non_split_rounding_size``), and the
#: least size that ``max_split_size_mb`` takes (MiB).
_OVERSIZE_MIB: Final = 20


@dataclass(frozen=True)
class Options:
    """How the allocator of a process rounds, splits and reserves.

    Blocks from ``max_split`` bytes on are not split, and serve requests up to ``oversize`` bytes
    smaller only.  ``divisions`` are those between two powers of two to which a request is rounded
    up, by the interval of its size; 0 and 1 round to 512 B alone.  With ``expandable`` segments
    each pool is one segment that grows.
    """

    max_split: int | None = None
    oversize: int = _OVERSIZE_MIB * MIB
    divisions: tuple[int, ...] = (0,) * _INTERVALS
    expandable: bool = False

    def rounded(self, size: int) -> int:
        """The bytes of the block that serves ``size`` > 0 bytes, before any remainder.

        ``round_size`` and ``roundup_power2_next_division``.
        """
        divisions = self.divisions[_interval(size // MIB)]
        if divisions > 1 and size > ROUNDING * divisions:
            step = (1 << size.bit_length() - 1) // divisions
            return -(-size // step) * step
        return -(-size // ROUNDING) * ROUNDING


#: What a process has that sets nothing.
DEFAULT: Final = Options()


def options_of(text: str) -> Options:
    """The options in a text such as ``max_split_size_mb:128,expandable_segments:True``.

    Raises ``StudyError`` for one that is not modelled, and for a value that PyTorch would refuse.
    """
    found = DEFAULT
    for part in filter(None, re.split(r",(?![^\[]*\])", "".join(text.split()))):
        name, _, value = part.partition(":")
        if name in _WITHOUT_EFFECT:
            continue
        if name not in _READERS:
            raise StudyError(
                f"allocator option {name}: it is not modelled; possible are "
                f"{', '.join(_READERS)}: leave it out."
            )
        try:
            found = _READERS[name](found, value)
        except ValueError as error:
            raise StudyError(f"allocator option {name}: {value!r} {error}.") from error
    return found


def _interval(mebibytes: int) -> int:
    return min(max(mebibytes.bit_length() - 1, 0), _INTERVALS - 1)


def _max_split(options: Options, value: str) -> Options:
    return replace(options, max_split=_mebibytes(value))


def _oversize(options: Options, value: str) -> Options:
    return replace(options, oversize=_mebibytes(value))


def _mebibytes(value: str) -> int:
    if not value.isdecimal() or int(value) < _OVERSIZE_MIB:
        raise ValueError(f"is no number of MiB from {_OVERSIZE_MIB} on")
    return int(value) * MIB


def _expandable(options: Options, value: str) -> Options:
    if value not in ("True", "False"):
        raise ValueError("is neither True nor False")
    return replace(options, expandable=value == "True")


def _threshold(options: Options, value: str) -> Options:
    """Blocks are collected only under a limit of memory, which no option modelled here sets.

    ``garbage_collect_cached_blocks`` is called where ``set_per_process_memory_fraction`` was.
    """
    if not re.fullmatch(r"0?\.\d*[1-9]\d*", value):
        raise ValueError("does not lie between 0 and 1")
    return options


def _native(options: Options, value: str) -> Options:
    if value != "native":
        raise ValueError("is another allocator, which is not modelled")
    return options


def _divisions(options: Options, value: str) -> Options:
    """One number for all sizes, or a list such as ``[256:1,512:2,>:4]`` by the size in MiB.

    The first of a list holds for all smaller sizes too, ``>`` for all above the last one
    (``parseRoundUpPower2Divisions``).
    """
    if not value.startswith("["):
        return replace(options, divisions=(_power(value),) * _INTERVALS)
    found, last = list(options.divisions), 0
    for place, item in enumerate(value.strip("[]").split(",")):
        size, _, number = item.partition(":")
        divisions = 0 if number == "0" else _power(number)
        if size == ">":
            found[last + 1 :] = [divisions] * (_INTERVALS - last - 1)
            continue
        interval = _interval(_power(size))
        if place == 0:
            found[:interval] = [divisions] * interval
        found[interval], last = divisions, interval
    return replace(options, divisions=tuple(found))


def _power(text: str) -> int:
    if not text.isdecimal() or int(text).bit_count() != 1:
        raise ValueError("holds something that is no power of two")
    return int(text)


_READERS: Final[Mapping[str, Callable[[Options, str], Options]]] = {
    "max_split_size_mb": _max_split,
    "max_non_split_rounding_mb": _oversize,
    "roundup_power2_divisions": _divisions,
    "expandable_segments": _expandable,
    "garbage_collection_threshold": _threshold,
    "backend": _native,
}
_WITHOUT_EFFECT: Final = frozenset({
    "pinned_use_background_threads", "pinned_use_cuda_host_register", "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb", "pinned_max_round_threshold_mb", "pinned_max_cached_size_mb",
    "release_lock_on_cudamalloc",
})  # fmt: skip

"""Options of PyTorch's CUDA allocator, as ``PYTORCH_ALLOC_CONF`` sets them: modelled or refused.

The names are those of ``c10/core/AllocatorConfig.h`` and ``c10/cuda/CUDAAllocatorConfig.h`` of
PyTorch 2.13.  An option that would change which bytes a request takes, and that the model does not
know, is refused by name; options of page-locked memory and of locks change none on the device.
Collection of garbage needs a limit of memory (``set_per_process_memory_fraction``) to do anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final

from report.errors import StudyError

MIB: Final = 2**20
#: Every block is a multiple of this many bytes (``kMinBlockSize``).
ROUNDING: Final = 512

#: The options that are modelled with the values that PyTorch takes: splits from 20 MiB on
#: (``kLargeBuffer``), one number of divisions for all sizes, which is a power of two.
_VALUES: Final = {
    "max_split_size_mb": re.compile(r"[2-9]\d|[1-9]\d{2,}"),
    "roundup_power2_divisions": re.compile(r"[1-9]\d*"),
    "expandable_segments": re.compile("True|False"),
    "garbage_collection_threshold": re.compile(r"0?\.\d*[1-9]\d*"),
    "backend": re.compile("native"),
}
_WITHOUT_EFFECT: Final = frozenset({
    "pinned_use_background_threads", "pinned_use_cuda_host_register", "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb", "pinned_max_round_threshold_mb", "pinned_max_cached_size_mb",
    "release_lock_on_cudamalloc",
})  # fmt: skip


@dataclass(frozen=True)
class Options:
    """How the allocator of a process rounds, splits and reserves.

    Blocks from ``max_split`` bytes on are not split.  ``divisions`` are those between two powers of
    two to which a request is rounded up; 1 rounds to 512 B alone.  With ``expandable`` segments
    each pool is one segment that grows.
    """

    max_split: int | None = None
    divisions: int = 1
    expandable: bool = False

    def rounded(self, size: int) -> int:
        """The bytes of the block that serves ``size`` > 0 bytes, before any remainder.

        ``round_size`` and ``roundup_power2_next_division``.
        """
        step = ROUNDING
        if self.divisions > 1 and size > ROUNDING * self.divisions:
            step = (1 << size.bit_length() - 1) // self.divisions
        return -(-size // step) * step


#: What a process has that sets nothing.
DEFAULT: Final = Options()


def options_of(text: str) -> Options:
    """The options in a text such as ``max_split_size_mb:128,expandable_segments:True``.

    Raises ``StudyError`` for one that is not modelled, and for a value that PyTorch would refuse.
    """
    found: dict[str, Any] = {}
    for part in filter(None, "".join(text.split()).split(",")):
        name, _, value = part.partition(":")
        if name in _WITHOUT_EFFECT:
            continue
        if name not in _VALUES:
            raise StudyError(
                f"allocator option {name}: it is not modelled; possible are "
                f"{', '.join(_VALUES)}: leave it out."
            )
        possible = _VALUES[name].fullmatch(value) is not None
        if name == "roundup_power2_divisions":
            possible = possible and int(value).bit_count() == 1
        if not possible:
            raise StudyError(
                f"allocator option {name}: {value!r} is not possible, or not modelled."
            )
        match name:
            case "max_split_size_mb":
                found["max_split"] = int(value) * MIB
            case "roundup_power2_divisions":
                found["divisions"] = int(value)
            case "expandable_segments":
                found["expandable"] = value == "True"
    return replace(DEFAULT, **found)

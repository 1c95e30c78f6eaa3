"""The advice that is tested: how PyTorch's tuning guide puts each tip, and how we read it."""

from collections.abc import Iterator, Mapping
from typing import Final

from report.paper.tables import Content
from report.studies.tuning_tips.subject import TIPS

#: The guide's words on each tip, and our reading of them.
ADVICE: Final = {
    "no_grad": ("for inference", "the same"),
    "channels_last": ("with Tensor Cores", "on the CPU"),
    "compiled": ("of any function", "whole network"),
    "allocator": ("jemalloc, TCMalloc", "thresholds of glibc"),
    "bfloat16": ("by autocast", "all weights, images"),
    "fused": ("before tracing", "without tracing"),
    "inference_mode": ("not named", "common advice"),
    "in_place": ("not named", "common advice"),
    "set_to_none": ("instead of zeros", "the same"),
    "preallocated": ("for varying length", "for normalizing"),
    "flush_denormal": ("not named", "common advice"),
}


def advice(paper: object) -> Iterator[Mapping[str, Content]]:
    """Yield a row for each tip."""
    for tip, (guide, reading) in ADVICE.items():
        yield {"Tip": TIPS[tip], "The guide": guide, "Our reading": reading}

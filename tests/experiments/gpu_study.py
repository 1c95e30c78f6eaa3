"""The tiny study as one that launches kernels, of which those of sizes below 4 are counted."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from tiny_failing import OutOfMemoryError
from tiny_study import STUDY as TINY

from experiments.harness.study import Factors, Subject

NOTHING: Any = None


def subject(factors: Factors) -> Subject:
    import torch

    if str(factors["size"]) == os.environ.get("NO_MEMORY"):
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0")
    if str(factors["size"]) == os.environ.get("CRASHING"):
        raise SystemExit(3)
    return Subject(NOTHING, NOTHING, mode=lambda: torch.launch(factors["size"]))  # type: ignore[attr-defined]


STUDY = replace(TINY, subject=subject, is_counted=lambda factors: int(factors["size"]) < 4)

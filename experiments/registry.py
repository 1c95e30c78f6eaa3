"""The studies that can be measured: one explicit line each, imported only when asked for.

A module named here defines ``STUDY``, an ``experiments.harness.study.Study``, and does not import
torch at its top, so that listing the studies stays quick and works without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from experiments.harness.study import Study, UsageError

STUDIES: Final[dict[str, str]] = {
    "backend_speedup": "experiments.backend_speedup",
    "conv_profiling": "experiments.conv_profiling",
    "conv_scaling": "experiments.conv_scaling",
    "inference_memory": "experiments.inference_memory",
    "training_roofline": "experiments.training_roofline",
}


def load(name: str) -> Study:
    """The study called ``name``; raises ``UsageError`` that lists the possible names."""
    if name not in STUDIES:
        raise UsageError(f"There is no study {name!r}; possible are {', '.join(sorted(STUDIES))}.")
    study = import_module(STUDIES[name]).STUDY
    assert isinstance(study, Study)
    return study

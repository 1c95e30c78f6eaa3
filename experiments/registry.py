"""The studies that can be measured, found by their files and imported only when asked for.

A module of a study defines ``STUDY``, an ``experiments.harness.study.Study``, and does not import
torch at its top, so that listing the studies stays quick and works without torch.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

from experiments.harness.study import Study, UsageError

#: Study → module: every file beside this one that defines ``STUDY``.
STUDIES: Final[dict[str, str]] = {
    path.stem: f"experiments.{path.stem}"
    for path in sorted(Path(__file__).parent.glob("*.py"))
    if "\nSTUDY" in path.read_text("utf-8")
}


def load(name: str) -> Study:
    """The study called ``name``; raises ``UsageError`` that lists the possible names."""
    if name not in STUDIES:
        raise UsageError(f"There is no study {name!r}; possible are {', '.join(sorted(STUDIES))}.")
    study = import_module(STUDIES[name]).STUDY
    assert isinstance(study, Study)
    return study

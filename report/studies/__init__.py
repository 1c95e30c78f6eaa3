"""One package per study; its folder name is the study's name everywhere in the project."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from report.core.errors import StudyError

if TYPE_CHECKING:
    from report.paper.findings import Findings, Inputs

_FOLDER: Final = os.path.dirname(__file__)


def _study_names() -> tuple[str, ...]:
    """Names of the folders that contain ``study.py``, sorted."""
    names = sorted(os.listdir(_FOLDER))
    return tuple(name for name in names if os.path.exists(f"{_FOLDER}/{name}/study.py"))


#: All studies: every folder with a module ``study``; adding a study requires no other change.
STUDIES: Final = _study_names()


def module_of(study: str) -> str:
    """Return the name of the module with a study's function ``findings(inputs)``."""
    return f"report.studies.{study}.study"


def attachments_of(study: str) -> tuple[str, ...]:
    """Return patterns of the names of attachments that a study's paper reads, if any."""
    package = importlib.import_module(f"report.studies.{study}")
    return tuple(getattr(package, "ATTACHMENTS", ()))


def find_study(study: str) -> Callable[[Inputs], Findings]:
    """Return the function that computes a study's findings; import only that study's modules.

    Raises ``StudyError`` for an unknown study.
    """
    if study not in STUDIES:
        known = ", ".join(STUDIES)
        raise StudyError(f"{study}: no such study; the studies are {known}.")
    compute: Callable[[Inputs], Findings] = importlib.import_module(module_of(study)).findings
    return compute

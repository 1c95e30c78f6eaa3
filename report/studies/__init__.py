"""The studies: one room each, named by one word that every other room uses too."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from report.core.errors import StudyError

if TYPE_CHECKING:
    from report.paper.findings import Findings, Inputs

_FOLDER: Final = os.path.dirname(__file__)


def _found() -> tuple[str, ...]:
    """The folders here that hold a study, in alphabetical order."""
    names = sorted(os.listdir(_FOLDER))
    return tuple(name for name in names if os.path.exists(f"{_FOLDER}/{name}/study.py"))


#: The studies: every folder with a module ``study``, so that a new one changes no other's code.
STUDIES: Final = _found()


def module_of(study: str) -> str:
    """The module with the function ``findings(inputs)`` of a study."""
    return f"report.studies.{study}.study"


def attachments_of(study: str) -> tuple[str, ...]:
    """Patterns of the names of attachments that the paper of a study is computed from, if any."""
    package = importlib.import_module(f"report.studies.{study}")
    return tuple(getattr(package, "ATTACHMENTS", ()))


def find_study(study: str) -> Callable[[Inputs], Findings]:
    """The function that computes a study; imports only that study's modules.

    Raises ``StudyError`` for a name that is no study.
    """
    if study not in STUDIES:
        known = ", ".join(STUDIES)
        raise StudyError(f"{study}: no such study; the studies are {known}.")
    compute: Callable[[Inputs], Findings] = importlib.import_module(module_of(study)).findings
    return compute

"""``--use``: the records that the user names for one build."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from report.core.errors import RecordError
from report.core.records import ENDING
from report.studies import STUDIES

LATEST: Final = "latest"


def named_records(
    texts: Iterable[str], studies: Sequence[str], data: Path, here: Path
) -> dict[str, tuple[str, ...]]:
    """The records that ``texts`` name: study → files relative to ``data``.

    Each is a path relative to ``here`` or to ``data``, a part of the file name of one record, or
    ``latest``, which means the newest record of each of the ``studies``.  Raises ``RecordError``
    for one that names no record, several, or one of none of ``studies``.
    """
    found: dict[str, dict[str, None]] = {}
    for text in texts:
        new = _newest(studies, data) if text == LATEST else [_record(text, studies, data, here)]
        for file in new:
            found.setdefault(file.partition("/")[0], {})[file] = None
    return {study: tuple(files) for study, files in found.items()}


def _newest(studies: Iterable[str], data: Path) -> list[str]:
    """The newest record of each study that has any, by the time in its name."""
    every = (_records(study, data) for study in studies)
    if found := [files[-1] for files in every if files]:
        return found
    raise RecordError(f"--use {LATEST}: no record of these studies in {data}; measure one first.")


def _record(text: str, studies: Sequence[str], data: Path, here: Path) -> str:
    """The file of the record that ``text`` names; records of the ``studies`` come first."""
    # The folder may be reached through links; a record may be one itself.
    paths = (path.parent.resolve() / path.name for path in (here / text, data / text))
    place = next((path for path in paths if path.is_file()), None)
    every = (file for study in STUDIES for file in _records(study, data))
    named = [file for file in every if (data / file == place if place else text in file)]
    found = [file for file in named if file.partition("/")[0] in studies]
    if len(found) == 1:
        return found[0]
    if found:
        why = f"{found[0]} and {found[1]} have this in their names; give more of the one you mean"
    elif named:
        study = named[0].partition("/")[0]
        why = f"this is a record of {study}, which this build does not make; name that study, too"
    else:
        why = f"no such record in {data}; give its path, or a part of its name that no other has"
    raise RecordError(f"--use {text}: {why}.")


def _records(study: str, data: Path) -> list[str]:
    """The files of all records of a study, relative to ``data``, oldest first."""
    names = (path.name for path in (data / study).glob(f"*{ENDING}"))
    return [f"{study}/{name}" for name in sorted(names) if not name.startswith(".")]

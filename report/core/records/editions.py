"""``data/editions.yaml``: which machines a paper is about, and which role each of them plays."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from report.core.errors import unwritable
from report.core.records.strict import read_by_study, refuse_first

#: The roles of machines: sentences speak of ``cpu``, ``second`` and ``gpu``, tables of all five.
Role: TypeAlias = Literal["cpu", "second", "third", "fourth", "gpu"]

ROLES: Final[tuple[Role, ...]] = get_args(Role)
EDITIONS: Final = "editions.yaml"
_REMEDY: Final = (
    "write a study as «conv_scaling: {roles: {cpu: <device key>, gpu: [<record>.json]}}»"
)


class Edition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The machines of one paper.

    Who plays a role is a device key, which means the newest full run of that device and all that
    are pooled with it, or the files of records, relative to the data directory.  The order of the
    roles is that of tables.  ``compared`` are the keys of devices that only the comparison of all
    machines shows.  ``date`` is the day of the edition; a paper with a newer run has that run's.
    """

    roles: dict[Role, str | tuple[str, ...]]
    compared: tuple[str, ...] = ()
    date: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The records that are named one by one."""
        return tuple(f for who in self.roles.values() if not isinstance(who, str) for f in who)


def read_editions(data: Path, studies: Collection[str] | None = None) -> dict[str, Edition]:
    """The editions of a data directory by study; none without a file.

    Raises ``RecordError`` for a file that says something else, or names none of ``studies`` where
    they are given.
    """
    path = data / EDITIONS
    found = read_by_study(path, Edition, _REMEDY, data, studies)
    without = (f"{name}.roles: cpu is missing" for name in found if "cpu" not in found[name].roles)
    refuse_first(without, path, "give this role to the machine that sentences are about")
    return found


def write_edition(study: str, edition: Edition, data: Path) -> Path:
    """Replace what ``data/editions.yaml`` says of ``study``; all other lines stay as they are.

    Returns the file.  Raises ``OutputError`` if it cannot be written.
    """
    import yaml

    path = data / EDITIONS
    content: Mapping[str, Any] = {study: msgspec.to_builtins(edition)}
    block = yaml.safe_dump(content, sort_keys=False, width=100)
    try:
        text = path.read_text("utf-8") if path.exists() else ""
        # A study reaches to the next line that begins with neither a space nor a hash.
        old = re.search(rf"^{study}:.*\n(?:[ \t#].*\n|\n)*", text, re.MULTILINE)
        begin, end = old.span() if old else (len(text), len(text))
        path.write_text(f"{text[:begin]}{block}{text[end:]}", "utf-8", newline="\n")
    except OSError as error:
        raise unwritable(error, place=path) from error
    return path

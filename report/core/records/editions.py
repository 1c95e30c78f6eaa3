"""``data/editions.yaml``: the machines that a paper is about, and the role of each."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from report.core.errors import unwritable
from report.core.records.strict import read_by_study, refuse_first

#: Roles of machines: sentences use ``cpu``, ``second`` and ``gpu``; tables show all.
Role: TypeAlias = Literal["cpu", "second", "third", "fourth", "fifth", "sixth", "seventh", "gpu"]

ROLES: Final[tuple[Role, ...]] = get_args(Role)
EDITIONS: Final = "editions.yaml"
_REMEDY: Final = (
    "write a study as «conv_scaling: {roles: {cpu: <device key>, gpu: [<record>.json]}}»"
)


class Edition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The machines of one paper.

    ``roles`` maps a role to a device key (the newest full run of that device and all runs pooled
    with it) or to files of records, relative to the data directory.  Tables show the roles in this
    order.  ``compared`` are the keys of devices that appear only in the comparison of all machines.
    ``date`` is the day of the edition; a paper with a newer run has the day of that run.
    """

    roles: dict[Role, str | tuple[str, ...]]
    compared: tuple[str, ...] = ()
    date: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """All files of records that the roles name."""
        named = (files for files in self.roles.values() if not isinstance(files, str))
        return tuple(chain.from_iterable(named))


def read_editions(data: Path, studies: Collection[str] | None = None) -> dict[str, Edition]:
    """Read the editions of a data directory by study; empty without a file.

    Raises ``RecordError`` for a file in another form, or for a name outside ``studies``, if given.
    """
    path = data / EDITIONS
    editions = read_by_study(path, Edition, _REMEDY, data, studies)
    faults = (
        f"{study}.roles: cpu is missing"
        for study, edition in editions.items()
        if "cpu" not in edition.roles
    )
    refuse_first(faults, path, "give this role to the machine that sentences describe")
    return editions


def write_edition(study: str, edition: Edition, data: Path) -> Path:
    """Replace the edition of ``study`` in ``data/editions.yaml``; other lines stay unchanged.

    Returns the path of the file.  Raises ``OutputError`` if it cannot be written.
    """
    import yaml

    path = data / EDITIONS
    content: Mapping[str, Any] = {study: msgspec.to_builtins(edition)}
    block = yaml.safe_dump(content, sort_keys=False, width=100)
    try:
        text = path.read_text("utf-8") if path.exists() else ""
        # A study ends before the next line that begins with neither a space nor a hash.
        old = re.search(rf"^{study}:.*\n(?:[ \t#].*\n|\n)*", text, re.MULTILINE)
        begin, end = old.span() if old else (len(text), len(text))
        path.write_text(f"{text[:begin]}{block}{text[end:]}", "utf-8", newline="\n")
    except OSError as error:
        raise unwritable(error, place=path) from error
    return path

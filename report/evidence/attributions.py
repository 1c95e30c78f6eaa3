"""Who measured what a paper uses of others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from report.records.store import StoredImport


@dataclass(frozen=True)
class Attribution:
    """Who measured what a paper uses, where it is published and under which licence."""

    author: str
    licence: str
    address: str | None
    commit: str | None
    instrument: str
    devices: tuple[str, ...] = ()
    files: int = 0

    @property
    def line(self) -> str:
        """The devices with who measured on them, for lists of machines."""
        return f"{', '.join(self.devices)}: measured by {self.author}, licence {self.licence}"

    def as_json(self) -> dict[str, Any]:
        """The parts by their names, and the line of all."""
        return {**asdict(self), "devices": list(self.devices), "line": self.line}


def attributions(stored: Iterable[StoredImport]) -> tuple[Attribution, ...]:
    """An attribution for all records of one origin, in the order of their files."""
    found: dict[Attribution, list[str]] = {}
    for each in stored:
        o = each.record.origin
        origin = Attribution(o.author, o.licence, o.address, o.commit, o.instrument)
        found.setdefault(origin, []).append(each.record.environment.model)
    return tuple(
        replace(origin, devices=tuple(dict.fromkeys(devices)), files=len(devices))
        for origin, devices in found.items()
    )

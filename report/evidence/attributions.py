"""Who measured what a paper uses of others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from report.records.store import StoredImport


def attributions(stored: Iterable[StoredImport]) -> tuple[dict[str, Any], ...]:
    """An attribution for all records of one origin, in the order of their files.

    ``line`` names the devices with who measured on them, for lists of machines.
    """
    found: dict[tuple[str | None, ...], list[str]] = {}
    for each in stored:
        o = each.record.origin
        origin = (o.author, o.licence, o.address, o.commit, o.instrument)
        found.setdefault(origin, []).append(each.record.environment.model)
    names = ("author", "licence", "address", "commit", "instrument")
    return tuple(
        {
            **dict(zip(names, origin, strict=True)),
            "devices": (own := list(dict.fromkeys(devices))),
            "files": len(devices),
            "line": f"{', '.join(own)}: measured by {origin[0]}, licence {origin[1]}",
        }
        for origin, devices in found.items()
    )

"""Who measured what a paper uses of others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from report.records.store import StoredImport


def attributions(stored: Iterable[StoredImport]) -> tuple[dict[str, Any], ...]:
    """An attribution for all records of one origin, in the order of their files.

    ``line`` names the devices with who measured on them, for lists of machines.
    """
    names = ("author", "licence", "address", "commit", "instrument")
    found: dict[tuple[str | None, ...], list[str]] = {}
    for each in stored:
        origin = tuple(getattr(each.record.origin, name) for name in names)
        found.setdefault(origin, []).append(each.record.environment.model)
    return tuple(
        {
            **dict(zip(names, origin, strict=True)),
            "devices": (own := list(dict.fromkeys(devices))),
            "files": len(devices),
            "line": f"{', '.join(own)}: measured by {origin[0]}, licence {origin[1]}",
        }
        for origin, devices in found.items()
    )

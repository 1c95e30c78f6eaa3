"""All records of a study with what became of each, for the list of the site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from report.records.choice import Choices, fate
from report.records.record import Outcome
from report.records.store import EDITED, Listed, StoredImport

#: What is said of a record of which nothing is known.
_UNKNOWN: Final[Mapping[str, Any]] = {
    "origin": "", "started": "", "plan": "", "machine": "", "commit": None, "clean": True,
    "ok": 0, "others": {}, "used": False, "altered": [],
}  # fmt: skip


def listing(
    listed: Iterable[Listed], choices: Choices, imported: Iterable[StoredImport] = ()
) -> list[dict[str, Any]]:
    """The own records, newest first, with what a build makes of each; then those of others."""
    newest = sorted(listed, key=lambda item: (item.record.started, item.file), reverse=True)
    own = [_own(item, *fate(choices, item.file)) for item in newest]
    return [*own, *map(_imported, imported)]


def unusable(file: str, why: str) -> dict[str, Any]:
    """A file among the records that is left out, in the form of ``listing``."""
    return {**_UNKNOWN, "file": file, "why": why, "left_out": True}


def _own(item: Listed, used: bool, words: str) -> dict[str, Any]:
    record = item.record
    return {
        **_UNKNOWN,
        "file": item.file,
        "started": record.started,
        "plan": record.protocol.plan,
        "machine": record.environment.label,
        "commit": record.code.commit,
        "clean": record.code.tree_clean,
        **_outcomes(record.cases),
        "used": used,
        "why": words,
        "altered": [EDITED] * item.edited,
    }


def _imported(item: StoredImport) -> dict[str, Any]:
    record, origin = item.record, item.record.origin
    return {
        **_UNKNOWN,
        "file": item.file,
        "origin": f"measured by {origin.author}, licence {origin.licence}",
        "started": record.started or "",
        "plan": "imported",
        "machine": record.environment.model,
        "commit": origin.commit,
        **_outcomes(record.cases),
        "used": True,
        "why": "used beside the own records",
        "altered": [EDITED] * item.edited,
    }


def _outcomes(cases: Sequence[Outcome]) -> dict[str, Any]:
    """How many cases went well, and how many others ended in which way."""
    counts = Counter(case.status.replace("_", " ") for case in cases)
    return {"ok": counts.pop("ok", 0), "others": dict(sorted(counts.items()))}


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

"""All records of a study with what became of each, for the pages of the site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from report.paper.machines import properties
from report.records.choice import Choices, fate
from report.records.record import Factor, Outcome
from report.records.store import EDITED, Listed, StoredImport

#: Levels of a factor that a page names, and cases that ended alike.
_MOST: Final = 24
#: What is said of a record of which nothing is known.
_UNKNOWN: Final[Mapping[str, Any]] = {
    "origin": "", "started": "", "plan": "", "machine": "", "commit": None, "clean": True,
    "facts": [], "ok": 0, "others": {}, "factors": [], "failures": [],
    "used": False, "altered": [],
}  # fmt: skip


def listing(
    listed: Iterable[Listed], choices: Choices, imported: Iterable[StoredImport] = ()
) -> list[dict[str, Any]]:
    """The own records, newest first, with what a build makes of each; then those of others.

    An entry is what the site prints of a record: ``facts`` (name, text), ``factors`` (name,
    levels), and in ``failures`` the cases that did not end well, by their reasons.
    """
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
        "facts": [
            ("Finished", record.finished),
            ("Command", " ".join(record.command)),
            *(fact for fact in properties(record.environment).items() if isinstance(fact[1], str)),
        ],
        **_outcomes(item.record.cases),
        "used": used,
        "why": words,
        "altered": [EDITED] * item.edited,
    }


def _imported(item: StoredImport) -> dict[str, Any]:
    record, origin, machine = item.record, item.record.origin, item.record.environment
    # What the published file does not say of the machine is not filled in.
    facts = (
        ("Published at", origin.address or record.missing["address"]),
        ("Published file", f"{origin.file}, SHA-256 {origin.sha256}"),
        ("Instrument", origin.instrument),
        ("Device", machine.model),
        ("Software", machine.framework),
        ("System", machine.operating_system),
        *((name, _text(level)) for name, level in record.conditions.items()),
    )
    return {
        **_UNKNOWN,
        "file": item.file,
        "origin": origin.attribution,
        "started": record.started or "",
        "plan": "imported",
        "machine": machine.model,
        "commit": origin.commit,
        "facts": [(name, text) for name, text in facts if text],
        **_outcomes(item.record.cases),
        "used": True,
        "why": "used beside the own records",
        "altered": [EDITED] * item.edited,
    }


def _outcomes(cases: Sequence[Outcome]) -> dict[str, Any]:
    """How many cases went well, how many others ended in which way, and which cases there are.

    Those that did not end well stand together by their reason, each by the factors that vary.
    """
    levels: dict[str, dict[str, None]] = {}
    for case in cases:
        for name, level in case.factors.items():
            levels.setdefault(name, {})[_text(level)] = None
    failed: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        if case.status != "ok":
            varied = [f"{n} {_text(x)}" for n, x in case.factors.items() if len(levels[n]) > 1]
            key = case.status.replace("_", " "), case.reason or ""
            failed.setdefault(key, []).append(", ".join(varied) or "all")
    others = Counter(status for (status, _), found in failed.items() for _ in found)
    return {
        "ok": len(cases) - others.total(),
        "others": dict(sorted(others.items())),
        "factors": [(name, _some([*found])) for name, found in levels.items()],
        "failures": [(*why, len(found), _some(found, "; ")) for why, found in failed.items()],
    }


def _text(level: Factor) -> str:
    return str(level).lower() if isinstance(level, bool) else str(level)


def _some(texts: Sequence[str], between: str = ", ") -> str:
    """The texts; of many the first ones, and how many more."""
    rest = len(texts) - _MOST
    more = f"{between}and {rest} more" if rest > 0 else ""
    return between.join(texts[:_MOST]) + more


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

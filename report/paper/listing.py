"""All records of a study with what became of each, for those who look at the site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final

from report.paper.machines import facts_of
from report.records.imported import ImportedEnvironment, StoredImport
from report.records.record import Environment, Factor, Outcome
from report.records.store import Listed
from report.records.usage import Choices, fate

#: Levels of a factor that a page names, and cases that ended alike.
_MOST: Final = 24


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
    empty: dict[str, Any] = dict.fromkeys(("origin", "started", "plan", "machine"), "")
    return {
        **empty,
        "file": file,
        "commit": None,
        "clean": True,
        "facts": [],
        **_outcomes(()),
        "used": False,
        "why": why,
        "altered": [],
        "left_out": True,
    }


def _own(item: Listed, used: bool, words: str) -> dict[str, Any]:
    record = item.record
    return {
        "file": item.file,
        "origin": "",
        "started": record.started,
        "plan": record.protocol.plan,
        "machine": record.environment.label,
        "commit": record.code.commit,
        "clean": record.code.tree_clean,
        "facts": [
            ("Finished", record.finished),
            ("Command", " ".join(record.command)),
            *_machine(record.environment),
        ],
        **_outcomes(item.outcomes),
        "used": used,
        "why": words,
        "altered": list(item.alterations),
    }


def _machine(environment: Environment) -> list[tuple[str, str]]:
    facts = facts_of(environment)
    beside = f", beside {facts['host']}" if facts["host"] else ""
    counts = f"{facts['cores']} cores, {facts['threads']} threads, {facts['memory']}"
    return [
        ("Device", facts["device"] + beside),
        ("Size", counts),
        ("Software", facts["software"]),
        ("System", facts["system"]),
    ]


def _imported(item: StoredImport) -> dict[str, Any]:
    record = item.record
    return {
        "file": item.file,
        "origin": record.origin.attribution,
        "started": record.started or "",
        "plan": "imported",
        "machine": record.environment.model,
        "commit": record.origin.commit,
        "clean": True,
        "facts": [
            ("Published at", record.origin.address or record.missing["address"]),
            ("Published file", f"{record.origin.file}, SHA-256 {record.origin.sha256}"),
            ("Instrument", record.origin.instrument),
            *_published_machine(record.environment),
            *((name, _text(level)) for name, level in record.conditions.items()),
        ],
        **_outcomes(item.outcomes),
        "used": True,
        "why": "used beside the own records",
        "altered": list(item.alterations),
    }


def _published_machine(environment: ImportedEnvironment) -> list[tuple[str, str]]:
    """What the published file says of the machine; nothing is filled in."""
    known = (
        ("Device", environment.model),
        ("Software", environment.framework),
        ("System", environment.operating_system),
    )
    return [(name, text) for name, text in known if text]


def _outcomes(cases: Sequence[Outcome]) -> dict[str, Any]:
    """How many cases went well, how many others ended in which way, and which cases there are."""
    counts = Counter(case.status for case in cases)
    others = {status.replace("_", " "): counts[status] for status in sorted(counts)}
    levels = _levels(cases)
    varied = {name for name, found in levels.items() if len(found) > 1}
    return {
        "ok": others.pop("ok", 0),
        "others": others,
        "factors": [(name, _some(found)) for name, found in levels.items()],
        "failures": _failures(cases, varied),
    }


def _levels(cases: Iterable[Outcome]) -> dict[str, list[str]]:
    """The levels of each factor in the order of measuring."""
    found: dict[str, dict[str, None]] = {}
    for case in cases:
        for name, level in case.factors.items():
            found.setdefault(name, {})[_text(level)] = None
    return {name: list(levels) for name, levels in found.items()}


def _failures(cases: Iterable[Outcome], varied: Container[str]) -> list[dict[str, str]]:
    """The cases that did not end well, those of one reason together, by what is ``varied``."""
    alike: dict[tuple[str, str], list[Mapping[str, Factor]]] = {}
    for case in cases:
        if case.status != "ok":
            key = case.status.replace("_", " "), case.reason or ""
            alike.setdefault(key, []).append(case.factors)
    return [
        {
            "status": status,
            "reason": reason,
            "count": str(len(factors)),
            "cases": _some([_case(each, varied) for each in factors], "; "),
        }
        for (status, reason), factors in alike.items()
    ]


def _case(factors: Mapping[str, Factor], varied: Container[str]) -> str:
    levels = (f"{name} {_text(level)}" for name, level in factors.items() if name in varied)
    return ", ".join(levels) or "all"


def _text(level: Factor) -> str:
    return str(level).lower() if isinstance(level, bool) else str(level)


def _some(texts: Sequence[str], between: str = ", ") -> str:
    """The texts; of many the first ones, and how many more."""
    rest = len(texts) - _MOST
    more = f"{between}and {rest} more" if rest > 0 else ""
    return between.join(texts[:_MOST]) + more

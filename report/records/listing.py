"""All records of a study with what became of each, for those who look at the site."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from report.records.imported_files import StoredImport
from report.records.store import Listed
from report.records.told import Choices, fate


def listing(
    listed: Iterable[Listed], choices: Choices, imported: Iterable[StoredImport] = ()
) -> list[dict[str, Any]]:
    """The own records, newest first, with what a build makes of each; then those of others."""
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
        **_outcomes({}),
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
        **_outcomes(item.outcomes),
        "used": used,
        "why": words,
        "altered": list(item.alterations),
    }


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
        **_outcomes(item.outcomes),
        "used": True,
        "why": "used beside the own records",
        "altered": list(item.alterations),
    }


def _outcomes(counts: Mapping[Any, int]) -> dict[str, Any]:
    """How many cases went well, and how many others ended in which way."""
    others = {status.replace("_", " "): counts[status] for status in sorted(counts)}
    return {"ok": others.pop("ok", 0), "others": others}

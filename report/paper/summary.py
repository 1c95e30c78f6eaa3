"""What lists of papers show of one: its question, its first numbers and its key figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from report.errors import TemplateError
from report.missing import Missing
from report.paper.findings import Findings


def summary_of(study: str, findings: Findings, front: Mapping[str, Any]) -> dict[str, Any]:
    """What the front matter names as ``question``, ``headline`` (value: words) and ``key-figure``.

    The key figure is the first one where none is named, or the named one is not drawn from these
    data; numbers that are missing are left out.  Raises ``TemplateError`` for a headline that
    names no value, or is no mapping.
    """
    place = f"templates/papers/{study}.qmd.j2: headline"
    headline = front.get("headline") or {}
    if not isinstance(headline, dict):
        raise TemplateError(f"{place}: found {headline!r}; write «value: words», a number a line.")
    for id in headline:
        if id not in findings.values:
            raise TemplateError(f"{place}: {id} is no value of the study; mend the name.")
    figures = findings.figures
    key = front.get("key-figure")
    figure = figures.get(str(key)) or next(iter(figures.values()), None)
    return {
        "question": " ".join(str(front.get("question", "")).split()),
        "headline": [
            {
                "label": str(words),
                "printed": (value := findings.values[id]).plain,
                "interval": value.bounds,
                "anchor": value.anchor,
            }
            for id, words in headline.items()
            if not isinstance(findings.values[id].number, Missing)
        ],
        "figure": figure and [f"figures/{figure.name}.svg", figure.alt, figure.id],
    }

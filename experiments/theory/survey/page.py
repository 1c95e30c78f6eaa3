"""The page of what a survey found, in Markdown; its sentences stand in ``page.md.j2``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import jinja2

from experiments.theory.survey.peaks import LAYOUTS, Peak, Peaks
from experiments.theory.survey.published import UNEXPLAINED, Compared, residual
from experiments.theory.survey.sample import LEARNED

_TEMPLATE: Final = Path(__file__).with_name("page.md.j2")
#: All networks that timm 1.0.31 builds.
_ALL: Final = 1371


def page(rows: Sequence[Compared], peaks: Peaks) -> str:
    """The page: what was captured, how it differs from what is published, and peaks."""
    found = [row.counts for row in rows if not row.counts.refused]
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False,
        keep_trailing_newline=True,
    )  # fmt: skip
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        all=_ALL,
        surveyed=len(rows),
        captured=len(found),
        share=_share(len(found), len(rows)),
        exact=sum(each.exact for each in found),
        inexact=[each for each in found if not each.exact],
        families=len({each.family for each in found}),
        refused=[row.counts for row in rows if row.counts.refused],
        uncounted=_most(name for each in found for name in each.uncounted.split()),
        work=_most(row.multiply_adds for row in rows),
        outputs=_most(row.outputs for row in rows),
        unexplained=[
            (row, f"{100 * residual(row):+.1f}") for row in rows if row.multiply_adds == UNEXPLAINED
        ],
        peaks=peaks,
        learned=sorted(LEARNED),
        shares=[_shares(layout, peaks.peaks) for layout in LAYOUTS],
        wrong=[each for each in peaks.peaks if each.outcome == "wrong"],
        measured=len({each.network for each in peaks.peaks}),
        undecided=_most(name for each in peaks.peaks for name in each.may_take_more),
        met=sum(e.predicted == e.measured for e in peaks.peaks if e.outcome == "at least"),
        at_least=sum(each.outcome == "at least" for each in peaks.peaks),
        short=_shortest(peaks.peaks),
    )


def _most(names: Iterable[str]) -> list[tuple[str, int]]:
    return sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0]))


def _share(part: int, of: int) -> str:
    return f"{100 * part / of:.1f}" if of else "–"


def _shares(layout: str, peaks: Sequence[Peak]) -> tuple[str, list[tuple[str, list[int]]]]:
    """For all networks and for those that no rule was learned from: equal, at least, wrong."""
    here = [each for each in peaks if each.layout == layout]
    fresh = [each for each in here if not each.learned]
    return layout, [
        (who, [sum(e.outcome == o for e in which) for o in ("equal", "at least", "wrong")])
        for who, which in (("all", here), ("no rule was learned from", fresh))
    ]


def _shortest(peaks: Sequence[Peak]) -> list[tuple[Peak, str]]:
    """The predictions that are furthest below what was measured."""
    below = sorted(peaks, key=lambda each: each.predicted / each.measured)
    return [(each, f"{100 * (each.predicted / each.measured - 1):.1f}") for each in below[:8]]

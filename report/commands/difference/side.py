"""One side of a comparison: all that a study's paper says with the data of one time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from report.commands.difference.words import Document, read_document
from report.engine.computing import compute
from report.engine.contents import file_digest, files_below
from report.engine.gather import choose, load
from report.paper.findings import Claim, Figure
from report.paper.manuscript import render_manuscript
from report.paper.tables import Table
from report.paper.values import Value
from report.records import COUNTS

#: Files that every study is computed from, beside its own.
_SHARED: Final = ("devices.yaml", "pins.yaml", "references.bib", COUNTS)


@dataclass(frozen=True)
class Drawn:
    """A figure as the page shows it; caption and alternative text are plain text."""

    caption: str
    alt: str
    svg: bytes


@dataclass(frozen=True)
class Side:
    """What a study finds and what its paper says; ``records`` are the files it was computed from.

    Figures are named by their ids without ``fig-``.
    """

    records: tuple[str, ...]
    document: Document
    values: Mapping[str, Value]
    tables: Mapping[str, Table]
    claims: Mapping[str, Claim]
    figures: Mapping[str, Drawn]


def read_side(study: str, data: Path, papers: Path) -> Side:
    """Compute ``study`` from the data directory ``data`` and the templates in ``papers``.

    Raises ``RidgepointError`` as a build of the same study does.
    """
    chosen = choose(study, data)
    inputs = load(study, data, chosen.runs, chosen.imported, left=chosen.left)
    origin, found = chosen.origin, compute(study, inputs)
    manuscript = render_manuscript(
        papers / f"{study}.qmd.j2", found, origin.altered, imported=origin.imported
    )
    found = manuscript.findings
    return Side(
        records=tuple(origin.records),
        document=read_document(manuscript.text),
        values=dict(found.values),
        tables=dict(found.tables),
        claims=dict(found.claims),
        figures={figure.name: _drawn(figure, study) for figure in found.figures.values()},
    )


def _drawn(figure: Figure, study: str) -> Drawn:
    from figures.drawing.render import render

    rendered = render(figure.drawing, salt=f"{study}/{figure.id}")
    return Drawn(figure.caption, figure.alt, rendered.svg)


def inputs_of(study: str, data: Path) -> dict[str, str]:
    """The files below ``data`` that ``study`` may be computed from, with their digests."""
    own = (f"{study}/{file}" for file in files_below(str(data / study)))
    files = (*own, f"reported/{study}.json", *_SHARED)
    digests = ((file, file_digest(str(data / file))) for file in files)
    return {file: digest for file, digest in digests if digest is not None}

"""A study computed and written in one go: what the build's steps do one by one."""

from __future__ import annotations

from pathlib import Path

from report.engine.computing import compute_usable
from report.engine.source_folder import write_source
from report.paper.findings import Findings, Inputs


def compose(study: str, data: Path, papers: Path, folder: Path) -> Inputs:
    """Compute ``study`` and write its source folder; returns what it was computed from.

    Raises ``RidgepointError`` for unusable data, a study that cannot be computed, or a template
    that asks for what does not exist.
    """
    chosen, inputs, findings = compute_usable(study, data)
    write_source(study, chosen.origin, findings, data, papers, folder)
    _write_figures(findings, folder / "figures", study)
    return inputs


def _write_figures(findings: Findings, folder: Path, study: str) -> None:
    from figures.drawing.render import render

    folder.mkdir()
    for figure in findings.figures.values():
        rendered = render(figure.drawing, salt=f"{study}/{figure.id}")
        (folder / f"{figure.name}.pdf").write_bytes(rendered.pdf)
        (folder / f"{figure.name}.svg").write_bytes(rendered.svg)

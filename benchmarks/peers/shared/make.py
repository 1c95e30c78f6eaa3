"""The steps of one document, for peers that run commands.

``python make.py figures paper-1 [pdf]`` draws the four figures into ``build/figures/paper-1``,
``python make.py text paper-1`` fills the numbers and tables into ``build/paper-1.md``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from string import Template

from results_of import load, memory_table, numbers, pipe_table, time_table


def write_figures(document: str, kinds: list[str]) -> None:
    """Draw every figure in every kind."""
    from drawing import FIGURES, draw

    folder = Path("build", "figures", document)
    folder.mkdir(parents=True, exist_ok=True)
    data = load(document)
    for name in FIGURES:
        for kind in kinds:
            (folder / f"{name}.{kind}").write_bytes(draw(name, data, kind))


def write_text(document: str) -> None:
    """Fill numbers and tables into the prose."""
    data = load(document)
    tables = {"times": pipe_table(time_table(data)), "memory": pipe_table(memory_table(data))}
    prose = Template(Path(f"{document}.md.in").read_text("utf-8"))
    Path("build").mkdir(exist_ok=True)
    Path("build", f"{document}.md").write_text(prose.substitute(numbers(data), **tables), "utf-8")


def main(step: str, document: str, *more: str) -> None:
    """Run one step."""
    if step == "figures":
        write_figures(document, ["svg", *more])
    else:
        write_text(document)


if __name__ == "__main__":
    main(*sys.argv[1:])

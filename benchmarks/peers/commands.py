"""Peers that run commands: doit, and a shell script without any memory.

Both run the same commands: draw the figures of a document, fill its text, pandoc to HTML; the
script then runs pandoc to LaTeX, and latexmk.
"""

from __future__ import annotations

from typing import Final

from benchmarks.peers.peer import Peer
from benchmarks.peers.work import DOCUMENTS, FIGURES, Syntax, text

MODULES: Final = ("results_of.py", "drawing.py", "make.py")

#: Only what small TeX installations have.
_LATEX: Final = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{graphicx,longtable,booktabs,array,calc}
\newcounter{none}
\providecommand{\tightlist}{}
\providecommand{\pandocbounded}[1]{#1}
\title{$title$}
\begin{document}
\maketitle
$body$
\end{document}
"""

SYNTAX: Final = Syntax(
    opening=lambda _, title: f"---\ntitle: {title}\n---",
    number=lambda name: f"${name}",
    figure=lambda document, name: f"![The {name} of the data](figures/{document}/{name})",
    table=lambda _, name: f"${name}",
)

#: The commands of one document; ``{document}`` is filled in.
HTML_COMMAND: Final = (
    "cd build && pandoc --standalone --default-image-extension=svg"
    " --output={document}.html {document}.md"
)
LATEX_COMMAND: Final = (
    "cd build && pandoc --template=../paper.latex --default-image-extension=pdf"
    " --output={document}.tex {document}.md"
)
PDF_COMMAND: Final = "cd build && latexmk -quiet -pdf -interaction=nonstopmode {document}.tex"


def documents() -> dict[str, str]:
    """The prose of the five documents and the LaTeX shell."""
    return {
        "paper.latex": _LATEX,
        **{f"{document}.md.in": text(document, SYNTAX) for document in DOCUMENTS},
    }


_FIGURES_COMMAND: Final = "python make.py figures {document}"
_TEXT_COMMAND: Final = "python make.py text {document}"


def dodo() -> str:
    """One task for each step of each document; scripts and modules are inputs, as one writes it."""
    drawn = [f"build/figures/{{document}}/{name}.svg" for name in FIGURES]
    steps = [
        ("figures", ["data/{document}.json", "drawing.py", "results_of.py", "make.py"],
         drawn, _FIGURES_COMMAND),
        ("text", ["{document}.md.in", "data/{document}.json", "results_of.py", "make.py"],
         ["build/{document}.md"], _TEXT_COMMAND),
        ("html", ["build/{document}.md", *drawn], ["build/{document}.html"], HTML_COMMAND),
    ]  # fmt: skip
    listed = "".join(f"    {step!r},\n" for step in steps)
    return _DODO.format(documents=list(DOCUMENTS), listed=listed)


_DODO: Final = """\
DOIT_CONFIG = {{"verbosity": 1}}
DOCUMENTS = {documents!r}
STEPS = [
{listed}]


def task_paper():
    for document in DOCUMENTS:
        for name, inputs, outputs, command in STEPS:
            yield {{
                "name": f"{{name}}:{{document}}",
                "file_dep": [path.format(document=document) for path in inputs],
                "targets": [path.format(document=document) for path in outputs],
                "actions": [command.format(document=document)],
            }}
"""

_ONE: Final = """\
set -eu
document=$1
{commands}
"""

_ALL: Final = """\
set -eu
mkdir -p build
printf '%s\\n' {documents} | xargs -n 1 -P "$(getconf _NPROCESSORS_ONLN)" sh one.sh
"""


def scripts() -> dict[str, str]:
    """Two shell scripts: one document, and all of them spread over the cores."""
    steps = (
        f"{_FIGURES_COMMAND} pdf",
        _TEXT_COMMAND,
        *(f"({command})" for command in (HTML_COMMAND, LATEX_COMMAND, PDF_COMMAND)),
    )
    commands = "\n".join(steps).replace("{document}", '"$document"')
    return {
        "one.sh": _ONE.format(commands=commands),
        "all.sh": _ALL.format(documents=" ".join(DOCUMENTS)),
    }


DOIT: Final = Peer(
    name="doit",
    title="doit",
    makes="HTML",
    caching="digests of all dependencies in its database",
    kit="doit",
    files=lambda: {**documents(), "dodo.py": dodo()},
    modules=MODULES,
    source="{document}.md.in",
    page="build/{document}.html",
    command=("doit", "-n", "{cores}"),
    built=("build", ".doit.db", ".doit.db.db", ".doit.db.dat", ".doit.db.dir", ".doit.db.bak"),
)

SCRIPT: Final = Peer(
    name="script_pdf",
    title="pandoc + latexmk by a script",
    makes="HTML and PDF (latexmk)",
    caching="latexmk's own",
    kit="plain",
    files=lambda: {**documents(), **scripts()},
    modules=MODULES,
    source="{document}.md.in",
    page="build/{document}.html",
    command=("sh", "all.sh"),
    built=("build",),
)

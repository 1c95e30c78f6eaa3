"""Peers that run commands: Snakemake, doit, and a shell script without any memory.

All three run the same commands: draw the figures of a document, fill its text, pandoc to HTML, and
for PDF pandoc to LaTeX and latexmk.
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


def _drawn(kinds: tuple[str, ...]) -> list[str]:
    return [f"build/figures/{{document}}/{name}.{kind}" for name in FIGURES for kind in kinds]


def snakefile(pdf: bool) -> str:
    """One rule for each step; scripts and modules are inputs, as the manual asks."""
    kinds = ("svg", "pdf") if pdf else ("svg",)
    goals = ["build/{document}.html", *(["build/{document}.pdf"] if pdf else [])]
    rules = [
        f"DOCUMENTS = {list(DOCUMENTS)!r}\n",
        f"rule all:\n    input:\n        expand({goals!r}, document=DOCUMENTS)\n",
        _rule("figures", ["data/{document}.json", "drawing.py", "results_of.py", "make.py"],
              _drawn(kinds), _make("figures", pdf)),
        _rule("text", ["{document}.md.in", "data/{document}.json", "results_of.py", "make.py"],
              ["build/{document}.md"], _make("text", pdf=False)),
        _rule("html", ["build/{document}.md", *_drawn(("svg",))],
              ["build/{document}.html"], HTML_COMMAND),
    ]  # fmt: skip
    if pdf:
        rules += [
            _rule("latex", ["build/{document}.md", "paper.latex"],
                  ["build/{document}.tex"], LATEX_COMMAND),
            _rule("pdf", ["build/{document}.tex", *_drawn(("pdf",))],
                  ["build/{document}.pdf"], PDF_COMMAND),
        ]  # fmt: skip
    return "\n".join(rules)


def _make(step: str, pdf: bool) -> str:
    return f"python make.py {step} {{document}}" + (" pdf" if pdf else "")


def _rule(name: str, inputs: list[str], outputs: list[str], command: str) -> str:
    shell = command.replace("{document}", "{wildcards.document}")
    return (
        f"rule {name}:\n    input: {', '.join(map(repr, inputs))}\n"
        f"    output: {', '.join(map(repr, outputs))}\n    shell: {shell!r}\n"
    )


def dodo(pdf: bool) -> str:
    """One task for each step of each document."""
    kinds = ("svg", "pdf") if pdf else ("svg",)
    steps = [
        ("figures", ["data/{document}.json", "drawing.py", "results_of.py", "make.py"],
         _drawn(kinds), _make("figures", pdf)),
        ("text", ["{document}.md.in", "data/{document}.json", "results_of.py", "make.py"],
         ["build/{document}.md"], _make("text", pdf=False)),
        ("html", ["build/{document}.md", *_drawn(("svg",))],
         ["build/{document}.html"], HTML_COMMAND),
    ]  # fmt: skip
    if pdf:
        steps += [
            ("latex", ["build/{document}.md", "paper.latex"],
             ["build/{document}.tex"], LATEX_COMMAND),
            ("pdf", ["build/{document}.tex", *_drawn(("pdf",))],
             ["build/{document}.pdf"], PDF_COMMAND),
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


def scripts(pdf: bool) -> dict[str, str]:
    """Two shell scripts: one document, and all of them spread over the cores."""
    steps = [_make("figures", pdf), _make("text", pdf=False), f"({HTML_COMMAND})"]
    if pdf:
        steps += [f"({LATEX_COMMAND})", f"({PDF_COMMAND})"]
    commands = "\n".join(steps).replace("{document}", '"$document"')
    return {
        "one.sh": _ONE.format(commands=commands),
        "all.sh": _ALL.format(documents=" ".join(DOCUMENTS)),
    }


def snakemake(pdf: bool) -> Peer:
    """The peer Snakemake, making HTML or both formats."""
    return Peer(
        name="snakemake_pdf" if pdf else "snakemake",
        title="Snakemake",
        makes="HTML and PDF (latexmk)" if pdf else "HTML",
        caching="its records in `.snakemake`; all rerun triggers, as by default",
        kit="snakemake",
        files=lambda: {**documents(), "Snakefile": snakefile(pdf)},
        modules=MODULES,
        source="{document}.md.in",
        page="build/{document}.html",
        command=("snakemake", "--cores", "all", "--quiet", "all"),
        built=("build", ".snakemake"),
    )


def doit(pdf: bool) -> Peer:
    """The peer doit, making HTML or both formats."""
    return Peer(
        name="doit_pdf" if pdf else "doit",
        title="doit",
        makes="HTML and PDF (latexmk)" if pdf else "HTML",
        caching="digests of all dependencies in its database",
        kit="doit",
        files=lambda: {**documents(), "dodo.py": dodo(pdf)},
        modules=MODULES,
        source="{document}.md.in",
        page="build/{document}.html",
        command=("doit", "-n", "{cores}"),
        built=("build", ".doit.db", ".doit.db.db", ".doit.db.dat", ".doit.db.dir", ".doit.db.bak"),
    )


def script(pdf: bool) -> Peer:
    """Plain pandoc (and latexmk) by a shell script."""
    return Peer(
        name="script_pdf" if pdf else "script",
        title="pandoc + latexmk by a script" if pdf else "pandoc by a script",
        makes="HTML and PDF (latexmk)" if pdf else "HTML",
        caching="latexmk's own" if pdf else "none",
        kit="plain",
        files=lambda: {**documents(), **scripts(pdf)},
        modules=MODULES,
        source="{document}.md.in",
        page="build/{document}.html",
        command=("sh", "all.sh"),
        built=("build",),
    )

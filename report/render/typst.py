"""The PDF of one paper by Typst, which needs nothing but the wheel and the project's fonts."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Final

from figures.fonts import FOLDER, printable
from report.errors import RenderError
from report.render.command import run
from report.render.pandoc import TEMPLATES, Edition, convert
from report.render.problems import name_of, naming, place_like, refusal
from report.render.source import Source, read_source

#: How pandoc's filter lets a figure or table float.
_FLOATING = "#figure(placement: auto,"
#: Typst's tags can come apart where a float meets the end of a page, and not where all stand in the
#: text (https://github.com/typst/typst/issues/8487 and 8776).
_OWN_FAULT = "internal error"
_TIME_LIMIT_S: Final = 120.0
_PROGRAM: Final = Path(__file__).with_name("typst_process.py")
_IMAGE = re.compile(r'image\("((?:[^"\\]|\\.)+)"')
#: The file, the line and its text at which Typst stopped.
_STOPPED = re.compile(r"┌─ (\S.*?):(\d+):\d+\n(?:.*\n)*?\s*\2 │ (.*)")


def typst_edition(paper: Source) -> Edition:
    """How pandoc writes the Typst source of a paper."""
    return Edition(
        "typst-citations",
        TEMPLATES / "typst" / "paper.typ",
        variables={"style": paper.style, **paper.print_variables()},
        printable=printable,
    )


def write_typst(source: Path, study: str, target: Path, text: str | None = None) -> Path:
    """Write ``<study>.typ`` and all that it needs into the folder ``target``; returns its path.

    ``text`` is what pandoc has written for ``typst_edition``; it is called where there is none.
    Raises ``RenderError`` before anything is written.
    """
    paper = read_source(source, study)
    if text is None:
        text = convert(paper, [typst_edition(paper)]).editions["typst-citations"]
    target.mkdir(parents=True, exist_ok=True)
    for name in sorted(set(_IMAGE.findall(text))):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)
    shared = ("onecolumn.typ",) if paper.one_column else ()
    for name in ("common.typ", *shared, f"{paper.style}.typ"):
        shutil.copyfile(TEMPLATES / "typst" / name, target / name)
    main = target / f"{study}.typ"
    main.write_text(text, "utf-8", newline="\n")
    return main


def compile_typst(main: Path) -> bytes:
    """The PDF of a folder that ``write_typst`` made, an accessible one (PDF/UA-1).

    Only the fonts of the wheel and of the project are used and the moment is fixed, so that the
    bytes depend on the source, these fonts and the version of Typst.  Raises ``RenderError``.
    """
    made = _compiled(main)
    if isinstance(made, dict) and made["message"].startswith(_OWN_FAULT):
        standing = main.read_text("utf-8").replace(_FLOATING, _FLOATING.replace("auto", "none"))
        main.write_text(standing, "utf-8", newline="\n")
        made = _compiled(main)
    if isinstance(made, dict):
        raise _refusal(main, **made)
    return made


def _compiled(main: Path) -> bytes | dict[str, str]:
    """The PDF, or what Typst said of a source that it does not compile: message, diagnostic."""
    pdf = main.with_suffix(".pdf")
    arguments = {
        "input": str(main),
        "root": str(main.parent),
        "format": "pdf",
        "font_paths": [str(FOLDER)],
        "ignore_system_fonts": True,
        "timestamp": 0,
        "pdf_standards": ["ua-1"],
    }
    job = json.dumps({"packages": str(_packages()), "pdf": str(pdf), "arguments": arguments})
    # Isolated, so that no module of ours is taken for one of Python's.
    command: tuple[str | Path, ...] = (sys.executable, "-I", _PROGRAM)
    with naming(main, main.parent):
        finished = run(command, main.parent, _TIME_LIMIT_S, stdin=job)
    if finished.returncode == 0:
        return pdf.read_bytes()
    try:
        said: dict[str, str] = json.loads(finished.stdout)
    except json.JSONDecodeError:
        said = {"message": finished.stderr.strip() or f"ended with {finished.returncode}"}
    return {"diagnostic": "", **said}


@cache
def _packages() -> Path:
    """The folder in which the package ``typst`` lies; raises ``RenderError`` without it."""
    found = find_spec("typst")
    if found is None or found.origin is None:
        raise RenderError("typst: the package is not installed; run 'pip install -e .'.")
    return Path(found.origin).parents[1]


def _refusal(main: Path, message: str, diagnostic: str) -> RenderError:
    """What Typst said, of the place that the line was made from at which it stopped."""
    stopped = _STOPPED.search(diagnostic)
    if stopped is None:
        place = name_of(main)
    elif stopped[1].endswith(main.name):
        place = place_like(main, [stopped[3]])
    else:
        place = f"templates/typst/{PurePosixPath(stopped[1]).name}:{stopped[2]}"
    return refusal(place, "Typst", message)


def render_typst(source: Path, study: str, text: str | None = None) -> bytes:
    """The PDF of the paper in the folder ``source``; ``text`` is that of ``write_typst``.

    Raises ``RenderError``.
    """
    with tempfile.TemporaryDirectory(prefix="ridgepoint-") as scratch:
        return compile_typst(write_typst(source, study, Path(scratch), text))

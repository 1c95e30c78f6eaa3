"""PDF of one paper by Typst, which needs no files but its wheel and the project's fonts."""

import json
import re
import shutil
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Final

from figures.fonts import FOLDER, escape_unprintable
from report.core.errors import RenderError
from report.core.system.programs import run
from report.render.pandoc import TEMPLATES, OutputFormat
from report.render.problems import name_of, place_like, refusal
from report.render.source import PaperSource

#: Code that the filter writes for a figure or table that may float to another page.
_FLOATING = "#figure(placement: auto,"
#: Error that Typst reports for some floats at the end of a page when it tags the PDF.  Papers
#: without floats never fail (https://github.com/typst/typst/issues/8487 and 8776).
_TAGGING_ERROR = "internal error"
_TIME_LIMIT_S: Final = 120.0
#: Program that compiles a source in a process of its own.
_PROGRAM: Final = Path(__file__).with_name("typst_process.py")
_IMAGE = re.compile(r'image\("((?:[^"\\]|\\.)+)"')
#: File, number and text of the line at which Typst stopped.
_STOPPED = re.compile(r"┌─ (\S.*?):(\d+):\d+\n(?:.*\n)*?\s*\2 │ (.*)")


def typst_format(paper: PaperSource) -> OutputFormat:
    """Return the format in which pandoc writes the Typst source of a paper."""
    return OutputFormat(
        "typst-citations",
        TEMPLATES / "typst" / "paper.typ",
        variables={"style": paper.style, **paper.print_variables()},
        printable=escape_unprintable,
    )


def render_typst(paper: PaperSource, text: str) -> bytes:
    """Return an accessible PDF (PDF/UA-1) of the ``text`` that pandoc wrote for ``typst_format``.

    System fonts are ignored and the timestamp is fixed, so that the bytes depend only on the
    source, the fonts of the wheel and the project, and Typst's version.  Raises ``RenderError`` if
    Typst refuses the text or is not installed.
    """
    common_files = ("common.typ", *(("onecolumn.typ",) if paper.one_column else ()))
    with tempfile.TemporaryDirectory(prefix="ridgepoint-") as scratch:
        main = Path(scratch) / f"{paper.study}.typ"
        for name in sorted(set(_IMAGE.findall(text))):
            (main.parent / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(paper.folder / name, main.parent / name)
        for name in (*common_files, f"{paper.style}.typ"):
            shutil.copyfile(TEMPLATES / "typst" / name, main.with_name(name))
        result = _compile(main, text)
        # Without floats, more of a page may stay empty.
        if isinstance(result, dict) and result["message"].startswith(_TAGGING_ERROR):
            result = _compile(main, text.replace(_FLOATING, _FLOATING.replace("auto", "none")))
        if isinstance(result, dict):
            raise _typst_error(main, **result)
        return result


def _compile(main: Path, text: str) -> bytes | dict[str, str]:
    """Compile a Typst source; return the PDF, or Typst's ``message`` and ``diagnostic``."""
    main.write_text(text, "utf-8", newline="\n")
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
    # -I: otherwise a module of this project could shadow a module of Python.
    command: tuple[str | Path, ...] = (sys.executable, "-I", _PROGRAM)
    finished = run(command, main.parent, _TIME_LIMIT_S, place=name_of(main), stdin=job)
    if finished.returncode == 0:
        return pdf.read_bytes()
    try:
        error: dict[str, str] = json.loads(finished.stdout)
    except json.JSONDecodeError:
        error = {"message": finished.stderr.strip() or f"ended with {finished.returncode}"}
    return {"diagnostic": "", **error}


@cache
def _packages() -> Path:
    """Return the folder with the package ``typst``; raise ``RenderError`` if it is missing."""
    package = find_spec("typst")
    if package is None or package.origin is None:
        raise RenderError("typst: the package is not installed; run 'pip install -e .'.")
    return Path(package.origin).parents[1]


def _typst_error(main: Path, message: str, diagnostic: str) -> RenderError:
    """Describe Typst's error, with the place in the project's files."""
    stopped = _STOPPED.search(diagnostic)
    if stopped is None:
        place = name_of(main)
    elif stopped[1].endswith(main.name):
        place = place_like(main, [stopped[3]])
    else:
        place = f"templates/typst/{PurePosixPath(stopped[1]).name}:{stopped[2]}"
    return refusal(place, "Typst", message)

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
from report.core.errors import RenderError
from report.core.system.programs import run
from report.render.pandoc import TEMPLATES, Edition
from report.render.problems import name_of, place_like, refusal
from report.render.source import Source

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


def render_typst(paper: Source, text: str) -> bytes:
    """The PDF of what pandoc has written for ``typst_edition``, an accessible one (PDF/UA-1).

    Only the fonts of the wheel and of the project are used and the moment is fixed, so that the
    bytes depend on the source, these fonts and the version of Typst.  Raises ``RenderError``.
    """
    shared = ("common.typ", *(("onecolumn.typ",) if paper.one_column else ()))
    with tempfile.TemporaryDirectory(prefix="ridgepoint-") as scratch:
        main = Path(scratch) / f"{paper.study}.typ"
        for name in sorted(set(_IMAGE.findall(text))):
            (main.parent / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(paper.folder / name, main.parent / name)
        for name in (*shared, f"{paper.style}.typ"):
            shutil.copyfile(TEMPLATES / "typst" / name, main.with_name(name))
        made = _compiled(main, text)
        if isinstance(made, dict) and made["message"].startswith(_OWN_FAULT):
            made = _compiled(main, text.replace(_FLOATING, _FLOATING.replace("auto", "none")))
        if isinstance(made, dict):
            raise _refusal(main, **made)
        return made


def _compiled(main: Path, text: str) -> bytes | dict[str, str]:
    """The PDF, or what Typst said of a source that it does not compile: message, diagnostic."""
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
    # Isolated, so that no module of ours is taken for one of Python's.
    command: tuple[str | Path, ...] = (sys.executable, "-I", _PROGRAM)
    finished = run(command, main.parent, _TIME_LIMIT_S, place=name_of(main), stdin=job)
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

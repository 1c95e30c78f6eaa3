"""The Word document of one paper, by pandoc, with the figures in it."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from report.core.errors import RenderError
from report.core.system.programs import pandoc_path, run
from report.render.pandoc import TEMPLATES, Edition
from report.render.problems import name_of, pandoc_refusal
from report.render.source import Source

#: The document whose styles and page all others get.
REFERENCE: Final = TEMPLATES / "docx" / "reference.docx"
_NAME: Final = "templates/docx/reference.docx"
_TIME_LIMIT_S: Final = 60.0


def docx_edition() -> Edition:
    """How pandoc writes a paper for Word: as JSON, which ``render_docx`` reads."""
    return Edition("docx")


def render_docx(paper: Source, text: str) -> bytes:
    """Make the Word document of what pandoc has written for ``docx_edition``.

    The bytes depend on the source, the figures and ``REFERENCE`` alone.  Raises ``RenderError``.
    """
    with tempfile.TemporaryDirectory(prefix="ridgepoint-") as scratch:
        folder = Path(scratch)
        for name in ("figures", "pictures"):
            if (paper.folder / name).is_dir():
                shutil.copytree(paper.folder / name, folder / name)
        if not zipfile.is_zipfile(REFERENCE):
            raise RenderError(f"{_NAME}: is no Word document; restore it with git.")
        shutil.copyfile(REFERENCE, folder / "reference.docx")
        options = ("--from=json", "--to=docx", "--reference-doc=reference.docx")
        command = (pandoc_path(), *options, "--output=paper.docx")
        finished = run(command, folder, _TIME_LIMIT_S, place=name_of(paper.document), stdin=text)
        # pandoc leaves out a picture that it cannot read, and only warns.
        if finished.returncode != 0 or "[WARNING]" in finished.stderr:
            raise pandoc_refusal(paper.document, finished.stderr)
        return (folder / "paper.docx").read_bytes()

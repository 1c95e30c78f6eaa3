"""Word document of one paper, by pandoc, with its figures embedded."""

import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from report.core.errors import RenderError
from report.core.system.programs import pandoc_path, run
from report.render.pandoc import TEMPLATES, OutputFormat
from report.render.problems import name_of, pandoc_refusal
from report.render.source import PaperSource

#: The document from which pandoc copies styles and page size.
REFERENCE: Final = TEMPLATES / "docx" / "reference.docx"
#: Path of ``REFERENCE`` in messages.
_REFERENCE_NAME: Final = "templates/docx/reference.docx"
#: The format of the text that ``render_docx`` reads: pandoc's JSON, made for Word.
DOCX_FORMAT: Final = OutputFormat("docx")
_TIME_LIMIT_S: Final = 60.0


def render_docx(paper: PaperSource, text: str) -> bytes:
    """Make the Word document of a paper from ``text``, which pandoc wrote for ``DOCX_FORMAT``.

    The bytes depend only on the source, the figures and ``REFERENCE``.  Raises ``RenderError`` if
    ``REFERENCE`` is damaged, or pandoc fails or leaves out a picture.
    """
    with tempfile.TemporaryDirectory(prefix="ridgepoint-") as scratch:
        folder = Path(scratch)
        for name in ("figures", "pictures"):
            if (paper.folder / name).is_dir():
                shutil.copytree(paper.folder / name, folder / name)
        if not zipfile.is_zipfile(REFERENCE):
            raise RenderError(f"{_REFERENCE_NAME}: is not a Word document; restore it with git.")
        shutil.copyfile(REFERENCE, folder / "reference.docx")
        options = ("--from=json", "--to=docx", "--reference-doc=reference.docx")
        command = (pandoc_path(), *options, "--output=paper.docx")
        finished = run(command, folder, _TIME_LIMIT_S, place=name_of(paper.document), stdin=text)
        # pandoc only warns of a picture that it cannot read, and leaves the picture out.
        if finished.returncode != 0 or "[WARNING]" in finished.stderr:
            raise pandoc_refusal(paper.document, finished.stderr)
        return (folder / "paper.docx").read_bytes()

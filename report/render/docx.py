"""The Word document of one paper, by pandoc, with the figures in it."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from report.errors import RenderError
from report.render.pandoc import TEMPLATES, Edition
from report.render.problems import name_of, pandoc_refusal
from report.render.source import Source
from report.system.programs import pandoc_path, run

#: A document whose styles all others get, where there is one.
REFERENCE: Final = TEMPLATES / "docx" / "reference.docx"
_TIME_LIMIT_S: Final = 60.0
_OPTIONS: Final = (
    *("--from=json", "--to=docx", "--reference-doc=reference.docx", "--output=paper.docx"),
)
#: Changes of pandoc's own styles: type of 10.5 points, in tables of 8; A4 whose text is as wide as
#: the widest figure.  Word counts type in halves of a point, lengths in twentieths.
STYLE: Final = {
    "word/styles.xml": (
        ('<w:sz w:val="24" />', '<w:sz w:val="21" />'),
        ("<w:tblPr>\n      <w:tblInd", '<w:rPr><w:sz w:val="16" /></w:rPr><w:tblPr><w:tblInd'),
    ),
    "word/document.xml": (
        (
            "</w:sectPr>",
            '<w:pgSz w:h="16838" w:w="11906" /><w:pgMar w:top="1418" w:bottom="1418" w:left="1418" '
            'w:right="1418" w:header="709" w:footer="709" w:gutter="0" /></w:sectPr>',
        ),
    ),
}


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
        command = (pandoc_path(), *_OPTIONS)
        if REFERENCE.is_file():
            shutil.copyfile(_checked(REFERENCE), folder / "reference.docx")
        else:
            _write_reference(folder / "reference.docx")
        finished = run(command, folder, _TIME_LIMIT_S, place=name_of(paper.document), stdin=text)
        # pandoc leaves out a picture that it cannot read, and only warns.
        if finished.returncode != 0 or "[WARNING]" in finished.stderr:
            raise pandoc_refusal(paper.document, finished.stderr)
        return (folder / "paper.docx").read_bytes()


def _checked(path: Path) -> Path:
    if zipfile.is_zipfile(path) and "word/styles.xml" in zipfile.ZipFile(path).namelist():
        return path
    name = "/".join(path.parts[-3:])
    raise RenderError(f"{name}: is no Word document; save it in Word as .docx, or remove it.")


def _write_reference(target: Path) -> None:
    """Write pandoc's own reference document with the changes of ``STYLE``."""
    original = target.with_name("original.docx")
    # pandoc prints as soon as it reads the second option.
    options = (f"--output={original.name}", "--print-default-data-file=reference.docx")
    run([pandoc_path(), *options], target.parent, _TIME_LIMIT_S)
    with zipfile.ZipFile(original) as source, zipfile.ZipFile(target, "w") as changed:
        for name in source.namelist():
            text = source.read(name).decode()
            for old, new in STYLE.get(name, ()):
                text = text.replace(old, new, 1)
            # Without a time of its own an entry has that of this moment.
            changed.writestr(zipfile.ZipInfo(name), text)

"""The LaTeX of one paper as an archive for arXiv and the like, which want all files in one folder.

https://info.arxiv.org/help/submit_tex.html: no folders, the bibliography as BibTeX has set it.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from report.paper.bibliography import cited_entries

_USED = re.compile(r"(\\(?:ridgepointgraphic|input)\{)([^}]+)(\})")
_CITED = re.compile(r"\\cite\{([^}]+)\}")
_BIBLIOGRAPHY: Final = "references.bib"


def bundle(folder: Path, study: str, bibliography: bytes) -> bytes:
    """A tar archive of ``folder``, which ``write_latex`` made; the same bytes for the same files.

    ``bibliography`` is what BibTeX made of it, empty where there was no TeX or nothing is cited.
    """
    files = dict(_files(folder, study))
    if bibliography:
        files[f"{study}.bbl"] = bibliography
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def _files(folder: Path, study: str) -> Iterator[tuple[str, bytes]]:
    """Every file by the name that it has in the archive."""
    document = (folder / f"{study}.tex").read_text("utf-8")
    cited = {key.strip() for keys in _CITED.findall(document) for key in keys.split(",")}
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        name = path.relative_to(folder).as_posix()
        if name == f"{study}.tex":
            text = _USED.sub(lambda used: used[1] + _flat(used[2]) + used[3], document)
            yield name, text.encode()
        elif name == _BIBLIOGRAPHY:
            yield name, cited_entries(path.read_text("utf-8"), cited.__contains__).encode()
        else:
            yield _flat(name), path.read_bytes()


def _flat(name: str) -> str:
    """A name without folders; a figure may not be mistaken for the paper's own PDF."""
    return name.replace("figures/", "fig-").rpartition("/")[2]

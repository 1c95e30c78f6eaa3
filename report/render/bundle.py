"""The LaTeX of one paper as an archive for arXiv and the like, which want all files in one folder.

https://info.arxiv.org/help/submit_tex.html: no folders, the bibliography as BibTeX has set it.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from report.paper.bibliography import cited_entries
from report.render.problems import BIBLIOGRAPHY

#: Keys, also of `\\cite[p.~3]{key}`.
_CITED = re.compile(r"\\cite(?:\[[^]]*\])?\{([^}]+)\}")
_USED = re.compile(r"(\\(?:ridgepointgraphic|input)\{)([^}]+)(\})")


def bundle(folder: Path, study: str, bibliography: bytes) -> bytes:
    """A tar archive of ``folder``, which ``write_latex`` made; the same bytes for the same files.

    ``bibliography`` is what BibTeX made of it, empty where there was no TeX or nothing is cited.
    """
    files = dict(_files(folder))
    if bibliography:
        files[f"{study}.bbl"] = bibliography
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file by the name that it has in the archive."""
    texts = {path: path.read_text("utf-8") for path in folder.rglob("*.tex")}
    cited = {k for text in texts.values() for keys in _CITED.findall(text) for k in keys.split(",")}
    for path in filter(Path.is_file, folder.rglob("*")):
        if path in texts:
            text = _USED.sub(lambda used: used[1] + _flat(used[2]) + used[3], texts[path])
            yield _flat(path.relative_to(folder).as_posix()), text.encode()
        elif path.name == BIBLIOGRAPHY:
            yield path.name, cited_entries(path.read_text("utf-8"), cited.__contains__).encode()
        else:
            yield _flat(path.relative_to(folder).as_posix()), path.read_bytes()


def _flat(name: str) -> str:
    """A name without folders; a figure may not be mistaken for the paper's own PDF."""
    return name.replace("figures/", "fig-").rpartition("/")[2]

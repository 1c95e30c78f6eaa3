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

_USED = re.compile(r"(\\(?:ridgepointgraphic|input)\{)([^}]+)(\})")
_CITED = re.compile(r"\\cite\{([^}]+)\}")
#: Where an entry of a bibliography begins: its kind and its key.
_ENTRY = re.compile(r"^[ \t]*@(\w+)\s*[{(]\s*([^,\s]*)", re.MULTILINE)
_PARENT = re.compile(r"\b(?:crossref|xdata)\s*=\s*[{\"]?\s*([^}\",\s]+)", re.IGNORECASE)
#: Kinds of entries that nobody cites and others need.
_FOR_OTHERS: Final = ("string", "preamble")
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
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        name = path.relative_to(folder).as_posix()
        if name == f"{study}.tex":
            text = _USED.sub(lambda used: used[1] + _flat(used[2]) + used[3], document)
            yield name, text.encode()
        elif name == _BIBLIOGRAPHY:
            yield name, cited_entries(path.read_text("utf-8"), document).encode()
        else:
            yield _flat(name), path.read_bytes()


def _flat(name: str) -> str:
    """A name without folders; a figure may not be mistaken for the paper's own PDF."""
    return name.replace("figures/", "fig-").rpartition("/")[2]


def cited_entries(bibliography: str, document: str) -> str:
    """The entries of a BibTeX file that a LaTeX document cites, and those that they build on."""
    starts = list(_ENTRY.finditer(bibliography))
    ends = [each.start() for each in starts[1:]] + [len(bibliography)]
    entries = [
        (each, bibliography[each.start() : end]) for each, end in zip(starts, ends, strict=True)
    ]
    parents = {each[2]: set(_PARENT.findall(text)) for each, text in entries}
    wanted = {key.strip() for keys in _CITED.findall(document) for key in keys.split(",")}
    while more := {parent for key in wanted for parent in parents.get(key, ())} - wanted:
        wanted |= more
    return "".join(
        text for each, text in entries if each[2] in wanted or each[1].lower() in _FOR_OTHERS
    )

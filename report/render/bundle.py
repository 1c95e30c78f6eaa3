"""LaTeX of one paper as an archive for arXiv and publishers, with all files in one folder.

https://info.arxiv.org/help/submit_tex.html asks for no folders, and for BibTeX's output.
"""

import io
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from report.paper.bibliography import cited_entries
from report.render.problems import BIBLIOGRAPHY

#: Keys, also of `\\cite[p.~3]{key}`.
_CITED = re.compile(r"\\cite(?:\[[^]]*\])?\{([^}]+)\}")
_USED = re.compile(r"(\\(?:ridgepointgraphic|input)\{)([^}]+)(\})")


def bundle(folder: Path, study: str, bibliography: bytes) -> bytes:
    """Pack ``folder``, written by ``write_latex``, as tar; equal files give equal bytes.

    ``bibliography`` is BibTeX's output, empty without TeX or citations.
    """
    files = dict(_files(folder))
    if bibliography:
        files[f"{study}.bbl"] = bibliography
    return packed(files)


def packed(files: Mapping[str, bytes]) -> bytes:
    """Pack files as tar; equal files give equal bytes."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every file with its name in the archive."""
    texts = {path: path.read_text("utf-8") for path in folder.rglob("*.tex")}
    cited: set[str] = set()
    for text in texts.values():
        for keys in _CITED.findall(text):
            cited.update(keys.split(","))
    for path in filter(Path.is_file, folder.rglob("*")):
        if path in texts:
            text = _USED.sub(_flat_use, texts[path])
            yield _flat(path.relative_to(folder).as_posix()), text.encode()
        elif path.name == BIBLIOGRAPHY:
            yield path.name, cited_entries(path.read_text("utf-8"), cited.__contains__).encode()
        else:
            yield _flat(path.relative_to(folder).as_posix()), path.read_bytes()


def _flat_use(use: re.Match[str]) -> str:
    return use[1] + _flat(use[2]) + use[3]


def _flat(name: str) -> str:
    """Drop the folders of a name; the prefix keeps a figure apart from the paper's own PDF."""
    return name.replace("figures/", "fig-").rpartition("/")[2]

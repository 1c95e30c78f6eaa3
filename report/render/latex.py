"""LaTeX of one paper: a folder that anybody can compile, and the PDF if TeX is installed."""

import io
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from report.core.errors import RenderError
from report.core.system.programs import run
from report.core.text.escape import bibtex, latex_source
from report.paper.bibliography import cited_entries, entries_of, fields_of
from report.render.pandoc import TEMPLATES, OutputFormat
from report.render.problems import (
    BIBLIOGRAPHY,
    name_of,
    place_like,
    place_of_key,
    place_of_text,
    refusal,
)
from report.render.source import PaperSource

#: TeX file that the styles need and a small installation may lack → Debian package with the file.
_TEX_FILES: Final = {
    "IEEEtran.cls": "texlive-publishers",
    "IEEEtran.bst": "texlive-publishers",
    "cite.sty": "texlive-latex-recommended",
    "booktabs.sty": "texlive-latex-recommended",
    "microtype.sty": "texlive-latex-recommended",
    "xcolor.sty": "texlive-latex-recommended",
    "caption.sty": "texlive-latex-recommended",
    "amssymb.sty": "texlive-latex-base",
    "fancyhdr.sty": "texlive-latex-base",
    "geometry.sty": "texlive-latex-base",
    "longtable.sty": "texlive-latex-base",
    "ptmr8t.tfm": "texlive-fonts-recommended",
    "pcrr8t.tfm": "texlive-fonts-recommended",
}
#: Debian packages that only the ACM's class needs.
_ACM_PACKAGES: Final = "texlive-latex-extra texlive-plain-generic"
#: Program → Debian package.
_PROGRAMS: Final = {"latexmk": "latexmk", "pdflatex": "texlive-latex-base"}
#: Command of latexmk that asks nothing, stops at the first error with its line, and runs no other
#: programs.
_PDFLATEX: Final = (
    "pdflatex -interaction=nonstopmode -halt-on-error -file-line-error -no-shell-escape %O %S"
)
_TIME_LIMIT_S: Final = 120.0

#: Files copied into the folder of every paper.
_STYLE_FILES: Final = ("ridgepoint.sty", "ridgepoint.bib", "latexmkrc", "README")

_ERROR = re.compile(r"^(?:\./)?([^\s:]+):(\d+): (.+)$", re.MULTILINE)
_MISSING_FILE = re.compile(r"LaTeX Error: File `([^']+\.(?:sty|cls))' not found")
#: Code points that ``report.core.text.escape`` wrote in place of characters.
_CODE_POINTS = re.compile(r"(?:‹|\\guilsinglleft )(U\+[0-9A-F]+(?: U\+[0-9A-F]+)*)")
_OVERFULL = re.compile(r"^Overfull \\hbox \(([\d.]+)pt too wide\)", re.MULTILINE)
#: Commands for addresses in a bibliography.
_LINK = re.compile(r"\\(?:url|nolinkurl|href)\{[^{}]*\}")
#: Smallest excess width of a reported line, in points; readers see no smaller excess.
_TOO_WIDE_PT: Final = 2.0
_UNDEFINED = re.compile(r"LaTeX Warning: (Reference|Citation) [`']([^']+)'")
#: Keys in `\\cite{key}` and `\\cite[p.~3]{key}`.
_CITED_KEYS = re.compile(r"\\cite(?:\[[^]]*\])?\{([^}]+)\}")
#: Command that uses a figure or another file.
_FILE_USE = re.compile(r"(\\(?:ridgepointgraphic|input)\{)([^}]+)(\})")


def latex_format(paper: PaperSource) -> OutputFormat:
    """Return the format in which pandoc writes the LaTeX of a paper."""
    return OutputFormat(
        "latex",
        TEMPLATES / "latex" / f"{paper.style}.tex",
        options={"highlight_method": "none", "top_level_division": "section"},
        variables=paper.print_variables(),
        cites=False,
        printable=latex_source,
    )


def write_latex(paper: PaperSource, target: Path, text: str) -> Path:
    """Write ``<study>.tex`` and the files that it needs into ``target``; return its path.

    ``text`` is the LaTeX that pandoc wrote for ``latex_format``.
    """
    target.mkdir(parents=True, exist_ok=True)
    _copy_used_files(text, paper.folder, target)
    for name in (*_STYLE_FILES, "onecolumn.sty") if paper.one_column else _STYLE_FILES:
        shutil.copyfile(TEMPLATES / "latex" / name, target / name)
    with (target / "latexmkrc").open("a", encoding="utf-8", newline="\n") as settings:
        # In an archive, tables are further .tex files, which latexmk must not compile.
        settings.write(f"@default_files = ('{paper.study}.tex');\n")
    main = target / f"{paper.study}.tex"
    main.write_text(text, "utf-8", newline="\n")
    return main


def _copy_used_files(text: str, source: Path, target: Path) -> None:
    """Copy the figures, tables and bibliography that the LaTeX ``text`` uses."""
    used = set(re.findall(r"\\ridgepointgraphic\{([^}]+)\}", text))
    used |= set(re.findall(r"\\input\{(tables/[^}]+)\}", text))
    for name in sorted(used):
        if (source / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, target / name)
    entries = entries_of(bibtex((source / BIBLIOGRAPHY).read_text("utf-8")))
    text = _LINK.sub(_escape_link, "".join(map(_with_doi, entries)))
    (target / BIBLIOGRAPHY).write_text(text, "utf-8", newline="\n")


def _escape_link(link: re.Match[str]) -> str:
    """Escape % and # in a link, since they would break the argument of a style's command."""
    return re.sub("[%#]", r"\\\g<0>", link[0])


def _with_doi(entry: str) -> str:
    """Add a link with the DOI to the note of an entry, since BibTeX's styles drop the field."""
    fields = {field.name: field for field in fields_of(entry)[0]}
    doi, note = fields.get("doi"), fields.get("note")
    if doi is None:
        return entry
    link = rf"doi: \href{{https://doi.org/{doi.value}}}{{\nolinkurl{{{doi.value}}}}}"
    if note:
        return f"{entry[: note.value_start]}{{{note.value}; {link}}}{entry[note.end :]}"
    # An entry without a note gets one in place of its DOI.
    name = entry[doi.name_start : doi.value_start].lower().replace("doi", "note")
    return f"{entry[: doi.name_start]}{name}{{{link}}}{entry[doi.end :]}"


def latex_lacks() -> str:
    """Return a sentence on missing LaTeX programs and files, or "" if LaTeX is complete."""
    missing = {name: package for name, package in _PROGRAMS.items() if not shutil.which(name)}
    installed = {Path(line).name for line in _kpsewhich(*_TEX_FILES)}
    files = {name: package for name, package in _TEX_FILES.items() if name not in installed}
    if not missing and not files:
        return ""
    # Without TeX all files are missing, so only the programs are listed.
    listed = missing if "pdflatex" in missing else {**missing, **files}
    packages = sorted({*missing.values(), *files.values()})
    return (
        f"LaTeX: {', '.join(listed)} not found; on Debian run 'apt-get install "
        f"--no-install-recommends {' '.join(packages)}'."
    )


def _kpsewhich(*names: str) -> list[str]:
    """Return the paths at which TeX finds files of these names; empty without TeX."""
    kpsewhich = shutil.which("kpsewhich")
    if kpsewhich is None:
        return []
    finished = run([kpsewhich, *names], Path(tempfile.gettempdir()), _TIME_LIMIT_S)
    return finished.stdout.split()


def tex_files() -> tuple[list[str], list[str]]:
    """Return the paths of TeX's lists of installed files, and of the TeX files that papers need."""
    return _kpsewhich("--all", "--format=ls-R", "ls-R"), _kpsewhich(*_TEX_FILES)


def tex_version() -> str:
    """Return the first line of pdflatex's version."""
    finished = run(["pdflatex", "--version"], Path(tempfile.gettempdir()), _TIME_LIMIT_S)
    return finished.stdout.partition("\n")[0]


def compile_latex(folder: Path, study: str) -> tuple[bytes, bytes, tuple[str, ...]]:
    """Compile a copy of a folder written by ``write_latex``.

    Returns the PDF, BibTeX's output, which is empty if nothing is cited, and notes (``notes_of``).
    Raises ``RenderError`` with LaTeX's first error, or with undefined references and citations.
    """
    with tempfile.TemporaryDirectory(prefix="ridgepoint-") as scratch:
        work = shutil.copytree(folder, Path(scratch) / "paper")
        main = work / f"{study}.tex"
        command = ("latexmk", "-norc", "-pdf", f"-pdflatex={_PDFLATEX}", main.name)
        finished = run(command, work, _TIME_LIMIT_S, place=name_of(folder / main.name))
        log, pdf, bibliography = (main.with_suffix(end) for end in (".log", ".pdf", ".bbl"))
        messages = _read_log(log)
        if finished.returncode != 0 or not pdf.is_file():
            raise _latex_error(main, messages, finished.stdout + finished.stderr)
        _check_references(main, messages)
        entries = bibliography.read_bytes() if bibliography.is_file() else b""
        texts = [path.read_text("utf-8") for path in sorted(work.rglob("*.tex"))]
        printed = "".join((*texts, entries.decode()))
        notes = notes_of(name_of(folder / main.name), printed, messages)
        return pdf.read_bytes(), entries, tuple(notes)


def notes_of(place: str, text: str, log: str) -> Iterator[str]:
    """Yield notes on characters that pdfLaTeX cannot print, and on lines that are too long."""
    codes = " ".join(_CODE_POINTS.findall(text)).split()
    letters = [code for code in codes if chr(int(code.removeprefix("U+"), 16)).isprintable()]
    if letters:
        yield (
            f"{place}: pdfLaTeX prints {len(letters)} characters as code points, such as "
            f"‹{letters[0]}›; build with --engine typst, which prints most scripts."
        )
    widths = [width for width in map(float, _OVERFULL.findall(log)) if width >= _TOO_WIDE_PT]
    if widths:
        yield (
            f"{place}: LaTeX sets text up to {max(widths):.0f} pt outside its column (lines: "
            f"{len(widths)}); shorten what does not break there."
        )


def _read_log(path: Path) -> str:
    """Read LaTeX's log and join the lines that LaTeX breaks at 79 characters."""
    if not path.is_file():
        return ""
    text = path.read_text("utf-8", "replace")
    return re.sub(r"^(.{79})\n", r"\1", text, flags=re.MULTILINE)


def _latex_error(document: Path, log: str, output: str) -> RenderError:
    """Describe LaTeX's first error, with the place in the project's files."""
    error = _ERROR.search(log)
    if absent := _MISSING_FILE.search(log):
        return RenderError(
            f"{name_of(document)}: this TeX has no {absent[1]}, which the print style needs; on "
            f"Debian run 'apt-get install --no-install-recommends {_ACM_PACKAGES}'."
        )
    if error:
        return refusal(_place(document, error[1], int(error[2])), "LaTeX", error[3])
    errors = [line for line in (log or output).split("\n") if line.startswith("!")]
    last_line = [line for line in output.split("\n") if line.strip()][-1:]
    return refusal(name_of(document), "LaTeX", (errors or last_line or ["no reason given"])[0])


def _place(document: Path, file: str, number: int) -> str:
    """Trace a line of a file that LaTeX read back to the project's file."""
    path = document.parent / file
    lines = path.read_text("utf-8", "replace").split("\n")[:number] if path.is_file() else []
    if path.suffix == ".bbl":
        keys = re.findall(r"\\bibitem(?:\[[^]]*\])?\{([^}]+)\}", "\n".join(lines))
        return place_of_key(path.with_name(BIBLIOGRAPHY), keys[-1]) if keys else name_of(document)
    if file.startswith("tables/"):
        return place_of_text(document, f'["{path.stem}"]', f"['{path.stem}']")
    if (TEMPLATES / "latex" / file).is_file():
        return f"templates/latex/{file}:{number}"
    return place_like(document, lines)


def _check_references(document: Path, log: str) -> None:
    """Raise ``RenderError`` if LaTeX's log names undefined references or citations."""
    undefined = sorted(set(_UNDEFINED.findall(log)))
    if undefined:
        names = ", ".join(f"{kind.lower()} {name}" for kind, name in undefined)
        place = place_of_text(document, *(f"@{name}" for _, name in undefined))
        raise RenderError(
            f"{place}: LaTeX does not know {names}; fix the id or add the entry to "
            f"data/{BIBLIOGRAPHY}."
        )


def bundle(folder: Path, study: str, bibliography: bytes) -> bytes:
    """Pack ``folder``, written by ``write_latex``, for arXiv and publishers.

    ``bibliography`` is BibTeX's output, empty without TeX or citations.  arXiv needs BibTeX's
    output, and accepts no folders (https://info.arxiv.org/help/submit_tex.html).
    """
    files: dict[str, bytes] = {}
    cited: set[str] = set()
    for path in filter(Path.is_file, folder.rglob("*")):
        content = path.read_bytes()
        if path.suffix == ".tex":
            text = content.decode()
            for keys in _CITED_KEYS.findall(text):
                cited.update(keys.split(","))
            content = _FILE_USE.sub(_flat_use, text).encode()
        files[_flat(path.relative_to(folder).as_posix())] = content
    entries = cited_entries(files[BIBLIOGRAPHY].decode(), cited.__contains__)
    files[BIBLIOGRAPHY] = entries.encode()
    if bibliography:
        files[f"{study}.bbl"] = bibliography
    return tar_archive(files)


def _flat_use(use: re.Match[str]) -> str:
    """Write the command of ``_FILE_USE`` with the name of the file in the archive."""
    return use[1] + _flat(use[2]) + use[3]


def _flat(name: str) -> str:
    """Return a name without folders; a prefix keeps figures apart from the paper's own PDF."""
    return name.replace("figures/", "fig-").rpartition("/")[2]


def tar_archive(files: Mapping[str, bytes]) -> bytes:
    """Pack files as a tar archive whose bytes depend only on names and contents."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()

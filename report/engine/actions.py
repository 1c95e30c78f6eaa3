"""The work of the steps, a function a kind, which imports what it needs.

Each reads what earlier steps made from the stage, a folder laid out like ``out/``, and writes what
it makes into it; it may return notices for the user.
"""

from __future__ import annotations

import io
import json
import pickle
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from figures.characters import visible, visible_in
from report.core.errors import RecordError
from report.core.records.files import read_file, shared
from report.engine.steps import (
    ARTIFACTS,
    DETAILS,
    DRAWINGS,
    ENTRY,
    FINDINGS,
    LATEX,
    OPENED,
    ORIGIN,
    PAGE,
    RECORDS,
    RECORDS_FOLDER,
    SAMPLES,
    TYPST,
    WORD,
    paper_files,
)

if TYPE_CHECKING:
    from report.core.records.store import Stored, StoredImport
    from report.paper.findings import Findings
    from report.render.html import Publication
    from report.render.site import Paper
    from report.render.source import Source

#: How the names of an author's pictures end.
_PICTURES: Final = (".jpeg", ".jpg", ".pdf", ".png", ".svg")
#: Most of a build would go into a file that is smaller by a sixth, and into its small pieces.
_QUICK, _BLOCK = 1, 2**20


class StepTask(NamedTuple):
    """The work of one step; ``stage`` is a folder laid out like ``out/``.

    It holds what the step reads, and takes what it makes.
    """

    id: str
    stage: Path
    data: Path
    papers: Path
    settings: Mapping[str, str]

    @property
    def study(self) -> str:
        """The study that the step belongs to."""
        return self.id.partition("/")[0]

    @property
    def source(self) -> Path:
        """The folder of the study's document and all that belongs to it."""
        return self.stage / "qmd" / self.study

    def artifacts(self, study: str = "") -> Path:
        """Where a study, the task's own if none is named, keeps what only later steps read."""
        return self.stage / ARTIFACTS / (study or self.study)


def study(task: StepTask) -> tuple[str, ...]:
    """Choose the records and compute the study; figures are described in a file of their own.

    What a reader may download of the records is written from the same reading.  The setting
    ``use`` names records that the user wants in this build.
    """
    from report.engine.gather import compute_usable
    from report.paper.details import details
    from report.paper.machines import machines

    asked = tuple(filter(None, task.settings["use"].split(", ")))
    chosen, findings = compute_usable(task.study, task.data, asked)
    folder = task.artifacts()
    write_json(chosen.origin, folder / ORIGIN)
    save({figure.name: figure.drawing for figure in findings.figures.values()}, folder / DRAWINGS)
    save(findings, folder / FINDINGS)
    opened = details(findings.values.values(), chosen.inputs)
    write_json({**opened, "machines": machines(chosen.inputs.records)}, folder / DETAILS)
    beside: Mapping[str, Sequence[str]] = {}
    if chosen.files:
        _write_samples(chosen.files, folder / SAMPLES)
        beside = _copy_records(chosen.files, task.data, folder / RECORDS_FOLDER)
    listing = [{**record, "files": beside.get(record["file"], ())} for record in chosen.listing]
    write_json(listing, folder / RECORDS)
    return chosen.notices


def _write_samples(files: Sequence[Stored | StoredImport], path: Path) -> None:
    """Write every sample of the records, one a row."""
    from report.core.records.files import gzip_writer
    from report.core.records.frames import write_samples

    with (
        path.open("wb") as file,
        io.BufferedWriter(gzip_writer(file, _QUICK), _BLOCK) as packed,
        io.TextIOWrapper(packed, "utf-8", newline="\n") as stream,
    ):
        write_samples(files, stream)


def _copy_records(
    files: Sequence[Stored | StoredImport], data: Path, folder: Path
) -> dict[str, list[str]]:
    """Copy records with their attachments; returns the copied attachments by record."""
    from report.core.records.store import attachments_folder, read_attachments

    folder.mkdir()
    copied: dict[str, list[str]] = {}
    for stored in files:
        target = folder / Path(stored.file).name
        shutil.copyfile(data / stored.file, target)
        for item in stored.record.attachments:
            # Those that are altered or too large are not what the record names.
            with suppress(RecordError):
                content = read_attachments(stored, (item.name,), data)[item.name]
                if isinstance(content, bytes):
                    attachments_folder(target).mkdir(exist_ok=True)
                    (attachments_folder(target) / item.name).write_bytes(content)
                    copied.setdefault(stored.file, []).append(item.name)
    return copied


def figures(task: StepTask) -> None:
    """Draw the figures that the study describes, for print and for the page, with their data."""
    from dataclasses import asdict

    from figures.panels import COLUMNS
    from figures.render import render
    from report.core.system.spreadsheet import csv_of

    folder, opened = task.source / "figures", {}
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawing in load(task.artifacts() / DRAWINGS).items():
        rendered = render(drawing, f"{task.study}/fig-{name}")
        (folder / f"{name}.pdf").write_bytes(rendered.pdf)
        (folder / f"{name}.svg").write_bytes(rendered.svg)
        (folder / f"{name}.png").write_bytes(rendered.png)
        if data := list(drawing.data()):
            content = visible(csv_of([COLUMNS, *data])).encode()
            (folder / f"{name}.csv").write_bytes(content)
        # What the page shows of a figure that is opened; the drawing itself where it has series.
        series = [asdict(each) for each in rendered.series]
        shown = {"series": series, "svg": rendered.svg.decode()} if series else {}
        opened[name] = {"place": drawing.place, **shown}
    write_json(opened, task.artifacts() / OPENED)


def document(task: StepTask) -> tuple[str, ...]:
    """Write the document, and what pandoc makes of it for each format.

    The setting ``formats`` names these, ``style`` a print style in place of the paper's.
    """
    from report.render.docx import docx_edition
    from report.render.html import page_edition
    from report.render.latex import latex_edition
    from report.render.pandoc import convert
    from report.render.site import in_plain_words
    from report.render.source import read_source
    from report.render.typst import typst_edition

    folder, formats = task.artifacts(), task.settings["formats"].split()
    written, findings = write_source(task)
    (task.stage / "values").mkdir()
    shutil.copyfile(task.source / "values.json", task.stage / "values" / f"{task.study}.json")
    paper = read_source(task.source, task.study)
    editions = {PAGE: page_edition(paper, _publication(task, written))}
    if "print" in formats:
        editions |= {LATEX: latex_edition(paper), TYPST: typst_edition(paper)}
    if "word" in formats:
        editions[WORD] = docx_edition()
    plain_texts, stand_ins = (written["title"], written["abstract"]), dict(_stand_ins(findings))
    texts, plain = convert(paper, [*editions.values()], plain_texts, stand_ins)
    for file, edition in editions.items():
        (folder / file).write_text(texts[edition.to], "utf-8", newline="\n")
    others = [each["line"] for each in written["imported"]]
    shown = ("title", "abstract", "devices", "measured", "question", "headline", "figure")
    listed = {**{key: written[key] for key in shown}, "imported": others}
    write_json({**listed, **in_plain_words(*plain)}, folder / ENTRY)
    return tuple(written["unsupported"])


def write_source(task: StepTask) -> tuple[dict[str, Any], Findings]:
    """Write the source folder of a study but for its figures; returns its values and findings.

    Every format is rendered from it.  It has ``<study>.qmd``, in ``tables/`` each table as LaTeX
    and CSV, ``references.bib``, ``values.json``, what ``quarto`` needs to know of one paper, and in
    ``pictures/`` the author's own, which lie beside the template in a folder of the study's name.
    Raises ``RidgepointError`` for a template that asks for what does not exist.
    """
    from report.paper.details import summary_of
    from report.paper.latex_table import to_latex
    from report.paper.manuscript import render_manuscript
    from report.paper.tables import to_csv
    from report.render.quarto import write_settings
    from report.render.source import in_style, read_source

    study, folder, style = task.study, task.source, task.settings["style"]
    origin = _read(task.artifacts() / ORIGIN)
    manuscript = render_manuscript(
        task.papers / f"{study}.qmd.j2", load(task.artifacts() / FINDINGS), origin
    )
    (folder / "tables").mkdir(parents=True)
    text = in_style(manuscript.text, style) if style else manuscript.text
    (folder / f"{study}.qmd").write_text(text, encoding="utf-8")
    paper, findings = read_source(folder, study), manuscript.findings
    write_settings(paper)
    copy_bibliography(task.data, folder)
    for table in findings.tables.values():
        for ending, content in (
            ("tex", to_latex(table, one_column=paper.one_column)),
            ("csv", to_csv(table)),
        ):
            (folder / "tables" / f"{table.id}.{ending}").write_text(content, encoding="utf-8")
    for path in sorted((task.papers / study).glob("*")):
        # No link is followed, since it may lead to any file.
        if path.suffix in _PICTURES and path.is_file() and not path.is_symlink():
            (folder / "pictures").mkdir(exist_ok=True)
            shutil.copyfile(path, folder / "pictures" / path.name)
    values = {
        **findings.as_json(study, tuple(origin["records"])),
        # Only a build that was told to use other records says so.
        **{name: part for name, part in origin.items() if part or name != "asked"},
        "title": paper.front["title"],
        "abstract": " ".join(str(paper.front.get("abstract", "")).split()),
        **summary_of(study, findings, paper.front),
        "unsupported": manuscript.unsupported,
    }
    write_json(values, folder / "values.json")
    return values, findings


def copy_bibliography(data: Path, folder: Path) -> None:
    """Put the bibliography beside the manuscript; raises ``RecordError`` if it cannot be used."""
    from report.paper.bibliography import check_bibliography, with_plain_addresses

    path = shared("references.bib", data)
    content = read_file(path, "data/references.bib", "restore it with git", path.parent)
    check_bibliography(content, "data/references.bib")
    text = visible(with_plain_addresses(content.decode("utf-8-sig")))
    (folder / "references.bib").write_text(text, "utf-8", newline="\n")


def _stand_ins(findings: Findings) -> Iterator[tuple[str, str]]:
    """What pandoc needs of the figures: that their files are there, and how large a page is."""
    from figures.style import inches

    for figure in findings.figures.values():
        width, height = inches(figure.drawing)
        yield f"figures/{figure.name}.svg", f'<svg width="{width:g}in" height="{height:g}in">'
        yield f"figures/{figure.name}.pdf", ""
        if any(figure.drawing.data()):
            yield f"figures/{figure.name}.csv", ""


def editions(task: StepTask) -> None:
    """Write the page and the sources of LaTeX around what pandoc has made of the document."""
    from report.render.latex import write_latex
    from report.render.source import read_source

    folder, paper = task.artifacts(), read_source(task.source, task.study)
    if (folder / LATEX).exists():
        write_latex(paper, task.stage / "tex" / task.study, (folder / LATEX).read_text("utf-8"))
    if "page" in task.settings["formats"].split():
        _write_page(task, paper)


def _publication(task: StepTask, values: Mapping[str, Any]) -> Publication:
    """What the page of a study says of its measurements, and what it offers."""
    from report.render.html import Publication
    from report.render.shell import read_settings

    return Publication(
        settings=read_settings(task.data),
        measured=values["measured"],
        devices=tuple(values["devices"]),
        pdf=f"{task.study}.pdf" if "print" in task.settings["formats"].split() else None,
        samples=SAMPLES if values["records"] else None,
    )


def _write_page(task: StepTask, paper: Source) -> None:
    """Write the page with all that it offers, and what it shows of what is opened on it."""
    from report.render.html import write_page
    from report.render.shell import script_of

    page, folder, values = task.stage / "html" / task.study, task.artifacts(), "values.json"
    shutil.copytree(task.source / "tables", page / "tables", ignore=shutil.ignore_patterns("*.tex"))
    shutil.copyfile(task.source / values, page / values)
    if (folder / SAMPLES).exists():
        shutil.copyfile(folder / SAMPLES, page / SAMPLES)
        shutil.copytree(folder / RECORDS_FOLDER, page / RECORDS_FOLDER)
    details, opened = _read(folder / DETAILS), _read(folder / OPENED)
    shown = {key: details[key] for key in ("values", "series", "records")}
    scripts = {f"figures/{name}": script_of("figure", each) for name, each in opened.items()}
    (page / "figures").mkdir(exist_ok=True)
    for name, script in {"details": script_of("details", shown), **scripts}.items():
        (page / f"{name}.js").write_text(script, "utf-8", newline="\n")
    publication = _publication(task, _read(task.source / values))
    write_page(paper, page, publication, (folder / PAGE).read_text("utf-8"))


def pdf(task: StepTask) -> tuple[str, ...]:
    """Make the PDF, and pack the LaTeX source, with the bibliography if LaTeX has set one."""
    from report.core.records.files import gzipped
    from report.render.bundle import bundle
    from report.render.latex import compile_latex
    from report.render.quarto import render_paper
    from report.render.source import read_source
    from report.render.typst import render_typst

    tex, paper = task.stage / "tex" / task.study, read_source(task.source, task.study)
    bibliography, notes = b"", tuple[str, ...]()
    if task.settings["engine"] == "latex":
        content, bibliography, notes = compile_latex(tex, task.study)
    elif task.settings["engine"] == "quarto":
        content, notes = render_paper(paper, task.settings["to"])
    else:
        content = render_typst(paper, (task.artifacts() / TYPST).read_text("utf-8"))
    for name in paper_files(task.study):
        (task.stage / name).parent.mkdir(parents=True, exist_ok=True)
        (task.stage / name).write_bytes(content)
    archive = gzipped(bundle(tex, task.study, bibliography))
    (task.stage / "tex" / f"{task.study}.tar.gz").write_bytes(archive)
    return notes


def docx(task: StepTask) -> None:
    """Make the Word document of a study."""
    from report.render.docx import render_docx
    from report.render.source import read_source

    target = task.stage / "docx" / f"{task.study}.docx"
    target.parent.mkdir()
    text = (task.artifacts() / WORD).read_text("utf-8")
    target.write_bytes(render_docx(read_source(task.source, task.study), text))


def quarto(task: StepTask) -> None:
    """Write the Quarto project of the ``studies`` that the setting names."""
    from report.render.quarto import write_project

    sources = {study: task.stage / "qmd" / study for study in task.settings["studies"].split()}
    entries = {study: _read(task.artifacts(study) / ENTRY) for study in sources}
    write_project(sources, task.stage / "quarto", entries)


def quarto_site(task: StepTask) -> tuple[str, ...]:
    """Let Quarto make the website of its project."""
    from report.render.quarto import render_site

    project = task.stage / "quarto"
    return render_site(project, project / "_site")


def index(task: StepTask) -> None:
    """Write the pages over all ``studies``, of which those in ``papers`` have a PDF."""
    from report.render.shell import read_settings
    from report.render.site import write_site

    papers = [_listed(task, study) for study in task.settings["studies"].split()]
    write_site(papers, task.stage / "html", read_settings(task.data))


def _listed(task: StepTask, study: str) -> Paper:
    """What lists say of a study, whose published values are put on the site."""
    from report.render.site import Paper

    folder, html = task.artifacts(study), task.stage / "html"
    page = html / study / "index.html"
    reported = f"reported/{study}.json"
    source = shared(reported, task.data)
    if source.exists():
        (html / "reported").mkdir(exist_ok=True)
        shutil.copyfile(source, html / reported)
    return Paper(
        study,
        entry=_read(folder / ENTRY),
        values=_read(task.stage / "values" / f"{study}.json"),
        records=_read(folder / RECORDS),
        machines=_read(folder / DETAILS)["machines"],
        html=page.read_text("utf-8") if page.exists() else "",
        pdf=study in task.settings["papers"].split(),
        reported=source.exists(),
    )


def _read(path: Path) -> Any:
    """What an earlier step wrote."""
    return json.loads(path.read_text("utf-8"))


def save(thing: Any, path: Path) -> None:
    """Write ``thing``, a tree of frozen values.

    Without pickle's memory of what it has written before, the bytes do not depend on whether two
    equal values happen to be one object.  Raises ``OSError``.
    """
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, protocol=5)
    pickler.fast = True
    pickler.dump(thing)
    path.write_bytes(stream.getvalue())


def load(path: Path) -> Any:
    """What ``save`` wrote.

    Only for files that a step of this build made or whose digest the manifest has confirmed, since
    unpickling runs code.  Raises ``OSError``.
    """
    return pickle.loads(path.read_bytes())


def write_json(content: Any, path: Path) -> None:
    """Write sorted, indented JSON in visible characters; NaN and infinity are refused."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(
        visible_in(content), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False
    )
    path.write_text(text + "\n", encoding="utf-8")

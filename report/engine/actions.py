"""Do the work of the steps: one function per kind of step, which gives the function its name.

Each function reads the outputs of earlier steps from the stage, a folder laid out like ``out/``,
and writes its outputs to the stage.  It may return notices for the user.  NumPy, matplotlib and
the modules that import them load slowly, so only the functions that use them import them.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from operator import call
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from figures.characters import escape_invisible
from figures.panels import COLUMNS, Drawing, Panel
from figures.style import placeholders
from report.core.errors import RecordError
from report.core.records.files import gzip_writer, gzipped, shared_file
from report.core.system.exchange import pickled, read_json, read_pickle, write_json, write_pickle
from report.core.system.spreadsheet import csv_of
from report.engine import steps
from report.evaluation import is_report
from report.paper.bibliography import copy_bibliography
from report.render.docx import DOCX_FORMAT, render_docx
from report.render.html import Publication, page_format, write_page
from report.render.latex import bundle, compile_latex, latex_format, write_latex
from report.render.pandoc import convert
from report.render.quarto import render_paper, render_site, write_project, write_settings
from report.render.shell import read_settings, script_of
from report.render.site import SitePaper, content_of_page, first_sentence, plain_entry, write_site
from report.render.source import in_style, read_source
from report.render.typst import render_typst, typst_format

if TYPE_CHECKING:
    from report.core.records.store import Stored, StoredImport
    from report.paper.findings import Findings
    from report.paper.manuscript import Starter

#: File endings of pictures that authors put beside their template.
_PICTURE_ENDINGS: Final = (".jpeg", ".jpg", ".pdf", ".png", ".svg")
#: Level of compressing the samples; level 2 saves a sixth of the bytes in twice the time.
_COMPRESSION_LEVEL: Final = 1


class StepTask(NamedTuple):
    """One step to run; ``stage`` is a folder with its inputs and outputs, laid out like ``out/``.

    ``inputs`` maps names of settings, and of files on which the step depends, to value or digest.
    """

    id: str
    stage: Path
    data: Path
    papers: Path
    inputs: Mapping[str, str]

    @property
    def study(self) -> str:
        """The study that the step belongs to."""
        return self.id.partition("/")[0]

    @property
    def source(self) -> Path:
        """The folder of the study's document, figures, tables and bibliography."""
        return self.stage / "qmd" / self.study

    def artifacts(self, study: str = "") -> Path:
        """Return the folder, of this step's study by default, for outputs that only steps read."""
        return self.stage / steps.ARTIFACTS / (study or self.study)


def study(task: StepTask) -> tuple[str, ...]:
    """Choose the records, compute the study, and write its results and downloads of its data.

    The setting ``use`` names the records that the user chose by --use.
    """
    from report.core.records.coverage import covered_cases
    from report.core.records.frames import write_samples
    from report.evaluation.replicate import atlas_of, compute_output
    from report.paper.details import details
    from report.paper.machines import machines

    requested = tuple(filter(None, task.inputs["use"].split(", ")))
    chosen, findings = compute_output(task.study, task.data, requested)
    folder = task.artifacts()
    write_json(chosen.origin, folder / steps.ORIGIN)
    write_pickle(covered_cases(chosen.usable), folder / steps.COVERAGE)
    drawings = findings.drawings
    if findings.shown_figure:
        drawings[steps.CARD] = findings.shown_figure.drawing.card
    write_pickle(drawings, folder / steps.DRAWINGS)
    write_pickle(findings, folder / steps.FINDINGS)
    # A report prints its own map of claims and machines.
    atlas = {} if is_report(task.study) else atlas_of(task.study, task.data, chosen, findings)
    write_json(atlas, folder / steps.ATLAS)
    value_details = details(findings.values.values(), chosen.inputs)
    value_details["machines"] = machines(chosen.inputs.records)
    write_json(value_details, folder / steps.VALUE_DETAILS)
    attachments: Mapping[str, Sequence[str]] = {}
    if chosen.files:
        with (
            (folder / steps.SAMPLES).open("wb") as file,
            io.TextIOWrapper(gzip_writer(file, _COMPRESSION_LEVEL), "utf-8", newline="\n") as text,
        ):
            write_samples(chosen.files, text)
        attachments = _copy_records(chosen.files, task.data, folder / steps.RECORDS_FOLDER)
    listing = [{**item, "files": attachments.get(item["file"], ())} for item in chosen.listing]
    write_json(listing, folder / steps.RECORDS)
    return chosen.notices


def _copy_records(
    files: Sequence[Stored | StoredImport], data: Path, folder: Path
) -> dict[str, list[str]]:
    """Copy records with their attachments; map each record to its copied attachments."""
    from report.core.records.store import attachments_folder, read_attachments

    folder.mkdir()
    copied: dict[str, list[str]] = {}
    for stored in files:
        target = folder / Path(stored.file).name
        shutil.copyfile(data / stored.file, target)
        for item in stored.record.attachments:
            # Altered or too large attachments are left out.
            with suppress(RecordError):
                content = read_attachments(stored, (item.name,), data)[item.name]
                if isinstance(content, bytes):
                    attachments_folder(target).mkdir(exist_ok=True)
                    (attachments_folder(target) / item.name).write_bytes(content)
                    copied.setdefault(stored.file, []).append(item.name)
    return copied


def figures(task: StepTask) -> None:
    """Draw the figures of the study for print and for the page, and write their data.

    A figure is taken from the previous build if neither its description nor the code that draws
    the figure has changed.
    """
    folder = task.source / "figures"
    earlier = task._replace(stage=task.stage / steps.PREVIOUS_BUILD)
    folder.mkdir(parents=True, exist_ok=True)
    digests, details, old_digests, old_details = {}, {}, {}, {}
    if (earlier.artifacts() / steps.FIGURE_DIGESTS).exists():
        old_digests = read_json(earlier.artifacts() / steps.FIGURE_DIGESTS)
        old_details = read_json(earlier.artifacts() / steps.FIGURE_DETAILS)
    for name, drawing in read_pickle(task.artifacts() / steps.DRAWINGS).items():
        digests[name] = _figure_digest(drawing, task.inputs)
        if old_digests.get(name) == digests[name]:
            for path in (earlier.source / "figures").glob(f"{name}.*"):
                path.rename(folder / path.name)
            details[name] = old_details[name]
        else:
            details[name] = _draw(drawing, name, task)
    shutil.rmtree(earlier.stage, ignore_errors=True)
    write_json(digests, task.artifacts() / steps.FIGURE_DIGESTS)
    write_json(details, task.artifacts() / steps.FIGURE_DETAILS)


def _figure_digest(drawing: Drawing, inputs: Mapping[str, str]) -> str:
    """Return a digest of everything that the files of a figure depend on."""
    used = {name: digest for name, digest in inputs.items() if not name.startswith("out/")}
    # A kind of panel is drawn by the module of its name, such as figures/roofline.py.
    for unused_kind in {*Panel.__subclasses__()}.difference(map(type, drawing.panels)):
        used.pop(f"figures/{unused_kind.__name__.lower()}.py", None)
    return sha256(pickled(drawing) + json.dumps(used, sort_keys=True).encode()).hexdigest()


def _draw(drawing: Drawing, name: str, task: StepTask) -> dict[str, Any]:
    """Write a figure in all formats (PNG only for Word); return the details that the page shows."""
    from figures.render import render, render_svg

    path, id = task.source / "figures" / name, f"{task.study}/fig-{name}"
    if name == steps.CARD:
        path.with_suffix(".svg").write_bytes(render_svg(drawing, id))
        return {}
    rendered = render(drawing, id, word="word" in task.inputs.get("formats", ""))
    path.with_suffix(".pdf").write_bytes(rendered.pdf)
    path.with_suffix(".svg").write_bytes(rendered.svg)
    if rendered.png:
        path.with_suffix(".png").write_bytes(rendered.png)
    if data := list(drawing.data()):
        path.with_suffix(".csv").write_bytes(escape_invisible(csv_of([COLUMNS, *data])).encode())
    details: dict[str, Any] = {"place": drawing.place}
    if rendered.series:
        series = [asdict(part) for part in rendered.series]
        details |= {"series": series, "svg": rendered.svg.decode()}
    return details


def document(task: StepTask) -> tuple[str, ...]:
    """Write the document, and convert it with pandoc to the ``formats`` of the settings.

    The setting ``style`` is a print style that replaces the style of the paper.  The prose is
    checked meanwhile; its faults are reported first, since pandoc fails because of some of them.
    """
    from report.paper.manuscript import meanwhile

    with meanwhile() as start:
        return _document(task, *write_source(task, start))


def _document(task: StepTask, values: Mapping[str, Any], findings: Findings) -> tuple[str, ...]:
    """Convert the document, whose ``values`` and ``findings`` are given."""
    folder, formats = task.artifacts(), task.inputs["formats"].split()
    (task.stage / "values").mkdir()
    shutil.copyfile(task.source / "values.json", task.stage / "values" / f"{task.study}.json")
    paper = read_source(task.source, task.study)
    format_by_file = {steps.PAGE: page_format(paper, _publication(task, values))}
    if "print" in formats:
        format_by_file |= {steps.LATEX: latex_format(paper), steps.TYPST: typst_format(paper)}
    if "word" in formats:
        format_by_file[steps.WORD] = DOCX_FORMAT
    markdown = values["title"], values["abstract"]
    files = placeholders(findings.drawings)
    texts, (title, abstract) = convert(paper, [*format_by_file.values()], markdown, files)
    for file, output_format in format_by_file.items():
        (folder / file).write_text(texts[output_format.to], "utf-8", newline="\n")
    fields = ("devices", "measured", "figure")
    entry = {field: values[field] for field in fields} | {"takeaway": ""}
    if figure := values["figure"]:
        entry["takeaway"] = first_sentence(values["figures"][figure[2]]["caption"])
    entry["imported"] = [attribution["line"] for attribution in values["imported"]]
    write_json(entry | plain_entry(title, abstract, values["question"]), folder / steps.LIST_ENTRY)
    return tuple(values["unsupported"])


def write_source(task: StepTask, start: Starter = call) -> tuple[dict[str, Any], Findings]:
    """Write the source folder of a study without its figures; return its values and findings.

    Every format is rendered from this folder.  It contains ``<study>.qmd``, the tables as LaTeX and
    CSV in ``tables/``, ``references.bib``, ``values.json``, the settings of Quarto, and in
    ``pictures/`` the pictures from the study's folder beside the template.  ``start`` starts the
    check of the prose.  Raises ``RidgepointError`` for a faulty template or bibliography.
    """
    from report.engine.writing import render_document
    from report.paper.details import summary_of
    from report.paper.latex_table import to_latex
    from report.paper.tables import to_csv

    study, folder, style = task.study, task.source, task.inputs["style"]
    origin = read_json(task.artifacts() / steps.ORIGIN)
    computed = read_pickle(task.artifacts() / steps.FINDINGS)
    coverage = read_pickle(task.artifacts() / steps.COVERAGE)
    commit = task.inputs.get("commit", "")  # only reports have this setting
    manuscript = render_document(
        study, task.data, task.papers, computed, origin, coverage, commit, start
    )
    (folder / "tables").mkdir(parents=True)
    text = in_style(manuscript.text, style) if style else manuscript.text
    (folder / f"{study}.qmd").write_text(text, encoding="utf-8")
    paper, findings = read_source(folder, study), manuscript.findings
    write_settings(paper)
    copy_bibliography(task.data, folder)
    for table in findings.tables.values():
        path = folder / "tables" / table.id
        path.with_suffix(".tex").write_text(to_latex(table, one_column=paper.one_column), "utf-8")
        path.with_suffix(".csv").write_text(to_csv(table), "utf-8")
    for path in sorted((task.papers / study).glob("*")):
        # A link could publish any file of the machine.
        if path.suffix in _PICTURE_ENDINGS and path.is_file() and not path.is_symlink():
            (folder / "pictures").mkdir(exist_ok=True)
            shutil.copyfile(path, folder / "pictures" / path.name)
    values = {
        **findings.as_json(study, tuple(origin["records"])),
        # The field "asked" lists the records of --use; without --use, the file has no such field.
        **{name: part for name, part in origin.items() if part or name != "asked"},
        "title": paper.front["title"],
        "abstract": " ".join(str(paper.front.get("abstract", "")).split()),
        **summary_of(study, findings, paper.front, text),
        "unsupported": manuscript.unsupported,
    }
    if is_report(study):  # lists of papers show a report's first line
        values |= {"summary": findings.facts["summary"], "question": findings.facts["summary"]}
    write_json(values, folder / "values.json")
    return values, findings


def page(task: StepTask) -> None:
    """Write the page, its downloads, and scripts with the details of values and figures.

    Does nothing if the ``formats`` of the settings have no page.
    """
    if "page" not in task.inputs["formats"].split():
        return
    target, folder, values = task.stage / "html" / task.study, task.artifacts(), "values.json"
    target.mkdir(parents=True)
    if (tables := task.source / "tables").is_dir():  # a report of no machine has none
        shutil.copytree(tables, target / "tables", ignore=shutil.ignore_patterns("*.tex"))
    shutil.copyfile(task.source / values, target / values)
    if (folder / steps.SAMPLES).exists():
        shutil.copyfile(folder / steps.SAMPLES, target / steps.SAMPLES)
        shutil.copytree(folder / steps.RECORDS_FOLDER, target / steps.RECORDS_FOLDER)
    details = read_json(folder / steps.VALUE_DETAILS)
    del details["machines"]
    scripts = {"details": script_of("details", details)}
    (target / "figures").mkdir(exist_ok=True)
    for name, figure in read_json(folder / steps.FIGURE_DETAILS).items():
        if name == steps.CARD:  # only the list of papers shows this drawing
            card = f"figures/{name}.svg"
            shutil.copyfile(task.source / card, target / card)
        else:
            scripts[f"figures/{name}"] = script_of("figure", figure)
    for name, script in scripts.items():
        (target / f"{name}.js").write_text(script, "utf-8", newline="\n")
    publication = _publication(task, read_json(task.source / values))
    paper, text = read_source(task.source, task.study), (folder / steps.PAGE).read_text("utf-8")
    write_page(paper, target, publication, text)
    write_json(content_of_page((target / "index.html").read_text("utf-8")), folder / steps.CONTENT)


def _publication(task: StepTask, values: Mapping[str, Any]) -> Publication:
    """Collect the dates, devices and downloads that the page of a study shows."""
    return Publication(
        settings=read_settings(task.data),
        measured=values["measured"],
        devices=tuple(values["devices"]),
        # A report prints its own commands.
        records=0 if is_report(task.study) else len(values["records"]),
        pdf=f"{task.study}.pdf" if "print" in task.inputs["formats"].split() else None,
        samples=steps.SAMPLES if values["records"] else None,
        replicated=read_json(task.artifacts() / steps.ATLAS).get("line", ""),
        # Reports introduce their figures in a section.
        key_figure=values["figure"][2] if values["figure"] and not is_report(task.study) else "",
        is_report=is_report(task.study),
    )


def pdf(task: StepTask) -> tuple[str, ...]:
    """Make the PDF, and the LaTeX source with its archive (with LaTeX's bibliography, if any)."""
    tex, paper = task.stage / "tex" / task.study, read_source(task.source, task.study)
    write_latex(paper, tex, (task.artifacts() / steps.LATEX).read_text("utf-8"))
    bibliography, notes = b"", tuple[str, ...]()
    if task.inputs["engine"] == "latex":
        content, bibliography, notes = compile_latex(tex, task.study)
    elif task.inputs["engine"] == "quarto":
        content, notes = render_paper(paper, task.inputs["to"])
    else:
        content = render_typst(paper, (task.artifacts() / steps.TYPST).read_text("utf-8"))
    for name in steps.paper_files(task.study):
        (task.stage / name).parent.mkdir(parents=True, exist_ok=True)
        (task.stage / name).write_bytes(content)
    archive = gzipped(bundle(tex, task.study, bibliography))
    (task.stage / "tex" / f"{task.study}.tar.gz").write_bytes(archive)
    return notes


def docx(task: StepTask) -> None:
    """Make the Word document of a study."""
    target = task.stage / "docx" / f"{task.study}.docx"
    target.parent.mkdir()
    text = (task.artifacts() / steps.WORD).read_text("utf-8")
    target.write_bytes(render_docx(read_source(task.source, task.study), text))


def quarto(task: StepTask) -> None:
    """Write the Quarto project of the studies that the setting ``studies`` names."""
    sources = {study: task.stage / "qmd" / study for study in task.inputs["studies"].split()}
    entries = {study: read_json(task.artifacts(study) / steps.LIST_ENTRY) for study in sources}
    write_project(sources, task.stage / "quarto", entries)


def quarto_site(task: StepTask) -> tuple[str, ...]:
    """Render the website of the Quarto project."""
    return render_site(task.stage / "quarto")


def index(task: StepTask) -> None:
    """Write the pages about all ``studies`` (a setting); ``papers`` names studies with a PDF."""
    papers = [_site_paper(task, study) for study in task.inputs["studies"].split()]
    write_site(papers, task.stage / "html", read_settings(task.data))


def _site_paper(task: StepTask, study: str) -> SitePaper:
    """Collect what the site shows of a study, and copy the published values that it repeats."""
    folder, html = task.artifacts(study), task.stage / "html"
    reported = f"reported/{study}.json"
    source = shared_file(reported, task.data)
    if source.exists():
        (html / "reported").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, html / reported)
    return SitePaper(
        study,
        entry=read_json(folder / steps.LIST_ENTRY),
        values=read_json(task.stage / "values" / f"{study}.json"),
        records=read_json(folder / steps.RECORDS),
        machines=read_json(folder / steps.VALUE_DETAILS)["machines"],
        content=read_json(folder / steps.CONTENT),
        pdf=study in task.inputs["papers"].split(),
        reported=source.exists(),
        atlas=read_json(folder / steps.ATLAS),
    )

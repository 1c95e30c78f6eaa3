"""Plan a build: which steps are stale, and why.

Every build imports this module, even a build without stale steps.  So the module imports little,
and uses named tuples, because importing ``dataclasses`` takes as long as comparing all files.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Final

from report.core.errors import RenderError
from report.core.records import EDITIONS, OPERATORS, SHARED
from report.core.system.packages import installed_versions
from report.engine import cache
from report.engine.cache import Index, StepEntry
from report.engine.steps import (
    KINDS,
    READ_BY_SITE,
    ROOT,
    SITE,
    BuildRequest,
    BuildStep,
    Engine,
    commit_of_program,
    make_step,
    paper_files,
)
from report.evaluation import REPORT_SUFFIX, is_report, study_of
from report.studies import STUDIES

#: Data files that all studies share.
_SHARED_DATA = ("devices.yaml", EDITIONS, "references.bib", "site.yaml", OPERATORS)
#: Beginnings of names of files that are no inputs: hidden files and caches of Python.
_IGNORED: Final = (".", "__pycache__")
#: The names of all papers and of all replication reports.
_DOCUMENTS: Final = (*STUDIES, *(f"{study}{REPORT_SUFFIX}" for study in STUDIES))
#: Setting or program → its name in the reasons why a step is stale; packages keep their names.
_NAMES_IN_REASONS: Final = {
    "use": "the records of --use",
    "data": "the data folder",
    "commit": "the commit",
    "style": "the print style",
    "formats": "the formats",
    "studies": "the studies",
    "papers": "the studies with a PDF",
    "engine": "the engine of the PDF",
    "tex": "LaTeX",
    "quarto": "Quarto",
    "to": "the program by which Quarto prints",
    "python": "Python",
}
#: Name of a temporary manifest entry that lists a study's new files until all are in place.
PLACING: Final = "placing"


def choose_engine(engine: Engine, missing_latex: str) -> tuple[Engine, str]:
    """Choose the engine of the PDFs; return it and a sentence for the user that gives the reason.

    ``missing_latex`` describes the missing parts of LaTeX; it is empty if LaTeX is complete.
    Raises ``RenderError`` for an engine that was requested by name and cannot be used.
    """
    incomplete = f"LaTeX is incomplete ({missing_latex.removeprefix('LaTeX: ').rstrip('.')})"
    if engine == "typst":
        return "typst", "PDFs made with Typst, as requested."
    if engine == "quarto":
        from report.render.quarto import quarto_version

        made_with = f"Quarto {quarto_version()} and "
        made_with += f"Typst, because {incomplete}" if missing_latex else "LaTeX"
        return "quarto", f"PDFs made with {made_with}. Its website: quarto/_site"
    if not missing_latex:
        return "latex", "PDFs made with LaTeX, without tags. For tagged PDF/UA-1: --engine typst"
    if engine == "latex":
        raise RenderError(f"--engine latex: {missing_latex}")
    return "typst", f"PDFs made with Typst, because {incomplete}"


class BuildPlan:
    """The steps of a ``request``, their present inputs, and the outputs of earlier builds.

    ``files`` are the sorted names of all input files.  ``index`` contains their digests and the
    state of LaTeX.  ``built`` maps each step that was run to its entry in the manifest.
    ``engine_note`` tells the user which engine makes the PDFs.
    """

    def __init__(
        self,
        request: BuildRequest,
        index: Index | None = None,
        root: str = str(ROOT),
        engine_note: str = "",
    ) -> None:
        self.request, self.root, self.engine_note = request, root, engine_note
        self.index = index or Index(str(request.out))
        self.built = cache.read_manifest(str(request.out))
        #: Path of each input file, by its name in the project.
        self.paths = dict(sorted(self._sources()))
        self.files = list(self.paths)
        self._versions = installed_versions()

    def _sources(self) -> Iterator[tuple[str, str]]:
        """Yield names in the project and paths of all templates, code and data."""
        data, project_data = str(self.request.data), str(ROOT / "data")
        folders = {name: f"{self.root}/{name}" for name in ("report", "figures", "templates")}
        folders["templates/papers"] = str(self.request.papers)  # may be another folder
        for study in map(study_of, self.request.studies):
            folders[f"data/{study}"] = f"{data}/{study}"
            # A report on other data also reads the paper's own records.
            if data != project_data and any(map(is_report, self.request.studies)):
                folders[f"paper/{study}"] = f"{project_data}/{study}"
        for folder, path in folders.items():
            for name in files_below(path):
                if folder != "templates" or not name.startswith("papers/"):
                    yield f"{folder}/{name}", f"{path}/{name}"
        yield f"paper/{EDITIONS}", f"{project_data}/{EDITIONS}"
        for name in (*_SHARED_DATA, *(f"reported/{study}.json" for study in STUDIES)):
            path = f"{data}/{name}"
            if name.startswith(SHARED) and not os.path.lexists(path):  # use the project's file
                path = f"{self.root}/data/{name}"
            yield f"data/{name}", path

    def _programs(self, engine: str) -> dict[str, str]:
        """Return the versions of the programs that make a PDF with ``engine``, by name."""
        latex = {"tex": str(self.index.tex.get("version", "none"))}
        if engine == "latex":
            return latex
        if engine != "quarto":
            return {}
        if self.index.missing_latex:
            return {"quarto": self._quarto(), "to": "typst"}
        return {"quarto": self._quarto(), "to": "pdf", **latex}

    def _quarto(self) -> str:
        """Return the version of Quarto, or "none" if Quarto cannot be used."""
        from report.render.quarto import quarto_version

        with suppress(RenderError):
            return quarto_version()
        return "none"

    def output(self, name: str) -> str:
        """Return the path of an output that is named relative to ``out/``."""
        return f"{self.request.out}/{name}"

    def study_steps(self, study: str) -> list[BuildStep]:
        """List the steps of ``study`` in the order of their dependencies.

        A document is also converted to the formats of the previous build.  So a user who builds
        pages and PDFs in turns does not convert a document twice.
        """
        request, outputs = self.request, self.request.outputs
        formats = []
        if "html" in outputs or self._has_format(study, "page"):
            formats.append("page")
        if "pdf" in outputs or self._has_pdf(study):
            formats.append("print")
        word = ["word"] if "docx" in outputs or self._has_format(study, "word") else []
        document = {"formats": " ".join((*formats, *word)), "style": request.style or ""}
        if is_report(study):
            document["commit"] = commit_of_program()
        if request.data != ROOT / "data":
            document["data"] = "other"
        settings: dict[str, dict[str, str]] = {
            "study": {"use": ", ".join(request.use.get(study, ()))},
            "figures": {"formats": "word"} if word else {},
            "document": document,
            "page": {"formats": " ".join(formats)},
        }
        if "pdf" in outputs:
            engine: str = request.engine
            if engine == "auto":  # the engine of the present PDF
                engine = self.built.get(f"{study}/pdf", StepEntry({})).inputs.get("engine", "auto")
            settings["pdf"] = {"engine": engine, **self._programs(engine)}
        if "docx" in outputs:
            settings["docx"] = {}
        return [make_step(study, kind, [study], self.files, own) for kind, own in settings.items()]

    def shared_steps(self, rebuilt: Collection[str] = ()) -> list[BuildStep]:
        """List the steps about all complete studies, including studies built before this build.

        The outputs of ``rebuilt`` studies are not compared, since they are about to be replaced.
        """
        complete = [study for study in _DOCUMENTS if self._is_complete(study, rebuilt)]
        pages = [study for study in complete if self._has_format(study, "page")]
        pdfs = [study for study in pages if self._has_pdf(study)]
        names = {"studies": " ".join(complete)}
        steps = [make_step(SITE, "quarto", complete, self.files, names)] if complete else []
        if "html" not in self.request.outputs:
            return steps
        if pages:
            names = {"studies": " ".join(pages), "papers": " ".join(pdfs)}
            steps.append(make_step(SITE, "index", pages, self.files, names))
        # With --engine auto, a website that exists is kept up to date.
        updates_site = f"{SITE}/quarto_site" in self.built and self.request.engine == "auto"
        if complete and (updates_site or self.request.engine == "quarto"):
            version = {"quarto": self._quarto()}
            steps.append(make_step(SITE, "quarto_site", [SITE], self.files, version))
        return steps

    def _is_complete(self, study: str, rebuilt: Collection[str]) -> bool:
        """Return whether the steps of ``study`` that the site reads ran, and left intact outputs.

        Outputs of ``rebuilt`` studies are not compared (see ``shared_steps``).
        """
        for kind in READ_BY_SITE:
            entry = self.built.get(f"{study}/{kind}")
            if entry is None or (study not in rebuilt and any(self.altered_outputs(entry))):
                return False
        return True

    def _has_format(self, study: str, name: str) -> bool:
        """Return whether the document of ``study`` was converted to the format ``name``."""
        entry = self.built.get(f"{study}/document")
        return entry is not None and name in entry.inputs["formats"].split()

    def _has_pdf(self, study: str) -> bool:
        """Return whether the PDF of ``study`` exists beside its page."""
        return os.path.exists(self.output(paper_files(study)[1]))

    def inputs(self, step: BuildStep, built: Mapping[str, StepEntry]) -> dict[str, str]:
        """Collect the inputs of ``step`` that exist; ``built``: entries of steps that it reads."""
        inputs = {}
        for name in step.files:
            if name.endswith(EDITIONS):
                study = study_of(step.id.partition("/")[0])
                inputs[f"{name}: {study}"] = lines_of_edition(self.paths[name], study)
                continue
            digest = self.index.digest(self.paths[name])
            if digest is not None:
                inputs[name] = digest
        for id, name in outputs_read(step, built):
            inputs[f"out/{name}"] = built[id].outputs[name]
        return {**inputs, **self._versions, **step.settings}

    def reasons(self, step: BuildStep, inputs: Mapping[str, str]) -> str:
        """Explain why a step has to run with these inputs; "" if its outputs are up to date."""
        before = self.built.get(step.id)
        if before is None:
            return "not built yet"
        return "; ".join((*changes(before.inputs, inputs), *self.altered_outputs(before)))

    def altered_outputs(self, entry: StepEntry) -> Iterator[str]:
        """Describe the outputs of a step that are missing, or that changed after the step."""
        for name, digest in entry.outputs.items():
            present = self.index.digest(self.output(name))
            if present != digest:
                yield f"{name} {'is missing' if present is None else 'was altered'}"

    def obsolete(self) -> list[str]:
        """List entries of the manifest for which no step exists any more.

        They are of deleted studies, of kinds of steps of other versions, and of killed builds.
        """
        names, obsolete = (*_DOCUMENTS, SITE), []
        for id in self.built:
            name, _, kind = id.partition("/")
            if name not in names or kind not in KINDS:
                obsolete.append(id)
        return obsolete

    def stale(self) -> dict[str, str]:
        """Map each step that has to run to the reason; run no step.

        Steps that read a stale step are included, although it may write the same bytes again.
        """
        reasons = {}
        for id in self.obsolete():
            reasons[id.partition("/")[0]] = "no step makes some of its files; a build removes them"
        studies = self.request.studies
        steps = [step for study in studies for step in self.study_steps(study)]
        for step in (*steps, *self.shared_steps(studies)):
            stale_inputs = [id for id, _ in step.reads if id in reasons or id not in self.built]
            if stale_inputs:
                reasons[step.id] = f"reads {', '.join(stale_inputs)}"
            elif reason := self.reasons(step, self.inputs(step, self.built)):
                reasons[step.id] = reason
        return reasons


def files_below(folder: str) -> list[str]:
    """List the files below ``folder``, relative to it and sorted, without ``_IGNORED`` files."""
    paths: list[str] = []
    for path, folders, files in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(_IGNORED)]
        prefix = f"{path}/"[len(folder) + 1 :]
        paths += [prefix + name for name in files if not name.startswith(_IGNORED)]
    return sorted(paths)


def lines_of_edition(path: str, study: str) -> str:
    """Return editions.yaml without the lines of other studies; "" if it cannot be read."""
    # A digest would be shorter, but importing ``hashlib`` takes longer than comparing the lines.
    lines, key = "", ""
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line[0] not in " \t\n#":
                key = line.partition(":")[0]
            if key == study or key not in STUDIES:
                lines += line
    return lines


def outputs_read(step: BuildStep, built: Mapping[str, StepEntry]) -> Iterator[tuple[str, str]]:
    """Yield the outputs of other steps that ``step`` reads, as pairs of step id and file name."""
    for id, parts in step.reads:
        for name in built[id].outputs:
            if name.startswith(parts) or name.endswith(parts):
                yield id, name


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Describe how the old and new inputs of a step differ: files, versions and settings."""
    if old == new:
        return
    for name in sorted(old.keys() | new.keys()):
        before, now = old.get(name), new.get(name)
        if before == now:
            continue
        if "/" not in name:
            setting = _NAMES_IN_REASONS.get(name, name)
            yield f"{setting} changed from {_with_commas(before)} to {_with_commas(now)}"
        elif before is None:
            yield f"{name} is new"
        else:
            yield f"{name} {'is gone' if now is None else 'changed'}"


def _with_commas(value: str | None) -> str:
    """Separate the words of a setting by commas; return "none" for no setting."""
    return ", ".join((value or "none").replace(",", "").split())


def plan(request: BuildRequest, *, as_built: bool = False) -> BuildPlan:
    """Compare the project with what was built; ``BuildPlan.stale`` lists the steps to run.

    With ``as_built`` the engine ``auto`` means the engine that made the present PDF of each study.
    Raises ``RidgepointError`` for an engine that is not installed.
    """
    index, note = Index(str(request.out)), ""
    if request.engine != "typst" and "pdf" in request.outputs:
        index.find_tex()
    if request.engine != "auto" or not as_built:
        engine, note = choose_engine(request.engine, index.missing_latex)
        request = request._replace(engine=engine)
    return BuildPlan(request, index, engine_note=note)

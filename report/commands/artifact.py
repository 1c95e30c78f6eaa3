"""Write the artifact of a paper: archive, appendix and citation (``--artifact``)."""

from __future__ import annotations

import json
import shutil
import tomllib
from argparse import Namespace
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import jinja2

from report.commands.arguments import request_of
from report.commands.child import run_build
from report.commands.console import announcer, clear_line, say
from report.commands.difference import unpack_revision
from report.core.errors import RenderError, UsageError, unwritable
from report.core.records.files import gzipped
from report.core.records.record import Head
from report.core.records.store import survey
from report.core.system.programs import pandoc_path, run
from report.core.text.escape import latex_source, markdown
from report.engine.place import only_build, put, stage_in
from report.engine.steps import ROOT, BuildRequest
from report.paper.bibliography import entries_of, fields_of
from report.render.bundle import packed
from report.render.pandoc import TEMPLATES
from report.render.shell import read_settings
from report.render.site import plain_words
from report.render.source import read_source
from report.studies import STUDIES

#: Folder of artifacts in ``out/``, and of the built site in an archive.
_FOLDER: Final = "artifact"
_PUBLISHED: Final = "published"
#: Files by which an artifact is cited.
_CITATION: Final = ("CITATION.cff", ".zenodo.json", "codemeta.json")
#: Words of a name that belongs to a group and not to a person.
_GROUPS: Final = {"the", "project", "team", "group", "laboratory", "university", "course"}
_NO_AUTHOR: Final = {"affiliation": "", "orcid": "", "email": ""}
_LIMIT_S: Final = 60.0
_TIGHT_LISTS: Final = "\\providecommand{\\tightlist}{}\n"


def artifact(options: Namespace) -> int:
    """Write the artifact of each requested study, and print the fields that its citation lacks."""
    request = request_of(options)
    if request.data != ROOT / "data":
        raise UsageError("--artifact packs the records of the commit; leave out --data.")
    engine = "typst" if request.engine == "auto" else request.engine
    announce = announcer(quiet=options.quiet)
    with only_build(request.out, announce), stage_in(request.out) as stage:
        commit, reason = unpack_revision("HEAD", ROOT, stage / "code")
        if not (stage / "code" / "build.py").is_file():
            raise UsageError(f"--artifact packs a commit; run it in a git checkout ({reason}).")
        for number, study in enumerate(request.studies):
            announce(f"the artifact of {study}", number / len(request.studies), "")
            one = request._replace(studies=(study,), outputs=("html", "pdf"), engine=engine)
            missing = _write(one, commit, stage)
            clear_line()
            say(f"Wrote {request.out / _FOLDER / study}, of commit {commit[:12]}")
            for line in missing:
                print(f"  {line}")
    return 0


def _write(request: BuildRequest, commit: str, stage: Path) -> list[str]:
    """Build one study from the commit alone and put its artifact in place.

    Returns a line for each missing field.  Raises ``RidgepointError``.
    """
    (study,) = request.studies
    folder, result = stage / f"{study}-artifact", stage / _FOLDER / study
    try:
        shutil.copytree(stage / "code", folder)
        for other in {*STUDIES} - {study}:
            shutil.rmtree(folder / "data" / other, ignore_errors=True)
        built = request._replace(out=stage / f"out-{study}", data=folder / "data")
        if failure := run_build(built, folder):
            raise RenderError(f"--artifact {study}: the build of commit HEAD failed: {failure}")
        for cache in sorted(folder.rglob("__pycache__")):
            shutil.rmtree(cache)
        shutil.copytree(built.out / "html", folder / _PUBLISHED)
        texts, missing = _texts(study, built, commit, folder)
        result.mkdir(parents=True)
        for name, text in texts.items():
            for place in (folder, result):
                (place / name).write_text(text, "utf-8", newline="\n")
        files: dict[str, bytes] = {}
        for path in filter(Path.is_file, folder.rglob("*")):
            files[path.relative_to(stage).as_posix()] = path.read_bytes()
        (result / f"{folder.name}.tar.gz").write_bytes(gzipped(packed(files)))
        names = [f"{_FOLDER}/{study}/{path.name}" for path in result.iterdir()]
    except OSError as error:
        raise unwritable(error) from error
    put(stage, request.out, names, names)
    return missing


def _texts(
    study: str, built: BuildRequest, commit: str, folder: Path
) -> tuple[dict[str, str], list[str]]:
    """Write the citation and the appendix: file → text, and a line for each missing field."""
    values = json.loads((built.out / "values" / f"{study}.json").read_text("utf-8"))
    front = read_source(built.out / "qmd" / study, study).front
    facts = {
        "study": study,
        "title": plain_words(front["title"]),
        "abstract": plain_words(values["abstract"]),
        "authors": [_NO_AUTHOR | author | split_name(author["name"]) for author in front["author"]],
        "keywords": front.get("keywords", []),
        "project": tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"],
        "commit": commit,
        "date": run(["git", "show", "-s", "--format=%cs", commit], ROOT, _LIMIT_S).stdout.strip(),
        "source": _repeated_study(built.data, study),
        "url": read_settings(built.data).url or "",
        "engine": built.engine,
        "measured": (folder / "experiments" / f"{study}.py").is_file(),
        "sizes": [_size(part) for part in (folder / "data", folder / _PUBLISHED, folder)],
        "values": values,
        **_runs(study, built.data, values["records"]),
    }
    texts: dict[str, str] = {}
    for name in _CITATION:
        texts[name] = _rendered(name, facts)
    texts["artifact-appendix.md"] = _rendered("appendix.md", facts)
    texts["artifact-appendix.tex"] = _in_latex(texts["artifact-appendix.md"])
    return texts, _rendered("missing.txt", facts).splitlines()


def _repeated_study(data: Path, study: str) -> dict[str, str]:
    """Look up the study that the paper repeats: its ``key`` in the bibliography, doi and url."""
    path = data / "reported" / f"{study}.json"
    key = json.loads(path.read_text("utf-8"))["source"] if path.is_file() else ""
    for entry in entries_of((data / "references.bib").read_text("utf-8")):
        if key and entry.partition("{")[2].startswith(f"{key},"):
            fields = {field.name: field.value for field in fields_of(entry)[0]}
            return {"key": key, "address": fields.get("doi") or fields.get("url", "")}
    return {"key": key, "address": ""}


def split_name(name: str) -> dict[str, str]:
    """Split a person's name into given and family name; a group has no given name.

    A word in lower case, such as "van", begins the family name.
    """
    words = name.split()
    if len(words) < 2 or _GROUPS.intersection(name.lower().split()):
        return {"given": "", "family": name}
    start = len(words) - 1
    while start > 1 and words[start - 1].islower():
        start -= 1
    return {"given": " ".join(words[:start]), "family": " ".join(words[start:])}


def _runs(study: str, data: Path, files: Sequence[str]) -> dict[str, dict[str, list[int]]]:
    """Map the machines of the used records, and their software, to the minutes of each run."""
    machines: dict[str, list[int]] = {}
    software: dict[str, list[int]] = {}
    for stored in survey(study, data, Head)[0]:
        head, own = stored.record, stored.record.environment
        if stored.file not in files:
            continue
        begun, ended = map(datetime.fromisoformat, (head.started, head.finished))
        minutes = max(1, round((ended - begun).total_seconds() / 60))
        parts = f"{own.cpu.cores_available} cores, {own.memory_bytes / 2**30:.0f} GiB of memory"
        machines.setdefault(f"{own.label} ({parts})", []).append(minutes)
        versions = f"{own.operating_system}, Python {own.python}, PyTorch {own.torch.version}"
        software.setdefault(versions, []).append(minutes)
    return {"machines": machines, "software": software}


def _size(folder: Path) -> str:
    return f"{sum(path.stat().st_size for path in folder.rglob('*')) / 1e6:.0f} MB"


def _rendered(name: str, facts: Mapping[str, Any]) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES / _FOLDER),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = markdown
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
    return environment.get_template(f"{name}.j2").render(facts)


def _in_latex(appendix: str) -> str:
    """Turn the appendix into LaTeX to ``\\input``; raises ``RenderError``."""
    kind = "--from=markdown-auto_identifiers-smart"
    command: list[str | Path] = [
        pandoc_path(),
        kind,
        "--to=latex",
        "--wrap=preserve",
        "--syntax-highlighting=none",
    ]
    finished = run(command, TEMPLATES, _LIMIT_S, "appendix", latex_source(appendix))
    if finished.returncode:
        raise RenderError(f"appendix: pandoc failed: {finished.stderr}")
    return _TIGHT_LISTS + finished.stdout

"""Write the artifact of a paper: archive, appendix and citation (``--artifact``)."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tomllib
from argparse import Namespace
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from report.commands.arguments import request_of
from report.commands.child import run_build
from report.commands.console import announcer, say
from report.commands.difference import unpack_revision
from report.core.errors import RenderError, UsageError, unwritable
from report.core.records.files import gzipped
from report.core.records.record import Head
from report.core.records.store import survey
from report.core.system.programs import pandoc_path, run
from report.core.text.escape import latex_source, markdown
from report.engine.place import only_build, put, stage_in
from report.engine.steps import ROOT, BuildRequest
from report.paper.bibliography import cited_entries, entries_of, fields_of
from report.render.bundle import packed
from report.render.pandoc import TEMPLATES
from report.render.shell import environment, read_settings
from report.render.site import plain_words
from report.render.source import read_source
from report.studies import STUDIES

#: Folder of artifacts in ``out/``, and of the built site in an archive.
_FOLDER: Final = "artifact"
_PUBLISHED: Final = "published"
#: A name of a group.  A person's given name, and family name with words such as "van" before it.
_GROUP: Final = re.compile(r"\S+|.*\b(the|project|team|group|university|course)\b.*", re.I)
_PERSON: Final = re.compile(r"(.+?) ((?:[a-z]+ )*\S+)")
#: Escapes that titles and intervals do not need.
_NEEDLESS: Final = re.compile(r"\\(?=['\"&\[\]])|(?<=\w)\\(?=_\w)")
_NO_AUTHOR: Final = {"affiliation": "", "orcid": "", "email": ""}
_LIMIT_S: Final = 60.0


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
            say(f"Wrote {request.out / _FOLDER / study}, of commit {commit[:12]}")
            print("".join(f"  {line}\n" for line in missing.splitlines()), end="")
    return 0


def _write(request: BuildRequest, commit: str, stage: Path) -> str:
    """Build one study from the commit alone and put its artifact in place.

    Returns a line for each field that the citation lacks.  Raises ``RidgepointError``.
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
        texts = _texts(study, built, commit, folder)
        missing = texts.pop("missing.txt")
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


def _texts(study: str, built: BuildRequest, commit: str, folder: Path) -> dict[str, str]:
    """Write the citation, the appendix, and a list of the fields that the citation lacks."""
    values = json.loads((built.out / "values" / f"{study}.json").read_text("utf-8"))
    front = read_source(built.out / "qmd" / study, study).front
    repeated = built.data / "reported" / f"{study}.json"
    key = json.loads(repeated.read_text("utf-8"))["source"] if repeated.is_file() else ""
    entry = cited_entries((built.data / "references.bib").read_text("utf-8"), key.__eq__)
    facts = {
        "study": study,
        "title": plain_words(front["title"]),
        "abstract": plain_words(values["abstract"]),
        "authors": [_NO_AUTHOR | author | split_name(author["name"]) for author in front["author"]],
        "keywords": front.get("keywords", []),
        "project": tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"],
        "commit": commit,
        "date": run(["git", "show", "-s", "--format=%cs", commit], ROOT, _LIMIT_S).stdout.strip(),
        "repeated": key,
        "source": {field.name: field.value for field in fields_of(entries_of(entry)[-1])[0]},
        "url": read_settings(built.data).url or "",
        "engine": built.engine,
        "measured": (folder / "experiments" / f"{study}.py").is_file(),
        "sizes": [*map(_size, (folder / "data", folder / _PUBLISHED, folder))],
        "values": values,
        "runs": list(_runs(study, built.data, values["records"])),
    }
    templates = environment(_FOLDER, escape=False)
    templates.filters["md"] = markdown
    templates.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
    texts: dict[str, str] = {}
    for path in (TEMPLATES / _FOLDER).glob("*.j2"):
        texts[path.stem] = templates.get_template(path.name).render(facts)
    appendix = _NEEDLESS.sub("", texts["artifact-appendix.md"])
    return texts | {"artifact-appendix.md": appendix, "artifact-appendix.tex": _in_latex(appendix)}


def split_name(name: str) -> dict[str, str]:
    """Split a person's name into given and family name; a group has no given name."""
    person = None if _GROUP.fullmatch(name) else _PERSON.fullmatch(name)
    given, family = person.groups() if person else ("", name)
    return {"given": given, "family": family}


def _runs(study: str, data: Path, files: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield machine, software and minutes of each used record."""
    for stored in survey(study, data, Head)[0]:
        head, machine = stored.record, stored.record.environment
        if stored.file not in files:
            continue
        begun, ended = map(datetime.fromisoformat, (head.started, head.finished))
        memory = f"{machine.memory_bytes / 2**30:.0f} GiB of memory"
        system = machine.operating_system.partition(", Linux")[0]
        yield {
            "machine": f"{machine.label} ({machine.cpu.cores_available} cores, {memory})",
            "software": f"{system}, Python {machine.python}, PyTorch {machine.torch.version}",
            "command": shlex.join(head.command),
            "minutes": max(1, round((ended - begun).total_seconds() / 60)),
        }


def _size(folder: Path) -> str:
    return f"{sum(path.stat().st_size for path in folder.rglob('*')) / 1e6:.0f} MB"


def _in_latex(appendix: str) -> str:
    """Turn the appendix into LaTeX to ``\\input``; raises ``RenderError``."""
    options = ("--from=markdown-auto_identifiers-smart", "--to=latex", "--wrap=preserve")
    command = (pandoc_path(), *options, "--syntax-highlighting=none")
    finished = run(command, TEMPLATES, _LIMIT_S, "appendix", latex_source(appendix))
    if finished.returncode:
        raise RenderError(f"appendix: pandoc failed: {finished.stderr}")
    return "\\providecommand{\\tightlist}{}\n" + finished.stdout

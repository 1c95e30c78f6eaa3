"""Write the artifact of a paper: archive, appendix and citation (``--artifact``)."""

import json
import re
import shlex
import tomllib
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from report.commands.arguments import request_of
from report.commands.console import announcer, say
from report.commands.difference import unpack_revision
from report.commands.verify import run_build
from report.core.errors import RenderError, UsageError
from report.core.records.files import gzipped
from report.core.records.store import read_usable_records
from report.core.system.programs import pandoc_path, run
from report.core.text.escape import latex_source, markdown
from report.engine.place import only_build, put
from report.engine.steps import ROOT, BuildRequest
from report.paper.bibliography import cited_entries, entries_of, fields_of
from report.render.latex import tar_archive
from report.render.pandoc import TEMPLATES
from report.render.shell import environment, read_settings
from report.render.site import plain_words
from report.render.source import read_source
from report.studies import STUDIES

#: Folder of artifacts in ``out/``, and of their templates.
_FOLDER: Final = "artifact"
#: Excludes names of groups, such as "the ridgepoint project".
_NO_GROUP: Final = r"(?!.*\b(?i:the|project|team|group|university|course)\b)"
#: A person's given name, and family name with words such as "van".
_PERSON: Final = re.compile(_NO_GROUP + r"(.+?) ((?:[a-z]+ )*\S+)")
#: Backslashes of Markdown that titles and intervals do not need.
_NEEDLESS_BACKSLASH: Final = re.compile(r"\\(?=['\"&\[\]])|(?<=\w)\\(?=_\w)")
#: Time limit for git and for pandoc.
_TIME_LIMIT_S: Final = 60.0


def artifact(options: Namespace) -> int:
    """Write the artifact of each requested study; print the missing fields of the citation.

    Raises ``UsageError`` for --data and outside a git checkout, ``RenderError`` for a failed build.
    """
    request = request_of(options)
    if request.data != ROOT / "data":
        raise UsageError("--artifact packs the records of the commit; leave out --data.")
    engine = "typst" if request.engine == "auto" else request.engine
    announce = announcer(quiet=options.quiet)
    with only_build(request.out, announce) as stage:
        code = stage / "code"
        commit, reason = unpack_revision("HEAD", ROOT, code)
        if not (code / "build.py").is_file():
            raise UsageError(f"--artifact packs a commit; run it in a git checkout ({reason}).")
        for number, study in enumerate(request.studies):
            announce(f"the artifact of {study}", number / len(request.studies), "")
            built = request._replace(
                studies=(study,), outputs=("html", "pdf"), engine=engine,
                data=code / "data", out=stage / f"out-{study}",
            )  # fmt: skip
            if failure := run_build(built, code):
                raise RenderError(f"--artifact {study}: the build of HEAD failed: {failure}")
            contents, missing_fields = _contents(study, built)
            names = [f"{_FOLDER}/{study}/{name}" for name in contents]
            (stage / _FOLDER / study).mkdir(parents=True)
            for name, content in zip(names, contents.values(), strict=True):
                (stage / name).write_bytes(content)
            put(stage, request.out, names, names)
            say(f"Wrote {request.out / _FOLDER / study}, of commit {commit[:12]}")
            print("".join(f"  {line}\n" for line in missing_fields.splitlines()), end="")
    return 0


def _contents(study: str, built: BuildRequest) -> tuple[dict[str, bytes], str]:
    """Return the files of an artifact by name, and one line per missing field of the citation.

    ``built`` is the request of the finished build, whose outputs and code the archive holds.
    """
    files: dict[str, bytes] = {}
    other_studies = {*STUDIES} - {study}
    for top, prefix in ((built.data.parent, ""), (built.out / "html", "published/")):
        for path in filter(Path.is_file, top.rglob("*")):
            parts = path.relative_to(top).parts
            is_of_other_study = parts[0] == "data" and parts[1] in other_studies
            if "__pycache__" not in parts and not is_of_other_study:
                files[prefix + "/".join(parts)] = path.read_bytes()
    facts, templates = _facts(study, built, files), environment(_FOLDER, escape=False)
    templates.filters |= {"md": markdown, "words": plain_words}
    templates.filters |= {"split": split_name, "command": shlex.join}
    templates.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
    texts: dict[str, str] = {}
    for path in (TEMPLATES / _FOLDER).glob("*.j2"):
        texts[path.stem] = templates.get_template(path.name).render(facts)
    missing_fields = texts.pop("missing.txt")
    appendix = _NEEDLESS_BACKSLASH.sub("", texts["artifact-appendix.md"])
    texts |= {"artifact-appendix.md": appendix, "artifact-appendix.tex": _in_latex(appendix)}
    contents = {name: text.encode() for name, text in texts.items()}
    top_folder = f"{study}-artifact"
    archive = {f"{top_folder}/{name}": content for name, content in (files | contents).items()}
    return contents | {f"{top_folder}.tar.gz": gzipped(tar_archive(archive))}, missing_fields


def _facts(study: str, built: BuildRequest, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Collect the facts about paper, records and archive that the templates print."""
    paper, place = read_source(built.out / "qmd" / study, study), f"data/reported/{study}.json"
    values = json.loads((built.out / "values" / f"{study}.json").read_text("utf-8"))
    # Key of the publication that the study repeats, and its entry in the bibliography.
    repeated = json.loads(files[place])["source"] if place in files else ""
    entry = cited_entries(files["data/references.bib"].decode(), lambda key: key == repeated)
    sizes, libraries = Counter[str](), dict[str, str]()
    for name, content in sorted(files.items()):
        sizes[name.partition("/")[0]] += len(content)
        if re.fullmatch(r"data/.+/backend\.\w+\.json", name):
            library = json.loads(content)
            libraries[library["name"]] = library["version"]
    records = read_usable_records(study, built.data)[0]
    head = run(["git", "show", "-s", "--format=%H %cs", "HEAD"], ROOT, _TIME_LIMIT_S).stdout.split()
    return {
        "front": paper.front,
        "values": values,
        "places": places_of(paper.document.read_text("utf-8")),
        "project": tomllib.loads(files["pyproject.toml"].decode())["project"],
        "commit": head[0],
        "date": head[1],
        "repeated": repeated,
        "source": {field.name: field.value for field in fields_of(entries_of(entry)[-1])[0]},
        "url": read_settings(built.data).url or "",
        "engine": built.engine,
        "sizes": sizes,
        "libraries": libraries,
        "runs": [stored.record for stored in records if stored.file in values["records"]],
    }


def places_of(document: str) -> dict[str, str]:
    """Map the id of each claim to the figure or section of the paper that states the claim."""
    places, section, figures = dict[str, str](), "abstract", 0
    for line in document.splitlines():
        if heading := re.match(r"#+ (.+?) *(?:\{|$)", line):
            section = f"section “{heading[1]}”"
        figures += "{#fig-" in line
        for id in re.findall(r"\{#claim-([\w-]+)\}", line):
            places[id] = f"Figure {figures}" if "{#fig-" in line else section
    return places


def split_name(name: str) -> dict[str, str]:
    """Split a person's name into given and family name; a group has no given name."""
    person = _PERSON.fullmatch(name)
    return {"given": person[1] if person else "", "family": person[2] if person else name}


def _in_latex(appendix: str) -> str:
    """Convert the appendix to LaTeX for ``\\input``; raise ``RenderError`` if pandoc fails."""
    options = ("--from=markdown-auto_identifiers-smart", "--to=latex", "--wrap=preserve")
    command = (pandoc_path(), *options, "--syntax-highlighting=none")
    text = latex_source(appendix)
    finished = run(command, TEMPLATES, _TIME_LIMIT_S, place="appendix", stdin=text)
    if finished.returncode:
        raise RenderError(f"appendix: pandoc failed: {finished.stderr}")
    return "\\providecommand{\\tightlist}{}\n" + finished.stdout

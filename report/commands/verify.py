"""Compare every byte of two builds (``--verify``), or of a build and a published site.

``--verify`` builds twice into empty folders, in different environments.  ``--verify-against``
rebuilds the files in a site's manifest, and prints why each differing file differs.
"""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from report.commands.arguments import request_of
from report.commands.console import announcer, say
from report.core.errors import RecordError, RenderError, unwritable
from report.core.records.files import read_file
from report.core.system.programs import managed_process
from report.engine.cache import DIGESTS, INDEX, digest_lines, file_digest
from report.engine.place import install, only_build, put_folder
from report.engine.steps import ROOT, Announce, BuildRequest
from report.evaluation import is_report, study_of
from report.paper.claims import first_few
from report.paper.pins import TOLERANCE
from report.studies import STUDIES

#: Folder that keeps both builds if they differ.
BUILDS_FOLDER: Final = "verify"
#: Files and folders of the project that a build reads, besides the data.
SOURCES: Final = ("build.py", "report", "figures", "templates")
#: A line of a manifest: digest and file.
_MANIFEST_LINE: Final = re.compile(r"([0-9a-f]{64}) [ *](.+)")
#: Name of the file with a paper's numbers on the site.
_VALUES_FILE: Final = "values.json"
#: Reason for a difference in a paper whose numbers and records are equal.
ONLY_BYTES: Final = "only its bytes (text, fonts or versions of programs)"
#: Name → folder, umask and variables of two environments; papers must not depend on any of them.
#: The first environment turns off UTF-8, which Python would use in the locale C.
ENVIRONMENTS: Final[dict[str, tuple[str, int, dict[str, str]]]] = {
    "first": ("first", 0o022, {
        "TZ": "UTC0", "LC_ALL": "C", "PYTHONHASHSEED": "0", "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }),
    "second": ("second/a folder/très profond", 0o077, {
        "TZ": "FAR-13:45", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "4242",
    }),
}  # fmt: skip


def verify(options: Namespace) -> int:
    """Build twice from nothing, and print the files that differ; return 1 if a file differs."""
    request = request_of(options)
    files, differing = build_twice(request, ROOT, announcer(quiet=options.quiet))
    if differing:
        say(f"Files that differ: {len(differing)}")
        print(*differing, sep="\n")
        print(f"Both builds are kept in {request.out / BUILDS_FOLDER}; {DIGESTS} was not written.")
    else:
        say(
            f"Reproducible: {len(files)} files are identical in two clean builds that differ in "
            f"folder, time zone, locale, hash seed and umask.\n{request.out / DIGESTS}"
        )
    return 1 if differing else 0


def build_twice(
    request: BuildRequest, project: Path, announce: Announce
) -> tuple[dict[str, str], list[str]]:
    """Build ``request`` twice from nothing, in two copies of ``project``, and compare the bytes.

    Writes ``DIGESTS`` to ``request.out`` if all files are equal, else both builds.  Returns the
    digest of each file, and the names of the files that differ.

    Raises ``RenderError`` if a build fails, and ``OutputError`` if a file cannot be written.
    """
    with only_build(request.out, announce) as stage:
        outs = [stage / BUILDS_FOLDER / folder / "out" for folder, *_ in ENVIRONMENTS.values()]
        for number, name in enumerate(ENVIRONMENTS):
            announce(f"the {name} build", number / 2, "")
            _build(name, request._replace(out=outs[number]), project)
        digests, second_digests = map(digests_of, outs)
        differing = sorted({name for name, _ in digests.items() ^ second_digests.items()})
        (stage / DIGESTS).write_text(digest_lines(digests), "utf-8", newline="\n")
        if differing:
            put_folder(BUILDS_FOLDER, request.out, stage)
        else:
            install(stage / DIGESTS, request.out / DIGESTS)
    return digests, differing


def _build(name: str, request: BuildRequest, project: Path) -> None:
    """Copy project and data beside ``request.out``; build there in the environment ``name``."""
    (_, umask, variables), folder = ENVIRONMENTS[name], request.out.parent
    data = folder / ("data" if request.data == project / "data" else "other data")
    copies = {folder / name: project / name for name in (*SOURCES, "data")}
    copies[data] = request.data
    ignore_hidden = shutil.ignore_patterns("__pycache__", ".*")
    try:
        folder.mkdir(parents=True)
        for target, source in copies.items():
            if source.is_dir():
                shutil.copytree(source, target, ignore=ignore_hidden, ignore_dangling_symlinks=True)
            else:
                shutil.copyfile(source, target)
    except OSError as error:
        raise unwritable(error, "copied") from error
    environment = {**variables, "PYTHONIOENCODING": "utf-8"}
    for variable, value in os.environ.items():
        if not variable.startswith(("LC_", "LANG", "PYTHON")):
            environment.setdefault(variable, value)
    if failure := run_build(request._replace(data=data), folder, environment, umask):
        raise RenderError(f"--verify: the {name} build failed: {failure}")


def digests_of(out: Path) -> dict[str, str]:
    """Map the outputs below ``out``, sorted by name, to their SHA-256."""
    digests: dict[str, str] = {}
    for path in sorted(out.rglob("*")):
        if path.is_file() and path.name not in (INDEX, ".lock"):
            digests[path.relative_to(out).as_posix()] = file_digest(str(path)) or ""
    return digests


def verify_against(options: Namespace) -> int:
    """Build the papers of a published site, and compare their files with its manifest.

    Prints why each differing file differs; returns 1 if numbers or records differ.  Raises
    ``RecordError`` for a manifest without papers of this project, ``RenderError`` for a failed
    build.
    """
    manifest: Path = options.verify_against
    published = read_digests(manifest)
    papers = papers_of(published)
    options.study = options.study or [study for study in STUDIES if study in papers]
    if not papers.intersection(options.study):
        raise RecordError(f"{manifest}: lists no paper of this project; name a site's {DIGESTS}.")
    options.html, options.pdf = True, any(name.endswith(".pdf") for name in published)
    request, announce = request_of(options), announcer(quiet=options.quiet)
    with only_build(request.out, announce) as stage:
        announce("the build to compare", 0.0, "")
        if failure := run_build(request._replace(out=stage / "out"), ROOT):
            raise RenderError(f"--verify-against: the build failed: {failure}")
        site = stage / "out" / "html"
        reasons = compare(published, read_digests(site / DIGESTS), manifest.parent, site)
    differing = {name: reason for name, reason in reasons.items() if reason}
    serious = sum(reason != ONLY_BYTES for reason in differing.values())
    say(f"{len(reasons)} files: {len(differing)} differ, {serious} of them in numbers or records")
    for name, reason in differing.items():
        print(f"  {name}: {reason}")
    return int(serious > 0)


def read_digests(manifest: Path) -> dict[str, str]:
    """Read a manifest as file → SHA-256; raises ``RecordError`` for a line of another form."""
    remedy = f"name the {DIGESTS} of a site"
    digests: dict[str, str] = {}
    text = read_file(manifest, str(manifest), remedy).decode("utf-8", "replace")
    for number, line in enumerate(text.splitlines(), 1):
        match = _MANIFEST_LINE.fullmatch(line)
        if match is None:
            raise RecordError(f"{manifest}:{number}: found no digest and file; {remedy}.")
        digests[match[2]] = match[1]
    return digests


def papers_of(digests: Mapping[str, str]) -> set[str]:
    """Return the names of the papers of a site, from the files in its manifest."""
    return {name.partition("/")[0] for name in digests if name.endswith(f"/{_VALUES_FILE}")}


def compare(
    published: Mapping[str, str], own: Mapping[str, str], folder: Path, site: Path
) -> dict[str, str]:
    """Map each compared file to the reason for its difference; "" for an equal file.

    ``published`` and ``own`` map the files of two sites to digests; the files are in ``folder`` and
    ``site``.  If the published numbers are missing in ``folder``, the reason says so.  Pages about
    all papers are compared only if both sites have the same papers.
    """
    differing, papers = {name for name, _ in published.items() ^ own.items()}, papers_of(own)
    reason_by_paper: dict[str, str] = {}
    for paper in sorted(papers):
        reason_by_paper[paper] = _paper_difference(paper, differing, folder, site)
    # If the numbers or records of a paper differ, pages about all papers get that reason.
    serious = [reason for reason in reason_by_paper.values() if reason != ONLY_BYTES]
    reason_of_other_pages = serious[0] if serious else ONLY_BYTES
    reasons: dict[str, str] = {}
    for name in sorted(published.keys() | own.keys()):
        paper = name.partition("/")[0]
        if paper in papers or papers_of(published) == papers:
            reason = reason_by_paper.get(paper, reason_of_other_pages)
            reasons[name] = reason if name in differing else ""
    return reasons


def _paper_difference(paper: str, differing: Collection[str], folder: Path, site: Path) -> str:
    """Describe why files of one paper differ: records, numbers, or only bytes."""
    if any(name.startswith(f"{paper}/records/") for name in differing):
        return "its records"
    name, changed_numbers = f"{paper}/{_VALUES_FILE}", list[str]()
    if name in differing:
        try:
            published = _numbers(json.loads((folder / name).read_bytes()))
            own = _numbers(json.loads((site / name).read_bytes()))
        except (OSError, ValueError):
            return f"its numbers or its text; put the published {name} beside the manifest to tell"
        for place in sorted(published.keys() | own.keys()):
            before, now = published.get(place), own.get(place)
            if before is None or now is None or not math.isclose(before, now, rel_tol=TOLERANCE):
                changed_numbers.append(f"{place} {before} → {now}")
    return (
        f"its numbers ({', '.join(first_few(changed_numbers))})" if changed_numbers else ONLY_BYTES
    )


def _numbers(content: Any, path: str = "") -> dict[str, float]:
    """Map the path of each number in a JSON value to the number."""
    if not isinstance(content, dict | list):
        return {path: content} if isinstance(content, int | float) else {}
    numbers: dict[str, float] = {}
    for name, part in content.items() if isinstance(content, dict) else enumerate(content):
        numbers |= _numbers(part, f"{path}.{name}".removeprefix("."))
    return numbers


def run_build(
    request: BuildRequest,
    project: Path,
    environment: Mapping[str, str] | None = None,
    umask: int = -1,
) -> str | None:
    """Run ``build.py`` of ``project``; return its error messages, or None if it succeeded.

    The build runs in a process group of its own, so that Ctrl-C reaches only this process.
    ``umask`` -1 keeps the umask of this process.
    """
    paths = [str(request.data / file) for files in request.use.values() for file in files]
    if any(map(is_report, request.studies)):
        records = ["--replicate", *paths]
    else:
        records = [f"--use={path}" for path in paths]
    arguments = [
        *map(study_of, request.studies),
        *(f"--{output}" for output in request.outputs),
        f"--out={request.out}",
        f"--data={request.data}",
        f"--engine={request.engine}",
        f"--jobs={request.jobs}",
        *([f"--style={request.style}"] if request.style else []),
        "--quiet",
        *records,
    ]
    with managed_process(
        [sys.executable, str(project / "build.py"), *arguments],
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        umask=umask,
    ) as process:
        _, output = process.communicate()
    if process.returncode == 0:
        return None
    errors = [line.removeprefix("error: ") for line in output.strip().splitlines()]
    return "\n".join(errors) or f"build.py ended with the exit code {process.returncode}."

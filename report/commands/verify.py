"""Build twice from nothing in different environments, and compare every byte: ``--verify``."""

from __future__ import annotations

import os
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Final

from report.commands.arguments import request_of
from report.commands.child import run_build
from report.commands.console import announcer, say
from report.core.errors import RenderError, unwritable
from report.core.system.exchange import install
from report.engine.cache import DIGESTS, INDEX, digest_lines, file_digest
from report.engine.place import only_build, put_folder, stage_in
from report.engine.steps import ROOT, Announce, BuildRequest

#: The folder that keeps both builds if they differ.
BOTH: Final = "verify"
#: Files and folders of the project that a build needs.
_NEEDED: Final = ("build.py", "report", "figures", "templates", "data")
#: Bytes that are printed around the first difference.
_BYTES: Final = 60
#: Two environments that differ in everything that papers must not depend on: the folder, the umask,
#: and variables.  The first turns off UTF-8, which Python would use in the locale C.
ENVIRONMENTS: Final[dict[str, tuple[str, int, dict[str, str]]]] = {
    "first": (
        "first",
        0o022,
        {"TZ": "UTC0", "LC_ALL": "C", "PYTHONHASHSEED": "0"}
        | {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ),
    "second": (
        "second/a folder/très profond",
        0o077,
        {"TZ": "FAR-13:45", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "4242"},
    ),
}


def verify(options: Namespace) -> int:
    """Build twice from nothing, and print the files that differ; return 1 if any does."""
    request = request_of(options)
    files, differences = build_twice(request, ROOT, announcer(quiet=options.quiet))
    if differences:
        say(f"Files that differ: {len(differences)}")
        for name, difference in differences.items():
            print(f"  {name}: {difference}")
        print(f"Both builds are kept in {request.out / BOTH}; {DIGESTS} was not written.")
    else:
        say(
            f"The same bytes: {len(files)} files, built twice from nothing, with another folder, "
            f"time zone, locale, hash seed and umask.\n{request.out / DIGESTS}"
        )
    return 1 if differences else 0


def build_twice(
    request: BuildRequest, project: Path, announce: Announce
) -> tuple[dict[str, str], dict[str, str]]:
    """Build ``request`` twice from nothing, in two copies of ``project``, and compare the bytes.

    Writes ``MANIFEST.sha256`` to ``request.out`` if all are equal, else keeps both builds there.
    Returns the digest of each file, and the first difference of each file that differs.

    Raises ``RenderError`` if a build fails, and ``OutputError`` if a file cannot be written.
    """
    with only_build(request.out, announce), stage_in(request.out) as stage:
        outs = [stage / BOTH / folder / "out" for folder, *_ in ENVIRONMENTS.values()]
        for number, name in enumerate(ENVIRONMENTS):
            announce(f"the {name} build", number / 2, "")
            _build(name, request._replace(out=outs[number]), project)
        files, others = map(digests_of, outs)
        differences: dict[str, str] = {}
        for name in sorted({name for name, _ in files.items() ^ others.items()}):
            differences[name] = first_difference(outs[0] / name, outs[1] / name)
        try:
            (stage / DIGESTS).write_text(digest_lines(files), "utf-8", newline="\n")
            if differences:
                put_folder(BOTH, request.out, stage)
            else:
                install(stage / DIGESTS, request.out / DIGESTS)
        except OSError as error:
            raise unwritable(error) from error
    return files, differences


def _build(name: str, request: BuildRequest, project: Path) -> None:
    """Build in a copy of the project, and of the data, beside ``request.out``."""
    (_, umask, variables), folder = ENVIRONMENTS[name], request.out.parent
    data = folder / ("data" if request.data == project / "data" else "other data")
    copies = {folder / name: project / name for name in _NEEDED} | {data: request.data}
    hidden = shutil.ignore_patterns("__pycache__", ".*")
    try:
        folder.mkdir(parents=True)
        for target, source in copies.items():
            if source.is_dir():
                shutil.copytree(source, target, ignore=hidden, copy_function=_copy)
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


def _copy(source: str, target: str) -> None:
    """Copy a file; copy a dangling link as a link, which the build then reports."""
    shutil.copy2(source, target, follow_symlinks=Path(source).exists())


def digests_of(out: Path) -> dict[str, str]:
    """Map the outputs below ``out``, sorted, to their SHA-256."""
    digests: dict[str, str] = {}
    for path in sorted(out.rglob("*")):
        if path.is_file() and path.name not in (INDEX, ".lock"):
            digests[path.relative_to(out).as_posix()] = file_digest(str(path)) or ""
    return digests


def first_difference(first: Path, second: Path) -> str:
    """Describe the first difference of two files: its byte, and the text around it in both."""
    for path, name in ((second, "first"), (first, "second")):
        if not path.is_file():
            return f"only the {name} build has it"
    one, other = first.read_bytes(), second.read_bytes()
    position, end = 0, min(len(one), len(other))
    while position < end and one[position] == other[position]:
        position += 1
    begin = max(0, position - _BYTES // 2)
    one_text, other_text = (
        content[begin : begin + _BYTES].decode("utf-8", "replace") for content in (one, other)
    )
    return f"byte {position + 1}: {one_text!r} and {other_text!r}"

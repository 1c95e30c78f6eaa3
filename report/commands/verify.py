"""``--verify``: building twice from nothing, in unlike environments, and comparing every byte."""

from __future__ import annotations

import os
import shutil
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Final

from report.commands.arguments import request_of
from report.commands.child import run_build
from report.commands.console import announcer, say
from report.core.errors import RenderError, unwritable
from report.core.system.exchange import install
from report.engine.cache import INDEX, file_digest
from report.engine.pipeline import ROOT, Announce, Request
from report.engine.place import only_build, put_folder, stage_in

#: In the format of ``sha256sum``, for ``cd out && sha256sum -c MANIFEST.sha256``.
MANIFEST: Final = "MANIFEST.sha256"
#: Where both builds are kept if they differ.
BOTH: Final = "verify"
#: What a build needs of the project.
_NEEDED: Final = ("build.py", "report", "figures", "templates", "data")
#: How many bytes are printed of what differs.
_BYTES: Final = 60


#: Two environments that differ in all that papers must not depend on: the folder, relative to that
#: of both, the umask, and variables.  Python takes the locale C for UTF-8 unless it is told not to.
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
    """Build twice from nothing, and print whether the bytes are the same."""
    request = request_of(options)
    files, differences = build_twice(request, ROOT, announcer(quiet=options.quiet))
    if differences:
        say(f"Files that differ: {len(differences)}")
        print(*(f"  {name}: {where}" for name, where in differences.items()), sep="\n")
        print(f"Both builds are kept in {request.out / BOTH}; {MANIFEST} was not written.")
    else:
        say(
            f"The same bytes: {len(files)} files, built twice from nothing, each time in another "
            f"folder, time zone, locale, hash seed and umask.\n{request.out / MANIFEST}"
        )
    return 1 if differences else 0


def build_twice(
    request: Request, project: Path, announce: Announce
) -> tuple[dict[str, str], dict[str, str]]:
    """Build what ``request`` asks for twice from nothing and compare the bytes.

    Each build is a process of its own in a fresh copy of ``project``.  If they are the same,
    ``MANIFEST.sha256`` is written to ``request.out``, else both are kept there.  Returns the digest
    of each file, and where those that differ do so first.

    Raises ``RenderError`` if a build fails, and ``OutputError`` if copies or manifest cannot be
    written.
    """
    waiting = partial(announce, "waiting for a build to end", 0.0, "")
    with only_build(request.out, waiting), stage_in(request.out) as stage:
        outs = [stage / BOTH / folder / "out" for folder, *_ in ENVIRONMENTS.values()]
        for turn, name in enumerate(ENVIRONMENTS):
            announce(f"the {name} build", turn / 2, "")
            _build(name, request._replace(out=outs[turn]), project)
        files, others = map(files_of, outs)
        differ = sorted({name for name, _ in files.items() ^ others.items()})
        differences = {name: where_unlike(*(out / name for out in outs)) for name in differ}
        digests = "".join(f"{digest}  {name}\n" for name, digest in files.items())
        try:
            (stage / MANIFEST).write_text(digests, "utf-8", newline="\n")
            if differences:
                put_folder(BOTH, request.out, stage)
            else:
                install(stage / MANIFEST, request.out / MANIFEST)
        except OSError as error:
            raise unwritable(error) from error
    return files, differences


def _build(name: str, request: Request, project: Path) -> None:
    """Build in a copy of the project, beside ``request.out``, and of other data than its own."""
    (_, umask, variables), folder = ENVIRONMENTS[name], request.out.parent
    data = folder / ("data" if request.data == project / "data" else "other data")
    copied = {folder / needed: project / needed for needed in _NEEDED} | {data: request.data}
    hidden = shutil.ignore_patterns("__pycache__", ".*")
    copy_all = partial(shutil.copytree, ignore=hidden, copy_function=_copy)
    try:
        folder.mkdir(parents=True)
        for target, source in copied.items():
            (copy_all if source.is_dir() else shutil.copyfile)(source, target)
    except OSError as error:
        raise unwritable(error, "copied") from error
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHON"))}
    own = {**kept, **variables, "PYTHONIOENCODING": "utf-8"}
    if failure := run_build(request._replace(data=data), folder, own, umask):
        raise RenderError(f"--verify: the {name} build failed: {failure}")


def _copy(source: str, target: str) -> None:
    """Copy a file, or a link that leads nowhere, of which a build tells, as the link that it is."""
    shutil.copy2(source, target, follow_symlinks=Path(source).exists())


def files_of(out: Path) -> dict[str, str]:
    """Each file that a build has made below ``out``, relative to it, and its SHA-256; sorted."""
    every = sorted(path for path in out.rglob("*") if path.is_file())
    built = (path for path in every if path.name not in (INDEX, ".lock"))
    return {path.relative_to(out).as_posix(): file_digest(str(path)) or "" for path in built}


def where_unlike(first: Path, second: Path) -> str:
    """Where two unequal files differ first: the byte, and what is around it in both."""
    for path, name in ((second, "first"), (first, "second")):
        if not path.is_file():
            return f"only the {name} build has it"
    both = [path.read_bytes() for path in (first, second)]
    unlike = (place for place, (one, other) in enumerate(zip(*both, strict=False)) if one != other)
    place = next(unlike, min(map(len, both)))
    begin = max(0, place - _BYTES // 2)
    shown = (each[begin : begin + _BYTES].decode("utf-8", "replace") for each in both)
    return f"byte {place + 1}: {' and '.join(map(repr, shown))}"

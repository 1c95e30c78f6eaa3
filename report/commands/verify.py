"""``--verify``: building twice from nothing, in unlike environments, and comparing every byte."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from report.commands.compare_files import MANIFEST, Difference, differing, explain, files_of, sums
from report.commands.environments import (
    Environment,
    differing_environments,
    prepare_environment,
    shifted_clock,
)
from report.engine.graph import SCRATCH
from report.engine.scratch import keep, scratch_folder
from report.errors import OutputError, RenderError
from report.missing import Missing
from report.system.child import Announce, Child, Ended
from report.system.signals import exit_on_signals

if TYPE_CHECKING:
    from report.engine.pipeline import Request

#: What a build needs of the project, for a folder that git does not know.
_NEEDED: Final = ("build.py", "pyproject.toml", "constraints.txt")
_NEEDED_FOLDERS: Final = ("report", "figures", "templates", "data")
#: How many names are printed of a list that may be long.
_SHOWN: Final = 20


@dataclass(frozen=True)
class Verified:
    """What two builds from nothing gave.

    ``present`` names the files that are not the same in the folder that was built before, or None
    if nothing was; ``kept`` is where both builds lie if they differ.
    """

    environments: tuple[Environment, Environment]
    files: Mapping[str, str]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]
    present: tuple[str, ...] | None
    manifest: Path
    kept: Path | None

    @property
    def code(self) -> int:
        """The exit code: 1 if anything differs."""
        return 1 if self.differences else 0

    def lines(self) -> Iterator[str]:
        """What to print."""
        for environment in self.environments:
            yield f"{environment.name}: {environment.words()}"
        yield from (f"note: {note}" for note in self.notes)
        if self.differences:
            yield f"{_count(len(self.differences), 'file differs', 'files differ')}:"
            yield from (f"  {item.name}: {item.where}" for item in self.differences)
            yield f"Both builds are kept in {self.kept}; {MANIFEST} was not written."
        else:
            count = _count(len(self.files), "file", "files")
            yield f"The same bytes: {count}, built twice from nothing."
            yield from self._about_present()
            yield str(self.manifest)

    def _about_present(self) -> Iterator[str]:
        folder = self.manifest.parent
        if self.present is None:
            yield f"note: {folder} has not been built, so that {MANIFEST} cannot be checked yet."
        elif self.present:
            count = _count(len(self.present), "file is", "files are")
            yield f"note: {count} not like this in {folder}; build the same papers there:"
            yield from (f"  {name}" for name in self.present[:_SHOWN])
            if len(self.present) > _SHOWN:
                yield f"  and {len(self.present) - _SHOWN} more"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def verify(
    request: Request,
    project: Path,
    announce: Announce,
    environments: tuple[Environment, Environment] | None = None,
) -> Verified:
    """Build what ``request`` asks for twice from nothing and compare the bytes.

    Each build is a process of its own in a fresh copy of ``project``; with at least two jobs both
    run at a time.  If they are the same, ``MANIFEST.sha256`` is written to ``request.out``.

    Raises ``RenderError`` if a build fails, and ``OutputError`` if copies or manifest cannot be
    written.
    """
    announce("copying the project", 0.0)
    environments = environments or differing_environments(request.jobs)
    with exit_on_signals(), scratch_folder() as scratch:
        variables = _set_up_both(environments, request, project, scratch)
        _build_both(environments, variables, request, project, scratch, announce)
        outs = [scratch / each.out for each in environments]
        files, others = (files_of(out) for out in outs)
        differences = explain(differing(files, others), *outs)
        kept = keep(scratch, "verify") if differences else None
    present = _present(files, request.out)
    manifest, notes = request.out / MANIFEST, _notes(environments)
    if not differences:
        _write(sums(files), manifest)
    return Verified(environments, files, differences, notes, present, manifest, kept)


def _notes(environments: Sequence[Environment]) -> tuple[str, ...]:
    """What could not be made to differ."""
    notes = []
    if not any(each.clock for each in environments):
        clock = shifted_clock(1)
        notes += [clock.reason] if isinstance(clock, Missing) else []
    if environments[0].locale == "C" and environments[1].locale.startswith("C"):
        notes.append("no locale of another language is installed, so that only C and C.UTF-8 met")
    return tuple(notes)


def _present(files: Mapping[str, str], out: Path) -> tuple[str, ...] | None:
    if not (out / "manifest.json").is_file():
        return None
    there = files_of(out)
    return tuple(name for name in files if there.get(name) != files[name])


def _write(text: str, path: Path) -> None:
    """Replace the file in one step; raises ``OutputError``."""
    scratch = path.with_name(f"{SCRATCH}{os.getpid()}-{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(text, "utf-8", newline="\n")
        scratch.replace(path)
    except OSError as error:
        with suppress(OSError):
            scratch.unlink()
        raise OutputError(
            f"{path}: cannot be written ({error.strerror}); mend the folder and verify again."
        ) from error


def _set_up_both(
    environments: Sequence[Environment], request: Request, project: Path, scratch: Path
) -> list[dict[str, str]]:
    """The environment variables of both builds; raises ``OutputError`` if there is no room."""
    try:
        return [_set_up(each, request, project, scratch) for each in environments]
    except OSError as error:
        raise OutputError(
            f"{scratch}: the project cannot be copied there ({error.strerror}); "
            "set TMPDIR to a folder with more room."
        ) from error


def _set_up(
    environment: Environment, request: Request, project: Path, scratch: Path
) -> dict[str, str]:
    """Copy the project and the data, and prepare the rest; returns the environment variables."""
    target = scratch / environment.project
    _copy(project_files(project), project, target, environment)
    if request.data != project / "data":
        data = sorted(
            path.relative_to(request.data).as_posix()
            for path in request.data.rglob("*")
            if path.is_file()
        )
        _copy(data, request.data, scratch / environment.data, environment)
    variables = prepare_environment(environment, scratch)
    _check_import(target, variables)
    return variables


def project_files(project: Path) -> tuple[str, ...]:
    """The files of the project that git tracks or does not ignore, relative to it.

    Without git, or where git knows nothing of this folder, what a build needs.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        finished = subprocess.run(command, cwd=project, capture_output=True, check=False)
        names = os.fsdecode(finished.stdout).split("\0")
    except OSError:
        names = []
    if "build.py" not in names:
        names = [*_NEEDED, *_below(project)]
    return tuple(sorted({name for name in names if name and (project / name).is_file()}))


def _below(project: Path) -> Iterator[str]:
    for folder in _NEEDED_FOLDERS:
        for path in (project / folder).rglob("*"):
            if "__pycache__" not in path.parts:
                yield path.relative_to(project).as_posix()


def _copy(names: Sequence[str], source: Path, target: Path, environment: Environment) -> None:
    """Copy files with the times and in the order of ``environment``: some systems list them so."""
    for name in reversed(names) if environment.reverse else names:
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, copy)
        os.utime(copy, (environment.modified, environment.modified))


def _check_import(project: Path, variables: Mapping[str, str]) -> None:
    """Raises ``RenderError`` if Python would take the code of another copy than ``project``."""
    finished = subprocess.run(
        [sys.executable, "-c", "import report; print(report.__file__)"],
        cwd=project,
        env=dict(variables),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    found = finished.stdout.strip()
    if not found or not Path(found).is_relative_to(project):
        raise RenderError(
            f"--verify: the build in {project} would use the code of {found or 'no project'}; "
            "remove what puts that in front of PYTHONPATH."
        )


def _arguments(
    environment: Environment, request: Request, project: Path, scratch: Path
) -> list[str]:
    own_data = request.data != project / "data"
    return [
        *request.studies,
        *(f"--{output}" for output in request.outputs),
        f"--engine={request.engine}",
        f"--jobs={environment.jobs}",
        f"--out={scratch / environment.out}",
        *([f"--data={scratch / environment.data}"] if own_data else []),
    ]


def _build_both(
    environments: Sequence[Environment],
    variables: Sequence[Mapping[str, str]],
    request: Request,
    project: Path,
    scratch: Path,
    announce: Announce,
) -> None:
    """Run the two builds, at a time if there are jobs enough; raises ``RenderError``."""
    progress = _Progress(announce)
    with ExitStack() as stack:
        running: list[tuple[Environment, Child]] = []
        for each, own in zip(environments, variables, strict=True):
            child = Child(
                _arguments(each, request, project, scratch),
                scratch / each.project,
                progress.of(each.name),
                own,
                each.umask,
            )
            running.append((each, stack.enter_context(child)))
            if request.jobs == 1:
                _check_ended(each, child.wait())
        for each, child in running:
            _check_ended(each, child.wait())


def _check_ended(environment: Environment, ended: Ended) -> None:
    if ended.failure is not None:
        raise RenderError(f"--verify: the {environment.name} build failed: {ended.failure}")


class _Progress:
    """Announces two builds as one, whose share is the mean of theirs."""

    def __init__(self, announce: Announce) -> None:
        self._announce = announce
        self._shares: dict[str, float] = {}
        self._lock = threading.Lock()

    def of(self, name: str) -> Announce:
        def announce(words: str, share: float) -> None:
            with self._lock:
                self._shares[name] = share
                self._announce(f"{name} build: {words}", sum(self._shares.values()) / 2)

        return announce

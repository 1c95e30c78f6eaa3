"""Building again whenever a file changes, with the pages in the browser kept up to date.

Files are looked at a few times a second instead of asking the system for events: that works on
every system and shared folder, needs no package, and takes some milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from report.commands.serve import Site, open_server, running
from report.engine.contents import files_below
from report.errors import RidgepointError
from report.system.child import Announce, Child
from report.system.signals import exit_on_signals

#: Builds; returns None, or what went wrong.
Rebuild: TypeAlias = Callable[[], str | None]
#: Whether a file is not as it was when this was last asked.
Changed: TypeAlias = Callable[[], bool]

#: What a paper is made from besides the data, relative to the project.
_ROOMS: Final = ("report", "figures", "templates")
_FILES: Final = ("build.py",)


@dataclass(frozen=True)
class Pace:
    """How often files are looked at, in seconds, and when they count as saved.

    Editors save in several steps, so that a build waits until nothing has changed for ``quiet_s``;
    after ``patience`` such looks it does not wait any longer.
    """

    look_s: float = 0.3
    quiet_s: float = 0.2
    patience: int = 25


def watch(
    rebuild: Rebuild,
    changed: Changed,
    site: Site,
    *,
    pace: Pace = Pace(),
    sleep: Callable[[float], None] = time.sleep,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Call ``rebuild`` after each change and tell ``site`` how it went, until ``stop`` says so.

    What goes wrong in a build, a defect of ours included, is told and ends nothing.
    """
    while not stop():
        sleep(pace.look_s)
        if changed():
            _let_settle(changed, pace, sleep)
            site.tell(attempt(rebuild))


def _let_settle(changed: Changed, pace: Pace, sleep: Callable[[float], None]) -> None:
    for _ in range(pace.patience):
        sleep(pace.quiet_s)
        if not changed():
            return


def attempt(rebuild: Rebuild) -> str | None:
    """What ``rebuild`` says went wrong, or what it raised."""
    try:
        return rebuild()
    except RidgepointError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def changes(look: Callable[[], object]) -> Changed:
    """Whether ``look`` gives something else than when it was last asked; the first time is now."""
    last = look()

    def changed() -> bool:
        nonlocal last
        before, last = last, look()
        return before != last

    return changed


def states(project: Path, data: Path) -> dict[str, tuple[int, int, int]]:
    """The size, the time of change and the inode of each file that papers are made from."""
    return dict(_states(_inputs(project, data)))


def _inputs(project: Path, data: Path) -> Iterator[Path]:
    yield from (project / name for name in _FILES)
    for folder in (*(project / name for name in _ROOMS), data):
        yield from (folder / name for name in files_below(str(folder)))


def _states(paths: Iterable[Path]) -> Iterator[tuple[str, tuple[int, int, int]]]:
    for path in paths:
        # A file may go between being listed and being looked at.
        with suppress(OSError):
            status = path.stat()
            yield str(path), (status.st_size, status.st_mtime_ns, status.st_ino)


def build_anew(arguments: Sequence[str], project: Path, announce: Announce) -> Rebuild:
    """Builds in a new process, which has today's code; this one keeps the modules it began with."""

    def rebuild() -> str | None:
        with Child(arguments, project, announce) as child:
            return child.wait().failure

    return rebuild


def watch_and_serve(
    out: Path, port: int, rebuild: Rebuild, changed: Changed, say: Callable[[str], None]
) -> None:
    """Build, serve the pages, and build again on every change, until Ctrl-C.

    Raises ``RidgepointError`` if the port cannot be used.
    """

    def said() -> str | None:
        failure = attempt(rebuild)
        say(f"error: {failure}" if failure else f"Built at {time.strftime('%H:%M:%S')}.")
        return failure

    site = Site(out, live=True)
    server = open_server(site, port)
    with exit_on_signals(), suppress(KeyboardInterrupt), running(server):
        say(f"Serving {out / 'html'} at {server.address}, rebuilding on change, until Ctrl-C.")
        site.tell(said())
        watch(said, changed, site)

"""Building again whenever a file changes, with the pages in the browser kept up to date.

Files are looked at a few times a second instead of asking the system for events: that works on
every system and shared folder, needs no package, and takes some milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
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

#: How often files are looked at (s).
LOOK_S: Final = 0.3
#: Editors save in several steps, so that a build waits until nothing has changed for this time (s);
#: after so many such looks it does not wait any longer.
QUIET_S: Final = 0.2
PATIENCE: Final = 25


def watch(
    rebuild: Rebuild, changed: Changed, site: Site, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Call ``rebuild`` after each change and tell ``site`` how it went, until Ctrl-C.

    What goes wrong in a build, a defect of ours included, is printed and ends nothing.
    """
    while True:
        sleep(LOOK_S)
        if changed():
            for _ in range(PATIENCE):
                sleep(QUIET_S)
                if not changed():
                    break
            site.tell(attempt(rebuild))


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


def states(project: Path, data: Path) -> dict[Path, tuple[int, int, int]]:
    """The size, the time of change and the inode of each file that papers are made from."""
    folders = (*(project / name for name in _ROOMS), data)
    below = (folder / name for folder in folders for name in files_below(str(folder)))
    found = {}
    for path in (*(project / name for name in _FILES), *below):
        # A file may go between being listed and being looked at.
        with suppress(OSError):
            status = path.stat()
            found[path] = (status.st_size, status.st_mtime_ns, status.st_ino)
    return found


def rebuild_command(arguments: Sequence[str], project: Path, announce: Announce) -> Rebuild:
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

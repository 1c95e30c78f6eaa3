"""Two machines in one: all that may differ between two builds of the same papers, made to differ.

Whatever a build must not depend on has a field in ``Environment``; the two of
``differing_environments`` differ in every one of them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import site
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from report.missing import Missing

#: What is set in the user's own environment and could reach into a build; each of the two builds
#: has its own value of it, or none.
_CLEARED: Final = (
    "LANG", "LANGUAGE", "MATPLOTLIBRC", "MPLBACKEND", "MPLCONFIGDIR", "PYTHONHASHSEED",
    "PYTHONPATH", "PYTHONUTF8", "SOURCE_DATE_EPOCH", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
)  # fmt: skip
_CLEARED_BEGINNINGS: Final = ("LC_", "FAKETIME")

#: Programs that may write the time, and to which the build gives a fixed environment, so that the
#: shifted clock has to be put on them from outside.  Not on latexmk, which only compares times of
#: files with the clock, and gives up where faketime shifts one but not the other.
_PROGRAMS: Final = ("pdflatex", "bibtex")

_MATPLOTLIBRC: Final = """\
axes.facecolor: pink
axes.formatter.use_locale: True
figure.constrained_layout.use: False
font.family: monospace
font.size: 23
lines.linewidth: 9
path.simplify: False
pdf.compression: 0
pdf.fonttype: 42
savefig.bbox: tight
savefig.dpi: 31
svg.fonttype: none
svg.hashsalt: a user's own
"""
#: Settings of a user that programs look for at home: of matplotlib, latexmk and pandoc.
_SETTINGS: Final = {
    ".config/matplotlib/matplotlibrc": _MATPLOTLIBRC,
    ".latexmkrc": '$pdf_mode = 4; $out_dir = "elsewhere"; $jobname = "mine";\n',
    ".local/share/pandoc/abbreviations": "the\nof\nand\na\n",
    ".local/share/pandoc/templates/default.html5": "$body$\n",
}

#: faketime 0.9.10 breaks ``time.sleep``, which waits for a moment of the monotonic clock, where it
#: leaves that clock alone; shifting it too makes ``Condition.wait`` last for ever. So Python sleeps
#: by another call of the system; ``sitecustomize`` is what it imports when it starts.
_SITECUSTOMIZE: Final = """\
import select
import time

time.sleep = lambda seconds: select.select([], [], [], seconds) and None
"""

_DAY_S: Final = 86400
_YEAR_S: Final = 365 * _DAY_S


@dataclass(frozen=True)
class Clock:
    """A clock that is ``days`` ahead, and the environment variables that show it to a program."""

    days: int
    variables: Mapping[str, str]


@dataclass(frozen=True)
class Environment:
    """Where and how one build runs.

    ``project``, ``data``, ``out``, ``home`` and ``temporary`` are folders relative to the scratch
    folder of the comparison; ``modified`` is the time of all files in seconds since 1970.
    """

    name: str
    project: str
    data: str
    out: str
    home: str
    temporary: str
    user: str
    zone: str
    locale: str
    hash_seed: int
    umask: int
    modified: int
    jobs: int
    reverse: bool
    settings: Mapping[str, str] = field(default_factory=dict)
    epoch: int | None = None
    clock: Clock | None = None

    def words(self) -> str:
        """What differs, in one line."""
        clock = f"{self.clock.days} days ahead" if self.clock else "as it is"
        settings = "with other settings" if self.settings else "empty"
        return (
            f"folder {self.project}, TZ={self.zone}, LC_ALL={self.locale}, "
            f"PYTHONHASHSEED={self.hash_seed}, umask {self.umask:03o}, home {settings}, "
            f"files of {time.gmtime(self.modified).tm_year}, --jobs {self.jobs}, clock {clock}"
        )


def differing_environments(jobs: int) -> tuple[Environment, Environment]:
    """The two; ``jobs`` is how many steps the second runs at a time, which are at least two."""
    clock = shifted_clock(days=2987)
    first = Environment(
        name="first",
        project="first/ridgepoint",
        data="first/records",
        out="first/ridgepoint/out",
        home="first/home",
        temporary="first/tmp",
        user="first",
        zone="UTC0",
        locale="C",
        hash_seed=0,
        umask=0o022,
        modified=32 * _YEAR_S,
        jobs=1,
        reverse=False,
    )
    second = Environment(
        name="second",
        project="second/a folder/très profond/of another name",
        data="second/a folder/other records",
        out="second/result",
        home="second/home of a user",
        temporary="second/t",
        user="another",
        zone="FAR-13:45",
        locale=foreign_locale(installed_locales()),
        hash_seed=4242,
        umask=0o077,
        modified=54 * _YEAR_S,
        jobs=max(2, jobs),
        reverse=True,
        settings=_SETTINGS,
        epoch=1234567890,
        clock=clock if isinstance(clock, Clock) else None,
    )
    return first, second


def installed_locales() -> tuple[str, ...]:
    """The locales of this system; none where it cannot tell."""
    try:
        finished = subprocess.run(
            ["locale", "-a"], capture_output=True, encoding="utf-8", errors="replace", check=False
        )
    except OSError:
        return ()
    return tuple(finished.stdout.split())


def foreign_locale(installed: Sequence[str]) -> str:
    """The locale that is most unlike C: one of a language that is not English, if there is one."""
    utf8 = [name for name in installed if name.lower().replace("-", "").endswith("utf8")]
    foreign = [name for name in utf8 if not name.startswith(("C.", "en_", "POSIX"))]
    # In Turkish the capital of i is not I, which trips programs more than any other language.
    turkish = [name for name in foreign if name.startswith("tr_")]
    return next(iter((*turkish, *foreign, *utf8)), "C")


def shifted_clock(days: int) -> Clock | Missing:
    """A clock that is ahead, by the program ``faketime``, or why there is none.

    Waiting goes by the monotonic clock, which stays as it is: time limits hold.
    """
    program = shutil.which("faketime")
    if program is None:
        return Missing(
            "the clock was not shifted, since faketime is not installed "
            "('apt-get install faketime'); the two builds differ only in when they ran"
        )
    printed = subprocess.run(
        [program, "-m", "-f", f"+{days}d", "env"], capture_output=True, text=True, check=False
    ).stdout
    pairs = (line.partition("=") for line in printed.splitlines())
    names = ("LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "DYLD_FORCE_FLAT_NAMESPACE", "FAKETIME")
    found = {name: value for name, _, value in pairs if name in names}
    # This switch had the shorter name before version 0.9.9.
    still = {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}
    clock = Clock(days, {**found, **still})
    if abs(_seen(clock) - time.time() - days * _DAY_S) < _DAY_S / 2:
        return clock
    return Missing("the clock was not shifted, since faketime has no effect on Python here")


def _seen(clock: Clock) -> float:
    """What Python says the time is under ``clock``, in seconds since 1970; 0 if it cannot sleep."""
    finished = subprocess.run(
        [sys.executable, "-c", f"{_SITECUSTOMIZE}\ntime.sleep(0.001)\nprint(time.time())"],
        env={**os.environ, **clock.variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return float(finished.stdout) if finished.returncode == 0 else 0.0


def prepare_environment(environment: Environment, scratch: Path) -> dict[str, str]:
    """Make the home, the temporary folder and the programs; returns the environment variables."""
    home, temporary = scratch / environment.home, scratch / environment.temporary
    for folder in (home, temporary):
        folder.mkdir(parents=True)
    for name, text in environment.settings.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, "utf-8")
    path = os.environ.get("PATH", "")
    if environment.clock is not None:
        programs = _programs(environment, scratch)
        _write_programs(programs, environment.clock)
        (programs / "sitecustomize.py").write_text(_SITECUSTOMIZE, "utf-8")
        path = f"{programs}{os.pathsep}{path}"
    return {**_variables(environment, scratch), "PATH": path}


def _programs(environment: Environment, scratch: Path) -> Path:
    """The folder of what passes the shifted clock on."""
    return scratch / environment.name / "programs"


def _variables(environment: Environment, scratch: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _CLEARED and not name.startswith(_CLEARED_BEGINNINGS)
    }
    own = {
        "HOME": str(scratch / environment.home),
        "TMPDIR": str(scratch / environment.temporary),
        "USER": environment.user,
        "LOGNAME": environment.user,
        "TZ": environment.zone,
        "LC_ALL": environment.locale,
        "PYTHONHASHSEED": str(environment.hash_seed),
        "PYTHONPATH": str(scratch / environment.project),
        "PYTHONIOENCODING": "utf-8",
    }
    if environment.clock is not None:
        own["PYTHONPATH"] += f"{os.pathsep}{_programs(environment, scratch)}"
    if environment.locale == "C":
        # Python takes this locale for UTF-8 unless it is told not to.
        own |= {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    epoch = {} if environment.epoch is None else {"SOURCE_DATE_EPOCH": str(environment.epoch)}
    clock = environment.clock.variables if environment.clock else {}
    return {**kept, **_from_home(), **own, **epoch, **clock}


def _from_home() -> dict[str, str]:
    """What is installed in the user's real home: packages of Python, and of TeX."""
    found = {"PYTHONUSERBASE": site.getuserbase()}
    kpsewhich = shutil.which("kpsewhich")
    if kpsewhich is not None:
        finished = subprocess.run(
            [kpsewhich, "--var-value=TEXMFHOME"], capture_output=True, text=True, check=False
        )
        if finished.stdout.strip():
            found["TEXMFHOME"] = finished.stdout.strip()
    return found


def _write_programs(folder: Path, clock: Clock) -> None:
    """Programs that show ``clock`` to those of the same name and then become them."""
    folder.mkdir(parents=True)
    shown = " ".join(f"{name}={shlex.quote(value)}" for name, value in clock.variables.items())
    for name in _PROGRAMS:
        real = shutil.which(name)
        if real is not None:
            script = f'#!/bin/sh\n{shown} exec {shlex.quote(real)} "$@"\n'
            (folder / name).write_text(script, "utf-8")
            (folder / name).chmod(0o755)

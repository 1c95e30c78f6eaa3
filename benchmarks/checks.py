"""The project's own checks in a fresh clone with an empty home, as CI runs them."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.environment import ROOT, begin, finish
from benchmarks.progress import Tell
from benchmarks.results import Checks
from benchmarks.timing import Command, plain_environment, run

#: CI stops after this time.
LIMIT_S: Final = 5400.0
_INSTALL: Final = ("make", ".venv/test.stamp")
_CHECK: Final = (".ci/run",)
_PASSED: Final = re.compile(r"(\d+) passed")


def measure(tell: Tell) -> Checks:
    """Install the clone's environment, then run ``.ci/run`` in it, once; raises ``CommandError``.

    The packages come from the index or from pip's cache, so that the time of the installation says
    as much of the network as of the project; it is told apart.
    """
    start = begin()
    with tempfile.TemporaryDirectory(prefix="checks-") as scratch:
        clone, home = Path(scratch) / "clone", Path(scratch) / "home"
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        # Where packages come from is the machine's affair.
        pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        environment = plain_environment(HOME=str(home), **pip)
        tell("installs", 0.0)
        install, _ = run(Command(_INSTALL, clone, environment), LIMIT_S)
        tell("checks", 0.1)
        check, output = run(Command(_CHECK, clone, environment), LIMIT_S)
        tell("done", 1.0)
    return Checks(
        environment=finish(start, {}),
        install=install,
        check=check,
        passed=sum(map(int, _PASSED.findall(output))),
    )

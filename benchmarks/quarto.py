"""The same papers by a user's ``quarto``: HTML from written documents and drawn figures."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

from benchmarks.peers.install import InstallError
from benchmarks.project import ROOT
from benchmarks.results import Sample, Tool
from benchmarks.scenarios import Scenario
from benchmarks.timing import Command, plain_environment, run


class Quarto:
    """See ``benchmarks.subject.Subject``: the Quarto project that a build writes, rendered anew."""

    scenarios: Final = frozenset({Scenario.COLD})
    tool: Final = Tool(
        name="quarto",
        title="Quarto",
        makes="HTML of the same papers, from documents and drawings that are there already",
        caching="none",
        missing=None,
    )

    def __init__(self, folder: Path) -> None:
        """``folder`` is where ridgepoint writes the project once."""
        self._out = folder
        self._project = folder / "quarto"

    def prepare(self) -> dict[str, str]:
        """See ``Subject``; raises ``InstallError`` where there is no quarto that will do."""
        from report.errors import RenderError
        from report.render.quarto import quarto_version

        try:
            version = quarto_version()
        except RenderError as error:
            raise InstallError(str(error)) from error
        build = (sys.executable, "build.py", "--html", "--quiet", "--out", str(self._out))
        run(Command(build, ROOT, plain_environment()))
        self.measure(Scenario.COLD)
        return {"quarto": version}

    def change(self, scenario: Scenario, turn: int) -> None:
        """Remove what Quarto made and remembers."""
        for name in ("_site", ".quarto"):
            shutil.rmtree(self._project / name, ignore_errors=True)

    def measure(self, scenario: Scenario) -> Sample:
        """See ``Subject``."""
        from report.render.quarto import find_quarto

        command = (str(find_quarto()), "render", str(self._project), "--to", "html")
        return run(Command(command, self._project, plain_environment(NO_COLOR="1")))[0]

    def faults(self, scenario: Scenario, last: bool) -> tuple[str, ...]:
        """The papers that have no page."""
        from report.studies import STUDIES

        pages = ((study, self._project / "_site" / study / f"{study}.html") for study in STUDIES)
        return tuple(f"{study} has no page" for study, page in pages if not page.is_file())

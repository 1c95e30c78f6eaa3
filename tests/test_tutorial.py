"""The tutorial as a student follows it, in a fresh copy, from nothing to a published page."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from report.engine.pipeline import ROOT
from tests.test_readme import commands, fresh_copy, run

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
PUBLISHING = (ROOT / "docs" / "publishing.md").read_text("utf-8")


def test_every_command_of_the_tutorial_works(tmp_path: Path) -> None:
    """With fewer cases and processes than a student measures, on a machine that may be loud."""
    pytest.importorskip("torch")
    copy, home = fresh_copy(tmp_path / "ridgepoint"), tmp_path / "home"
    refused = ""
    for command in commands(TUTORIAL):
        if command == "make papers":
            run("make --dry-run papers", copy, home)
        elif command.startswith("python -m pip"):
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
            assert "experiments" in extras["optional-dependencies"]
        elif " run " in command:
            few = command.replace(" --quick", "")
            run(f"{few} --quick --set width=64,128", copy, home)
        elif command.endswith("|| true"):
            refused = run(f"({command}) 2>&1", copy, home)
        elif not command.startswith("source "):
            run(command, copy, home, "problem  ceilings" if " check " in command else "")
    (said,) = re.findall(r"^error: .*$", TUTORIAL, re.MULTILINE)
    assert said in refused
    assert len(list((copy / "data" / "layer_width").glob("*my-laptop*.json"))) == 2
    page = (copy / "public" / "layer_width" / "index.html").read_text("utf-8")
    assert "The widest layer reaches a higher rate than the narrowest" in page
    assert re.search(r"The widest layer reaches\s+<[^>]+>[\d,.]+\s*GFLOP/s", page)
    assert (copy / "out" / "pdf" / "layer_width.pdf").exists()
    expected = (copy / "data" / "expected.yaml").read_text("utf-8")
    assert "layer_width" in expected and "wider-is-faster" in expected
    for command in commands(PUBLISHING):
        if "site_checks" not in command:  # tests/render/test_site_in_browser.py runs it
            one = command.replace("build.py", "build.py layer_width")
            run(one.replace("/var/www/courses/perf", str(tmp_path / "perf")), copy, home)
    assert (tmp_path / "perf" / "index.html").exists()

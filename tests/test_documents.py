"""What documents and papers say of numbers, records and programs is what the code does."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from report.engine.pipeline import ROOT
from report.evidence.runs import Run
from report.quantity.evaluation import estimate
from report.records.record import SCHEMA_VERSION
from report.records.store import read_record
from report.statistics.estimates import Estimate, binomial_rank
from tests import factory

DOCS = ROOT / "docs"
NUMBERS = (DOCS / "how-numbers-are-made.md").read_text("utf-8")
FORMAT = (DOCS / "record-format.md").read_text("utf-8")
RECORD = ROOT / "data/conv_scaling/20261122T183824Z-intel-xeon-1t-10bc99-07013c8f.zip"


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def run_python(text: str) -> dict[str, Any]:
    (code,) = blocks(text, "python")
    names: dict[str, Any] = {}
    exec(compile(code, "a document", "exec"), names)
    return names


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_number_by_hand_is_that_of_papers() -> None:
    names = run_python(NUMBERS)
    found = estimate(Run(read_record(RECORD, ROOT / "data"), "x").series("time", names["factors"]))
    assert isinstance(found, Estimate)
    assert (found.value, found.low, found.high) == tuple(names[n] for n in ("value", "low", "high"))
    assert len(names["medians"]) == 8 and found.confidence == 0.95


def test_the_levels_of_few_processes_are_right() -> None:
    ends = ("smallest to largest", "second to last but one")
    row = r"^\| (\d+)(?: to (\d+))? \| (.*?) \| (at least )?([\d.]+) % \|"
    rows = re.findall(row, NUMBERS, re.M)
    assert len(rows) == 5
    for first, last, interval, least, level in rows:
        for n in range(int(first), int(last or first) + 1):
            rank, reached = binomial_rank(n, 0.95)
            assert (ends[rank - 1], 100 * reached) == (interval, float(level)), n
            assert bool(least) == (reached == 0.95)


def is_part(part: Any, whole: Any) -> bool:
    """Whether an example is in a record: some members of each mapping, in lists the order."""
    if isinstance(part, dict):
        return all(name in whole and is_part(part[name], whole[name]) for name in part)
    if not isinstance(part, list):
        return bool(part == whole)
    rest = iter(whole)
    return all(any(is_part(each, other) for other in rest) for each in part)


def test_the_format_is_that_of_a_real_record(capsys: pytest.CaptureFixture[str]) -> None:
    """Its examples, its fields, and its samples as the table that is shown."""
    record = json.loads(factory.text_of(RECORD))
    examples = [json.loads(block) for block in blocks(FORMAT, "json")]
    assert len(examples) == 3 and all(is_part(example, record) for example in examples)
    (table,) = re.findall(r"^## From the top$(.*?)^## ", FORMAT, re.DOTALL | re.MULTILINE)
    assert {*re.findall(r"`(\w+)`", re.sub(r"\|[^|]*\|$", "", table, flags=re.M))} >= {*record}
    assert f"There is one version, {SCHEMA_VERSION}." in FORMAT
    run_python(FORMAT)
    (shown,) = blocks(FORMAT, "text")
    printed = capsys.readouterr().out.splitlines()
    assert [line.rstrip() for line in printed] == shown.splitlines()


def test_links_lead_somewhere() -> None:
    for page in DOCS.glob("*.md"):
        text = re.sub(r"`[^`]*`", "", page.read_text("utf-8"))  # an example leads nowhere
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
            assert (DOCS / target).exists(), f"{page.name}: {target}"


# ------------------------------------------------------------- programs that papers print

#: Runs a program once for each of its arguments, in one process, since to import torch takes long.
AGAIN = "import sys\nfor word in sys.argv[1:]:\n    sys.argv = ['', word]\n    exec(program, {})\n"


def paper(study: str) -> str:
    return (ROOT / "templates" / "papers" / f"{study}.qmd.j2").read_text("utf-8")


def printed(study: str, words: Sequence[str] = ("",), folder: Path = ROOT) -> list[list[float]]:
    """The numbers that the only program of a paper prints, for each of its arguments in turn."""
    (program,) = blocks(paper(study), "python")
    command = (sys.executable, "-c", f"program = {program!r}\n{AGAIN}", *words)
    done = subprocess.run(command, cwd=folder, capture_output=True, check=True)
    return [[float(word) for word in line.split()] for line in done.stdout.decode().splitlines()]


def test_a_peak_and_a_collapsed_run_make_the_paradox() -> None:
    (source,), (chip,), (steady,) = printed("training_roofline")
    assert source > 2.5 and 1.2 < chip < 1.6 and steady < 1


def test_pages_are_mapped_beyond_the_cliff_alone() -> None:
    pytest.importorskip("torch")
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("another C library has other rules")
    pages = [pages for _, pages in printed("conv_scaling", ("4", "64"))]
    assert {*pages[3:9]} == {0} and min(pages[12:]) > 1000


def test_a_convolution_copies_maps_of_another_layout() -> None:
    pytest.importorskip("torch")
    layouts = ("contiguous_format", "channels_last")
    (contiguous,), (last,) = printed("inference_memory", layouts)
    assert contiguous > 2 and last < 1.1


def test_little_work_takes_the_time_of_calls() -> None:
    images, times = zip(*printed("backend_speedup"), strict=True)
    assert list(images) == [10**k for k in range(4)]
    assert times[1] < 3 * times[0]


def test_a_profile_holds_the_output_and_the_same_in_blocks(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    sizes = [size for (size,) in printed("conv_profiling", folder=tmp_path)]
    assert sum(sizes) == 4 * 8 * 65 * 24**2
    assert any(4 * 8 * channels * 24**2 in sizes for channels in (72, 80))
    assert (tmp_path / "trace.json").exists()


def test_the_network_that_is_printed_is_the_one_that_is_measured() -> None:
    source = (ROOT / "experiments" / "backends" / "perceptron.py").read_text("utf-8")
    (shown,) = re.findall(r"^```\n(# forward.*?)^```", paper("backend_speedup"), re.M | re.S)
    lines = [line for line in shown.splitlines() if not line.startswith("#")]
    bodies = re.findall(r'^def (?:for|back)ward.*?"""\n(.*?)\n\n', source, re.M | re.S)
    wanted = [line.strip() for body in bodies for line in body.splitlines()]
    assert lines == [line for line in wanted if not line.startswith("return")]

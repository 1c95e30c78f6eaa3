"""Numbers, records and programs in documents and papers agree with the code."""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from report.core.records.file_format import json_schema
from report.core.records.record import SCHEMA_VERSION
from report.core.records.store import read_record
from report.core.statistics.estimates import Estimate, binomial_rank
from report.engine.steps import ROOT
from report.evidence.runs import Run
from report.quantity.evaluation import estimate

DOCS = ROOT / "docs"
NUMBERS = (DOCS / "how-numbers-are-made.md").read_text("utf-8")
FORMAT = (DOCS / "record-format.md").read_text("utf-8")
RECORD = ROOT / "data/conv_scaling/20261122T183824Z-intel-xeon-1t-10bc99-07013c8f.json"


def code_blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def run_python(text: str, number: int = 0) -> dict[str, Any]:
    """Run the Python program with this number in a document; return its global names."""
    code = code_blocks(text, "python")[number]
    names: dict[str, Any] = {}
    exec(compile(code, "a document", "exec"), names)
    return names


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_number_worked_by_hand_equals_the_papers() -> None:
    names = run_python(NUMBERS)
    time = estimate(Run(read_record(RECORD, ROOT / "data"), "x").series("time", names["factors"]))
    assert isinstance(time, Estimate)
    assert (time.value, time.low, time.high) == tuple(names[n] for n in ("value", "low", "high"))
    assert len(names["medians"]) == 8, "one per process"
    assert time.confidence == 0.95


def test_the_table_of_confidence_levels_is_right() -> None:
    """Each row has numbers of processes, the interval of their medians, and its level in %."""
    bounds_by_rank = {1: "smallest to largest", 2: "second smallest to second largest"}
    row = r"^\| (\d+)(?: to (\d+))? \| (.*?) \| (at least )?([\d.]+) % \|"
    rows = re.findall(row, NUMBERS, re.M)
    assert len(rows) == 5
    for first, last, interval, is_minimum, level in rows:
        for n in range(int(first), int(last or first) + 1):
            rank, confidence = binomial_rank(n, 0.95)
            assert (bounds_by_rank[rank], 100 * confidence) == (interval, float(level)), n
            assert bool(is_minimum) == (confidence == 0.95)


def is_part(part: Any, whole: Any) -> bool:
    """Return True if an example is part of a record; lists may skip items but keep the order."""
    if isinstance(part, dict):
        return all(name in whole and is_part(part[name], whole[name]) for name in part)
    if not isinstance(part, list):
        return bool(part == whole)
    remaining = iter(whole)  # each search continues after the previous match
    return all(any(is_part(item, other) for other in remaining) for item in part)


def test_examples_of_the_format_match_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    """Compare the examples, the fields, and the printed table of samples."""
    record = json.loads(RECORD.read_bytes())
    examples = [json.loads(block) for block in code_blocks(FORMAT, "json")]
    assert len(examples) == 3 and all(is_part(example, record) for example in examples)
    (table,) = re.findall(r"^## From the top$(.*?)^## ", FORMAT, re.DOTALL | re.MULTILINE)
    without_last_column = re.sub(r"\|[^|]*\|$", "", table, flags=re.M)
    assert {*re.findall(r"`(\w+)`", without_last_column)} >= {*record}
    assert f"The version is {SCHEMA_VERSION}." in FORMAT
    run_python(FORMAT, number=1)
    (shown,) = code_blocks(FORMAT, "text")
    printed = capsys.readouterr().out.splitlines()
    assert [line.rstrip() for line in printed] == shown.splitlines()


def test_the_examples_with_pandas_and_jq_run() -> None:
    rounds_by_batch = Counter[int]()
    for case in json.loads(RECORD.read_bytes())["cases"]:
        rounds_by_batch[case["factors"]["batch"]] += len(case.get("rounds", ()))
    assert run_python(FORMAT)["rounds"].to_dict() == rounds_by_batch
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    printed = subprocess.check_output(["bash", "-c", code_blocks(FORMAT, "sh")[0]])
    assert dict(json.loads(printed)) == rounds_by_batch


def test_the_schema_file_matches_the_types() -> None:
    """If this fails, write the result of ``json_schema`` to the file."""
    assert (DOCS / "record.schema.json").read_bytes() == json_schema()


def test_links_between_documents_work() -> None:
    for page in (ROOT / "README.md", *DOCS.glob("*.md")):
        text = re.sub(r"`[^`]*`", "", page.read_text("utf-8"))  # code contains example links
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


#: Studies whose papers contain a Python program.
STUDIES_WITH_PROGRAM = ("training_roofline", "backend_speedup", "tuning_tips", "conv_profiling")


def assert_effect(study: str, printed: Any) -> None:
    """Check the rows of numbers that the program of a paper prints."""
    match study:
        case "training_roofline":  # columns: ratio of two GPUs at three clocks of the slower one
            # A tie (1) is possible only in rows without the collapsed run: the second and fifth.
            assert list(printed.min(axis=1) > 1) == [True, False, True, True, False, True]
            assert printed.max(axis=1).min() > 1
        case "backend_speedup":  # rows: freed memory kept or returned; columns: page faults, time
            assert printed[0, 0] < 50 and 500 < printed[1, 0] < 700
            assert printed[1, 1] > printed[0, 1]
        case "tuning_tips":  # rows: default and raised thresholds of malloc; columns: time, pages
            assert printed[0, 1] > 1000 and printed[1, 1] < 100
        case "conv_profiling":  # columns: channels and time, too short to be compared in a test
            assert list(printed[:, 0]) == [8, 9, 16] and printed[:, 1].min() > 0


def template_of(study: str) -> str:
    return (ROOT / "templates" / "papers" / f"{study}.qmd.j2").read_text("utf-8")


@pytest.mark.parametrize("study", STUDIES_WITH_PROGRAM)
def test_programs_of_papers_show_the_stated_effect(study: str, tmp_path: Path) -> None:
    (program,) = code_blocks(template_of(study), "python")
    if "torch" in program:
        pytest.importorskip("torch")
    command = (sys.executable, "-c", program)
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    lines = process.stdout.decode().splitlines()
    assert_effect(study, np.loadtxt(lines, comments=("#", "AVX", "DEFAULT")))
    if study == "training_roofline":
        assert [process.stdout.decode()] == code_blocks(template_of(study), "text")


def test_the_command_of_a_paper_prints_the_shown_output() -> None:
    pytest.importorskip("torch")
    (command,) = code_blocks(template_of("inference_memory"), "sh")
    (shown,) = code_blocks(template_of("inference_memory"), "text")
    command = command.replace("python", sys.executable, 1)
    assert subprocess.check_output(["bash", "-c", command], text=True) == shown


def test_the_printed_network_is_the_measured_network() -> None:
    source = (ROOT / "experiments" / "backends" / "perceptron.py").read_text("utf-8")
    template = template_of("backend_speedup")
    (shown,) = re.findall(r"^```\n(# forward.*?)^```", template, re.M | re.S)
    printed = [line for line in shown.splitlines() if not line.startswith("#")]
    bodies = re.findall(r'^def (?:for|back)ward.*?"""\n(.*?)\n\n', source, re.M | re.S)
    measured = [line.strip() for line in "\n".join(bodies).splitlines()]
    assert printed == [line for line in measured if not line.startswith("return")]

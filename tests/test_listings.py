"""The programs that papers print for their readers do what the papers say of them."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from report.engine.pipeline import ROOT


def printed(study: str, *words: str, folder: Path = ROOT) -> list[str]:
    """What the only program of a paper prints, line by line."""
    template = ROOT / "templates" / "papers" / f"{study}.qmd.j2"
    (program,) = re.findall(r"^```python\n(.*?)^```", template.read_text("utf-8"), re.M | re.S)
    done = subprocess.run(
        (sys.executable, "-c", program, *words), cwd=folder, capture_output=True, check=True
    )
    return done.stdout.decode().splitlines()


def run(study: str, *words: str) -> list[list[float]]:
    """The same in numbers."""
    return [[float(word) for word in line.split()] for line in printed(study, *words)]


def test_a_peak_and_a_collapsed_run_make_the_paradox() -> None:
    (printed,), (chip,), (steady,) = run("training_roofline")
    assert printed > 2.5 and 1.2 < chip < 1.6 and steady < 1


def test_pages_are_mapped_beyond_the_cliff_alone() -> None:
    pytest.importorskip("torch")
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("another C library has other rules")
    few, many = ({pages for _, pages in run("conv_scaling", n)[3:]} for n in ("4", "64"))
    assert few == {0} and min(many) > 1000


def test_a_convolution_copies_maps_of_another_layout() -> None:
    pytest.importorskip("torch")
    ((contiguous,),) = run("inference_memory", "contiguous_format")
    ((last,),) = run("inference_memory", "channels_last")
    assert contiguous > 2 and last < 1.1


def test_little_work_takes_the_time_of_calls() -> None:
    images, times = zip(*run("backend_speedup"), strict=True)
    assert list(images) == [10**k for k in range(6)]
    assert times[1] < 3 * times[0] and times[5] > 10 * times[0]


def test_the_network_that_is_printed_is_the_one_that_is_measured() -> None:
    template = (ROOT / "templates" / "papers" / "backend_speedup.qmd.j2").read_text("utf-8")
    source = (ROOT / "experiments" / "backends" / "perceptron.py").read_text("utf-8")
    (printed,) = re.findall(r"^```\n(# forward.*?)^```", template, re.M | re.S)
    lines = [line for line in printed.splitlines() if not line.startswith("#")]
    bodies = re.findall(r'^def (?:for|back)ward.*?"""\n(.*?)\n\n', source, re.M | re.S)
    wanted = [line.strip() for body in bodies for line in body.splitlines()]
    assert lines == [line for line in wanted if not line.startswith("return")]


def test_a_profile_holds_the_output_and_the_same_in_blocks(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    sizes = [int(line) for line in printed("conv_profiling", folder=tmp_path)]
    assert sum(sizes) == 4 * 8 * 65 * 24**2
    assert any(4 * 8 * blocks * 24**2 in sizes for blocks in (72, 80))
    assert (tmp_path / "trace.json").exists()

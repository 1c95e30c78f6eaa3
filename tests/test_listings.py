"""The programs that papers print for their readers do what the papers say of them."""

from __future__ import annotations

import platform
import re
import subprocess
import sys

import pytest

from report.engine.pipeline import ROOT


def run(study: str, *words: str) -> list[list[float]]:
    """What the only program of a paper prints, line by line, in numbers."""
    template = ROOT / "templates" / "papers" / f"{study}.qmd.j2"
    (program,) = re.findall(r"^```python\n(.*?)^```", template.read_text("utf-8"), re.M | re.S)
    done = subprocess.run(
        (sys.executable, "-c", program, *words), cwd=ROOT, capture_output=True, check=True
    )
    return [[float(word) for word in line.split()] for line in done.stdout.splitlines()]


def test_the_gain_of_a_network_lies_between_those_of_bandwidth_and_peak() -> None:
    ((gain,),) = run("gpu_survey")
    assert 1008 / 936 < gain < 165.2 / 71


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

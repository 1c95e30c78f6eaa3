"""Data-sheet peaks: the figures, their lookup by the driver's text, and bad files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from report.evidence.devices import read_devices
from report.evidence.reported import read_reported

DATA = Path(__file__).parents[1] / "data"
DEVICES = read_devices(DATA / "devices.yaml")


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("Tesla V100-SXM2-16GB", "v100-sxm2"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("A100-PCIE-40GB", "a100-40gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("nvidia h200", "h200"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 3090", "rtx-3090"),
        ("NVIDIA GeForce RTX 3090 Ti", None),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtx-pro-6000-max-q"),
        ("Tesla V100-PCIE-16GB", None),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA H200 NVL", None),
        ("Tesla T40 24GB", None),
        ("AMD EPYC 7763 64-Core Processor", None),
        ("", None),
    ],
)
def test_a_model_text_names_its_device_or_none(model: str, key: str | None) -> None:
    found = DEVICES.find(model)
    assert (found and found.key) == key


def test_every_source_has_an_entry() -> None:
    keys = re.findall(r"^@\w+\{(\w+),$", (DATA / "references.bib").read_text("utf-8"), re.M)
    assert len(keys) == len(set(keys))
    for path in (DATA / "reported").glob("*.json"):
        assert read_reported(path).source in keys
    for found in DEVICES.devices:
        assert {peak.source for peak in found.peaks} <= set(keys)

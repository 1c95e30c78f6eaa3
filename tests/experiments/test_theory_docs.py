"""The examples of ``docs/theory-of-a-network.md`` run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

DOCS = Path(__file__).parents[2] / "docs"


def test_the_example_for_notebooks_runs() -> None:
    text = (DOCS / "theory-of-a-network.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "theory-of-a-network.md", "exec"), names)
    found, gpu = names["found"], names["gpu"]
    assert found.parameters == 64 * 27 + 64 + 64 * 900 * 10 + 10
    assert found.seconds > 0
    assert "<th>Least time (µs)</th>" in found._repr_html_()
    assert gpu.peak.total <= gpu.cuda.allocated_peak <= gpu.cuda.reserved_peak

"""The examples of ``docs/theory-of-a-network.md`` run as they stand."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from experiments.__main__ import main

pytest.importorskip("torch")

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "theory-of-a-network.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("command", [*BLOCKS[0].splitlines(), *BLOCKS[1].splitlines()])
def test_the_commands_run(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if importlib.util.find_spec("torchvision") is None:
        command = command.replace("torchvision:resnet50", "study:ResNet-20")
    monkeypatch.chdir(tmp_path)
    network = "from torch import nn\ndef build():\n    return nn.Conv2d(3, 8, 3)\n"
    (tmp_path / "my_networks.py").write_text(network)
    assert main(shlex.split(command)[3:]) == 0
    assert "peak" in capsys.readouterr().out.lower()
    assert ("--figures" in command) == any(tmp_path.glob("figures-of-mine/*.svg"))


def test_the_example_for_notebooks_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "theory-of-a-network.md", "exec"), names)
    found, gpu = names["found"], names["gpu"]
    assert found.parameters == 64 * 27 + 64 + 64 * 900 * 10 + 10
    assert found.seconds > 0
    assert "<th>Least time (µs)</th>" in found._repr_html_()
    assert names["frontier"].verdict(names["frontier"].largest) == "undecided"
    assert gpu.peak.total <= gpu.cuda["allocated"] <= gpu.cuda["reserved"]

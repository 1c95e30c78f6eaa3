"""From words to cases: what is possible is taken, the rest is refused with what is possible."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import registry
from experiments.harness.request import Request
from experiments.harness.study import UsageError
from tests.experiments.conftest import ROOT


@given(st.sets(st.integers(1, 5000), min_size=1, max_size=5))
def test_set_takes_counts_in_any_order(batches: set[int]) -> None:
    words = ",".join(map(str, sorted(batches, reverse=True)))
    settings = [f"batch={words}", "pass=forward", "subject=layer", "layout=contiguous"]
    _, protocol, cases = Request("conv_scaling", Path(), settings=tuple(settings)).selected()
    assert protocol.plan == "custom"
    assert [case["batch"] for case in cases] == sorted(batches)
    assert {case["pass"] for case in cases} == {"forward"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["size=3"], r"no factor 'size'; possible are subject, batch, pass, layout, variant\."),
        (["pass=sideways"], r"'sideways' is not possible; possible are forward, forward_backward"),
        (["batch=0"], r"'0' is not possible; possible are whole numbers from 1 on"),
        (["batch=1,,2"], r"'' is not possible"),
        (["batch=1.5"], r"'1\.5' is not possible"),
        (["batch"], r"expected batch=LEVEL"),
        (["batch="], r"expected batch=LEVEL"),
        (["batch=1", "batch=2"], r"stands twice"),
        (["layout=channels_last", "batch=1", "subject=layer"], r"leaves no case of conv_scaling"),
    ],
)
def test_what_is_not_possible_is_refused(settings: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        Request("conv_scaling", Path(), settings=tuple(settings)).selected()
    assert "\n" not in str(caught.value)


def test_listing_imports_no_torch_and_names_every_study() -> None:
    program = (
        "import sys; from experiments.__main__ import main; "
        "code = main(['list']) or main(['list', 'conv_scaling']); "
        "assert not {'torch', 'rich', 'psutil', 'numpy'} & set(sys.modules); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert all(f"\n{study} " in done.stdout for study in registry.STUDIES)
    assert "50 cases" in done.stdout and "forward, forward_backward" in done.stdout

"""The benchmarks still fit what they measure: no time is asserted."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks import page, size
from benchmarks.results import ROOT, Results
from benchmarks.timing import CommandError, run_python


def test_a_command_is_measured_with_what_it_prints(tmp_path: Path) -> None:
    sample, output = run_python(tmp_path, "-c", "x = bytearray(2**26); print('done')")
    assert output == "done\n"
    assert sample.cpu_s > 0 and sample.wall_s > 0 and sample.peak_bytes > 2**26
    with pytest.raises(CommandError, match=r"exit code 3(.|\n)*said"):
        run_python(tmp_path, "-c", "import sys; print('said'); sys.exit(3)")
    with pytest.raises(CommandError, match="exit code -9"):
        run_python(tmp_path, "-c", "import time; time.sleep(60)", limit_s=0.1)


@pytest.mark.parametrize("exponent", [0, 0.5, 1, 2])
def test_the_exponent_of_a_power_law_is_found(exponent: float) -> None:
    sizes = [10, 100, 1000]
    found = page.slope(sizes, [3 * size**exponent for size in sizes])
    assert found == pytest.approx(exponent, abs=1e-12)
    assert page.slope([10, 10], [1, 2]) is page.slope([1, 2], [0, 1]) is None


def test_the_page_is_what_the_results_say() -> None:
    kept = (ROOT / "benchmarks" / "results.json").read_bytes()
    results = msgspec.json.decode(kept, type=Results)
    assert page.render(results) == (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    assert "Not measured." in page.render(Results())
    assert results.builds is not None
    wrong = msgspec.structs.replace(results.builds.timed[0], faults=("it is stale",))
    said = page.render(Results(builds=msgspec.structs.replace(results.builds, timed=(wrong,))))
    assert "✗" in said and "it is stale" in said


def test_every_file_lies_in_one_room_and_none_is_counted_twice() -> None:
    lines = {file: (ROOT / file).read_bytes().count(b"\n") for file in size.files()}
    printed = size.report().split("\n")
    total = next(line for line in printed if line.startswith("all "))
    assert int(total.split()[1].replace(",", "")) == sum(lines.values())
    assert size.room_of("report/errors.py") == "report/system, errors, missing"
    assert size.room_of("experiments/theory/checked.py") == "experiments/theory"
    with pytest.raises(ValueError):
        size.room_of("docs/x.py")

"""The benchmarks still fit what they measure: no time is asserted."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import msgspec
import pytest

from benchmarks import engines, page, project, scale, size
from benchmarks.results import ROOT, Results
from benchmarks.timing import CommandError, run_python
from report.records.store import read_study
from tests import factory


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


def test_the_work_of_a_paper_can_be_sent_to_a_worker_and_done(tmp_path: Path) -> None:
    tasks = pickle.loads(pickle.dumps(engines.prepare(tmp_path, ["gpu_survey"])))
    kinds = {task.kind: task for task in tasks}
    assert kinds.keys() == set(engines.ORDER)
    for kind in ("pandoc", "typst", "figure"):
        engines.perform(kinds[kind])


def test_made_up_records_are_records_of_their_own(tmp_path: Path) -> None:
    assert scale.write_records(tmp_path, 3, 12) == sum(
        path.stat().st_size for path in (tmp_path / scale.STUDY).iterdir()
    )
    found = read_study(scale.STUDY, tmp_path)
    assert [len(stored.record.cases) for stored in found] == [12] * 3
    assert len({stored.record.started for stored in found}) == 3
    assert not any(stored.alterations for stored in found)


def copied(target: Path) -> None:
    """The project without its records."""
    for name in ("report", "figures", "templates"):
        shutil.copytree(ROOT / name, target / name)
    shutil.copyfile(ROOT / "build.py", target / "build.py")
    factory.data_folder(target)


def test_a_project_of_many_studies_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "copy_project", copied)
    scale.write_project(tmp_path, 2)
    run_python(tmp_path, "build.py", "--html", "--jobs", "1")
    assert {path.name for path in (tmp_path / "out" / "values").iterdir()} == {
        "small_000.json", "small_001.json",
    }  # fmt: skip


def test_each_change_is_one_that_a_build_can_read(tmp_path: Path) -> None:
    copied(tmp_path)
    shutil.copytree(ROOT / "data" / scale.STUDY, tmp_path / "data" / scale.STUDY)
    before = {stored.file for stored in read_study(scale.STUDY, tmp_path / "data")}
    project.change_record(tmp_path)
    after = read_study(scale.STUDY, tmp_path / "data")
    assert len({stored.file for stored in after} - before) == 1
    assert not any(stored.alterations for stored in after)
    for turn in (0, 1):
        project.change_word(tmp_path, turn)
    template = tmp_path / "templates" / "papers" / f"{project.EDITED_PAPER}.qmd.j2"
    assert template.read_text("utf-8").count("Turn1 Turn0 ") == 1

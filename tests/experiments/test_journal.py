"""The journal: what is on disk can be read back, whatever cut the run off."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.harness.journal import (
    Ceilings,
    Finish,
    Journal,
    journal_path,
    read_run_log,
)
from experiments.harness.study import Study
from report.errors import MeasurementError
from report.records.record import Case
from tests.experiments.conftest import make_header


def outcome(size: int) -> Case:
    return Case(factors={"size": size}, status="ok", reason=None, layers=(), series=())


@pytest.fixture
def written(tmp_path: Path, tiny: Study) -> Path:
    """A run of which one case is finished."""
    path = journal_path(tmp_path, "2026-11-20T10:00:00Z", "some-cpu-2t")
    with Journal(path) as journal:
        journal.append(make_header(tiny))
        journal.append(Ceilings(reason="none asked for"))
        journal.append(Finish(case=0, outcome=outcome(1)))
    return path


@given(cut=st.integers(min_value=1, max_value=10_000))
def test_cut_anywhere_after_the_first_line_it_tells_a_prefix(cut: int) -> None:
    import tempfile

    import tiny_study

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, ".20261120T100000Z-some-cpu-2t.journal.jsonl")
        with Journal(path) as journal:
            journal.append(make_header(tiny_study.STUDY))
            first = path.stat().st_size
            for index in range(3):
                journal.append(Finish(case=index, outcome=outcome(index)))
        content = path.read_bytes()
        path.write_bytes(content[: first + cut % (len(content) - first + 1)])
        run_log = read_run_log(path)
        assert sorted(run_log.finished) == list(range(len(run_log.finished)))
        assert content[: run_log.valid_bytes].endswith(b"\n")
        assert run_log.valid_bytes <= path.stat().st_size < run_log.valid_bytes + 1000


@pytest.mark.parametrize("garbage", [b"\0" * 512 + b"\n", b"\xff\r\n\n{}\n", b'{"kind":"x"}\n'])
def test_a_damaged_end_costs_no_line_before_it(written: Path, garbage: bytes) -> None:
    before = read_run_log(written)
    with written.open("ab") as stream:
        stream.write(garbage)
    assert read_run_log(written) == before


def test_damage_between_good_lines_is_refused_with_its_line(written: Path) -> None:
    lines = written.read_bytes().split(b"\n")
    lines.insert(2, b'{"kind":"finish"')
    written.write_bytes(b"\n".join(lines))
    with pytest.raises(MeasurementError, match=r"line 3 .*delete that line.*--resume"):
        read_run_log(written)
    del lines[2]
    written.write_bytes(b"\n".join(lines))
    assert read_run_log(written).finished
    written.write_bytes(b"")
    with pytest.raises(MeasurementError, match="does not begin with its run"):
        read_run_log(written)


def test_only_one_process_writes(written: Path) -> None:
    size = written.stat().st_size
    with (
        Journal(written, size),
        pytest.raises(MeasurementError, match="another run is writing"),
    ):
        Journal(written, size)
    assert written.stat().st_size == size

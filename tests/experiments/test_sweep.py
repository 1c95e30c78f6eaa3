"""The sweep: a case that fails is an outcome, and the others go on; no torch is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.harness.journal import Journal, read_run_log
from experiments.harness.run import Terminated
from experiments.harness.study import CaseFile, Factors, Session, Study
from experiments.harness.sweep import run_case, sweep
from report.errors import MeasurementError
from report.records.layers import Flatten
from report.records.record import Case, Series
from tests.experiments.conftest import Notes, make_header

LAYER = Flatten(name="f", input_shape=(1, 2, 2), output_shape=(1, 4), dtype="float32")


class OutOfMemoryError(RuntimeError):
    """Stands for torch.OutOfMemoryError, which is told by its name."""


@pytest.fixture
def swept(tmp_path: Path, tiny: Study, notes: Notes) -> Callable[..., tuple[Case, ...]]:
    def go(
        raising: dict[int, BaseException],
        path: Path | None = None,
        files: Callable[[Factors, Session], tuple[CaseFile, ...]] | None = None,
    ) -> tuple[Case, ...]:
        def measure(factors: Factors, session: Session) -> tuple[Series, ...]:
            size = int(factors["size"])
            if size in raising:
                raise raising[size]
            return tiny.measure(factors, session)

        study = replace(tiny, measure=measure, layers=lambda factors: (LAYER,), files=files)
        path = path or tmp_path / ".j.journal.jsonl"
        fresh = not path.exists()
        with Journal(path, path.stat().st_size if not fresh else 0) as journal:
            if fresh:
                journal.append(make_header(study))
            run_log = read_run_log(path)
            return sweep(study, Session("cpu", tiny.full.protocol), run_log, journal, notes)

    return go


def test_failures_are_outcomes_and_the_sweep_goes_on(
    swept: Callable[..., tuple[Case, ...]], notes: Notes
) -> None:
    asked = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 400 bytes. Error"
    cases = swept(
        {
            2: RuntimeError(f"[enforce fail at alloc_cpu.cpp:127] err == 0. {asked} code 12"),
            3: OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"),
            4: MemoryError(),
            5: ValueError("no such thing in /home/somebody/thing.py\nmore"),
        }
    )
    assert [case.status for case in cases] == ["ok", *["out_of_memory"] * 3, "failed", "ok"]
    assert [case.reason for case in cases[1:5]] == [
        "Memory ran out when 400 B more were asked for.",
        "Memory ran out when 2.00 GiB more were asked for.",
        "Memory ran out.",
        "ValueError: no such thing in thing.py",
    ]
    assert all(case.series == () and case.layers == (LAYER,) for case in cases[1:5])
    assert len(notes.errors) == 4


def test_an_error_in_front_of_an_interrupt_does_not_hide_it(tiny: Study) -> None:
    def clumsy(factors: Factors, session: Session) -> tuple[Series, ...]:
        """Interrupted, and an error of its own while it leaves."""
        try:
            raise Terminated
        finally:
            raise RuntimeError("trying to pop from empty mode stack")

    with pytest.raises(Terminated):
        run_case(replace(tiny, measure=clumsy), {"size": 1}, Session("cpu", tiny.full.protocol))


def a_file(name: str, content: bytes) -> CaseFile:
    return CaseFile(name, "what it holds", content)


def test_files_of_a_case_are_kept_before_its_outcome(
    swept: Callable[..., tuple[Case, ...]], tmp_path: Path
) -> None:
    path = tmp_path / ".j.journal.jsonl"
    swept({}, path, lambda factors, session: (a_file(f"trace-{factors['size']}", b"\x00\xff"),))
    run_log = read_run_log(path)
    assert sorted(run_log.files) == [f"trace-{size}" for size in range(1, 7)]
    assert {file.content for file in run_log.files.values()} == {b"\x00\xff"}
    path = tmp_path / ".same.journal.jsonl"
    swept({}, path, lambda factors, session: (a_file("images.json", b"1,797 digits"),))
    assert path.read_bytes().count(b'"keep"') == 1, "cases may leave the same file"


def test_two_files_of_one_name_end_the_run(swept: Callable[..., tuple[Case, ...]]) -> None:
    with pytest.raises(MeasurementError, match=r"0 and 1 leave different files of the name trace"):
        swept({}, None, lambda factors, session: (a_file("trace", bytes([int(factors["size"])])),))

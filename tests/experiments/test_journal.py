"""The journal: what is on disk can be read back, whatever cut the run off."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_study
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.harness.journal import (
    Ceilings,
    Finish,
    Journal,
    begun,
    is_written,
    read_journal,
    unfinished,
)
from report.errors import MeasurementError
from report.records.record import Case
from tests.experiments.conftest import make_header

HEADER = make_header(tiny_study.STUDY)
CASES = tuple(Case(factors={"size": size}) for size in range(3))


@pytest.fixture
def written(tmp_path: Path) -> Journal:
    """A run of which three cases are finished."""
    with begun(tmp_path, HEADER) as journal:
        journal.append(Ceilings(reason="none asked for"))
        for index, case in enumerate(CASES):
            journal.append(Finish(case=index, outcome=case))
    return journal


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(min_value=0, max_value=10_000))
def test_cut_anywhere_after_the_first_line_it_goes_on_from_a_prefix(
    written: Journal, cut: int
) -> None:
    content = written.path.read_bytes()
    first = content.index(b"\n") + 1
    path = written.path.with_name("cut")
    path.write_bytes(content[: first + cut % (len(content) - first)])
    journal = read_journal(path)
    kept = len(journal.finished)
    assert journal.finished == dict(enumerate(CASES[:kept])) and kept < 3
    with journal:
        journal.append(Finish(case=2, outcome=CASES[2]))
    assert read_journal(path).finished == journal.finished
    assert path.read_bytes().startswith(content[:first])


@pytest.mark.parametrize("place", [1, 2, 4, 5])
def test_a_damaged_line_costs_no_other(written: Journal, place: int) -> None:
    garbage = b"\0" * 512 + b'\n\xff\r\n\n{}\n{"kind":"x"}\n{"kind":"fi'
    lines = written.path.read_bytes().split(b"\n")
    written.path.write_bytes(b"\n".join([*lines[:place], garbage, *lines[place:]]))
    with read_journal(written.path) as journal:
        assert (journal.header, journal.ceilings) == (HEADER, Ceilings(reason="none asked for"))
        assert journal.finished == dict(enumerate(CASES))
        journal.append(Finish(case=7, outcome=CASES[0]))
    assert read_journal(written.path).finished == {**dict(enumerate(CASES)), 7: CASES[0]}


def test_what_is_no_journal_is_a_fault_and_stops_nothing(written: Journal) -> None:
    path = written.path.with_name(".x.journal.jsonl")
    written.path.with_name(".y.journal.jsonl").mkdir()
    for begins in (b"", b'{"kind":"finish"}\n', b'{"kind":"run","journal":4}\n'):
        path.write_bytes(begins)
        found, (foreign, unreadable) = unfinished(path.parent)
        assert [journal.path for journal in found] == [written.path]
        assert str(foreign).startswith(".x.journal.jsonl: the journal does not begin with its run")
        assert str(unreadable).startswith(".y.journal.jsonl: cannot be read (")
        assert path.read_bytes() == begins


def test_only_one_process_writes(written: Journal) -> None:
    content = written.path.read_bytes()
    assert not is_written(written.path)
    with (
        read_journal(written.path),
        pytest.raises(MeasurementError, match="another run is writing"),
        read_journal(written.path),
    ):
        pass
    assert written.path.read_bytes() == content
    written.path.unlink()
    assert is_written(written.path), "a run that ends while others look is at its journal"
    with begun(written.path.parent, HEADER) as other:
        assert other.path != written.path, "runs of the same second"

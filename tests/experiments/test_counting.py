"""Counting of executed operations, the last step of a run, by valgrind's lackey and by ncu.

ncu is replaced by a program, which runs the project's own worker with a replacement for torch
(``stand_in``).  Command line, worker, ranges, messages and the parser of tables are not replaced.
"""

import json
import os
import sys
from collections.abc import Generator, Sequence
from math import inf
from pathlib import Path

import msgspec
import pytest
from counted_study import STUDY, layers

from experiments import registry
from experiments.counters import counting, lackey, ncu
from experiments.harness.journal import CaseResult, Count, Journal, read_journal
from experiments.harness.processes import new_task
from experiments.harness.run import assemble_case
from experiments.harness.study import CounterChoice, Experiment, Session
from experiments.harness.worker import Task
from experiments.machine import processor as machine
from report.core.records.record import Case, Environment
from report.core.records.store import write_record
from report.instruments.counters.logs import unpack
from report.instruments.counters.ncu import QUANTITIES, products
from report.instruments.counters.ncu import read_series as counts_of
from tests import factory
from tests.experiments.conftest import FOLDER, Notes, make_environment, make_header

LACKEY = "lackey_multiply_adds"


@pytest.fixture(autouse=True)
def register_study(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the study; workers import it, and also import the replacement for torch."""
    monkeypatch.setitem(registry.STUDIES, "tiny", "counted_study")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(FOLDER / "stand_in"), str(FOLDER))))


def write_journal(path: Path, **environment: object) -> Path:
    """Write the journal of a measured but uncounted run, in which size 2 failed."""
    header = make_header(STUDY, environment=make_environment(**environment), counters="auto")
    with Journal(path / ".run.journal.jsonl", header) as journal:
        for index, factors in enumerate(header.factors):
            failure = {"status": "failed", "reason": "It did not go well."} if index == 1 else {}
            outcome = Case(factors=factors, series={"time": (0.5,)}, **failure)  # type: ignore[arg-type]
            journal.append(CaseResult(case=index, outcome=outcome))
    return journal.path


def counted_run(
    path: Path, notes: Notes, counters: CounterChoice = "auto"
) -> tuple[tuple[Case, ...], dict[str, str], dict[str, bytes]]:
    """Count the uncounted cases of a journal.

    Return all cases, the reasons for missing counts, and the attachments.
    """
    journal = read_journal(path)
    journal.header = msgspec.structs.replace(journal.header, counters=counters)
    session = Session(journal.header.environment.device, journal.header.protocol)
    study = STUDY.on(session.device)
    with journal:
        reason = counting.count(study, session, journal, notes)
    cases = tuple(
        assemble_case(study, journal, index) for index in range(len(journal.header.cases))
    )
    files = {file.name: file.content for file in counting.files(journal)}
    return cases, counting.missing_reasons(study, journal, reason), files


def test_a_case_is_counted_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, notes: Notes
) -> None:
    """A first run is interrupted in case 2, a second counts the rest, a third counts nothing.

    The case of index n has size n + 1; size 2 failed.  The budget suffices for all sizes but 6.
    """
    path = write_journal(tmp_path)
    requested_cases, interruptions = list[list[int]](), [KeyboardInterrupt()]

    def count(study: Experiment, task: Task, limit_s: float) -> Generator[Count]:
        """Count 100 times the size; refuse size 4."""
        requested_cases.append([case for case, _ in task.cases])
        for case, factors in task.cases:
            if case == 2 and interruptions:
                raise interruptions.pop()
            if factors["size"] == 4:
                yield Count(case=case, missing={LACKEY: "no luck"})
            else:
                yield Count(case=case, series={LACKEY: (100 * int(factors["size"]),)})

    monkeypatch.setattr(lackey, "BUDGET_S", lackey.START_S + 1 + 3 + 4 + 5)
    monkeypatch.setattr(lackey, "seconds", float)
    monkeypatch.setattr(lackey, "count", count)
    monkeypatch.setattr(lackey, "unavailable", lambda: "valgrind is not installed")
    _, missing, _ = counted_run(path, notes)
    assert missing == {LACKEY: "valgrind is not installed"}
    monkeypatch.setattr(lackey, "unavailable", lambda: None)
    with pytest.raises(KeyboardInterrupt):
        counted_run(path, notes)
    for _ in range(2):
        cases, missing, _ = counted_run(path, notes)
        assert [case.samples(LACKEY) for case in cases] == [(100,), (), (300,), (), (500,), ()]
        assert missing.pop(f"cases[5].{LACKEY}").startswith("not counted within ")
        assert missing == {f"cases[3].{LACKEY}": "no luck"}
        assert cases[0].samples("time") == (0.5,)
    assert requested_cases == [[0, 2, 3, 4], [2, 3, 4]]


def test_equal_cases_of_earlier_records_are_not_counted_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, notes: Notes
) -> None:
    """Earlier records count sizes 3, 5 and, with another torch, 4; time is over after size 1."""
    path, requested_cases = write_journal(tmp_path / "tiny"), list[int]()
    same_machine = make_environment()
    torch = msgspec.structs.replace(same_machine.torch, version="0.1")

    def write_earlier_record(environment: Environment, *sizes: int) -> Path:
        cases = []
        for size in sizes:
            factors, series = {"size": size}, {LACKEY: (7 * size,)}
            cases.append(Case(factors=factors, layers=layers(factors), series=series))
        return write_record(factory.record(cases, environment, study="tiny"), tmp_path)

    write_earlier_record(same_machine, 3, 5)
    of_other_torch = write_earlier_record(make_environment(torch=torch), 4)
    monkeypatch.setattr(counting, "cpu", lambda: same_machine.cpu)

    def count(study: Experiment, task: Task, limit_s: float) -> Generator[Count]:
        requested_cases.extend(case for case, _ in task.cases)
        yield Count(case=0, series={LACKEY: (1,)})

    monkeypatch.setattr(lackey, "count", count)
    monkeypatch.setattr(lackey, "unavailable", lambda: None)
    cases, missing, files = counted_run(path, notes)
    assert requested_cases == [0, 3, 5], "sizes 1, 4 and 6; size 2 failed"
    assert [case.samples(LACKEY) for case in cases] == [(1,), (), (21,), (), (35,), ()]
    assert missing.keys() == {f"cases[{index}].{LACKEY}" for index in (3, 5)}
    assert all(reason.startswith("not counted within 4 min") for reason in missing.values())
    # The attachment names the records from which counts were taken.
    ((name, content),) = files.items()
    earlier = unpack(content, counting.EARLIER_COUNTS, name)
    assert [item.case for item in earlier] == [2, 4]
    assert f"tiny/{of_other_torch.name}" not in {item.logs["record"] for item in earlier}


def test_lackey_counts_exactly_the_fused_multiply_adds() -> None:
    if (reason := lackey.unavailable()) is not None:
        pytest.skip(reason)
    if "fma" not in machine.host().flags:
        pytest.skip("this processor has no fused multiply-add")
    # ``size`` is the number of multiply-adds; -1 raises an error, and -9 kills the process.
    cases = {case: {"size": size} for case, size in enumerate((10, 1000, 0, -1, -9))}
    task = new_task(STUDY, "lackey", Session("cpu", STUDY.plan.full), cases)
    task = msgspec.structs.replace(task, counted=(LACKEY,))
    counts = list(lackey.count(STUDY, task, limit_s=inf))
    by_case = {count.case: count for count in counts}
    assert [by_case[case].series[LACKEY] for case in (0, 1, 2)] == [(10,), (1000,), (0,)]
    assert by_case[3].missing == {LACKEY: "ValueError: no such size in file.py"}
    assert "killed" in by_case[4].missing[LACKEY]
    assert len(counts) == 5
    assert list(lackey.count(STUDY, task, limit_s=0.0)) == [], "the time is over"


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the journal of an uncounted run on a GPU, and put a fake ncu on the PATH."""
    program = f"#!{sys.executable}\n{(FOLDER / 'stand_in' / 'ncu.py').read_text()}"
    for folder, text in (("bin", program), ("broken", "#!/no/such/interpreter\n")):
        factory.write_program(tmp_path / folder / "ncu", text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ncu, "USUAL_PATHS", ())
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LAUNCHES", str(tmp_path / "launches"))
    monkeypatch.setenv("ASKED", str(tmp_path / "asked.jsonl"))
    return write_journal(tmp_path, device="cuda", gpu=factory.GPU)


#: Counts in float32: all FLOPs, additions, multiplications, fused multiply-adds.
FLOAT32_COUNTS = QUANTITIES[:4]


def test_a_run_on_a_gpu_is_counted_with_ncu(journal: Path, notes: Notes) -> None:
    """The fake ncu counts 1,000 operations of each kind per size, and 64 B, in two launches."""
    cases, missing, files = counted_run(journal, notes)
    assert missing == {}
    for case in cases:
        size = int(case.factors["size"])
        expected = {
            "ncu_cuda_core_flops": (4000 * size,) * 2,
            "ncu_tensor_core_flops": (0,) * 2,
            **dict.fromkeys(FLOAT32_COUNTS[1:], (1000 * size,) * 2),
            **dict.fromkeys(("ncu_dram_bytes", "ncu_l2_bytes", "ncu_l1_bytes"), (64, 64)),
            "ncu_kernel_launches": (1, 1),
        }
        counted = {name: samples for name, samples in case.series.items() if name != "time"}
        # Size 2 failed, and the study counts no size above 3.
        assert counted == (expected if size in (1, 3) else {})
    ((name, content),) = files.items()
    for item in unpack(content, "ncu", name):
        series, _ = counts_of(item.logs, name)
        assert series.items() <= cases[item.case].series.items()
        assert all(product.range in item.logs["table"] for product in products("9.0"))
    assert [text for text, _ in notes.ended] == ["size=1: 4,000 FLOP", "size=3: 12,000 FLOP"]
    # The fake ncu logged its two calls: words and locale.
    query, count = map(json.loads, (journal.parent / "asked.jsonl").read_text().splitlines())
    words, locale = count
    assert query[0] == ["--query-metrics"] and locale == "C"
    command = " ".join(words)
    for option in ("target-processes all", "replay-mode kernel", "profile-from-start off",
                   "clock-control none", "page raw", "print-units base", "nvtx"):  # fmt: skip
        assert f"--{option} " in command


# Variables of the fake ncu and torch, indices of counted cases, missing quantities, their reason.
@pytest.mark.parametrize(("environment", "counted", "missing", "reason_text"), [
    ({}, [], QUANTITIES, "--counters none"),
    ({"PATH": "nowhere"}, [], QUANTITIES, "conda install"),
    ({"PATH": "broken"}, [], QUANTITIES, "cannot be started"),
    ({"SAYS": "==ERROR== ERR_NVGPUCTRPERM"}, [], QUANTITIES, "RestrictProfilingToAdminUsers=0"),
    ({"NO_NVTX": "1"}, [], QUANTITIES, "NVTX"),
    ({"LISTING": ""}, [], QUANTITIES, "lists no metric"),
    ({"OFF": '{"fp32": 1.02}'}, [0, 2], FLOAT32_COUNTS, "1.02000"),
    ({"NO_MEMORY": "3"}, [0], [f"cases[2].{name}" for name in QUANTITIES], "2.00 GiB more"),
    # After a crash, the remaining cases are counted in another process.
    ({"CRASHING": "1"}, [2], [f"cases[0].{name}" for name in QUANTITIES], "failed under ncu"),
])  # fmt: skip
def test_every_quantity_without_a_count_has_a_reason(
    journal: Path,
    notes: Notes,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    counted: list[int],
    missing: Sequence[str],
    reason_text: str,
) -> None:
    # The study's function would raise the error of NO_MEMORY in this process.
    monkeypatch.setattr(counting, "multiply_adds", lambda study, factors: 1)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    cases, reasons, _ = counted_run(journal, notes, "auto" if environment else "none")
    assert reasons.keys() == set(missing)
    assert all(reason_text in reason for reason in reasons.values())
    quantities = [case.series.keys() - {"time"} for case in cases]
    assert [index for index, names in enumerate(quantities) if names] == counted
    assert not any(names & set(missing) for names in quantities)

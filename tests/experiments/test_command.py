"""The command line of ``python -m experiments``: refusals, forecasts, and runs of small studies."""

import gzip
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import exp
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import tiny_study

from experiments import __main__ as program
from experiments import registry
from experiments.__main__ import main
from experiments.commands import forecast, outcome
from experiments.harness import rounds
from experiments.harness.progress import Observer
from experiments.harness.request import Request
from experiments.harness.run import differences
from experiments.harness.study import QUICK, Session
from report.core.records.record import Factors, Level, Round
from report.core.records.store import read_attachments, read_records, record_name, write_record
from report.instruments import case_operators
from report.instruments.judgement import judge
from tests import factory
from tests.experiments.conftest import ROOT, Ask, make_environment, make_header


def test_listing_studies_imports_no_torch() -> None:
    program = (
        "import sys; from experiments.__main__ import main; "
        "code = main(['list']) or main(['list', 'conv_scaling']); "
        "assert not {'torch', 'pandas', 'psutil', 'numpy'} & set(sys.modules); sys.exit(code)"
    )
    words = [sys.executable, "-c", program]
    process = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert all(f"\n{study} " in process.stdout for study in registry.STUDIES)
    assert "28 cases" in process.stdout and "forward, forward_backward" in process.stdout


@pytest.mark.parametrize("name", program._COMMANDS)
def test_every_command_prints_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    output = capsys.readouterr().out
    assert "--debug" in output and (name != "audit" or "quantities: device, precision" in output)


@pytest.mark.usefixtures("without_gpu", "tiny")
@pytest.mark.parametrize(("line", "code", "text"), [
    ("", 2, "The following arguments are required"),
    ("runn", 2, "choose from"),
    ("run", 2, "Name the study to run"),
    ("run conv", 2, "There is no study 'conv'; possible are "),
    ("run compare", 2, "compare needs functions; use: "),
    ("run --all", 2, "give --device cuda"),
    ("run conv_scaling --threads 0", 2, "give 1 to "),
    ("run conv_scaling --device tpu", 2, "choose from"),
    ("run conv_scaling --wait-quiet 0", 2, "not a number of minutes above 0"),
    ("run conv_scaling --wait-quiet nan", 2, "not a number of minutes above 0"),
    ("run conv_scaling --label \t", 2, "not 1 to 60 printable characters"),
    (f"run conv_scaling --label {61 * 'x'}", 2, "not 1 to 60 printable characters"),
    ("run conv_scaling --label a\u202eb", 2, "not 1 to 60 printable characters"),
    ("submit tiny --nodes 0", 2, "'0' is not a whole number of 1 or more"),
    ("submit tiny --shards 99 --cluster local", 2, "99 shards"),
    ("run tiny --shard 1/99", 2, "99 shards"),
    ("run tiny --shard 1/2 --pairs 3", 2, "--pairs: shards have the plan's processes; drop the op"),
    ("run tiny --shard 0/4", 2, "'0/4' is not a shard"),
    ("run tiny --shard 5/4", 2, "'5/4' is not a shard"),
    ("run tiny --shard 4", 2, "'4' is not a shard"),
    ("run tiny --shard ٣/٤", 2, "'٣/٤' is not a shard"),
    # Levels of factors.
    ("run conv_scaling --set size=3", 2, "no factor 'size'; its factors are subject, batch, "),
    ("run conv_scaling --set pass=sideways", 2, "possible are forward, forward_backward"),
    ("run conv_scaling --set subject=x", 2, "possible are layer, cliff, "),
    ("run conv_scaling --set batch=0", 2, "possible are whole numbers from 1 to "),
    (f"run conv_scaling --set batch={10**19}", 2, "possible are whole numbers from 1 to "),
    (f"run conv_scaling --set batch={'9' * 5000}", 2, "possible are whole numbers from 1 to "),
    ("run conv_scaling --set batch=1,,2", 2, "'' is not possible"),
    ("run conv_scaling --set batch=", 2, "expected batch=LEVEL"),
    ("run conv_scaling --set batch=1 --set batch=2", 2, "is repeated"),
    ("run conv_profiling --set subject=changed --set batch=3", 2, "has no case with"),
    # Possible only on another machine or after an unfinished run.
    ("run conv_scaling --device cuda", 1, "no CUDA device here"),
    ("run tiny --resume", 1, "tiny has no unfinished run on"),
])  # fmt: skip
def test_a_refused_command_line_prints_one_line_and_writes_no_file(
    line: str, code: int, text: str, ask: Ask, tmp_path: Path
) -> None:
    words = line.split(" ") if line else []
    folder = ["--records", tmp_path / "data"] if len(words) > 1 else []
    returned, out, err = ask(*words, *folder)
    assert returned == code and out == "" and text in err and err.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_a_full_disk_is_reported(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(options: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(program._COMMANDS, "doctor", ("", write, "--records  DIR  x"))
    sentence = f"{tmp_path}: No space left on device.\n"
    assert ask("doctor", "--records", tmp_path) == (1, "", sentence)


@pytest.mark.usefixtures("tiny")
def test_a_run_writes_a_record(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = ask("run", "tiny", "--set", "size=9,2", "--threads", 1)
    (stored,) = read_records("tiny", tmp_path / "data")
    assert code == 0 and f"Record: data/{stored.file}" in out and "500 µs" in out
    assert "s left] size=2: ok\n" in err and "100%" not in err
    assert not stored.edited
    command = "python -m experiments run tiny --device cpu --threads 1 --set size=9,2"
    assert stored.record.command == tuple(command.split())
    assert [case.factors["size"] for case in stored.record.cases] == [2, 9], "by size"
    assert stored.record.protocol.plan == "custom"
    assert stored.record.environment.missing["ceilings.before"] == "the study asks for no ceilings"
    assert not list((tmp_path / "data" / "tiny").glob(".*"))


def test_the_recorded_command_contains_no_absolute_path() -> None:
    request = Request("tiny", Path("/somewhere/data"), quick=True, images=Path("/home/me/mnist"))
    options = request.command(threads=2)[5:]
    assert options == ("--device", "cpu", "--threads", "2", "--quick", "--data", "mnist")


HEADER = make_header(tiny_study.STUDY)


def test_differences_between_two_runs_are_named() -> None:
    first = HEADER.factors[0]
    other_code = msgspec.structs.replace(HEADER.code, measuring_code="1" * 64)
    for change, message in (
        ({"started": "2026-11-21T10:00:00Z", "command": ("other",)}, ""),
        ({"protocol": tiny_study.STUDY.plan.quick}, "protocol.plan was full and is now quick"),
        ({"cases": (first, {"size": 9}, *HEADER.factors[2:])}, "cases.2.size was 2 and is now 9"),
        ({"cases": HEADER.factors[:-1]}, "cases.6.size was 6 and is now unset"),
        ({"code": other_code}, "measuring code was 00000000 and is now 11111111"),
        ({"environment": make_environment(name="lab 3")}, "name was unset and is now lab 3"),
    ):
        assert "; ".join(differences(HEADER, make_header(tiny_study.STUDY, **change))) == message


def test_a_run_ends_with_the_next_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper is built if it uses the record, otherwise the report of this record."""
    monkeypatch.chdir(tmp_path)
    full = factory.measurement("2026-11-01T10:00:00Z")
    protocol = msgspec.structs.replace(full.protocol, plan="quick")
    quick = factory.measurement("2026-11-03T10:00:00Z", protocol=protocol)
    older = factory.measurement("2026-11-02T10:00:00Z", protocol=protocol)
    other_machine = factory.record(
        started="2026-11-04T10:00:00Z", machine=factory.environment("other-1t")
    )
    build = "python build.py conv_scaling"
    for record, data, use, command in (
        (full, "data", "Used as cpu", build),
        (quick, "data", "Not used", f"{build} --replicate"),
        (older, "data", "Not used", f"{build} --replicate conv_scaling/{record_name(older)}"),
        (quick, "my data", "Used as cpu", f"{build} --replicate --data 'my data'"),
        (other_machine, "data", "Not used, data/editions.yaml names other", f"{build} --replicate"),
    ):
        path = write_record(record, Path(data))
        if record is other_machine:
            Path("data/editions.yaml").write_text("conv_scaling: {roles: {cpu: example-2t}}")
        usable, (first, *others, last) = outcome.use_of_record(record, path, Path(data))
        assert usable and first.startswith(use) and last == f"Next: {command}"
        assert not others or record is full
        # Only the first record is compared with the paper's values, since this takes long.
        monkeypatch.setattr(outcome, "agreement_with_paper", lambda *_: [])


def test_an_unusable_record_ends_with_exit_code_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run prints the cause and a remedy but no build command; ``check`` prints the cause."""
    monkeypatch.chdir(tmp_path)
    disturbance = "other processes used 1.0 of 2 processors"
    # The peak rate is lower than the rate of the case.
    slow = factory.ceiling("matrix_product", "before", rate=1e10)
    ceilings = (msgspec.structs.replace(slow, disturbance=disturbance),)
    record = factory.measurement(times=((1e-3,) * 3,) * 2, ceilings=ceilings)
    path = write_record(record, Path("data"))
    assert outcome.print_record(record, path, Path("data")) == 3
    *_, reason, remedy = capsys.readouterr().out.splitlines()
    assert f"peak of 10 GFLOP/s; {disturbance} while the peak was measured; measure" in reason
    assert remedy.endswith("--wait-quiet 10") and "build.py" not in remedy
    code, out, _ = ask("check", path)
    assert code == 1 and disturbance in " ".join(out.split())
    older = write_record(factory.measurement("2026-10-01T10:00:00Z"), Path("data"))
    # The build skips the unusable newer record, so the older record counts as used.
    assert judge("conv_scaling", f"conv_scaling/{older.name}", Path("data")).used


DRY_RUN = ("run", "conv_scaling", "--quick", "--threads", 1, "--dry-run")


def test_a_dry_run_prints_the_expected_time_and_writes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = ask(*DRY_RUN)
    first, *_, last = err.splitlines()
    assert (code, out) == (0, "") and not list(tmp_path.iterdir())
    assert first.endswith("decide: Returning freed memory slows a call by more than a tenth.")
    pattern = r"(s|min)( at the present load)?: 8 cases; processes: 6 retained and 6 default."
    assert re.fullmatch(rf"About [\d.]+ {pattern}", last)
    monkeypatch.setattr(forecast, "_time_kinds", lambda *_: {})
    for noise, load in ((None, ""), ("load 3.1 on 2 cores", " at the present load")):
        monkeypatch.setattr(forecast.quiet, "observe_disturbance", lambda *_, noise=noise: noise)
        assert re.search(rf"About [\d.]+ (s|min){load}: 8 cases; ", ask(*DRY_RUN)[2])


def test_a_quick_run_computes_on_the_processors_that_other_programs_leave_free(
    monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    """With ``--threads``, the user chooses."""
    monkeypatch.setattr(forecast, "_time_kinds", lambda *_: {})
    monkeypatch.setattr(forecast.runtime, "cores_available", lambda: 2)
    for free, is_noted in ((2, False), (1, True)):
        monkeypatch.setattr(forecast.quiet, "free_processors", lambda *_, free=free: free)
        err = ask("run", "conv_scaling", "--quick", "--dry-run")[2]
        assert ("leave 1 of 2 processors: --threads 1 for this quick run." in err) == is_noted
        assert "leave" not in ask(*DRY_RUN)[2]


def test_dry_runs_report_faults_in_one_sentence(monkeypatch: pytest.MonkeyPatch, ask: Ask) -> None:
    monkeypatch.setattr(forecast, "_time_kinds", lambda *_: {})
    broken = replace(registry.load("conv_scaling"), subject=lambda factors: 1 / 0)
    for module, name, value, code, message in (
        (forecast.limits, "available_memory", lambda: 10, 0, "are free; the case will end as out"),
        (forecast.shutil, "disk_usage", lambda _: SimpleNamespace(free=10), 1, "0 MB are free and"),
        (registry, "load", lambda _: broken, 1, "neither the smallest nor the largest case can be"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            returned, _, err = ask(*DRY_RUN)
            assert returned == code and message in err and "Traceback" not in err
    monkeypatch.setitem(sys.modules, "torch", None)
    code, _, err = ask(*DRY_RUN)
    assert code == 1 and "pip install" in err and "Traceback" not in err
    assert "Traceback" in ask(*DRY_RUN, "--debug")[2]


def test_the_forecast_interpolates_between_two_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of 1 ms for 10 images and 5 ms for 50 images interpolate to 3 ms for 30 images.

    The largest of a second kind takes too long, so that the limit stands for its time.
    """

    def trial(study: object, factors: Factors, *_: object) -> forecast.CaseTimes:
        batch = float(factors["batch"])
        if batch > 50:
            time.sleep(60)
        return forecast.CaseTimes(size=batch, memory_s=0.1, process_s=1e-4 * batch)

    monkeypatch.setattr(forecast, "_trial", trial)
    monkeypatch.setattr(forecast, "_CALLS_S", 1)
    cases: list[Factors] = [{"batch": n, "pass": "forward"} for n in (50, 10, 30)]
    cases += [{"batch": n, "pass": "own"} for n in (60, 20)]
    study = registry.load("conv_scaling")
    timed = forecast._time_kinds(study, cases, Session("cpu", QUICK, threads=1))
    _, late = timed.pop((("pass", "own"),))
    assert late == forecast.CaseTimes(size=60, memory_s=0, process_s=1)
    for name in ("forward", "backward"):
        times = forecast._interpolated(timed, {"batch": 30, "pass": name}, QUICK)
        assert times == pytest.approx(forecast.CaseTimes(size=30, memory_s=0.1, process_s=0.003))


def test_the_forecast_of_a_case_counts_its_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    # After the case is built: five calls before the samples, then 15 samples within 0.1 s.
    case_time = forecast._process_time(build_s=0.1, call_s=0.005, protocol=QUICK)
    assert case_time == pytest.approx(0.1 + 5 * 0.005 + 15 * 0.005)
    # If nothing was timed: the budget of 0.1 s, and half as long before the samples.
    assert forecast._interpolated({}, {"batch": 30}, QUICK).process_s == pytest.approx(0.15)
    # Without a subject, the functions that measure a case are timed: 2 s and 3 s by this clock.
    clock = iter((0, 2, 5))
    monkeypatch.setattr(forecast, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    tiny = tiny_study.STUDY
    tiny = replace(tiny, plan=replace(tiny.plan, times=tiny.plan.memory))
    trial = forecast._trial(tiny, {"size": 3}, Session("cpu", QUICK))
    assert trial == forecast.CaseTimes(size=3, memory_s=2, process_s=3)


@pytest.mark.parametrize(("scatter", "turn_s", "pairs", "needed"), [
    (0.01, 10.0, 8, 6),  # at least the plan's pairs
    (0.1, 10.0, 17, 17),
    (0.1, 18.0, 9, 17),  # of 900 s, the plan uses 828 s; one more pair needs 40 s
    (1.0, 1.0, 150, "over 200"),
])  # fmt: skip
def test_a_full_run_measures_the_pairs_that_its_margin_needs(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    scatter: float,
    turn_s: float,
    pairs: int,
    needed: object,
) -> None:
    """More pairs of processes are measured if trial calls scatter, as far as the time allows.

    ``scatter`` is the difference of the logarithms of successive calls, ``turn_s`` the time of a
    process for all cases (s), and ``needed`` the pairs that a difference of 10 % needs.
    """
    study, batches = registry.load("conv_scaling"), list[Level]()

    def rounds_of(study: object, cases: Sequence[Factors], *_: object) -> list[Round]:
        trials = []
        for number, factors in enumerate(cases):
            batches.append(factors["batch"])
            call = exp(scatter) if number % 2 == 0 else 1.0
            trials.append(Round(process=1, policy="retained", series={"time": (call,)}))
        return trials

    monkeypatch.setattr(forecast, "_trial_rounds", rounds_of)
    choose_pairs = partial(
        forecast._choose_pairs,
        study=study,
        session=Session("cpu", study.plan.full),
        round_s=dict.fromkeys(study.plan.full.processes, turn_s),
        start_s=2.0,
        observer=Observer(),
    )
    plain = Request("conv_scaling", Path())
    request = choose_pairs(plain)
    assert request == replace(plain, pairs=pairs)
    assert batches == [16] * 12, "the middle batch of the claim is timed in 12 processes"
    (note,) = capsys.readouterr().err.splitlines()
    compared, _, power = note.partition(" show a difference of ")
    assert (
        compared == f"Comparing processes with memory policies retained and default: {pairs} pairs"
    )
    assert f" or more in four of five runs. One of 10.0% needs {needed} pairs" in power
    # Chosen pairs and shards do not change, without a further note.
    for fixed in (request, replace(plain, shard=(1, 2))):
        assert choose_pairs(fixed) == fixed and not capsys.readouterr().err


@pytest.mark.usefixtures("tiny")
def test_any_module_has_theory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask) -> None:
    """The custom module has 2 × 4 × 3 multiply-adds, and as many again for each gradient."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(registry.STUDIES, "any_module", "any_module")
    monkeypatch.setattr(rounds, "MAX_REPEATS", 0)
    monkeypatch.setattr(program, "forecast", lambda request, _: (request, {"memory": 1.0}))
    code, out, _ = ask("run", "any_module", "--quick", "--threads", 1)
    assert code == 0
    for case, macs in {
        # Steps, sequences, gates, inputs of a gate (features and states), and states.
        "module=gru, pass=forward": 5 * 2 * 3 * (4 + 8) * 8,
        "module=own, pass=forward": 24,
        "module=own, pass=forward_backward": 3 * 24,
    }.items():
        assert f"theory of {case}: {macs:,} multiply-adds, " in out
    (stored,) = read_records("any_module", Path("data"))
    assert [case.status for case in stored.record.cases] == ["ok"] * 3
    assert all(case.samples("time") and not case.layers for case in stored.record.cases)
    assert ask("check", f"data/{stored.file}")[0] == 0
    # The attachment has one row for repeated calls of an operator of the GRU.
    (operators,) = read_attachments(stored, ("operators-0.json.gz",), Path("data")).values()
    assert isinstance(operators, bytes)
    network = case_operators.unpack(operators, place="operators-0.json.gz").network
    assert network is not None
    rows = json.loads(gzip.decompress(operators))["operators"]
    calls = Counter[str]()
    for row in rows:
        calls[row["operator"]["name"]] += row["calls"]
    assert calls == Counter(operator.name for operator in network.operators)
    assert len(rows) < 0.6 * len(network.operators)

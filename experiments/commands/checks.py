"""Check a machine before measuring (``doctor``), and a record to hand in (``check``).

Each check prints ``ok``, a ``note`` on a possible improvement, or a ``problem`` with its remedy.
"""

import os
import platform
import shutil
import textwrap
from argparse import Namespace
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from experiments import registry
from experiments.commands.outcome import code_text, instability, review
from experiments.counters.counting import TOOLS
from experiments.harness import policies
from experiments.harness.journal import unfinished_journals
from experiments.machine import limits, processor, quiet, runtime
from experiments.machine.environment import variables
from experiments.machine.text import factors_text
from report.core.errors import MeasurementError, reason_of
from report.core.missing import Missing
from report.core.records.record import Record
from report.core.records.store import EDITED, Stored, read_attachments, read_record
from report.instruments import gates
from report.instruments.judgement import reason_unusable

_GIB: Final = 2**30


class CheckResult(NamedTuple):
    """Result of one check of a machine or of a record."""

    topic: str
    text: str
    level: Literal["ok", "note", "problem"] = "ok"

    def line(self) -> str:
        """Wrap the check to lines of at most 80 columns."""
        head = f"{self.level:<9}{self.topic:<12}"
        return textwrap.fill(
            head + self.text, 80, subsequent_indent=" " * len(head), break_on_hyphens=False
        )


def note_if(topic: str, ok: str, note: str | None) -> CheckResult:
    """Return a check of level ``note`` if there is a ``note``, else a check of level ``ok``."""
    return CheckResult(topic, note, "note") if note else CheckResult(topic, ok)


def doctor(options: Namespace) -> int:
    """Print all checks of this machine; return the exit code: 1 without PyTorch, else 0."""
    levels = []
    # PyTorch comes last, since its import takes seconds.
    for check in chain(_machine_checks(), _activity_checks(options.records), _torch_checks()):
        print(check.line(), flush=True)
        levels.append(check.level)
    if levels[-1] == "problem":
        print("Nothing can be measured here before PyTorch can be imported.")
        return 1
    problems, notes = levels.count("problem"), levels.count("note")
    print(f"This machine can measure; problems: {problems}, notes: {notes}.")
    return 0


def _machine_checks() -> Iterator[CheckResult]:
    """Check Python, environment variables, processors, memory and memory policies."""
    import psutil  # type: ignore[import-untyped]

    cpu, memory = processor.cpu(), psutil.virtual_memory()
    yield CheckResult("Python", f"{platform.python_version()}, {processor.operating_system()}")
    settings = []
    for name, value in variables("cuda").items():
        if not name.endswith("_NUM_THREADS"):
            settings.append(f"{name}={value}")
    advice = "may change times or results; unset any that you did not mean (records contain them)"
    note = f"{', '.join(settings)} {advice}" if settings else None
    yield note_if("variables", "none is set that changes times or results", note)
    yield CheckResult("processor", cpu.model)
    cores, total = psutil.cpu_count(logical=False), os.cpu_count() or 1
    yield processors(cpu.cores_available, cores, total, limits.processor_quota())
    yield free_memory(memory.available, memory.total, limits.memory_limit())
    reasons = (policies.unavailable("retained", "cpu"), policies.unavailable("jemalloc", "cpu"))
    missing = "; ".join(reason for reason in reasons if reason)
    yield note_if("policies", "all can be measured", missing)
    governor = cpu.governor or "the system shows none"
    note = f"{governor}; set another with: sudo cpupower frequency-set -g performance"
    yield note_if("governor", governor, note if cpu.governor in gates.SLOW_GOVERNORS else None)


def processors(usable: int, cores: int | None, total: int, quota: float | None) -> CheckResult:
    """Check the usable logical processors; ``cores`` are physical, ``quota`` is the container's."""
    text = f"{usable} of {total} processors may be used; a run takes {usable} threads by default"
    if quota is not None and quota < usable:
        threads = max(1, int(quota))
        text += f", but the container may use {quota:g} at a time: give --threads {threads}"
        return CheckResult("processors", text, "problem")
    if cores is not None and cores < total:
        threads = max(1, usable * cores // total)
        text += f"; {cores} cores have {total / cores:g} threads each: also try --threads {threads}"
        return CheckResult("processors", text, "note")
    return CheckResult("processors", text)


def free_memory(available: int, total: int, limit: int | None = None) -> CheckResult:
    """Check the free memory (B); ``limit`` is the container's limit, if any."""
    text = f"{available / _GIB:.1f} of {total / _GIB:.1f} GiB free"
    if limit is not None and limit < total:
        text = f"{text}, but the container may use {limit / _GIB:.1f} GiB in all"
        return CheckResult("memory", f"{text}; give it more, or measure small cases", "problem")
    note = f"{text}; large cases will run out of memory: close other programs"
    # The largest quick run needs 2 GiB.
    return note_if("memory", text, note if available < 2 * _GIB else None)


def _activity_checks(records: Path) -> Iterator[CheckResult]:
    """Check for unfinished runs, programs that would disturb measurements, and counting tools."""
    runs = []
    for folder in records.glob("*"):
        journals, errors = unfinished_journals(folder)
        if number := len(journals) + len(errors):
            runs.append(f"{folder.name} ({number})")
    remedy = "continue with --resume, or write a record with: python -m experiments close STUDY"
    note = f"unfinished: {', '.join(runs)}; {remedy}" if runs else None
    yield note_if("runs", "none is unfinished", note)
    if (reason := quiet.unavailable()) is not None:
        yield CheckResult("now", f"{reason}; close other programs before measuring", "note")
    elif (cause := quiet.observe_disturbance()) is not None:
        yield CheckResult("now", f"{cause}; close them, or run with --wait-quiet 10", "problem")
    else:
        yield CheckResult("now", "no other program would disturb a measurement")
    for device, tool in TOOLS.items():
        if device == "cpu" or shutil.which("nvidia-smi"):
            reason = tool.unavailable()
            note = f"cannot count executed work: {reason}" if reason else None
            yield note_if(tool.NAME, "can count executed work", note)


def _torch_checks() -> Iterator[CheckResult]:
    """Check GPU and PyTorch; without PyTorch, the only check is a problem."""
    try:
        torch: Any = runtime.import_torch()
    except (MeasurementError, OSError) as error:
        yield CheckResult("PyTorch", str(error), "problem")
        return
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(count))
    gpus = f"{names}; measure on it with --device cuda" if names else "none; measures on CPU"
    note = "a driver is installed, but PyTorch finds no GPU: install a CUDA build of PyTorch"
    yield note_if("GPU", gpus, note if not names and shutil.which("nvidia-smi") else None)
    capability = torch.backends.cpu.get_cpu_capability()
    yield CheckResult("PyTorch", f"{torch.__version__}, uses {capability} on this processor")


def check_records(options: Namespace) -> int:
    """Print whether each record can be handed in; return 1 if a record cannot, else 0.

    Prints all checks of a single record; of several records, only machines, notes and problems.
    ``--markdown`` prints a comment for a pull request.
    """
    exit_code, files = 0, options.files
    for path in files:
        stored, checks = check_file(path)
        verdict = "can be handed in"
        if any(check.level == "problem" for check in checks):
            exit_code, verdict = 1, "cannot be handed in"
        if options.markdown:
            print(f"### {path.name}: {verdict}\n")
            for check in checks:
                if check.level != "ok":
                    print(f"- **{check.level}**, {check.topic}: {code_text(check.text)}")
            print()
            print(*(review(stored.record) if stored else ()), sep="\n")
            continue
        print(f"{path}: {verdict}")
        for check in checks:
            if len(files) == 1 or check.level != "ok" or check.topic == "machine":
                print(check.line())
    return exit_code


def check_file(path: Path) -> tuple[Stored | None, list[CheckResult]]:
    """Return a record with its checks, or None with a problem if the file cannot be read."""
    # Follow a link, since attachments are in the folder of the record itself.
    folder = Path(os.path.realpath(path.parent))
    stored: Stored | None = None
    try:
        stored = read_record(folder / path.name, folder)
        return stored, list(checks_of(stored, folder))
    except OSError as error:
        reason = f"cannot be read ({error.strerror}); give its path, and permission to read it"
    except Exception as error:  # any damage: the remaining files must still be checked
        reason = reason_of(error).removeprefix(f"{path.parent.name}/{path.name}: ")
    return stored, [CheckResult("format", reason, "problem")]


def checks_of(stored: Stored, folder: Path) -> Iterator[CheckResult]:
    """Check a record in ``folder``; raise ``RecordError`` for a damaged attachment."""
    record, environment = stored.record, stored.record.environment
    yield CheckResult("machine", f"{environment.label}, {record.study}, {record.started[:10]}")
    if stored.edited:
        remedy = "hand in the file that the experiment wrote"
        yield CheckResult("content", f"{EDITED}; {remedy}", "problem")
    else:
        yield CheckResult("content", "is what its experiment wrote")
    files = read_attachments(stored, ("*",), folder)
    missing = [name for name, file in files.items() if isinstance(file, Missing)]
    note = f"not beside the record: {', '.join(missing)}; papers will lack their values"
    yield note_if("files", f"{len(files)} beside the record, unchanged", note if missing else None)
    yield _plan(record)
    yield _outcomes(record)
    yield note_if("state", "nothing is known to slow it", "; ".join(gates.state_notes(environment)))
    disturbed, unstable = gates.count_disturbed([record]), instability(record.cases, listed=1)
    disturbances = "disturbances were not monitored"
    if disturbed is not None:
        number, measurements = disturbed
        disturbances = f"disturbed {number} of {measurements} measurements"
    text = f"{unstable[:-1] if unstable else 'processes agree'}; {disturbances}"
    yield CheckResult("quiet", text, "note" if unstable or disturbed is None else "ok")
    peak_rate, reason = gates.best_arithmetic_rate(record.ceilings), reason_unusable(record)
    if reason:  # for example, a case is faster than the peak
        yield CheckResult("ceilings", reason, "problem")
    elif peak_rate is None:
        yield CheckResult("ceilings", "none was measured, so that no rate can be judged", "note")
    else:
        text = f"no case is faster than the best, {peak_rate / 1e9:.0f} GFLOP/s"
        yield CheckResult("ceilings", text)


def _plan(record: Record) -> CheckResult:
    """Check that a record is a full run with all cases that the study's current code plans."""
    plan, cases = record.protocol.plan, [case.factors for case in record.cases]
    if record.shard is not None:
        shard = f"shard {record.shard.number} of {record.shard.of} of the {plan} plan"
        return CheckResult("plan", f"{shard}; hand in the other shards too", "note")
    if plan != "full" or record.study not in registry.STUDIES:
        text = f"{plan}, {len(cases)} cases; papers prefer a full run of the same machine"
        return CheckResult("plan", text, "note")
    study = registry.load(record.study).on(record.environment.device)
    planned = study.cases(study.levels(quick=False))
    if missing := [factors for factors in planned if factors not in cases]:
        text = f"{len(missing)} of {len(planned)} cases are missing, such as "
        return CheckResult("plan", f"{text}{factors_text(missing[0])}", "note")
    return CheckResult("plan", f"all {len(planned)} cases of the full plan")


def _outcomes(record: Record) -> CheckResult:
    """Check that some case was measured and that no case failed."""
    if all(case.status != "ok" for case in record.cases):
        return CheckResult("outcomes", "no case could be measured; the record says why", "problem")
    if failed := [case for case in record.cases if case.status == "failed"]:
        first = f"{factors_text(failed[0].factors)}: {failed[0].reason}"
        text = f"{len(failed)} of {len(record.cases)} cases failed, such as {first}"
        return CheckResult("outcomes", text, "problem")
    return CheckResult("outcomes", "no case failed")

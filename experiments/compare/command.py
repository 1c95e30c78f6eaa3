"""``python -m experiments compare``: which function is faster, decided by a judge."""

from __future__ import annotations

import os
import re
from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from statistics import median
from typing import Final, TypeAlias

import msgspec

from experiments.compare.study import FOLDER, Comparison
from experiments.harness import worker
from experiments.harness.processes import new_task, run_cases
from experiments.harness.progress import Observer, measured_text
from experiments.harness.request import available_policies
from experiments.harness.run import run
from experiments.harness.study import Session
from experiments.machine import quiet, runtime
from experiments.machine.conditions import pin_to_one_kind
from report.core.errors import MeasurementError, UsageError
from report.core.records.record import FEWEST_PROCESSES
from report.core.records.store import Stored, read_attachments
from report.instruments import case_operators, comparison

#: Pairs that show the scatter of this machine before a run, and the time of each (s).
_TRIALS: Final = 6
_TRIAL_S: Final = 0.2
#: A call that does nothing should take no more than this share of the baseline's call.
_COURT_SHARE: Final = 0.02
#: A function: its file and name.
_Place: TypeAlias = tuple[Path, str]

#: The options of ``compare``, as the command line reads them.
OPTIONS: Final = """\
functions  PLACE*  the functions to judge, as FILE.py:FUNCTION
--all  PATTERN  those of all files of a pattern, such as 'submissions/*.py:solve'
--against!  PLACE  the baseline
--inputs  PLACE  makes the arguments from a seed; default: make in the baseline's file
--reference  PLACE  what is right, called in float64; default: the baseline
--tolerance  SHARE [1e-4]  largest relative error of a right result
--margin  SHARE [2%]  differences that do not matter
--pairs  COUNT  pairs of processes; default: 12, with --quick 6
--cold  –  empty the caches before each call
--threads  N  default: one for each core
--device  cpu|cuda [cpu]  cuda is refused
--quick  –  fewer and shorter samples
the run
--records  DIR [data]  the folder of records
--label  NAME  what you call this machine
--wait-quiet  MIN  wait so long at most until other processes leave the processors alone
--dry-run  –  say what the run can decide, and stop
--resume  –  continue the newest unfinished run
--json  –  print one JSON object
"""


def place(text: str) -> _Place:
    """Parse ``FILE.py:FUNCTION``; raises ``ArgumentTypeError`` for another form."""
    file, _, function = text.rpartition(":")
    if not file.endswith(".py") or not function.isidentifier():
        raise ArgumentTypeError(f"{text!r} names no function; write FILE.py:FUNCTION")
    if not Path(file).is_file():
        raise ArgumentTypeError(f"{file}: there is no such file; correct the name")
    return Path(file).resolve(), function


def share(text: str) -> float:
    """Parse a number from 0 to 1, also in per cent; raises ``ArgumentTypeError``."""
    number = re.fullmatch(r"(\d*\.?\d+(?:e-?\d+)?)(%?)", text)
    value = float(number[1]) / (100 if number[2] else 1) if number else 1.0
    if value >= 1:
        raise ArgumentTypeError(f"{text!r} is no number from 0 to 1, such as 0.02 or 2%")
    return value


class _Progress(Observer):
    """Progress that names a case by its function alone."""

    def progressed(self, text: str, done: float) -> None:
        super().progressed(re.sub(r"^function=([^,]*), .*_source=\w+", r"\1", text), done)


def compare(options: Namespace) -> int:
    """Compare functions with a baseline and print the verdicts; return 1 if one is wrong."""
    request, observer = request_of(options), _Progress(debug=options.debug)
    os.environ[FOLDER] = str(request.folder)
    if pinned := pin_to_one_kind():
        observer.note(pinned)
    if not request.resume:
        _forecast(request, observer)
    if options.dry_run:
        return 0
    record, path = run(request, observer)
    results = comparison.verdicts(record)
    if options.json:
        content = {"record": str(path), "verdicts": results}
        print(msgspec.json.format(msgspec.json.encode(content)).decode())
    else:
        stored = Stored(record, f"{record.study}/{path.name}")
        files = read_attachments(stored, (case_operators.PATTERN,), request.records)
        print(*comparison.lines(record, files), sep="\n")
        print(f"Record: {path}", f"Page: python build.py --comparison {path}", sep="\n")
    return int(any(result.reason for result in results))


def request_of(options: Namespace) -> Comparison:
    """Convert the options into a request; raises ``UsageError``."""
    if options.device == "cuda":
        raise UsageError(
            "--device cuda: compare measures on a processor alone, since nobody has tried its "
            "judge on a GPU yet; leave the option out."
        )
    if not worker.can_fork(options.device):
        raise UsageError(
            "compare needs Linux, whose processes can be stopped and timed from outside."
        )
    if options.pairs is not None and options.pairs < FEWEST_PROCESSES:
        raise UsageError(f"--pairs {options.pairs}: fewer than {FEWEST_PROCESSES} decide nothing.")
    functions = list(options.functions)
    if options.all:
        files, _, function = options.all.rpartition(":")
        folder, pattern = Path(Path(files).anchor), files.lstrip("/")
        paths = sorted(folder.glob(pattern))
        if not paths:
            raise UsageError(f"--all {options.all}: no file has such a name; correct the pattern.")
        functions += [(path.resolve(), function) for path in paths]
    if not functions:
        raise UsageError("No function is named; give FILE.py:FUNCTION, or --all PATTERN.")
    against = options.against
    inputs, reference = options.inputs or (against[0], "make"), options.reference or against
    named = (*functions, against, inputs, reference)
    common = Path.cwd()  # so that the record's command can be repeated where it was typed
    if not all(file.is_relative_to(common) for file, _ in named):
        common = Path(os.path.commonpath([file.parent for file, _ in named]))

    def name(place: _Place) -> str:
        return f"{place[0].relative_to(common).as_posix()}:{place[1]}"

    fields = {n: v for n, v in vars(options).items() if n in Comparison.__dataclass_fields__}
    candidates = dict.fromkeys(name(place) for place in functions if place != against)
    fields |= {"functions": tuple(candidates), "against": name(against), "folder": common}
    fields |= {"inputs": name(inputs), "reference": name(reference), "counters": "none"}
    return Comparison(study=comparison.NAME, **fields)


def _forecast(request: Comparison, observer: Observer) -> None:
    """Say what the run can decide on this machine, from short trials of the baseline alone.

    The trials are no part of the result.  Raises ``MeasurementError`` if the baseline cannot be
    measured.
    """
    study, planned, _ = request.select()
    threads = runtime.checked_threads(request.threads)
    protocol, _ = available_policies(planned, request.device)
    trial = msgspec.structs.replace(protocol, case_budget_s=_TRIAL_S, maximum_samples=10)
    session = Session(request.device, trial, threads=threads, process=1)
    (policy, pairs), *_ = protocol.processes.items()
    cases = dict.fromkeys(range(_TRIALS), request.factors(request.against))
    task, rounds = new_task(study, "time", session, cases, policy), []
    for result in run_cases(study, task, observer.debug):
        if result.round.reason is not None:
            raise MeasurementError(f"{request.against}: {result.round.reason}.")
        rounds.append(result.round)
    deviation = comparison.scatter(map(comparison.ratio, rounds))
    needed = comparison.pairs_needed(deviation, request.margin)
    observer.note(
        f"{pairs} pairs decide a gain of ±{comparison.decidable(deviation, pairs):.2%}, in four of "
        f"five runs; {request.margin:.1%} needs {needed or 'too many'} pairs."
    )
    empty, call = (median(rounds[-1].samples(name)) for name in ("round_trip_time", "time"))
    if empty > _COURT_SHARE * call:
        observer.note(
            f"A call takes {measured_text(call, 's')}, and one that computes nothing "
            f"{measured_text(empty, 's')}, so that ratios are too near to 1; let a call do more."
        )
    if noise := None if quiet.unavailable() else quiet.watch(threads, 0.5):
        observer.note(f"The machine is busy: {noise}. --wait-quiet 10 waits.")

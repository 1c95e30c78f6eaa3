"""``python -m experiments compare``: which function is faster, as a study of the harness.

A case compares a function with the baseline.
"""

import ast
import os
import re
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final, NoReturn, TypeAlias

import msgspec

from experiments import registry
from experiments.harness import worker
from experiments.harness.processes import new_task, run_cases
from experiments.harness.progress import Observer, measured_text
from experiments.harness.request import Request, available_policies
from experiments.harness.run import run
from experiments.harness.study import FULL, CaseFile, Experiment, Levels, Plan, Session
from experiments.machine import quiet, runtime
from experiments.machine.processor import pin_to_one_kind
from report.core.errors import MeasurementError, UsageError, words_of
from report.core.records.record import FEWEST_PROCESSES, Factors, Protocol, SeriesByQuantity
from report.core.records.store import Stored, digest, read_attachments
from report.instruments import case_operators, comparison
from report.instruments.comparison import NAME

#: Environment variable with the folder of the compared files; records do not name the folder.
FOLDER: Final = "RIDGEPOINT_COMPARED"
#: Digits of a source file's digest among a case's factors; its attachment has all digits.
_DIGITS: Final = 12
#: Pairs that show the scatter of this machine before a run, and the time of each (s).
_TRIALS: Final = 6
_TRIAL_S: Final = 0.2
#: An empty message should take no more than this share of the baseline's call.
_EMPTY_SHARE: Final = 0.02
_FULL: Final = msgspec.structs.replace(
    FULL,
    case_budget_s=1.0,
    timer="one call a sample: time.perf_counter_ns in another process, from message to answer",
    processes={"retained": 12},
    budget_s=None,
)
_QUICK: Final = msgspec.structs.replace(
    _FULL,
    plan="quick",
    maximum_samples=15,
    case_budget_s=0.3,
    processes={"retained": FEWEST_PROCESSES},
)
#: A function: its file and name.
_Place: TypeAlias = tuple[Path, str]
#: The options of ``compare``, as the command line reads them.
OPTIONS: Final = """\
functions  PLACE*  the functions to compare, as FILE.py:FUNCTION
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


@dataclass(frozen=True)
class Comparison(Request):
    """Request for a comparison; functions are named ``FILE.py:FUNCTION``, below ``folder``.

    ``pairs`` is the number of process pairs; None means the number in the plan.
    """

    folder: Path = Path()
    functions: tuple[str, ...] = ()
    against: str = ""
    inputs: str = ""
    reference: str = ""
    tolerance: float = 1e-4
    margin: float = 0.02
    cold: bool = False

    def command(self, threads: int | None) -> tuple[str, ...]:
        """Write the command that repeats this comparison in the folder of the files."""
        words = ["python", "-m", "experiments", NAME, *self.functions]
        for option in ("against", "inputs", "reference", "tolerance", "margin", "pairs", "label"):
            if (value := getattr(self, option)) is not None:
                words += [f"--{option}", str(value)]
        words += [f"--{option}" for option in ("cold", "quick") if getattr(self, option)]
        return (*words, "--threads", str(threads))

    def select(self) -> tuple[Experiment, Protocol, tuple[Factors, ...]]:
        """Select the ceilings to measure, the protocol, and a case for each function.

        The last case compares the baseline with itself.
        """
        study, protocol = registry.load(NAME), _QUICK if self.quick else _FULL
        if self.pairs is not None:
            processes = dict.fromkeys(protocol.processes, self.pairs)
            protocol = msgspec.structs.replace(protocol, plan="custom", processes=processes)
        ceilings = self.ceilings or ("small" if self.quick else "large")
        study = replace(study, plan=replace(study.plan, ceilings=ceilings))
        return study, protocol, tuple(map(self.factors, (*self.functions, self.against)))

    def factors(self, function: str) -> Factors:
        """Name both functions of a case, their sources, and the conditions of the verdict."""
        names = ("against", "inputs", "reference", "tolerance", "margin", "cold")
        return {
            "function": function,
            **{name: getattr(self, name) for name in names},
            "source": digest(_source(function, self.folder))[:_DIGITS],
            "against_source": digest(_source(self.against, self.folder))[:_DIGITS],
        }


def place(text: str) -> _Place:
    """Parse ``FILE.py:FUNCTION``; raises ``ArgumentTypeError`` for another form."""
    file, _, function = text.rpartition(":")
    if not file.endswith(".py") or not function.isidentifier():
        raise ArgumentTypeError(f"{text!r} names no function; write FILE.py:FUNCTION")
    if not Path(file).is_file():
        raise ArgumentTypeError(f"{file}: there is no such file; correct the name")
    return Path(file), function


def _require_function(file: Path, name: str) -> None:
    """Raise ``UsageError`` if a file binds no such name; no code of the file runs."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError):  # the first trial names the fault
        return
    nodes = [*ast.walk(tree)]
    names = {getattr(node, "name", None) or getattr(node, "id", None) for node in nodes}
    names |= {node.asname for node in nodes if isinstance(node, ast.alias)}
    if names.isdisjoint({name, "*", "globals", "setattr", "exec", "__getattr__"}):
        functions = (node.name for node in tree.body if isinstance(node, ast.FunctionDef))
        listed = ", ".join(sorted(f for f in functions if f != "make")) or "none"
        raise UsageError(f"{file.name} has no function {name!r}; it has {listed}.")


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
        text = re.sub(": ok$", ": source saved", text)  # before any call
        super().progressed(re.sub(r"^function=([^,]*), .*_source=\w+", r"\1", text), done)


def compare(options: Namespace) -> int:
    """Compare functions with a baseline and print the verdicts; return 1 if one is wrong."""
    request, observer = request_of(options), _Progress(debug=options.debug)
    os.environ[FOLDER] = str(request.folder)
    if pinned := pin_to_one_kind():
        observer.note(pinned)
    if not request.resume:
        for note in _forecast(request, observer, may_fail=bool(options.all)):
            observer.note(note)
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
    if not worker.can_fork(options.device):
        raise UsageError(
            f"--device {options.device}: compare measures on a processor alone, under Linux, whose "
            "processes can be stopped and timed from outside."
        )
    if options.pairs is not None and options.pairs < FEWEST_PROCESSES:
        raise UsageError(f"--pairs {options.pairs}: fewer than {FEWEST_PROCESSES} decide nothing.")
    functions, against = list(options.functions), options.against
    if options.all:
        files, _, function = options.all.rpartition(":")
        paths = sorted(Path(Path(files).anchor).glob(files.lstrip("/")))
        if not paths:
            raise UsageError(f"--all {options.all}: no file has such a name; correct the pattern.")
        functions += [(path, function) for path in paths]
    if not functions:
        raise UsageError("No function is named; give FILE.py:FUNCTION, or --all PATTERN.")
    inputs, reference = options.inputs or (against[0], "make"), options.reference or against
    for file, name in (against, inputs, reference, *options.functions):
        _require_function(file, name)
    typed = (against, inputs, reference, *functions)
    places = [(file.resolve(), name) for file, name in typed]
    folder = Path.cwd()  # so that the record's command can be repeated where it was typed
    if not all(file.is_relative_to(folder) for file, _ in places):
        folder = Path(os.path.commonpath([file.parent for file, _ in places]))
    names = [f"{file.relative_to(folder).as_posix()}:{name}" for file, name in places]
    fields = {n: v for n, v in vars(options).items() if n in Comparison.__dataclass_fields__}
    fields |= dict(zip(("against", "inputs", "reference"), names, strict=False))
    candidates = tuple(name for name in dict.fromkeys(names[3:]) if name != names[0])
    fields |= {"functions": candidates, "folder": folder, "counters": "none"}
    fields["typed"] = {n: f"{file}:{name}" for n, (file, name) in zip(names, typed, strict=True)}
    return Comparison(study=NAME, **fields)


def _forecast(request: Comparison, observer: Observer, *, may_fail: bool) -> Iterator[str]:
    """Say what the run can decide on this machine, from short trials of the baseline.

    The trials are no part of the result.  Raises ``MeasurementError`` if a function fails or is
    wrong in its trial; functions that ``may_fail`` are not tried.
    """
    study, planned, _ = request.select()
    threads = runtime.checked_threads(request.threads)
    protocol, _ = available_policies(planned, request.device)
    trial = msgspec.structs.replace(protocol, case_budget_s=_TRIAL_S, maximum_samples=10)
    session = Session(request.device, trial, threads=threads, process=1)
    (policy, pairs), *_ = protocol.processes.items()
    names = (*(() if may_fail else request.functions), *[request.against] * _TRIALS)
    task = new_task(study, "time", session, dict(enumerate(map(request.factors, names))), policy)
    rounds = [result.round for result in run_cases(study, task, observer.debug)]
    for name, round_ in zip(names, rounds, strict=True):
        if round_.reason is not None:
            raise MeasurementError(f"{name}: {round_.reason}. Correct it; nothing was measured.")
    rounds = rounds[-_TRIALS:]
    deviation = comparison.scatter(map(comparison.ratio, rounds))
    power = comparison.power_text(deviation, pairs, request.margin)
    too_many = "; close other programs, or let a call do more" if "over" in power else ""
    yield f"{power}{too_many}."
    empty, call = (median(rounds[-1].samples(name)) for name in ("round_trip_time", "time"))
    if empty > _EMPTY_SHARE * call:
        yield (
            f"A call takes {measured_text(call, 's')}, and one that computes nothing "
            f"{measured_text(empty, 's')}, so that ratios are too near to 1; let a call do more."
        )
    if noise := None if quiet.unavailable() else quiet.watch(threads, 0.5):
        yield f"The machine is busy: {noise}. --wait-quiet 10 waits."


def _source(name: str, folder: Path) -> bytes:
    return (folder / name.rpartition(":")[0]).read_bytes()


def _folder() -> Path:
    return Path(os.environ[FOLDER])


def _no_cases(levels: Levels) -> NoReturn:
    raise UsageError(f"{NAME} needs functions; use: python -m experiments {NAME} --help")


def _times(factors: Factors, session: Session) -> SeriesByQuantity:
    from experiments.compare.pairs import from_file, measure_pair

    return measure_pair(factors, session, partial(from_file, _folder()))


def _imports(factors: Factors, session: Session) -> tuple[str, ...]:
    """Import the measurement, and torch before the functions if one of their files does."""
    names = (str(factors[name]) for name in ("function", "against", "inputs", "reference"))
    has_torch = any(b"torch" in _source(name, _folder()) for name in names)
    return (*(["torch"] if has_torch else []), "experiments.compare.pairs")


def files_of(factors: Factors, session: Session) -> tuple[CaseFile, ...]:
    """Return the source of the case's function, and the operators of one call, or why not."""
    name, network, reason = str(factors["function"]), None, None
    try:
        network = _captured(factors)
    except BaseException as error:  # the code of users may raise anything
        reason = words_of(error)
    version = str(getattr(sys.modules.get("torch"), "__version__", ""))
    operators = case_operators.CaseOperators(
        factors=factors, torch=version, network=network, reason=reason
    )
    stem = "-".join((*re.findall("[a-z0-9]+", name.lower()), digest(name.encode())[:6]))
    file, content = case_operators.PATTERN.replace("*", stem), case_operators.pack(operators)
    return (
        CaseFile(f"source-{stem}.py", f"source of {name}", _source(name, _folder())),
        CaseFile(file, case_operators.MEANING, content),
    )


def _captured(factors: Factors) -> Any:
    """Capture the operators of a function of tensors, as a network without parameters."""
    torch: Any = sys.modules.get("torch")  # only files of the user import it
    if torch is None:
        raise TypeError(case_operators.NO_TENSORS)

    from experiments.compare.pairs import from_file, loaded, parts
    from experiments.theory.captures import Input, capture_theory

    def inference_mode(mode: Any = True) -> Any:
        return torch.set_grad_enabled(not mode) if isinstance(mode, bool) else torch.no_grad()(mode)

    # torch's inference mode would not decompose operators; the work is the same without it.
    vars(torch)["inference_mode"] = inference_mode
    load = partial(from_file, _folder())
    inputs = []
    for tensor in parts(loaded(load, str(factors["inputs"]))(0)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(case_operators.NO_TENSORS)
        shape, dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
        is_last = tensor.ndim == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
        inputs.append(Input(shape, dtype, is_last and not tensor.is_contiguous()))
    module: Any = torch.nn.Module()
    module.forward = loaded(load, str(factors["function"]))
    return capture_theory(lambda: module, inputs).network


STUDY: Final = Experiment(
    subject=None,
    factors=(),
    cases=_no_cases,
    name=NAME,
    question="Which function is faster, and by how much?",
    plan=Plan(
        full=_FULL,
        quick=_QUICK,
        is_counted=False,
        times=_times,
        files=files_of,
        imports=_imports,
    ),
)

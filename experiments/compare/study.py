"""``python -m experiments compare``: time functions against a baseline, and print verdicts."""

import os
import re
from argparse import Namespace
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from experiments.commands.forecast import forecast_comparison
from experiments.harness import worker
from experiments.harness.progress import Observer
from experiments.harness.request import Request
from experiments.harness.run import run
from experiments.harness.study import (
    FULL,
    CaseFile,
    Experiment,
    Levels,
    Plan,
    Session,
    all_combinations,
)
from experiments.machine import runtime
from experiments.machine.processor import pin_to_one_kind_of_core
from report.core.errors import UsageError
from report.core.records.record import FEWEST_PROCESSES, Factors, Level, SeriesByQuantity
from report.core.records.store import Stored, digest, read_attachments
from report.instruments import case_operators, comparison
from report.instruments.comparison import RECORD_NAME

#: Environment variable that passes the folder of the compared files to the measuring processes,
#: since records do not contain the folder.
FOLDER_VARIABLE: Final = "RIDGEPOINT_COMPARED"
#: Hexadecimal digits of a source file's SHA-256 in the factors of a case.
_DIGEST_DIGITS: Final = 12
_FULL: Final = msgspec.structs.replace(
    FULL,
    case_budget_s=1.0,
    timer="one call a sample: time.perf_counter_ns in another process, from message to answer",
    processes={"retained": 12},  # under the policy ``retained``, which keeps freed memory
    budget_s=None,
)
_QUICK: Final = msgspec.structs.replace(
    _FULL,
    plan="quick",
    maximum_samples=15,
    case_budget_s=0.3,
    processes={"retained": FEWEST_PROCESSES},
)
#: Options of ``compare`` in the format of ``report.core.system.commandline``.
OPTIONS: Final = """\
functions  PLACE*  the functions to compare, as FILE.py:FUNCTION
--all  PATTERN  one function of each file that matches, such as 'submissions/*.py:solve'
--against!  PLACE  the baseline
--inputs  PLACE  function that makes the arguments from a seed; default: the function make in the
  file of the baseline
--reference  PLACE  function with the right results, called in float64; default: the baseline
--tolerance  SHARE [1e-4]  largest relative error of a right result
--margin  SHARE [2%]  differences that do not matter
--pairs  COUNT  pairs of processes; default: 12, with --quick 6
--cold  –  empty the caches before each call
--device  cpu|cuda [cpu]  only cpu is possible
--quick  –  fewer and shorter samples
--json  –  print one JSON object
"""


def compare(options: Namespace) -> int:
    """Print verdicts, or with --dry-run a forecast; return 1 if a function failed, else 0."""
    request = request_of(options)
    observer = Observer(debug=options.debug)
    if note := pin_to_one_kind_of_core():
        observer.note(note)
    if not request.resume:
        forecast_comparison(request, observer, may_fail=bool(options.all))
    if options.dry_run:
        return 0
    record, path = run(request, observer)
    results = comparison.verdicts(record)
    if options.json:
        content = {"record": str(path), "verdicts": results}
        print(msgspec.json.format(msgspec.json.encode(content)).decode())
    else:
        stored = Stored(record, f"{record.study}/{path.name}")
        files = read_attachments(stored, (case_operators.FILE_PATTERN,), request.records)
        print(*comparison.report_lines(record, files), sep="\n")
        print(f"Record: {path}", f"Page: python build.py --comparison {path}", sep="\n")
    return int(any(result.reason for result in results))


def request_of(options: Namespace) -> Request:
    """Convert the options into a request, and set the environment variable ``FOLDER_VARIABLE``.

    The last case compares the baseline with itself.  Raises ``UsageError`` for CUDA, for too few
    pairs, and if no function is named.
    """
    if not worker.can_fork(options.device):
        raise UsageError(
            f"--device {options.device}: {RECORD_NAME} measures on CPUs alone, under Linux."
        )
    if options.pairs is not None and options.pairs < FEWEST_PROCESSES:
        raise UsageError(f"--pairs {options.pairs}: fewer than {FEWEST_PROCESSES} decide nothing.")
    functions = list(options.functions)
    if options.all:
        pattern, _, function = options.all.rpartition(":")
        files = sorted(Path(Path(pattern).anchor).glob(pattern.lstrip("/")))
        if not files:
            raise UsageError(f"--all {options.all}: no file has such a name; correct the pattern.")
        functions += [f"{file}:{function}" for file in files]
    if not functions:
        raise UsageError("No function is named; give FILE.py:FUNCTION, or --all PATTERN.")
    inputs = options.inputs or f"{options.against.rpartition(':')[0]}:make"
    reference = options.reference or options.against
    typed_names = (options.against, inputs, reference, *functions)
    paths = [Path(name).resolve() for name in typed_names]  # paths still end in ":FUNCTION"
    folder = Path.cwd()  # here, the record's command can be repeated
    if not all(path.is_relative_to(folder) for path in paths):
        folder = Path(os.path.commonpath([path.parent for path in paths]))
    os.environ[FOLDER_VARIABLE] = str(folder)
    names = [path.relative_to(folder).as_posix() for path in paths]
    against, inputs, reference, *functions = names
    conditions: Factors = {"against": against, "inputs": inputs, "reference": reference}
    conditions |= {name: getattr(options, name) for name in ("tolerance", "margin", "cold")}
    compared = dict.fromkeys(functions)  # without duplicates
    compared.pop(against, None)
    levels: dict[str, tuple[Level, ...]] = {"function": (*compared, against)}
    words = [RECORD_NAME, *compared]
    for name, level in conditions.items():
        levels[name] = (level,)
        if level is not False:
            words += [f"--{name}"] if level is True else [f"--{name}", str(level)]
    fields = Request.__dataclass_fields__
    common_options = {name: value for name, value in vars(options).items() if name in fields}
    return Request(
        study=RECORD_NAME,
        levels=levels,
        words=tuple(words),
        typed_words=dict(zip(names, typed_names, strict=True)),
        changes={"processes": {"retained": options.pairs}} if options.pairs else {},
        **common_options,
    )


def cases(levels: Levels) -> tuple[Factors, ...]:
    """Return a case for each function, with hashes of its file and of the baseline's file."""
    if not levels:  # the run names no functions
        raise UsageError(
            f"{RECORD_NAME} needs functions; use: python -m experiments {RECORD_NAME} --help"
        )
    selected = all_combinations(levels)
    for case in selected:
        for digest_factor, factor in (("source", "function"), ("against_source", "against")):
            content = _source_path(str(case[factor])).read_bytes()
            case[digest_factor] = digest(content)[:_DIGEST_DIGITS]
    return selected


def _source_path(name: str) -> Path:
    """Return the path of the file of ``FILE.py:FUNCTION``."""
    return Path(os.environ[FOLDER_VARIABLE]) / name.rpartition(":")[0]


def load_function(name: str) -> Callable[..., Any]:
    """Load ``FILE.py:FUNCTION``; raises ``LookupError`` if the file lacks the function."""
    return runtime.function_of(_import_once(_source_path(name)), name.rpartition(":")[2])


#: Imports a file once, so that a function and its setup share global variables.
_import_once: Final = cache(runtime.import_file)


def _times(factors: Factors, session: Session) -> SeriesByQuantity:
    """Time the function and the baseline of a case."""
    from experiments.compare.pairs import measure_pair

    return measure_pair(factors, session, load_function)


def _imports(factors: Factors, session: Session) -> tuple[str, ...]:
    """Return the modules to import: the measurement, and torch if a compared file mentions it."""
    for factor in ("function", "against", "inputs", "reference"):
        if b"torch" in _source_path(str(factors[factor])).read_bytes():
            return ("torch", "experiments.compare.pairs")
    return ("experiments.compare.pairs",)


def files_of(factors: Factors, session: Session) -> tuple[CaseFile, ...]:
    """Return the source of the case's function, and a file with the operators of one call."""
    from experiments.theory.subjects import capture_function

    name = str(factors["function"])
    stem = "-".join((*re.findall("[a-z0-9]+", name.lower()), digest(name.encode())[:6]))
    operators = capture_function(factors, load_function)
    file_name = case_operators.FILE_PATTERN.replace("*", stem)
    return (
        CaseFile(f"source-{stem}.py", f"source of {name}", _source_path(name).read_bytes()),
        CaseFile(file_name, case_operators.FILE_MEANING, case_operators.pack(operators)),
    )


STUDY: Final = Experiment(
    subject=None,
    factors=(),
    cases=cases,
    case_name=lambda factors: str(factors["function"]),
    name=RECORD_NAME,
    question="Which function is faster, and by how much?",
    plan=Plan(
        full=_FULL, quick=_QUICK, counts_work=False, times=_times, files=files_of, imports=_imports
    ),
)

"""The comparison as a study of the harness: a case compares a candidate with the baseline."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from experiments import registry
from experiments.harness.request import Request
from experiments.harness.study import FULL, CaseFile, Experiment, Levels, Plan, Session
from report.core.errors import UsageError, words_of
from report.core.records.record import FEWEST_PROCESSES, Factors, Protocol, SeriesByQuantity
from report.core.records.store import digest
from report.instruments import case_operators
from report.instruments.comparison import NAME

#: Environment variable with the folder of the compared files; records do not name the folder.
FOLDER: Final = "RIDGEPOINT_COMPARED"
#: Digits of a source file's digest among a case's factors; its attachment has all digits.
_DIGITS: Final = 12
_FULL: Final = msgspec.structs.replace(
    FULL,
    case_budget_s=1.0,
    timer="one call a sample: the judge's time.perf_counter_ns, from its message to the answer",
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
    pairs: int | None = None

    def command(self, threads: int | None) -> tuple[str, ...]:
        """Write the command that repeats this comparison in the folder of the files."""
        words = ["python", "-m", "experiments", NAME, *self.functions]
        for option in ("against", "inputs", "reference", "tolerance", "margin", "pairs", "label"):
            if (value := getattr(self, option)) is not None:
                words += [f"--{option}", str(value)]
        words += [f"--{option}" for option in ("cold", "quick") if getattr(self, option)]
        return (*words, "--threads", str(threads))

    def select(self) -> tuple[Experiment, Protocol, tuple[Factors, ...]]:
        """Select the ceilings to measure, the protocol, and a case for each candidate.

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
        sources = {
            "source": digest(_source(function, self.folder))[:_DIGITS],
            "against_source": digest(_source(self.against, self.folder))[:_DIGITS],
        }
        return {"function": function, **{n: getattr(self, n) for n in names}, **sources}


def _source(name: str, folder: Path) -> bytes:
    return (folder / name.rpartition(":")[0]).read_bytes()


def _folder() -> Path:
    return Path(os.environ[FOLDER])


def _no_cases(levels: Levels) -> NoReturn:
    raise UsageError(f"{NAME} needs functions; use: python -m experiments {NAME} --help")


def _times(factors: Factors, session: Session) -> SeriesByQuantity:
    from experiments.compare.court import Court, from_file

    return Court(factors, session, partial(from_file, _folder())).measure()


def _imports(factors: Factors, session: Session) -> tuple[str, ...]:
    """Import the judge, and torch before the functions if one of their files does."""
    names = (str(factors[name]) for name in ("function", "against", "inputs", "reference"))
    has_torch = any(b"torch" in _source(name, _folder()) for name in names)
    judge = "experiments.compare.court"
    return ("torch", judge) if has_torch else (judge,)


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
    return (
        CaseFile(f"source-{stem}.py", f"source of {name}", _source(name, _folder())),
        CaseFile(
            case_operators.PATTERN.replace("*", stem),
            case_operators.MEANING,
            case_operators.pack(operators),
        ),
    )


def _captured(factors: Factors) -> Any:
    """Capture the operators of a function of tensors, as a network without parameters."""
    if "torch" not in sys.modules:  # only files of the user import it
        raise TypeError("theory needs a function of PyTorch's tensors")
    import torch

    from experiments.compare.court import from_file, loaded, parts
    from experiments.theory.captures import Input, checked

    def inference_mode(mode: Any = True) -> Any:
        return torch.set_grad_enabled(not mode) if isinstance(mode, bool) else torch.no_grad()(mode)

    # torch's inference mode would not decompose operators; the work is the same without it.
    vars(torch)["inference_mode"] = inference_mode
    load = partial(from_file, _folder())
    function, make = (loaded(load, str(factors[name])) for name in ("function", "inputs"))
    inputs = []
    for tensor in parts(make(0)):
        shape, dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
        last = tensor.ndim == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
        inputs.append(Input(shape, dtype, last and not tensor.is_contiguous()))
    module: Any = torch.nn.Module()
    module.forward = function
    return checked(lambda: module, inputs).network


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

"""Which code executes the layer, and with which instructions it was counted.

Lackey plays a processor with AVX2.  oneDNN's own log names the code that it generates for the
processor itself and for AVX2, and the blocks that this code fills channels up to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from report.evidence.executed import COUNTED
from report.evidence.runs import Factors
from report.instruments.onednn import AVX2, NATIVE, Log, log_file, multiply_adds, parse_log
from report.missing import Missing
from report.paper.declared import Field, table
from report.paper.findings import Inputs
from report.paper.tables import Table
from report.quantity.expression import Quantity, absent, exact, named
from report.records.record import Case
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.subject import SHOWN_BATCH
from report.text.escape import markdown
from report.theory.work import PASSES, macs

#: The variant whose channels do not fill the blocks.
UNEVEN: Final = "33 channels"


@dataclass(frozen=True)
class Logged:
    """A case with oneDNN's logs of it, by instructions."""

    run: Run
    case: Case
    logs: Mapping[str, Log]

    @property
    def name(self) -> str:
        """The case in a few words."""
        return str(self.case.factors.get("variant", "the layer"))

    def code(self, kind: str) -> str:
        """The implementation that oneDNN chose; several where passes differ."""
        return ", ".join(dict.fromkeys(p.implementation for p in self.logs[kind].convolutions))

    def executed(self, kind: str) -> Quantity:
        """Multiply-adds with blocks filled up, over those of theory."""
        total = sum(map(multiply_adds, self.logs[kind].convolutions))
        name = f"multiply-adds in blocks, {kind}"
        return self._over_theory(exact(name, "MAC", total, self.run.file))

    def counted(self) -> Quantity:
        """Multiply-adds that lackey counted, over those of theory."""
        return self._over_theory(self.run.repeated(COUNTED, self.case.factors))

    def _over_theory(self, quantity: Quantity) -> Quantity:
        backward = self.case.factors["pass"] == "forward_backward"
        theory = sum(
            macs(self.case.layers[0], each) for each in (PASSES if backward else PASSES[:1])
        )
        return quantity / exact("multiply-adds", "MAC", theory)


def logged(inputs: Inputs, run: Run | None) -> tuple[Logged, ...]:
    """The cases of a run of which oneDNN's logs lie beside its record."""
    if run is None:
        return ()
    files = inputs.attachments.get(run.file, {})
    found = (_logged(run, case, files) for case in run.stored.record.cases)
    return tuple(each for each in found if each is not None)


def _logged(run: Run, case: Case, files: Mapping[str, bytes]) -> Logged | None:
    names = {kind: log_file(case.factors, kind) for kind in (NATIVE, AVX2)}
    if case.status != "ok" or not all(name in files for name in names.values()):
        return None
    texts = {kind: files[name].decode(errors="replace") for kind, name in names.items()}
    logs = {k: parse_log(text, f"data/{run.file}, {names[k]}") for k, text in texts.items()}
    return Logged(run, case, logs)


def primitives(found: tuple[Logged, ...]) -> Table:
    """The code of each case by instructions, with what it executes beside what was counted."""
    return table(
        "tbl-primitives",
        found,
        [
            Field("Case", "", lambda row: row.name),
            Field("Pass", "", lambda row: str(row.case.factors["pass"]).replace("_", " and ")),
            Field("Code", "", lambda row: row.code(NATIVE)),
            Field("In its blocks", "1", lambda row: row.executed(NATIVE)),
            Field("Code, AVX2", "", lambda row: row.code(AVX2)),
            Field("In its blocks, AVX2", "1", lambda row: row.executed(AVX2)),
            Field("Counted", "1", Logged.counted),
        ],
        wide=True,
    )


def facts(found: Sequence[Logged]) -> dict[str, str]:
    """What oneDNN calls both sets of instructions."""
    if not found:
        return {}
    return {kind: markdown(log.instructions) for kind, log in found[0].logs.items()}


def _uneven(get: Callable[[Logged], Quantity]) -> Callable[[tuple[Logged, ...]], Quantity]:
    def value(found: tuple[Logged, ...]) -> Quantity:
        case = next((each for each in found if each.name == UNEVEN), None)
        return get(case) if case else absent(UNEVEN, "1", "it was not logged")

    return value


#: The numbers of the prose that rest on the logs.
VALUES: Final[dict[str, Callable[[tuple[Logged, ...]], Quantity]]] = {
    "uneven_channels": _uneven(
        lambda case: exact("C_out", "1", case.case.layers[0].output_shape[1])
    ),
    "uneven_native": _uneven(lambda case: case.executed(NATIVE)),
    "uneven_avx2": _uneven(lambda case: case.executed(AVX2)),
    "uneven_counted": _uneven(Logged.counted),
}


def slowdown(run: Run) -> Quantity:
    """How many times as long a forward call takes with AVX2 as with all instructions."""
    narrow = run.series("time", _narrow(run))
    return named("slowdown with AVX2", narrow / run.time(SHOWN_BATCH))


def was_timed(run: Run | None) -> bool:
    """Whether the layer was timed with AVX2 alone too."""
    return run is not None and not isinstance(run.samples("time", _narrow(run)), Missing)


def _narrow(run: Run) -> Factors:
    """The case of the layer that was timed with AVX2 alone."""
    return {**run.factors(SHOWN_BATCH, "forward"), "subject": "avx2"}

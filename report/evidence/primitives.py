"""Which code of oneDNN computes a layer, by the logs that lie beside a record.

Lackey plays a processor with AVX2.  oneDNN's own log names the code that it generates for the
processor itself and for AVX2, and the blocks that this code fills channels up to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from report.evidence.runs import Run
from report.instruments.onednn import AVX2, NATIVE, Log, log_file, multiply_adds, parse_log
from report.quantity.expression import Quantity, absent, exact
from report.records.record import Case
from report.theory.work import PASSES, macs


@dataclass(frozen=True)
class Logged:
    """A case with oneDNN's logs of it, by instructions."""

    run: Run
    case: Case
    logs: Mapping[str, Log]

    def executed(self, kind: str) -> Quantity:
        """Multiply-adds with blocks filled up, over those of theory."""
        name, convolutions = f"multiply-adds in blocks, {kind}", self.logs[kind].convolutions
        if not convolutions:
            return absent(name, "1", "oneDNN computes no convolution in it")
        total = sum(map(multiply_adds, convolutions))
        backward = self.case.factors["pass"] == "forward_backward"
        theory = sum(
            macs(self.case.layers[0], each) for each in (PASSES if backward else PASSES[:1])
        )
        return exact(name, "MAC", total, self.run.file) / exact("multiply-adds", "MAC", theory)


def logged(attachments: Mapping[str, Mapping[str, bytes]], run: Run | None) -> tuple[Logged, ...]:
    """The cases of a run of which oneDNN's logs are among the ``attachments`` of its record.

    Raises ``RecordError`` for a damaged log.
    """
    if run is None:
        return ()
    files = attachments.get(run.file, {})
    found = (_logged(run, case, files) for case in run.stored.record.cases)
    return tuple(each for each in found if each is not None)


def _logged(run: Run, case: Case, files: Mapping[str, bytes]) -> Logged | None:
    names = {kind: log_file(case.factors, kind) for kind in (NATIVE, AVX2)}
    # A log is empty where no primitive of oneDNN was called.
    if case.status != "ok" or not all(files.get(name) for name in names.values()):
        return None
    texts = {kind: files[name].decode(errors="replace") for kind, name in names.items()}
    logs = {k: parse_log(text, f"data/{run.file}, {names[k]}") for k, text in texts.items()}
    return Logged(run, case, logs)


def instruction_sets(found: Iterable[Logged]) -> dict[str, str]:
    """What oneDNN calls both sets of instructions, in the first of the logs."""
    return {kind: log.instructions for each in list(found)[:1] for kind, log in each.logs.items()}

"""Data of the paper of inference_memory, and the parts on which its modules declare results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from report.core.text.escape import markdown
from report.paper.findings import Inputs
from report.paper.study import Part, Study
from report.studies.inference_memory.results import Allocated, reconciled
from report.studies.inference_memory.rules import RuleComparison
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.subject import REDUCED, check_subject
from report.theory.reconciliation import Reconciliation

#: Effects on time and memory below this share are no finding.
MARGIN: Final = 0.1
#: The batch whose memory the prose describes.
SHOWN_BATCH: Final = 256


class Paper:
    """The runs in their roles, and the source."""

    def __init__(self, inputs: Inputs) -> None:
        runs = inputs.runs(Run)
        self.inputs, self.runs = inputs, tuple(runs.values())
        cpu, second, gpu = (runs.get(role) for role in ("cpu", "second", "gpu"))
        self.cpu = cpu if cpu and not cpu.on_gpu else None
        self.second = second if second and not second.on_gpu else None
        self.gpu = gpu if gpu and gpu.on_gpu else None
        #: The CPU whose limits were measured, and the one on which layouts and tiles were tried.
        self.limited = self.cpu if self.cpu and self.cpu.limits else None
        self.varied = self.second or self.cpu
        #: The CPU on which networks with one allocation changed ran under limits.
        self.changed = next(filter(Run.has_changes, self.runs), None)
        self.rules = RuleComparison(inputs)
        on_gpus = [run for role, run in runs.items() if run.on_gpu and role != "gpu"]
        self.allocated = Allocated([self.gpu, *on_gpus] if self.gpu else on_gpus)

    def reconciliations(self) -> Iterator[Reconciliation]:
        """The peaks of both CPUs."""
        for run in (self.cpu, self.second):
            if run:
                yield from reconciled(run, "float32", REDUCED).values()


study = Study(Paper, check_subject, reconciliations=Paper.reconciliations)
printed: Part[Paper] = study.part("", "source")
on_gpu: Part[Paper] = study.part("", "gpu")
cpu: Part[Run] = study.part("cpu")
limited: Part[Run] = study.part("limited", "cpu")
varied: Part[Run] = study.part("varied", "cpu")
changed: Part[Run] = study.part("changed", "cpu")
compared: Part[RuleComparison] = study.part("rules", "others")
second: Part[Run] = study.part("second", "pair")
gpu: Part[Run] = study.part("gpu")
allocated: Part[Allocated] = study.part("allocated", "gpu")


def device(run: Run) -> str:
    """Name the device, without the key that tells two machines with one GPU apart."""
    return markdown(run.short.partition(" (")[0] if run.on_gpu else run.short)


cpu.texts(cpu=device)
second.texts(second=device)
changed.texts(changed=device)
gpu.texts(gpu=device)

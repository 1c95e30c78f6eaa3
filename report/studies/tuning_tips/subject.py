"""Comparisons of tips on networks, and the checks of their records."""

from typing import Final, NamedTuple

from report.core.errors import StudyError
from report.core.records.store import Stored
from report.evidence.case_checks import check_factors
from report.studies.tuning_tips.source import TIPS

#: Tips that change nothing.
CONTROLS: Final = ("control", "exchanged")
NETWORKS: Final = ("MNIST CNN", "ResNet-20", "MobileNetV2")
#: What happens to freed memory on both sides: the system gets it back, or the process keeps it.
MEMORY: Final = ("returned", "kept")
LEVELS: Final = {"tip": TIPS, "network": NETWORKS, "memory": MEMORY}
#: Images of a call in the runs on one thread.
BATCH: Final = 32


class Trial(NamedTuple):
    """A tip on a network and a batch size."""

    tip: str
    network: str
    batch: int = BATCH
    memory: str = "returned"


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` for a case with other factors, or with layers of another batch."""
    check_factors(stored, {"": {**LEVELS, "batch": int}}, closed={""})
    for index, case in enumerate(stored.record.cases):
        if {layer.input_shape[0] for layer in case.layers} != {case.factors["batch"]}:
            raise StudyError(
                f"data/{stored.file}: cases[{index}].layers: another batch than the case's; run "
                "the experiment of this version again."
            )

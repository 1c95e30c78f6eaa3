"""Comparisons of calls with and without a tuning tip, and the checks of their records."""

from typing import Final, NamedTuple

from report.core.errors import StudyError
from report.core.records.store import Stored
from report.evidence.case_checks import AllowedLevels, check_factors
from report.studies.tuning_tips.source import TIPS

#: Comparisons of a call with the same call; in ``exchanged``, the two processes swap their roles.
CONTROLS: Final = ("control", "exchanged")
NETWORKS: Final = ("MNIST CNN", "ResNet-20", "MobileNetV2")
#: Policies for freed memory: return it to the system, or keep it, in both processes of a pair.
POLICIES: Final = ("returned", "kept")
#: Images per call in the runs on one thread.
BATCH: Final = 32


class Trial(NamedTuple):
    """Factors of a case: calls with and without a tip, under a policy for freed ``memory``."""

    tip: str
    network: str
    batch: int = BATCH
    memory: str = "returned"


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` for a case with other factors, or with layers of another batch size."""
    factors: dict[str, AllowedLevels] = {"tip": TIPS, "network": NETWORKS, "memory": POLICIES}
    # The cases have no subject, hence the empty key, and no further factors.
    check_factors(stored, {"": {**factors, "batch": int}}, closed={""})
    for index, case in enumerate(stored.record.cases):
        if {layer.input_shape[0] for layer in case.layers} != {case.factors["batch"]}:
            raise StudyError(
                f"data/{stored.file}: cases[{index}].layers: found another batch size than in "
                "the factors; run the experiment of this version again."
            )

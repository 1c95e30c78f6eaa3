"""Evaluate a study: read and choose its records, and compute its results.

``gather`` computes the results of a paper, ``replicate`` the results of a replication report.
"""

from typing import Final

#: Ending of the names of replication reports, such as ``conv_scaling-replication``.
REPORT_SUFFIX: Final = "-replication"


def is_report(name: str) -> bool:
    """Return whether ``name`` is the name of a replication report, not of a paper."""
    return name.endswith(REPORT_SUFFIX)


def study_of(name: str) -> str:
    """Return the study of a paper or a replication report with this ``name``."""
    return name.removesuffix(REPORT_SUFFIX)

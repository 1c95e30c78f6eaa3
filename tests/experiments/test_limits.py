"""Limits on memory: an allocation beyond them fails as an error, and nothing is left of them."""

from __future__ import annotations

import sys

import pytest

from experiments.harness import limits
from experiments.harness.outcomes import NotStartedError, outcome_of

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits need Linux")

MIB = 2**20


@linux
def test_what_goes_beyond_the_limit_fails_and_the_limit_goes_away() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(MemoryError), limits.limited(64 * MIB):
        bytearray(1024 * MIB)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    with limits.limited(64 * MIB):
        assert len(bytearray(MIB)) == MIB
    free = limits.available()
    assert free is not None
    with pytest.raises(MemoryError), limits.limited():
        bytearray(4 * free)


def test_a_case_that_cannot_fit_is_not_started_and_says_why() -> None:
    limits.refuse_beyond(10, free=10)
    with pytest.raises(NotStartedError) as refused:
        limits.refuse_beyond(27 * 10**9, free=8 * 10**9)
    status, reason = outcome_of(refused.value)
    assert status == "out_of_memory" and "27 GB" in reason and "8 GB" in reason

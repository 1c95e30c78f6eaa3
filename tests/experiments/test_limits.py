"""Limits on memory: an allocation beyond them fails as an error, and nothing is left of them."""

from __future__ import annotations

import sys

import pytest

from experiments.harness import limits

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

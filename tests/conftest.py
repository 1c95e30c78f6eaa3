"""What holds for all tests: none asserts a wall time, not even hypothesis of an example."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

"""What the modules that draw have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from matplotlib.artist import Artist

#: Series by what they were drawn as.  A series has a label, and its points in ``x`` and ``y``.
Drawn: TypeAlias = list[tuple[Any, Sequence[Artist]]]

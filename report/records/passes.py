"""The passes of one layer that studies measure, as records name them."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Pass: TypeAlias = Literal["forward", "forward_backward"]

PASSES: Final[tuple[Pass, ...]] = ("forward", "forward_backward")

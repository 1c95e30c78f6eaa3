"""The passes of one layer that studies measure, as records name them."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Pass: TypeAlias = Literal["forward", "forward_backward"]

PASSES: Final[tuple[Pass, ...]] = ("forward", "forward_backward")
PASS_NAMES: Final[dict[Pass, str]] = {
    "forward": "forward",
    "forward_backward": "forward and backward",
}
#: As tables with a column a pass name them.
SHORT_NAMES: Final[dict[Pass, str]] = {"forward": "F", "forward_backward": "F+B"}

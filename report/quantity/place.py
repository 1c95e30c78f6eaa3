"""The place in a study that builds a quantity, for messages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

#: The product's code and, in it, the studies, whose lines are named in messages.
_PRODUCT_CODE: Final = str(Path(__file__).parents[1]) + "/"
_STUDIES: Final = _PRODUCT_CODE + "studies/"


def caller() -> str:
    """File and line of the study, or other code outside the product, that builds the quantity."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _between(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{'/'.join(Path(frame.f_code.co_filename).parts[-3:])}:{frame.f_lineno}"


def _between(file: str) -> bool:
    """Whether ``file`` is code of the product that works for a study."""
    return file.startswith(_PRODUCT_CODE) and not file.startswith(_STUDIES)

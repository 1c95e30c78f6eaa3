"""Whether LaTeX is installed, and the mark of tests that need it."""

from __future__ import annotations

from typing import Final

import pytest

from report.missing import Missing
from report.render.latex import find_latex

TOOLS: Final = find_latex()
needs_latex: Final = pytest.mark.skipif(
    isinstance(TOOLS, Missing), reason=TOOLS.reason if isinstance(TOOLS, Missing) else ""
)

"""Whether LaTeX is installed, and the mark of tests that need it."""

from __future__ import annotations

from typing import Final

import pytest

from report.render.latex import latex_lacks

LACKING: Final = latex_lacks()
needs_latex: Final = pytest.mark.skipif(bool(LACKING), reason=LACKING)

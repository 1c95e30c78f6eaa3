"""The styles in which a paper can be printed; imports nothing, since every command names them."""

from __future__ import annotations

from typing import Final

#: What a paper may ask for in ``print-style``, and the one of a paper that does not.
STYLES: Final = ("ieee", "acm", "report", "article")
DEFAULT_STYLE: Final = "article"
#: The styles with one column of text as wide as the page.
ONE_COLUMN: Final = ("report", "article")

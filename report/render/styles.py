"""The styles in which a paper can be printed; imports nothing, since every command names them."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

PdfStandard: TypeAlias = Literal["ua-1", "a-2b"]

#: What a paper may ask for in ``print-style``, and the one of a paper that does not.
STYLES: Final = ("ieee", "acm", "report", "article")
DEFAULT_STYLE: Final = "article"
#: What Typst can promise of a PDF: that it is accessible, or that archives can keep it.
STANDARDS: Final[tuple[PdfStandard, ...]] = ("ua-1", "a-2b")
DEFAULT_STANDARD: Final[PdfStandard] = "ua-1"
#: The styles with one column of text as wide as the page.
ONE_COLUMN: Final = ("report", "article")

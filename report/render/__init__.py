"""Write papers as web pages and in print; these constants need no further imports."""

from typing import Final

#: Values of ``print-style`` in the front matter.
STYLES: Final = ("ieee", "acm", "report", "article")
DEFAULT_STYLE: Final = "article"
#: Styles with one column of text as wide as the page.
ONE_COLUMN: Final = ("report", "article")

#: Content-Security-Policy of pages: files of the same site only, no scripts or styles in pages.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'"
)

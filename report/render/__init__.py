"""Papers as pages and in print; what all rooms know of that stands here and imports nothing."""

from __future__ import annotations

from typing import Final

#: What a paper may ask for in ``print-style``, and the one of a paper that does not.
STYLES: Final = ("ieee", "acm", "report", "article")
DEFAULT_STYLE: Final = "article"
#: The styles with one column of text as wide as the page.
ONE_COLUMN: Final = ("report", "article")

#: What a browser may load for a page of the site: files of its own site, no script or style that
#: stands in the page itself, and nothing from elsewhere.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'"
)

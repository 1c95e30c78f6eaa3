"""What a browser may load for a page of the site."""

from __future__ import annotations

from typing import Final

#: Files of its own site, no script or style that stands in the page itself, and nothing from
#: elsewhere.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'"
)

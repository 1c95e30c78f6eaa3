"""Whether the packages of the project can be imported at all."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def require_packages() -> None:
    """Exit with one sentence where they cannot, as before ``source .venv/bin/activate``."""
    if find_spec("msgspec") is None:
        sys.exit(
            f"error: the packages of this project are not installed for {sys.executable}; run "
            "'source .venv/bin/activate' first, or install them as README.md says."
        )

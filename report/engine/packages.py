"""The versions of what the papers' bytes depend on beside the project's own code.

Versions of Python packages are read off the folders that installers leave beside a package, which
is a hundred times quicker than ``importlib.metadata``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Final

_ENDING: Final = ".dist-info"

#: What each kind of work depends on, with what that is built on.
READING: Final = ("msgspec", "pyyaml")
COMPUTING: Final = (*READING, "numpy", "scipy")
DRAWING: Final = (
    "contourpy", "cycler", "fonttools", "kiwisolver", "matplotlib", "numpy", "packaging", "pillow",
    "pyparsing", "python_dateutil",
)  # fmt: skip
WRITING: Final = ("jinja2", "markupsafe", "msgspec", "numpy", "pylatex", "pyyaml")
PANDOC: Final = ("pypandoc_binary", "pyyaml")
TYPST: Final = (*PANDOC, "fonttools", "typst")
PAGES: Final = (*PANDOC, "jinja2", "markupsafe", "msgspec")
CONVERTING: Final = (*PAGES, "fonttools")
LISTING: Final = (*PANDOC, "jinja2", "markupsafe")


def installed(path: Iterable[str] | None = None) -> dict[str, str]:
    """The installed packages, name → version; the first on ``path`` (``sys.path``) counts."""
    found: dict[str, str] = {}
    for folder in sys.path if path is None else path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in sorted(names):
            if name.endswith(_ENDING):
                package, _, version = name.removesuffix(_ENDING).partition("-")
                found.setdefault(package.lower().replace("-", "_"), version)
    return found


def versions(packages: Iterable[str], found: Mapping[str, str]) -> dict[str, str]:
    """The versions of ``packages`` and of Python; a package that is not there is «none»."""
    python = ".".join(map(str, sys.version_info[:3]))
    return {"python": python, **{name: found.get(name, "none") for name in packages}}

"""The packages that the bytes of a paper depend on."""

import os
import sys
from typing import Final

#: Packages that the bytes of a paper depend on; upgrading any of them rebuilds every paper.
PACKAGES: Final = (
    "contourpy", "cycler", "fonttools", "jinja2", "kiwisolver", "markupsafe", "matplotlib",
    "msgspec", "numpy", "packaging", "pandas", "pillow", "pylatex", "pyparsing", "pypandoc_binary",
    "python_dateutil", "pyyaml", "typst",
)  # fmt: skip


def installed_versions() -> dict[str, str]:
    """Map Python and ``PACKAGES`` to their versions; the first copy on ``sys.path`` counts.

    This function reads names of folders, a hundred times as fast as ``importlib.metadata``.
    """
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in sorted(names):
            if name.endswith(".dist-info"):
                package, _, version = name.removesuffix(".dist-info").partition("-")
                versions.setdefault(package.lower().replace("-", "_"), version)
    return {name: versions.get(name, "none") for name in ("python", *PACKAGES)}

"""Which packages and which TeX are installed, the latter found out once and then only looked at.

Asking TeX takes a tenth of a second and more, which is most of the time in which a build finds
that there is nothing to do.  So the answer is remembered with what the system says of the files
that it rests on: the programs on the PATH, TeX's own lists of its files, and the styles.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Final

#: What installers leave beside a package; ``importlib.metadata`` takes a hundred times as long.
_ENDING: Final = ".dist-info"
#: Whatever a paper may depend on; an upgrade is rare, and makes all of it anew.
PACKAGES: Final = (
    "contourpy", "cycler", "fonttools", "jinja2", "kiwisolver", "markupsafe", "matplotlib",
    "msgspec", "numpy", "packaging", "pillow", "pylatex", "pyparsing", "pypandoc_binary",
    "python_dateutil", "pyyaml", "typst",
)  # fmt: skip
_PROGRAMS: Final = ("latexmk", "pdflatex", "kpsewhich")


def find_tex(known: Mapping[str, Any]) -> Mapping[str, Any]:
    """TeX as it is now, where ``known`` is what was found before.

    ``version`` names all of it that a paper depends on; ``lacking`` says what is missing and how to
    install it, where LaTeX is not complete; ``looks`` are the files that the answer rests on.
    """
    path = os.environ.get("PATH", "").split(os.pathsep)
    programs = [os.path.join(folder, name) for folder in path for name in _PROGRAMS]
    looks = {file: _look(file) for file in (*programs, *known.get("files", ()))}
    if known.get("looks") == looks:
        return known
    from hashlib import sha256

    from report.engine.cache import file_digest
    from report.render.latex import latex_lacks, tex_files, tex_version

    lacking, version = latex_lacks(), "none"
    files, styles = tex_files()
    if not lacking:
        parts = (tex_version(), *(file_digest(path) or "none" for path in styles))
        version = sha256("\n".join(parts).encode()).hexdigest()
        files = [*files, *styles]
    looks = {file: _look(file) for file in (*programs, *files)}
    return {"version": version, "lacking": lacking, "files": files, "looks": looks}


def _look(path: str) -> list[int]:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return []
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def installed() -> dict[str, str]:
    """Python and the packages that papers are made by, name → version.

    Of packages that are there twice the first on ``sys.path`` counts.
    """
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in sorted(name for name in names if name.endswith(_ENDING)):
            package, _, version = name.removesuffix(_ENDING).partition("-")
            found.setdefault(package.lower().replace("-", "_"), version)
    return {name: found.get(name, "none") for name in ("python", *PACKAGES)}

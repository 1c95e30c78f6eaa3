"""Which packages and which TeX are installed, the latter found out once and then only looked at.

Asking TeX takes a tenth of a second and more, which is most of the time in which a build finds
that there is nothing to do.  So the answer is remembered with what the system says of the files
that it rests on: the programs on the PATH, TeX's own lists of its files, and the styles.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

#: What installers leave beside a package; ``importlib.metadata`` takes a hundred times as long.
_ENDING: Final = ".dist-info"
_PROGRAMS: Final = ("latexmk", "pdflatex", "kpsewhich")


class Tex(NamedTuple):
    """One TeX installation: ``version`` names all of it that a paper depends on.

    ``lacking`` says what is missing and how to install it, where LaTeX is not complete.
    """

    version: str
    lacking: str


def find_tex(remembered: dict[str, Any]) -> tuple[Tex, dict[str, Any]]:
    """TeX as it is now, and what to remember of it."""
    known = remembered.get("tex")
    if known and _unchanged(known):
        return Tex(known["version"], known["lacking"]), remembered
    tex, files = _asked()
    found = {"path": _on_path(), "looks": {file: _look(file) for file in files}}
    return tex, {"tex": {**tex._asdict(), **found}}


def _unchanged(known: dict[str, Any]) -> bool:
    looks = known["looks"].items()
    return known["path"] == _on_path() and all(_look(file) == look for file, look in looks)


def _on_path() -> dict[str, list[int | str]]:
    """Each program's path and what the system says of it; ``shutil.which`` is slow to import."""
    found: dict[str, list[int | str]] = {}
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        for name in _PROGRAMS:
            path = os.path.join(folder, name)
            if name not in found and os.access(path, os.X_OK):
                found[name] = [path, *_look(path)]
    return found


def _look(path: str) -> list[int]:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return []
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _asked() -> tuple[Tex, list[str]]:
    """What TeX says of itself, and the files that this rests on."""
    from report.engine.contents import file_digest, text_digest
    from report.missing import Missing
    from report.render.latex import find_latex, tex_files, tex_version

    found = find_latex()
    lists, styles = tex_files()
    if isinstance(found, Missing):
        return Tex("none", found.reason), lists
    digests = (file_digest(path) or "none" for path in styles)
    return Tex(text_digest(tex_version(found), *digests), ""), [*lists, *styles]


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

"""What code a step depends on: its module, and everything that imports lead to in the project.

Found by reading the code, not by running it, so that it is known before a step has run.  An
import that only type checkers see is none.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from report.engine.contents import Contents, files_below, text_digest

if TYPE_CHECKING:
    import ast

#: The packages of the project that build papers.
PACKAGES: Final = ("report", "figures")
#: How the files end that are data of a package.
_DATA: Final = ".json.gz"


class Code:
    """The modules of the project below ``root`` and what they import.

    ``remembered`` is what ``memory()`` gave after an earlier build: digest of a module's file and
    its name → the names that it imports.
    """

    def __init__(
        self, root: str, contents: Contents, remembered: dict[str, list[str]] | None = None
    ) -> None:
        self._root = root
        self._contents = contents
        self._old = remembered or {}
        self._memory: dict[str, list[str]] = {}
        self._files = dict(_modules(root))
        self._data = tuple(_data(root))
        self._imports: dict[str, tuple[str, ...]] = {}
        self._closures: dict[tuple[str, ...], dict[str, str]] = {}
        self._digests: dict[tuple[str, ...], str] = {}
        #: Whether ``memory()`` differs from what was remembered.
        self.learned = False

    def memory(self) -> dict[str, list[str]]:
        """What to remember of the modules that were asked for."""
        return self._memory

    def closure(self, roots: tuple[str, ...]) -> dict[str, str]:
        """The files that the modules ``roots`` are made of, relative to the project → digest.

        Raises ``KeyError`` for a module that the project does not have.
        """
        if roots not in self._closures:
            reached = self._reached(roots)
            files = {self._files[name] for name in reached}
            files |= {file for folder, file in self._data if folder in reached}
            self._closures[roots] = {file: self._file_digest(file) for file in sorted(files)}
        return self._closures[roots]

    def digest(self, roots: tuple[str, ...]) -> str:
        """One digest for the files of ``closure(roots)`` and their contents."""
        if roots not in self._digests:
            files = self.closure(roots).items()
            self._digests[roots] = text_digest(*(f"{file} {digest}" for file, digest in files))
        return self._digests[roots]

    def _reached(self, roots: Iterable[str]) -> set[str]:
        reached: set[str] = set()
        waiting = [
            name
            for root in roots
            for name in _with_packages(root)
            if name == root or name in self._files
        ]
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += self._imported_by(name)
        return reached

    def _imported_by(self, module: str) -> tuple[str, ...]:
        """The modules of the project that ``module`` imports, with the packages they are in."""
        if module not in self._imports:
            found = {
                part
                for name in self._names(module)
                if (target := self._module(name)) is not None
                for part in _with_packages(target)
                if part in self._files
            }
            self._imports[module] = tuple(found)
        return self._imports[module]

    def _module(self, name: str) -> str | None:
        """The module that an imported name is or stands in; None if it is not the project's."""
        if name in self._files:
            return name
        package = name.rpartition(".")[0]
        return package if package in self._files else None

    def _names(self, module: str) -> list[str]:
        """The names that ``module`` imports, as far as they may be the project's."""
        file = self._files[module]
        key = f"{module} {self._file_digest(file)}"
        if key not in self._memory:
            known = self._old.get(key)
            if known is None:
                known = sorted(_imported_names(module, os.path.join(self._root, file)))
                self.learned = True
            self._memory[key] = known
        return self._memory[key]

    def _file_digest(self, file: str) -> str:
        return self._contents.digest(os.path.join(self._root, file)) or "missing"


def _modules(root: str) -> Iterator[tuple[str, str]]:
    """Each module of the project and its file relative to ``root``."""
    for package in PACKAGES:
        for file in files_below(os.path.join(root, package), (".py",)):
            path = f"{package}/{file}"
            yield path.removesuffix(".py").removesuffix("/__init__").replace("/", "."), path


def _data(root: str) -> Iterator[tuple[str, str]]:
    """Each package with a file of data in its folder, which its code reads."""
    for package in PACKAGES:
        for file in files_below(os.path.join(root, package), (_DATA,)):
            path = f"{package}/{file}"
            yield path.rpartition("/")[0].replace("/", "."), path


def _with_packages(module: str) -> Iterator[str]:
    """``module`` and the packages it is in, whose code runs first."""
    while module:
        yield module
        module = module.rpartition(".")[0]


def _imported_names(module: str, path: str) -> set[str]:
    """The names that a file imports; none if it is no Python, which running it will tell."""
    import ast

    try:
        with open(path, "rb") as stream:
            tree = ast.parse(stream.read())
    except (OSError, SyntaxError, ValueError):
        return set()
    package = module if path.endswith("__init__.py") else module.rpartition(".")[0]
    names = {name for node in _running(tree) for name in _names_of(node, package)}
    return {name for name in names if name.split(".")[0] in PACKAGES}


#: Where a statement holds others.  No expression can import, and most nodes are expressions.
_BODIES: Final = ("body", "orelse", "finalbody", "handlers", "cases")


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """All statements in ``node`` but those that only type checkers see."""
    import ast

    yield node
    bodies: Iterable[str] = _BODIES
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        bodies = ("orelse",)
    for body in bodies:
        for child in getattr(node, body, ()):
            yield from _running(child)


def _names_of(node: ast.AST, package: str) -> Iterator[str]:
    import ast

    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        origin = ".".join([*(above if node.level else ()), *([node.module] if node.module else ())])
        yield origin
        yield from (f"{origin}.{alias.name}" for alias in node.names)

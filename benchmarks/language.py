"""Check the language of the code for ``make lint``: names, docstrings and comprehensions.

Prints counts and limits for each part of the project.  If a count exceeds its limit, the check
fails and lists the files with the most problems.  Lower a limit when its count has fallen.
"""

import ast
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
#: Identifiers that do not say what they name.
VAGUE: Final = frozenset({"each", "found", "here", "kept", "made", "mine", "said", "there", "told"})
#: Forbidden beginnings of docstrings: neither a verb nor a noun of the field.
BEGINNINGS: Final = ("What ", "That of ", "So many ", "Whether there ")
#: Files and folders that are checked.
CHECKED: Final = ("build.py", "report", "figures", "experiments")
#: Folder of the studies, which have limits of their own.
STUDIES: Final = "report/studies"
#: Number of files that are listed if a limit is exceeded.
_LISTED_FILES: Final = 20
#: Nodes that can have a docstring.
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


#: Part of the project → limits of vague identifiers, of docstrings with a forbidden beginning, of
#: all comprehensions, and of comprehensions that contain another comprehension (``nested``).
LIMITS: Final[dict[str, dict[str, int]]] = {
    STUDIES: {"identifiers": 0, "docstrings": 0, "comprehensions": 300, "nested": 0},
    "other code": {"identifiers": 0, "docstrings": 0, "comprehensions": 1116, "nested": 0},
}


def problems_of(files: Mapping[str, str]) -> list[tuple[str, str]]:
    """List the problems of Python code (file name → code) as (kind, ``FILE:LINE: text``)."""
    problems: list[tuple[str, str]] = []
    for file, code in files.items():
        for node in ast.walk(ast.parse(code)):
            place = f"{file}:{getattr(node, 'lineno', 1)}"
            if isinstance(node, _COMPREHENSIONS):
                problems.append(("comprehensions", place))
                # ``ast.walk`` also yields the comprehension itself.
                if sum(isinstance(inner, _COMPREHENSIONS) for inner in ast.walk(node)) > 1:
                    problems.append(("nested", f"{place}: nested"))
            name = _identifier(node)
            if name in VAGUE:
                problems.append(("identifiers", f"{place}: {name}"))
            docstring = ast.get_docstring(node) if isinstance(node, _DOCUMENTED) else None
            if docstring and docstring.startswith(BEGINNINGS):
                problems.append(("docstrings", f"{place}: {docstring.splitlines()[0]}"))
    return problems


def _identifier(node: ast.AST) -> str:
    """Return the identifier of a variable, argument or attribute; empty for other nodes."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.arg):
        return node.arg
    return node.attr if isinstance(node, ast.Attribute) else ""


def main(skipped: Collection[str] = ()) -> int:
    """Check files whose name and folder are not ``skipped``; return 1 if a limit is exceeded."""
    files_by_part: dict[str, dict[str, str]] = {part: {} for part in LIMITS}
    for name in CHECKED:
        for path in (ROOT / name).rglob("*.py") if (ROOT / name).is_dir() else [ROOT / name]:
            file = path.relative_to(ROOT).as_posix()
            if path.stem in skipped or path.parent.name in skipped:
                continue
            part = STUDIES if file.startswith(f"{STUDIES}/") else "other code"
            files_by_part[part][file] = path.read_text("utf-8")
    is_exceeded = False
    for part, limits in LIMITS.items():
        problems = problems_of(files_by_part[part])
        for kind, limit in limits.items():
            places = [place for problem_kind, place in problems if problem_kind == kind]
            print(f"{part}: {len(places):,} {kind}, at most {limit:,}")
            if len(places) > limit:
                is_exceeded = True
                places_by_file = Counter(place.partition(":")[0] for place in places)
                for file, number in places_by_file.most_common(_LISTED_FILES):
                    print(f"  {file}: {number}")
    return int(is_exceeded)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

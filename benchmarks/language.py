"""Check the language of the code for ``make lint``: names, docstrings and comprehensions.

Prints counts and limits for each part of the project.  If a count exceeds its limit, the check
fails and lists the files with the most problems.  Lower a limit when its count has fallen.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from operator import gt
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
#: Identifiers that do not say what they name.
VAGUE: Final = frozenset({"each", "found", "here", "kept", "made", "mine", "said", "there", "told"})
#: Forbidden beginnings of docstrings: neither a verb nor a noun of the field.
BEGINNINGS: Final = ("What", "That of", "So many", "Whether there")
#: Files and folders that are checked.
CHECKED: Final = ("build.py", "report", "figures", "experiments")
#: Folder of the studies, which have limits of their own.
STUDIES: Final = "report/studies"
#: Number of files that are listed if a limit is exceeded.
_LISTED_FILES: Final = 20
_BEGINNING: Final = re.compile(rf"(?:{'|'.join(BEGINNINGS)})\b")
#: Nodes that can have a docstring.
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Counts(NamedTuple):
    """Numbers of vague identifiers, of docstrings with a forbidden beginning, of comprehensions.

    ``nested`` counts comprehensions that contain another comprehension.
    """

    identifiers: int
    docstrings: int
    comprehensions: int
    nested: int


#: Part of the project → limits.
LIMITS: Final = {STUDIES: Counts(0, 0, 375, 0), "other code": Counts(0, 0, 1255, 0)}


def count(files: Mapping[str, str]) -> tuple[Counts, list[str]]:
    """Count the problems of Python code (file name → code), and list them.

    A listed problem is ``FILE:LINE: text``.  Comprehensions are listed only if they are nested.
    """
    problems: list[str] = []
    identifiers, docstrings, comprehensions, nested = 0, 0, 0, 0
    for file, code in files.items():
        for node in ast.walk(ast.parse(code)):
            place = f"{file}:{getattr(node, 'lineno', 1)}"
            if isinstance(node, _COMPREHENSIONS):
                comprehensions += 1
                # ``ast.walk`` also yields the comprehension itself.
                if sum(isinstance(inner, _COMPREHENSIONS) for inner in ast.walk(node)) > 1:
                    nested += 1
                    problems.append(f"{place}: nested")
            name = _identifier(node)
            if name in VAGUE:
                identifiers += 1
                problems.append(f"{place}: {name}")
            docstring = ast.get_docstring(node) if isinstance(node, _DOCUMENTED) else None
            if docstring and _BEGINNING.match(docstring):
                docstrings += 1
                problems.append(f"{place}: {docstring.splitlines()[0]}")
    return Counts(identifiers, docstrings, comprehensions, nested), problems


def _identifier(node: ast.AST) -> str:
    """Return the identifier of a variable, argument or attribute; empty for other nodes."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.arg):
        return node.arg
    return node.attr if isinstance(node, ast.Attribute) else ""


def main(skipped: Collection[str] = ()) -> int:
    """Check the project without the ``skipped`` studies; return 1 if a limit is exceeded."""
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
        counts, problems = count(files_by_part[part])
        for kind, number, limit in zip(Counts._fields, counts, limits, strict=True):
            print(f"{part}: {number:,} {kind}, at most {limit:,}")
        if any(map(gt, counts, limits)):
            is_exceeded = True
            problems_by_file = Counter(problem.partition(":")[0] for problem in problems)
            for file, number in problems_by_file.most_common(_LISTED_FILES):
                print(f"  {file}: {number}")
    return int(is_exceeded)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

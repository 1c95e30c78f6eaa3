"""How large the code is, printed by ``make size``: lines by room and study, functions, modules.

What a goal limits is printed beside its limit; nothing fails here, since a limit is a matter for
the person who reads the change.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
ROOMS: Final = ("build.py", "report", "experiments", "figures", "tests", "benchmarks")
#: Functions of the product; those of tests are tables of cases.
_PRODUCT: Final = ROOMS[:4]
_LONGEST: Final = 5


class Function(NamedTuple):
    """A function and its length in lines, decorators and docstring included."""

    lines: int
    place: str


def modules(room: str) -> Iterator[Path]:
    """The Python files of a room, which may be a file itself."""
    path = ROOT / room
    yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


def lines(room: str) -> int:
    """All lines of a room, blank ones and comments too."""
    return sum(_lines(path) for path in modules(room))


def functions(room: str) -> Iterator[Function]:
    """Every function of a room."""
    for path in modules(room):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                yield Function(length, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def report() -> str:
    """The size as text, one fact a line."""
    rooms = {room: lines(room) for room in ROOMS}
    found = sorted((f for room in _PRODUCT for f in functions(room)), reverse=True)
    lengths = [function.lines for function in found]
    studies = sorted(path for path in (ROOT / "report" / "studies").iterdir() if path.is_dir())
    large = [path for room in _PRODUCT for path in modules(room) if _lines(path) > 400]
    return "\n".join(
        [
            f"Python in all: {sum(rooms.values()):,} lines (goal 62,000)",
            *(f"  {room}: {number:,}" for room, number in rooms.items()),
            f"report/studies: {lines('report/studies'):,} lines (goal 9,000)",
            *(
                f"  {path.name}: {number:,}"
                for path in studies
                if (number := lines(str(path.relative_to(ROOT))))
            ),
            f"functions: median {median(lengths):g} (goal 7), 90th percentile "
            f"{quantiles(lengths, n=10)[-1]:g} (20), longest {lengths[0]} (45)",
            *(f"  {function.lines}: {function.place}" for function in found[:_LONGEST]),
            f"modules above 400 lines: {', '.join(str(p.relative_to(ROOT)) for p in large) or 0}",
        ]
    )


if __name__ == "__main__":
    print(report())

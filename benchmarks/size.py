"""Print the size of the code for ``make size``: lines of Python per part, and budgets.

The command never fails; reviewers of a change judge its size.
"""

import ast
from collections import Counter
from pathlib import Path
from statistics import median, quantiles
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
#: Part → budget in lines, and path prefixes; a file belongs to the first part that matches.
PARTS: Final[dict[str, tuple[int, tuple[str, ...]]]] = {
    "report/studies": (6_300, ("report/studies/",)),
    "report/theory": (3_200, ("report/theory/",)),
    "report/core/records": (2_500, ("report/core/records/",)),
    "report/engine": (1_900, ("report/engine/",)),
    "report/evaluation": (600, ("report/evaluation/",)),
    "report/commands": (1_100, ("report/commands/",)),
    "report/paper + core/text": (2_200, ("report/paper/", "report/core/text/")),
    "report/evidence": (1_900, ("report/evidence/",)),
    "report/render": (1_700, ("report/render/",)),
    "report/instruments": (1_400, ("report/instruments/",)),
    "report/quantity + core/statistics": (1_900, ("report/quantity/", "report/core/statistics/")),
    "report/core: system, errors, missing": (300, ("report/",)),
    "figures + build.py": (1_900, ("figures/", "build.py")),
    "experiments/machine": (720, ("experiments/machine/",)),
    "experiments/counters": (340, ("experiments/counters/",)),
    "experiments/commands": (400, ("experiments/commands/",)),
    "experiments/harness": (2_900, ("experiments/harness/",)),
    "experiments/importers": (700, ("experiments/importers/",)),
    "experiments/backends": (900, ("experiments/backends/",)),
    "experiments/compare": (450, ("experiments/compare/",)),
    "experiments/networks + datasets": (1_300, ("experiments/networks/", "experiments/datasets.")),
    "experiments/theory": (1_460, ("experiments/theory/",)),
    "experiments/cluster": (150, ("experiments/cluster/",)),
    "experiments: command line": (300, ("experiments/__", "experiments/registry.")),
    "experiments: studies": (1_650, ("experiments/",)),
    "tests": (16_000, ("tests/",)),
    "benchmarks": (1_000, ("benchmarks/",)),
}
#: Budget of all parts together, in lines.
BUDGET: Final = 54_000


def report() -> str:
    """Return the table of parts, and statistics of functions without tests and benchmarks."""
    folders = ("report", "figures", "experiments", "tests", "benchmarks")
    paths = [ROOT / "build.py"]
    for folder in folders:
        paths += (ROOT / folder).rglob("*.py")
    sizes = {path.relative_to(ROOT).as_posix(): path.read_bytes().count(b"\n") for path in paths}
    part_sizes: Counter[str] = Counter()
    for file, number in sizes.items():
        part = next(name for name, (_, prefixes) in PARTS.items() if file.startswith(prefixes))
        part_sizes[part] += number
    counted = [file for file in sizes if not file.startswith(("tests/", "benchmarks/"))]
    functions = sorted((item for file in counted for item in _functions(file)), reverse=True)
    lengths = [length for length, _ in functions]
    module = max(counted, key=sizes.__getitem__)
    return "\n".join(
        [
            f"{'Part':<34}{'Lines':>8}{'Budget':>8}",
            *(f"{name:<34}{part_sizes[name]:>8,}{most:>8,}" for name, (most, _) in PARTS.items()),
            f"{'all':<34}{sum(part_sizes.values()):>8,}{BUDGET:>8,}",
            f"Functions: median {median(lengths):g}, 90th percentile "
            f"{quantiles(lengths, n=10)[-1]:g}, largest {lengths[0]} lines ({functions[0][1]})",
            f"Modules: {len(sizes)}, largest {sizes[module]} lines ({module})",
        ]
    )


def _functions(file: str) -> list[tuple[int, str]]:
    """Return the number of lines and the place of every function, with its docstring."""
    functions = []
    for node in ast.walk(ast.parse((ROOT / file).read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            functions.append((length, f"{file}:{node.lineno} {node.name}"))
    return functions


if __name__ == "__main__":
    print(report())

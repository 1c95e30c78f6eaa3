"""What the Lua filter adds to a call of pandoc: each paper's page with it and without, in turns."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.engines import Call, Task, perform, prepare
from benchmarks.environment import begin, finish
from benchmarks.progress import Tell
from benchmarks.results import Filtered, Filtering

REPEATS: Final = 5
_OPTION: Final = "--lua-filter"
_STRICT: Final = "--fail-if-warnings"


def measure(tell: Tell, repeats: int = REPEATS) -> Filtering:
    """Both calls of every paper, ``repeats`` times; raises ``CommandError`` if pandoc refuses."""
    start = begin()
    with tempfile.TemporaryDirectory(prefix="filter-") as scratch:
        tell("prepares the papers", 0.0)
        tasks = [task for task in prepare(Path(scratch)).tasks if task.kind == "pandoc html5"]
        papers = []
        for number, task in enumerate(tasks):
            tell(task.study, (number + 1) / (len(tasks) + 1))
            papers.append(_filtered(task, repeats))
    return Filtering(environment=finish(start, {}), papers=tuple(papers))


def _filtered(task: Task, repeats: int) -> Filtered:
    bare = replace(task, what=without_filter(task.what))
    taken = [(perform(task), perform(bare)) for _ in range(repeats)]
    with_filter, without = zip(*taken, strict=True)
    return Filtered(study=task.study, with_filter=with_filter, without=without)


def without_filter(call: Call) -> Call:
    """The same call without its Lua filters; raises ``ValueError`` where it has none.

    What the filter resolves then stays as it is, of which pandoc warns.
    """
    own = [each for each in call.arguments if each.startswith(f"{_OPTION}=")]
    kept = tuple(each for each in call.arguments if each not in (*own, _STRICT))
    if not own:
        raise ValueError(f"pandoc is called without {_OPTION}=FILE: {' '.join(call.arguments)}")
    return replace(call, arguments=kept)

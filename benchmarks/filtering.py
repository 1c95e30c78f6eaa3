"""What the Lua filter adds to pandoc's work on a page, with it and without it in turns."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.engines import Call, Task, perform, prepare
from benchmarks.environment import begin, finish
from benchmarks.progress import Tell
from benchmarks.results import Filtered, Filtering

REPEATS: Final = 5
_PROGRAM: Final = Path(__file__).with_name("without_filter.lua")


def measure(tell: Tell, repeats: int = REPEATS) -> Filtering:
    """Both calls of every paper, ``repeats`` times; raises ``CommandError`` if pandoc refuses."""
    start = begin()
    with tempfile.TemporaryDirectory(prefix="filter-") as scratch:
        tell("prepares the papers", 0.0)
        tasks = [task for task in prepare(Path(scratch)).tasks if task.kind == "pandoc"]
        papers = []
        for number, task in enumerate(tasks):
            tell(task.study, (number + 1) / (len(tasks) + 1))
            papers.append(_filtered(task, repeats))
    return Filtering(environment=finish(start, {}), papers=tuple(papers))


def _filtered(task: Task, repeats: int) -> Filtered:
    page = replace(task, what=page_alone(task.what))
    bare = replace(page, what=without_filter(page.what))
    taken = [(perform(page), perform(bare)) for _ in range(repeats)]
    with_filter, without = zip(*taken, strict=True)
    return Filtered(study=task.study, with_filter=with_filter, without=without)


def page_alone(call: Call) -> Call:
    """The same call for nothing but the page."""
    job = json.loads(call.stdin or b"")
    pages = [edition for edition in job["editions"] if edition["to"] == "html"]
    return replace(call, stdin=json.dumps({"editions": pages, "plain": []}).encode())


def without_filter(call: Call) -> Call:
    """The same call by a program that has no filter."""
    return replace(call, arguments=(*call.arguments[:-1], str(_PROGRAM)))

"""Fast replacements for commands that ``test_walkthrough`` runs, and for worker processes.

``python -m tests.stand_ins FUNCTION WORDS`` calls a function with the words of a command line.
"""

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any


def measure(words: Sequence[str]) -> int:
    """Run ``python -m experiments`` for width 64 in one process, without measuring peak rates."""
    import experiments.__main__ as program
    from experiments.harness import processes, rounds

    request_of = program.request_of

    def small_request_of(options: Namespace) -> object:
        request, changes = request_of(options), {"processes": {"default": 1}}
        return replace(request, settings=("width=64",), ceilings="none", changes=changes)

    program.request_of = small_request_of
    processes.start_worker = fork_worker
    rounds.MAX_REPEATS = 0
    return program.main(words)


@contextmanager
def fork_worker(task: Any, *_: object) -> Iterator[Any]:
    """Do a worker's task in a fork of this process, which has imported torch already."""
    import msgspec

    from experiments.harness import processes, worker

    with TemporaryDirectory() as name:
        task_file, results = Path(name, "task.json"), Path(name, "lines.jsonl")
        task_file.write_bytes(msgspec.json.encode(task))
        child = worker.fork(partial(worker.main, task_file, results))
        Path(name, "output.txt").touch()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        yield processes.Worker(SimpleNamespace(wait=lambda _: code, returncode=code), Path(name))


def parse_experiments(words: Sequence[str]) -> int:
    """Parse the command line of ``python -m experiments`` and do nothing."""
    from experiments.__main__ import parser

    parser().parse_args(words)
    return 0


def parse_build(words: Sequence[str]) -> int:
    """Parse the command line of ``build.py`` and do nothing."""
    from report.commands.arguments import parse

    parse(words)
    return 0


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]](sys.argv[2:]))

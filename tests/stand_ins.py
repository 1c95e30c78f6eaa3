"""Fast replacements for commands of the documentation, which ``test_walkthrough`` runs.

``python -m tests.stand_ins FUNCTION WORDS`` calls a function with the words of a command line.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace


def measure(words: Sequence[str]) -> int:
    """Run ``python -m experiments`` for width 64 in one process, without measuring peak rates."""
    import experiments.__main__ as program

    request_of = program.request_of

    def small_request_of(options: Namespace) -> object:
        request, changes = request_of(options), {"processes": {"default": 1}}
        return replace(request, settings=("width=64",), ceilings="none", changes=changes)

    program.request_of = small_request_of
    return program.main(words)


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

"""Replacements for the commands of the documentation, for ``test_walkthrough``.

``python -m tests.stand_ins FUNCTION WORDS`` calls a function with the words of a command line.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace


def measure(words: Sequence[str]) -> int:
    """Run ``python -m experiments`` for one case in one process, without measuring peak rates."""
    import experiments.__main__ as program

    request_of = program.request_of

    def small_request_of(options: Namespace) -> object:
        request, changes = request_of(options), {"processes": {"default": 1}}
        return replace(request, settings=("width=64",), ceilings="none", changes=changes)

    program.request_of = small_request_of
    return program.main(words)


def read_experiments(words: Sequence[str]) -> int:
    """Read the command line of ``python -m experiments`` and do nothing."""
    from experiments.__main__ import parser

    parser().parse_args(words)
    return 0


def read_build(words: Sequence[str]) -> int:
    """Read the command line of ``build.py`` and do nothing."""
    from report.commands.arguments import parse

    parse(words)
    return 0


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]](sys.argv[2:]))

"""Completion of the project's commands in a shell, by argcomplete."""

from __future__ import annotations

import os
from argparse import ArgumentParser


def complete(parser: ArgumentParser) -> None:
    """Answer a shell that asks how a command line may go on, and exit; else nothing.

    argcomplete is imported for such a question only, since every command comes by here.
    """
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)

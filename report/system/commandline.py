"""The command line of both programs: tables of options, and errors in one sentence.

A line of a table is an option: its names, «!» if it must be given, what it takes, the default in
brackets, and its help, which may go on in indented lines.  It takes «–» nothing, ``a|b`` one of
these, a word with dots a list that grows each time it is given, and else a value of a named type.
A line without an option is the title of those that follow.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NoReturn

from report.errors import UsageError

_OPTION: Final = re.compile(r"(-[^!]+?)(!?)  (\S+)(?: \[(\S+)\])?  (.+)")


class Parser(argparse.ArgumentParser):
    """A parser whose options stand in tables; ``UsageError`` says what is wrong with a line."""

    def __init__(self, **how: Any) -> None:
        # Asked for the terminal's width, argparse imports as much as a build with nothing to do.
        formatter = partial(argparse.RawDescriptionHelpFormatter, width=100)
        super().__init__(**{"formatter_class": formatter, **how})

    def error(self, message: str) -> NoReturn:
        """Say it as all errors are said."""
        raise UsageError(f"{message[:1].upper()}{message[1:]}; {self.prog} --help tells more.")

    def add_options(
        self, table: str, types: Mapping[str, Callable[[str], Any]] = MappingProxyType({})
    ) -> argparse._ActionsContainer:
        """Add the options of a table; returns the last group.

        ``types`` make a value of the word that an option takes; of all others it is a text.
        """
        group: argparse._ActionsContainer = self
        makes = {"COUNT": _count, "DIR": Path, "FILE": Path, **types}
        for line in table.replace("\n  ", " ").strip().splitlines():
            if (matched := _OPTION.fullmatch(line)) is None:
                group = self.add_argument_group(line)
                continue
            names, required, takes, default, meaning = matched.groups()
            how: dict[str, Any] = {"help": f"{meaning}; default: {default}" if default else meaning}
            if takes == "–":
                how["action"] = "store_true"
            elif takes.endswith("..."):
                how |= {"action": "append", "default": [], "metavar": takes}
            elif "|" in takes:
                how |= {"choices": takes.split("|"), "default": default}
            else:
                how |= {"type": makes.get(takes, str), "metavar": takes, "default": default}
                how["required"] = bool(required)
            group.add_argument(*names.split(", "), **how)
        return group

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """What a command line asks for; answers a shell that asks how the line may go on."""
        if "_ARGCOMPLETE" in os.environ:
            import argcomplete

            argcomplete.autocomplete(self)
        return self.parse_args(arguments)


def _count(text: str) -> int:
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")

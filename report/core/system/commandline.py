"""The command line of both programs: tables of options, and errors in one sentence.

A line of a table is an option, or an argument without dashes: its names, «!» if it must be given,
what it takes, the default in brackets, and its help, which may go on in indented lines.  It takes
«–» nothing, ``a|b`` one of these, a word with dots a list that grows each time it is given, words
with a comma one each, and else a value of a named type.  «*» and «+» behind it say how many, and
«?» that it may be left out, where an option has its default.  A line without an option is the title
of those that follow.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from report.core.errors import UsageError

_OPTION: Final = re.compile(r"(\S[^!]*?)(!?)  (\S+?)([?*+]?)(?: \[(\S+)\])?  (.+)")


class Parser(argparse.ArgumentParser):
    """A parser whose options stand in tables; ``UsageError`` says what is wrong with a line."""

    def __init__(self, **how: Any) -> None:
        # Asked for the terminal's width, argparse imports as much as a build with nothing to do.
        formatter = partial(argparse.RawDescriptionHelpFormatter, width=100)
        super().__init__(**{"formatter_class": formatter, **how})

    def error(self, message: str) -> NoReturn:
        """Say it as all errors are said."""
        raise UsageError(f"{message[:1].upper()}{message[1:]}; {self.prog} --help tells more.")

    def add_options(self, table: str, types: Mapping[str, Callable[[str], Any]]) -> None:
        """Add the options of a table.

        ``types`` make a value of the word that an option takes; of all others it is a text.
        """
        group: argparse._ActionsContainer = self
        makes: dict[str, Callable[[str], Any]] = {
            "COUNT": positive_count,
            "DIR": some_path,
            "FILE": some_path,
            **types,
        }
        for line in table.replace("\n  ", " ").strip().splitlines():
            if (matched := _OPTION.fullmatch(line)) is None:
                group = self.add_argument_group(line)
                continue
            names, required, takes, number, default, meaning = matched.groups()
            how: dict[str, Any] = {"help": f"{meaning}; default: {default}" if default else meaning}
            if takes == "–":
                how["action"] = "store_true"
            elif takes.endswith("..."):
                how |= {"action": "append", "default": [], "metavar": takes}
            elif "|" in takes:
                how |= {"choices": takes.split("|"), "default": default}
            elif "," in takes:
                how |= {"nargs": 2, "metavar": tuple(takes.split(","))}
            else:
                how |= {"type": makes.get(takes, str), "metavar": takes, "default": default}
            if number:
                how["nargs"] = number
            if number and default:
                how |= {"const": makes[takes](default), "default": None}
            if required:
                how["required"] = True
            group.add_argument(*names.split(", "), **how)


def some_path(text: str) -> Path:
    """Read a path; an empty one is an error."""
    if text:
        return Path(text)
    raise argparse.ArgumentTypeError("the name is empty")


def positive_count(text: str) -> int:
    """Read a whole number of 1 or more."""
    if text.isascii() and text.isdecimal() and int(text) >= 1:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")

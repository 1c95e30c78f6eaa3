"""Command lines: tables of options, and errors in one sentence.

A line of a table describes an option, or an argument (a name without dashes): names, «!» if it is
required, value, default in brackets, help.  Indented lines continue the help.  The value is «–»
(none), ``a|b`` (one of these), ``WORD...`` (a list that grows with each use), ``A,B`` (two words)
or a named type; «*», «+» and «?» after it mean the same as argparse's ``nargs``.  A line without
two blanks between its parts is the title of a group.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from report.core.errors import UsageError

_OPTION: Final = re.compile(r"(\S[^!]*?)(!?)  (\S+?)([?*+]?)(?: \[(\S+)\])?  (.+)")


class Parser(argparse.ArgumentParser):
    """A parser that reads tables of options and raises ``UsageError``."""

    def __init__(self, **how: Any) -> None:
        # A fixed width: to ask for the terminal's, argparse would import shutil, which is slow.
        formatter = partial(argparse.RawDescriptionHelpFormatter, width=100)
        super().__init__(**{"formatter_class": formatter, **how})

    def error(self, message: str) -> NoReturn:
        """Raise ``UsageError`` with argparse's message."""
        raise UsageError(f"{message[:1].upper()}{message[1:]}; {self.prog} --help tells more.")

    def add_options(self, table: str, types: Mapping[str, Callable[[str], Any]]) -> None:
        """Add the options of a table.

        ``types`` maps the name of a value to its parser; other values are text.  Raises
        ``ValueError`` for a line that begins like an option and is none.
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
                if line.startswith("-"):
                    raise ValueError(f"the option {line!r} needs two blanks between its parts")
                group = self.add_argument_group(line)
                continue
            names, required, takes, number, default, meaning = matched.groups()
            text = f"{meaning}; default: {default}" if default else meaning
            how: dict[str, Any] = {"help": text.replace("%", "%%")}  # argparse formats the help
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


def named_values(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Read values of an option, each as NAME=VALUE; raises ``UsageError``."""
    values: dict[str, str] = {}
    for text in texts:
        name, _, value = map(str.strip, text.partition("="))
        if not (name and value):
            raise UsageError(f"{option} {text} is not possible; write NAME=VALUE.")
        values[name] = value
    return values


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

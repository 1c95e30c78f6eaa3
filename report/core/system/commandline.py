"""Command lines: tables of options, and errors in one sentence.

A line of a table describes an option or an argument (a name without dashes), in parts separated by
two blanks::

    --seed, -s  COUNT [1]  number that determines the order of cases

The parts are the names, with «!» if the option is required, the value, with a default in brackets,
and the help.  Indented lines continue the help.  The value is «–» (no value), ``a|b`` (a or b),
``WORD...`` (a list that grows with each use), ``A,B`` (two words) or the name of a type.  «*», «+»
and «?» after the value are argparse's ``nargs``.  A line without two blanks is a group's title.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from report.core.errors import UsageError

#: A line of a table: names, «!», value, ``nargs``, default, help.
_OPTION: Final = re.compile(r"(\S[^!]*?)(!?)  (\S+?)([?*+]?)(?: \[(\S+)\])?  (.+)")


class Parser(argparse.ArgumentParser):
    """A parser that reads tables of options and raises ``UsageError``."""

    def __init__(self, **settings: Any) -> None:
        # A fixed width: argparse would import shutil (slow) to ask for the terminal's width.
        formatter = partial(argparse.RawDescriptionHelpFormatter, width=100)
        super().__init__(**{"formatter_class": formatter, **settings})

    def error(self, message: str) -> NoReturn:
        """Raise ``UsageError`` with argparse's message."""
        raise UsageError(f"{message[:1].upper()}{message[1:]}; {self.prog} --help tells more.")

    def add_options(self, table: str, types: Mapping[str, Callable[[str], Any]]) -> None:
        """Add the options of a table.

        ``types`` maps the name of a value to its parser, as ``COUNT``, ``DIR`` and ``FILE`` have
        one; other values are text.  Raises ``ValueError`` for an invalid line that begins with a
        dash.
        """
        group: argparse._ActionsContainer = self
        parsers: dict[str, Callable[[str], Any]] = {
            "COUNT": positive_count,
            "DIR": some_path,
            "FILE": some_path,
            **types,
        }
        for line in table.replace("\n  ", " ").strip().splitlines():
            match = _OPTION.fullmatch(line)
            if match is None:
                if line.startswith("-"):
                    raise ValueError(f"the option {line!r} needs two blanks between its parts")
                group = self.add_argument_group(line)
                continue
            names, required, value, nargs, default, meaning = match.groups()
            text = f"{meaning}; default: {default}" if default else meaning
            keywords: dict[str, Any] = {"help": text.replace("%", "%%")}  # argparse formats with %
            if value == "–":
                keywords["action"] = "store_true"
            elif value.endswith("..."):
                keywords |= {"action": "append", "default": [], "metavar": value}
            elif "|" in value:
                keywords |= {"choices": value.split("|"), "default": default}
            elif "," in value:
                keywords |= {"nargs": 2, "metavar": tuple(value.split(","))}
            else:
                keywords |= {"type": parsers.get(value, str), "metavar": value, "default": default}
            if nargs:
                keywords["nargs"] = nargs
            if nargs and default:
                # The default applies to an option that is given without a value.
                keywords |= {"const": parsers[value](default), "default": None}
            if required:
                keywords["required"] = True
            group.add_argument(*names.split(", "), **keywords)


def named_values(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Parse the values NAME=VALUE of an option; raises ``UsageError``."""
    values: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not (name.strip() and value.strip()):
            raise UsageError(f"{option} {text} is not possible; write NAME=VALUE.")
        values[name.strip()] = value.strip()
    return values


def some_path(text: str) -> Path:
    """Parse a path; an empty text is an error."""
    if text:
        return Path(text)
    raise argparse.ArgumentTypeError("the name is empty")


def positive_count(text: str) -> int:
    """Parse a whole number of 1 or more."""
    if text.isascii() and text.isdecimal() and int(text) >= 1:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")

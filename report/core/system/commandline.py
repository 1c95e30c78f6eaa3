"""Command lines: parse tables of options, and raise errors of one sentence.

A line of a table describes an option, or an argument (a name without dashes), in three parts
separated by two spaces::

    --seed, -s  COUNT [1]  number that determines the order of cases

1. The names, with «!» after them if the option is required.
2. The value: «–» (none), ``a|b`` (a or b), ``WORD...`` (appended to a list by each use), ``A,B``
   (two words) or the name of a type.  «*», «+» or «?» after it is argparse's ``nargs``, and a text
   in brackets the default.
3. The help, which indented lines continue.

A line without two spaces is the title of a group of options.
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
        """Raise ``UsageError`` with argparse's message; argparse would exit."""
        raise UsageError(f"{message[:1].upper()}{message[1:]}; {self.prog} --help tells more.")

    def add_options(self, table: str, types: Mapping[str, Callable[[str], Any]]) -> None:
        """Add the options of a table.

        ``types``: name of a type → function that parses a value, in addition to ``COUNT``, ``DIR``
        and ``FILE``.  Values of all other types are text.  Raises ``ValueError`` for a line that
        begins with a dash and does not have three parts.
        """
        group: argparse._ActionsContainer = self
        parsers: dict[str, Callable[[str], Any]] = {
            "COUNT": parse_count,
            "DIR": parse_path,
            "FILE": parse_path,
            **types,
        }
        for line in table.replace("\n  ", " ").strip().splitlines():
            match = _OPTION.fullmatch(line)
            if match is None:
                if line.startswith("-"):
                    raise ValueError(f"the option {line!r} needs two spaces between its parts")
                group = self.add_argument_group(line)
                continue
            names, required, value, nargs, default, meaning = match.groups()
            text = meaning
            if default:
                is_sentence = meaning.endswith(".")
                text += f" Default: {default}." if is_sentence else f"; default: {default}"
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
                # The default applies to an option without a value, not to an absent option.
                keywords |= {"const": parsers[value](default), "default": None}
            if required:
                keywords["required"] = True
            group.add_argument(*names.split(", "), **keywords)


def parse_named_values(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Parse texts NAME=VALUE to name → value; raise ``UsageError`` without a name or a value."""
    values: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not (name.strip() and value.strip()):
            raise UsageError(f"{option} {text} is not possible; write NAME=VALUE.")
        values[name.strip()] = value.strip()
    return values


def parse_path(text: str) -> Path:
    """Parse a path; raises ``ArgumentTypeError`` for an empty text."""
    if text:
        return Path(text)
    raise argparse.ArgumentTypeError("the name is empty")


def parse_count(text: str) -> int:
    """Parse a whole number of 1 or more; raises ``ArgumentTypeError`` for any other text."""
    if text.isascii() and text.isdecimal() and int(text) >= 1:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")

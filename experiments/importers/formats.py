"""Which formats can be imported, in the order in which a file is tried."""

from __future__ import annotations

import csv
from importlib import import_module
from typing import Final, Protocol, cast

from experiments.importers.imported import Imported, RefusedError, Source

#: Format → module; more special formats come before those that would take their files too.
FORMATS: Final[dict[str, str]] = {
    "allocator_snapshot": "experiments.importers.allocator_snapshot",
    "kineto_trace": "experiments.importers.kineto_trace",
    "memory_timeline": "experiments.importers.memory_timeline",
    "timm_csv": "experiments.importers.timm_csv",
    "tidy_csv": "experiments.importers.tidy_csv",
    "ncu_csv": "experiments.importers.ncu_csv",
}

#: Formats of which no test reads a file that the tool itself has written on a GPU.
EXPERIMENTAL: Final = frozenset({"allocator_snapshot"})
#: What a file raises that holds something else than its format says, in a place not foreseen.
_UNFORESEEN: Final = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, csv.Error,
)  # fmt: skip


class Importer(Protocol):
    """A module of a format."""

    def detects(self, source: Source) -> bool:
        """Whether the content of ``source`` is of this format, whole or not."""

    def read(self, source: Source) -> Imported:
        """What the file says; raises ``RefusedError``."""


def read_as(source: Source, wanted: str | None = None) -> tuple[str, Imported]:
    """The format of ``source`` and what it says; ``wanted`` is a format that the user names.

    Raises ``RefusedError`` for a file of no format or of another one than wanted, and
    ``RecordError`` for a profile that is damaged.
    """
    if wanted is not None and wanted not in FORMATS:
        raise RefusedError(f"--format {wanted}: possible are {', '.join(FORMATS)}.")
    for name in FORMATS if wanted is None else (wanted,):
        importer = cast(Importer, import_module(FORMATS[name]))
        if importer.detects(source):
            try:
                return name, importer.read(source)
            except _UNFORESEEN as error:
                what = f"not what a file of {name} holds ({type(error).__name__}: {error})"
                raise source.refused(f"{what}; fetch it again") from error
    formats = wanted or ", ".join(FORMATS)
    raise source.refused(f"found no file of a format that can be imported ({formats}); check it")

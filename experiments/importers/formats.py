"""Which formats can be imported, in the order in which a file is tried."""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Final, NamedTuple

from experiments.importers import ncu_csv, profiles, tidy_csv, timm_csv
from experiments.importers.imported import Imported, Source


class Importer(NamedTuple):
    """A format: whether a file is of it, by its content, and what a file says.

    ``read`` raises ``RefusedError`` for what has no unit, or would have to be guessed.
    """

    detects: Callable[[Source], bool]
    read: Callable[[Source], Imported]


#: More special formats come before those that would take their files too.
FORMATS: Final[dict[str, Importer]] = {
    "allocator_snapshot": Importer(profiles.is_snapshot, profiles.read_allocator),
    "kineto_trace": Importer(profiles.is_trace, profiles.read_kineto),
    "memory_timeline": Importer(profiles.is_timeline, profiles.read_memory),
    "timm_csv": Importer(timm_csv.detects, timm_csv.read),
    "tidy_csv": Importer(tidy_csv.detects, tidy_csv.read),
    "ncu_csv": Importer(ncu_csv.detects, ncu_csv.read),
}

#: What a file raises that holds something else than its format says, in a place not foreseen.
_UNFORESEEN: Final = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, csv.Error,
)  # fmt: skip


def read_any(source: Source) -> tuple[str, Imported]:
    """The format of ``source``, told by its content, and what it says.

    Raises ``RefusedError`` for a file of no format, and ``RecordError`` for a damaged profile.
    """
    name = next((name for name, each in FORMATS.items() if each.detects(source)), None)
    if name is None:
        formats = ", ".join(FORMATS)
        raise source.refused(
            f"found no file of a format that can be imported ({formats}); check it"
        )
    try:
        return name, FORMATS[name].read(source)
    except _UNFORESEEN as error:
        what = f"not what a file of {name} holds ({type(error).__name__}: {error})"
        raise source.refused(f"{what}; fetch it again") from error

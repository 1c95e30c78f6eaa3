"""Parse the tables that Nsight Compute prints, and explain its error messages.

``experiments.counters.ncu`` runs the program.  Unreadable output raises ``RecordError``.
"""

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from report.core.errors import RecordError

#: Explanation for a measured program that failed.
PROGRAM_FAILED: Final = (
    "The measured program failed under ncu; run the same cases without counters to see its message."
)
#: Pattern in ncu's output → explanation and remedy; the first matching pattern is used.
_EXPLANATIONS: Final[dict[str, str]] = {
    r"ERR_NVGPUCTRPERM": (
        "ncu may not read the performance counters of this GPU (ERR_NVGPUCTRPERM); run as root, or "
        "load the driver with NVreg_RestrictProfilingToAdminUsers=0 "
        "(https://developer.nvidia.com/ERR_NVGPUCTRPERM)."
    ),
    r"LibraryNotLoaded|Failed to initialize the profiler": (
        "ncu could not load its profiling library (LibraryNotLoaded), as in some virtual machines "
        "and containers; measure on a machine that passes the GPU's performance counters through."
    ),
    r"[Dd]river is not compatible with Nsight Compute|Failed to load Nsight Compute CUDA mod": (
        "This ncu does not work with the installed NVIDIA driver; install the Nsight Compute of "
        "the driver's CUDA version, or a newer driver."
    ),
    r"driver resource was unavailable|profiler already in use": (
        "Another profiler (such as DCGM) holds the GPU's counters; stop it (dcgmi profile --pause) "
        "and measure again."
    ),
    r"Profiling is not supported on device|No supported (?:GPUs|devices)": (
        "This ncu does not support this GPU; ncu --list-chips shows what it supports (Volta needs "
        "version 2025.2 or older)."
    ),
    r"The application returned an error code": PROGRAM_FAILED,
    r"No kernels were profiled": (
        "ncu saw no kernel (No kernels were profiled); check that the cases run on the GPU and "
        "that no other profiler is attached."
    ),
}
_ERROR: Final = re.compile(r"^==ERROR==\s*(.+)$", re.MULTILINE)


def explain_error(text: str) -> str | None:
    """Explain the error in ncu's output, with a remedy; return None if there is no error."""
    for pattern, reason in _EXPLANATIONS.items():
        if re.search(pattern, text):
            return reason
    if match := _ERROR.search(text):
        without_folders = re.sub(r"(?:/[^\s/]+)+/", "", match[1])
        message = without_folders.strip().rstrip(".")
        return f"ncu says: {message}; run it by hand to see more."
    return None


@dataclass(frozen=True)
class KernelRow:
    """A launch of a kernel, with the NVTX range around it; ``values``: metric → count or None."""

    kernel: str
    range: str | None
    compute_capability: str
    values: Mapping[str, int | None]

    def value(self, metric: str) -> int | None:
        """Return the value of ``metric``; ncu may print ``sm__`` for ``smsp__`` or vice versa."""
        if metric in self.values:
            return self.values[metric]
        scope, _, name = metric.partition("__")
        other_scope = {"sm": "smsp", "smsp": "sm"}.get(scope, scope)
        return self.values.get(f"{other_scope}__{name}")


#: Name of our NVTX range in a cell such as ``7  "<default domain>:NAME:none:…"``.
_RANGE_NAME: Final = re.compile(r"ridgepoint (?:case|product) [^:\"]*[^:\"\s]")
#: Cells of metrics that ncu could not count, in lower case.
_NO_VALUE: Final = {"", "n/a", "no data", "nan", "-nan", "inf", "(!) n/a", "(!) nan"}
#: Names of the metrics of ``ncu_metrics``; metrics of bytes match group 1.
_COUNT_METRIC: Final = re.compile(
    r"(?:((?:dram|lts|l1tex)__(?:t_)?bytes\w*)"
    r"|\w+__(?:sass_thread_inst_executed_op|inst_executed_pipe_tensor|ops_path_tensor)\w*)\.sum"
)
#: Units of bytes that ncu does not round (``--print-units base``).
_BYTE_UNITS: Final = ("byte", "bytes")
#: Units of counts that ncu does not round.
_COUNT_UNITS: Final = ("", "inst", "op", "ops")
#: A whole number as printed with LC_ALL=C; other locales separate thousands with a point.
_NUMBER: Final = re.compile(r"([0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.0|\.00|\.0{4,})?")


def select_launches(text: str, is_needed: Callable[[KernelRow], bool]) -> str:
    """Select the launches for which ``is_needed`` is true; raises errors as ``read_table`` does."""
    header, units, *rows = _row_texts(text)
    texts = [header, units]
    for row_text, row in zip(rows, read_table(text), strict=True):
        if is_needed(row):
            texts.append(row_text)
    return "\n".join(texts) + "\n"


def read_table(text: str) -> tuple[KernelRow, ...]:
    """Read all launches in the output of ``ncu --csv --page raw --print-units base``.

    Raises ``RecordError`` for a missing or damaged table, and for rounded numbers.
    """
    header, units, *rows = _cells(text)
    counts = _count_columns(header, units)
    return tuple(_row(header, row, counts) for row in rows)


def _row_texts(text: str) -> Iterator[str]:
    """Yield the text of each row of the table in ncu's output.

    Rows start with a double quote.  A cell may contain line breaks, so a row ends with the line in
    which the number of quotes becomes even.
    """
    row = ""
    for line in text.splitlines():
        if not row and not line.startswith('"'):
            continue
        row = f"{row}\n{line}" if row else line
        if row.count('"') % 2 == 0:
            yield row
            row = ""
    if row:
        yield row


def _cells(text: str) -> list[list[str]]:
    """Split the table into header, units and at least one row, all of the same length."""
    texts = list(_row_texts(text))
    if not texts:
        raise RecordError(explain_error(text) or "ncu printed no table; run it again.")
    table = [next(csv.reader(row_text.splitlines(keepends=True))) for row_text in texts]
    if "Metric Value" in table[0]:
        raise RecordError(
            "ncu's table has one metric per row; run ncu, or ncu --import, with --page raw."
        )
    if len(table) < 3:
        raise RecordError("ncu's table stops after its header; run it again.")
    for number, (row_text, row) in enumerate(zip(texts, table, strict=True), start=1):
        # ncu quotes every cell: a last cell without a closing quote is truncated.
        is_complete = row_text.endswith('"') and row_text.count('"') % 2 == 0
        if not is_complete or len(row) != len(table[0]):
            raise RecordError(
                f"ncu's table is cut off in line {number}, which has {len(row)} of "
                f"{len(table[0])} cells; run it again with enough space on the disk."
            )
    return table


def _count_columns(header: Sequence[str], units: Sequence[str]) -> list[str]:
    """Return the columns of counts; raise ``RecordError`` for a unit that may round counts."""
    columns: list[str] = []
    for column, unit in zip(header, units, strict=True):
        match = _COUNT_METRIC.fullmatch(column)
        if match is None:
            continue
        is_bytes = match[1] is not None
        if unit not in (_BYTE_UNITS if is_bytes else _COUNT_UNITS):
            raise RecordError(
                f"ncu printed {column} in {unit or 'no unit'}, which may round it; run it with "
                "--print-units base."
            )
        columns.append(column)
    return columns


def _row(header: Sequence[str], row: Sequence[str], counts: Sequence[str]) -> KernelRow:
    """Convert the cells of a row; ``counts`` are the columns with counts."""
    cells = dict(zip(header, row, strict=True))
    return KernelRow(
        kernel=cells.get("Kernel Name", ""),
        range=_range_of(cells),
        compute_capability=cells.get("CC", ""),
        values={name: _number(cells[name], name) for name in counts},
    )


def _range_of(cells: Mapping[str, str]) -> str | None:
    """Return the name of our NVTX range around a launch, or None if there is no such range."""
    for column, cell in cells.items():
        if "_Range:" in column and (match := _RANGE_NAME.search(cell)):
            return match[0]
    return None


def _number(cell: str, metric: str) -> int | None:
    """Parse a count; return None if ncu could not count."""
    if cell.strip().lower() in _NO_VALUE:
        return None
    match = _NUMBER.fullmatch(cell)
    if match is None:
        raise RecordError(
            f"ncu printed {cell!r} for {metric}, which counts whole numbers; run it with LC_ALL=C "
            "and --print-units base."
        )
    return int(match[1].replace(",", ""))

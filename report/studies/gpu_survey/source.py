"""Tables of rates (images/s) that the authors of timm publish, by their settings."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import pandas as pd

from report.core.errors import StudyError
from report.core.records.store import StoredImport


class Setting(NamedTuple):
    """Conditions under which all rates of a published table were measured."""

    device: str
    torch: str
    layout: str = "nchw"
    compiler: str = "none"
    precision: str = "amp"
    direction: str = "inference"

    @property
    def compiled(self) -> "Setting":
        """The same setting with ``torch.compile``."""
        return self._replace(compiler="dynamo")


#: Column → type; rates are in images/s, and parameters as printed.
_TYPES: Final = {
    "network": str, "image": int, "batch": int, "parameters": float, "rate": float,
}  # fmt: skip
#: Factors of a case: network, image size and batch size.
_FACTORS: Final = [*_TYPES][:3]
#: Fields of a setting that records contain as conditions.
_CONDITIONS: Final = Setting._fields[2:]


class Published(NamedTuple):
    """The record of one published table, and its rows that have a rate."""

    file: str = ""
    rows: pd.DataFrame = pd.DataFrame(columns=list(_TYPES)).astype(_TYPES)


def read_tables(imports: Iterable[StoredImport]) -> dict[Setting, Published]:
    """Read the tables by setting; raise ``StudyError`` for missing conditions or wrong factors."""
    tables = {}
    for stored in imports:
        machine, conditions = stored.record.environment, stored.record.conditions
        for name in _CONDITIONS:
            if name not in conditions:
                raise StudyError(
                    f"data/{stored.file}: conditions.{name}: not found; import the file again with "
                    f"--set {name}=…."
                )
        version = (machine.framework or "").removeprefix("PyTorch ")
        setting = Setting(machine.model, version, *(str(conditions[n]) for n in _CONDITIONS))
        rows = pd.DataFrame(_rows(stored), columns=list(_TYPES)).astype(_TYPES)
        tables[setting] = Published(stored.file, rows)
    return tables


def _rows(stored: StoredImport) -> Iterator[tuple[object, ...]]:
    """Yield the values of ``_TYPES`` of each case with a rate; parameters are 0 if not printed."""
    for index, case in enumerate(stored.record.cases):
        rate, parameters = (case.series.get(name, ()) for name in ("image_rate", "parameters"))
        if case.status != "ok" or len(rate) != 1 or not rate[0]:
            continue
        network, *sizes = levels = [case.factors.get(name) for name in _FACTORS]
        if not (isinstance(network, str) and all(isinstance(n, int) and n > 0 for n in sizes)):
            raise StudyError(
                f"data/{stored.file}: cases[{index}].factors: found {levels}, "
                "expected a network, an image size and a batch size; import the file again."
            )
        printed = (numbers[0] if len(numbers) == 1 else 0.0 for numbers in (parameters, rate))
        yield *levels, *printed

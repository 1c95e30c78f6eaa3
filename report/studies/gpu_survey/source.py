"""Read the tables of rates (images/s) that the authors of timm publish, one per setting."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from report.core.errors import StudyError
from report.core.records.store import StoredImport


class Setting(NamedTuple):
    """Conditions under which all rates of a published table were measured.

    ``torch`` is the version of PyTorch, and layout "nhwc" is channels-last.
    """

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


#: Factors of a case → type: network, image size (pixels per side) and batch size.
_FACTOR_TYPES: Final = {"network": str, "image": int, "batch": int}
#: Column → type.  Rates are in images/s; published parameters are rounded to 10,000.
_COLUMN_TYPES: Final = {**_FACTOR_TYPES, "parameters": float, "rate": float}
#: Fields of a setting that a record contains as conditions: all but device and PyTorch.
_CONDITIONS: Final = Setting._fields[2:]


class PublishedTable(NamedTuple):
    """The record of one published table, and the rows of the table that have a rate."""

    file: str = ""
    rows: pd.DataFrame = pd.DataFrame(columns=list(_COLUMN_TYPES)).astype(_COLUMN_TYPES)


def read_tables(imports: Iterable[StoredImport]) -> dict[Setting, PublishedTable]:
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
        tables[setting] = PublishedTable(stored.file, make_frame(_rows(stored), _COLUMN_TYPES))
    return tables


def make_frame(rows: Iterable[Any], types: Mapping[str, type], index: Any = None) -> pd.DataFrame:
    """Return a frame whose columns have these ``types``, so that pandas need not infer them."""
    fields = [(name, object if kind is str else kind) for name, kind in types.items()]
    return pd.DataFrame(np.fromiter(rows, np.dtype(fields)), index).astype(types)


def _rows(stored: StoredImport) -> Iterator[tuple[object, ...]]:
    """Yield a row of each case with a rate; its parameters are 0 if they are not published."""
    for index, case in enumerate(stored.record.cases):
        rate, parameters = case.series.get("image_rate", ()), case.series.get("parameters", ())
        if case.status != "ok" or len(rate) != 1 or not rate[0]:
            continue
        network, image, batch = levels = tuple(map(case.factors.get, _FACTOR_TYPES))
        sizes_are_counts = isinstance(image, int) and isinstance(batch, int) and image > 0 < batch
        if not (isinstance(network, str) and sizes_are_counts):
            raise StudyError(
                f"data/{stored.file}: cases[{index}].factors: found {[*levels]}, "
                "expected a network, an image size and a batch size; import the file again."
            )
        published_parameters = parameters[0] if len(parameters) == 1 else 0.0
        yield *levels, published_parameters, rate[0]

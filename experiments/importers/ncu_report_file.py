"""Nsight Compute's ``.ncu-rep``, read by NVIDIA's package ``ncu-report``.

Experimental: tried by hand on two reports that others published, and none may be kept here to test
it.  What the package gives is read as the CSV of the same report.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

from experiments.importers.imported import Imported, Source
from experiments.importers.ncu_csv import of_rows
from report.instruments.counters.ncu_output import KernelRow

_MAGIC: Final = b"NVR\0"
_NAME: Final = "device__attribute_display_name"
_MAJOR, _MINOR = (f"device__attribute_compute_capability_{part}" for part in ("major", "minor"))


def detects(source: Source) -> bool:
    """Whether it begins as reports of Nsight Compute do."""
    return source.content.startswith(_MAGIC)


def read(source: Source) -> Imported:
    """Every launch of the report; refuses what NVIDIA's package does not read."""
    try:
        import ncu_report
    except ImportError:
        raise source.refused(
            "reading it needs NVIDIA's package; install it with: pip install ncu-report"
        ) from None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.ncu-rep"
        path.write_bytes(source.content)
        try:
            actions = list(_actions(ncu_report.load_report(str(path))))
            rows = [_row(action) for action in actions]
            device = _value(actions[0], _NAME) if actions else None
        except Exception as error:  # the package raises errors of several kinds, and of its own
            raise source.refused(f"no whole report ({error}); fetch it again") from error
    if not rows:
        raise source.refused("found no kernel in it; profile again")
    return of_rows(source, rows, source.device_or(None if device is None else str(device)))


def _actions(report: Any) -> list[Any]:
    ranges = (report.range_by_idx(index) for index in range(report.num_ranges()))
    return [each.action_by_idx(i) for each in ranges for i in range(each.num_actions())]


def _row(action: Any) -> KernelRow:
    names = [name for name in action.metric_names() if "." in name]
    values = {name: _value(action, name) for name in names}
    numbers = {n: v for n, v in values.items() if isinstance(v, int | float)}
    capability = f"{_value(action, _MAJOR)}.{_value(action, _MINOR)}"
    return KernelRow(action.name(), None, capability, numbers)


def _value(action: Any, name: str) -> Any:
    metric = action.metric_by_name(name)
    return None if metric is None else metric.value()

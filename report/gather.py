"""Reading all that a study's paper is made from; the only reader of ``data/`` in a build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from report.devices import read_devices
from report.errors import RecordError
from report.paper import Inputs
from report.reported import read_reported
from report.store import newest_by_device, read_study


def gather(study: str, data: Path) -> Inputs:
    """The inputs of ``study`` from the data directory.

    Uses the newest full record of each device, or the ones that ``pins.yaml`` names.  Raises
    ``RecordError`` for the first file that cannot be used.
    """
    reported = data / "reported" / f"{study}.json"
    return Inputs(
        records=newest_by_device(read_study(study, data), read_pins(data).get(study, ())),
        reported=read_reported(reported),
        reported_file=reported.relative_to(data).as_posix(),
        devices=read_devices(data / "devices.yaml"),
    )


def read_pins(data: Path) -> dict[str, tuple[str, ...]]:
    """The records that the user pinned: study → files relative to ``data``; none without a file."""
    path = data / "pins.yaml"
    if not path.exists():
        return {}
    import yaml

    try:
        content: Any = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where else ""
        raise RecordError(f"data/pins.yaml{line}: not valid YAML; mend the line.") from error
    if not isinstance(content, dict) or not all(_is_list_of_text(v) for v in content.values()):
        raise RecordError(
            "data/pins.yaml: expected a list of record files under each study's name; write "
            "them as «conv_scaling: [conv_scaling/<file>.json]»."
        )
    return {str(study): tuple(files) for study, files in content.items()}


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)

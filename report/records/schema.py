"""The record's published form, a JSON Schema (draft 2020-12), made from the types that read it.

``python -m report.records.schema`` writes ``data/record.schema.json``.  A schema can say which
fields, types and ranges are allowed; what a reader checks beyond that is in
``report.records.faults``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from report.records.filed import FiledRecord
from report.records.quantities import QUANTITIES
from report.records.record import SCHEMA_VERSION

SCHEMA_FILE: Final = Path(__file__).resolve().parents[2] / "data" / "record.schema.json"


def record_schema() -> dict[str, Any]:
    """The JSON Schema of a record of the present version."""
    (reference,), parts = msgspec.json.schema_components([FiledRecord])
    for part in parts.values():
        part["description"] = " ".join(part.get("description", "").replace("``", "").split())
    parts["Series"]["allOf"] = [_unit_of(name) for name in QUANTITIES]
    parts["Series"]["properties"]["quantity"] = {"enum": list(QUANTITIES)}
    for name in ("FiledCase", "Round"):
        parts[name].update(_null_exactly_if("reason", status="ok"))
    parts["Environment"].update(_null_exactly_if("gpu", device="cpu"))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"ridgepoint record, schema version {SCHEMA_VERSION}",
        "description": parts["FiledRecord"]["description"],
        **reference,
        "$defs": parts,
    }


def _unit_of(name: str) -> dict[str, Any]:
    """A quantity fixes the unit and the range of its samples."""
    quantity = QUANTITIES[name]
    sample: dict[str, Any] = {"type": "integer" if quantity.whole else "number"}
    if not quantity.signed:
        sample["minimum"] = 0
    return {
        "if": {"properties": {"quantity": {"const": name}}},
        "then": {
            "properties": {"unit": {"const": quantity.unit}, "samples": {"items": sample}},
            "description": quantity.meaning,
        },
    }


def _null_exactly_if(name: str, **condition: str) -> dict[str, Any]:
    """The property ``name`` is null where another one has the given value, and only there."""
    null = {"properties": {name: {"type": "null"}}}
    return {
        "if": {"properties": {key: {"const": value} for key, value in condition.items()}},
        "then": null,
        "else": {"not": null},
    }


def schema_text() -> str:
    """The content of ``data/record.schema.json``."""
    return json.dumps(record_schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")

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
from report.records.quantities import QUANTITIES, Quantity
from report.records.record import SCHEMA_VERSION

#: Only what is not ok has a reason.
_REASON: Final[dict[str, Any]] = {
    "if": {"properties": {"status": {"const": "ok"}}},
    "then": {"properties": {"reason": {"type": "null"}}},
    "else": {"required": ["reason"], "properties": {"reason": {"type": "string"}}},
}
SCHEMA_FILE: Final = Path(__file__).resolve().parents[2] / "data" / "record.schema.json"


def record_schema() -> dict[str, Any]:
    """The JSON Schema of a record of the present version."""
    (reference,), parts = msgspec.json.schema_components([FiledRecord])
    for part in parts.values():
        part["description"] = " ".join(part.get("description", "").replace("``", "").split())
    for name in ("FiledCase", "FiledRound"):
        parts[name].update(_REASON)
        parts[name]["properties"]["series"] = {"$ref": "#/$defs/Measured"}
    parts["FiledRecord"]["properties"]["units"] = {
        "type": "object",
        "description": "the unit of each quantity in this file; ns where all are whole ones",
        "properties": {name: {"enum": _units(each)} for name, each in QUANTITIES.items()},
        "additionalProperties": False,
    }
    parts["Measured"] = {
        "type": "object",
        "description": "the samples of each quantity, in the unit that units gives for it",
        "properties": {name: _samples(each) for name, each in QUANTITIES.items()},
        "additionalProperties": False,
    }
    parts["Environment"].update(_null_exactly_if("gpu", device="cpu"))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"ridgepoint record, schema version {SCHEMA_VERSION}",
        "description": parts["FiledRecord"]["description"],
        **reference,
        "$defs": parts,
    }


def _units(quantity: Quantity) -> list[str]:
    return [quantity.unit, "ns"] if quantity.unit == "s" else [quantity.unit]


def _samples(quantity: Quantity) -> dict[str, Any]:
    """What a quantity is, and the range of its samples."""
    sample: dict[str, Any] = {"type": "integer" if quantity.whole else "number"}
    if not quantity.signed:
        sample["minimum"] = 0
    return {"type": "array", "description": quantity.meaning, "items": sample}


def _null_exactly_if(name: str, **condition: str) -> dict[str, Any]:
    """The property ``name`` is null where another one has the given value, and only there."""
    null = {"properties": {name: {"type": "null"}}}
    return {
        "if": {"properties": {key: {"const": value} for key, value in condition.items()}},
        "then": null,
        "else": {"not": null},
    }


def schema_text() -> str:
    """The content of ``data/record.schema.json``, a line for each part."""
    schema = record_schema()
    lines = (f"  {_compact(name)}: {_compact(part)}" for name, part in schema.pop("$defs").items())
    parts = ",\n".join(lines)
    return f'{_compact(schema)[:-1]},\n "$defs": {{\n{parts}\n }}\n}}\n'


def _compact(part: object) -> str:
    return json.dumps(part, ensure_ascii=False)


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")

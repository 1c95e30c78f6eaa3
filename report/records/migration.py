"""What records of older schema versions hold, brought to the next version step by step.

Migrations work on plain dictionaries, so that they stay as they are while the types change.  What
they make is checked like a new record; what they cannot work with makes them raise ``LookupError``,
``TypeError``, ``ValueError`` or ``AttributeError``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeAlias

import msgspec

Data: TypeAlias = dict[str, Any]


def _to_2(data: Data) -> Data:
    """From version 1: layers move to the networks, processes become rounds of one case."""
    networks: dict[bytes, int] = {}
    refs: dict[bytes, dict[str, int] | None] = {}
    cases: dict[Hashable, Data] = {}
    for index, old in enumerate(data["cases"]):
        layers = msgspec.json.encode(old["layers"])
        if layers not in refs:
            refs[layers] = _ref(msgspec.json.decode(layers), networks)
        case = {**old, "layers": refs[layers]}
        if "process" not in case["factors"]:
            cases[index] = case
            continue
        part = _with_round(case)
        factors = frozenset(part["factors"].items())
        cases[factors] = _merged(cases[factors], part) if factors in cases else part
    found = [msgspec.json.decode(network) for network in networks]
    return {**data, "schema": 2, "networks": found, "cases": list(cases.values())}


def _to_3(data: Data) -> Data:
    """From version 2: no operators were kept."""
    return {**data, "schema": 3}


def _ref(layers: list[Data], networks: dict[bytes, int]) -> dict[str, int] | None:
    """How a case refers to its layers, which are added to the ``networks`` if they are new."""
    if not layers:
        return None
    shapes = ("input_shape", "output_shape")
    batch, *others = {layer[name][0] for layer in layers for name in shapes}
    if others:
        batch, network = 1, layers
    else:
        network = [{**layer, **{n: [1, *layer[n][1:]] for n in shapes}} for layer in layers]
    number = networks.setdefault(msgspec.json.encode(network), len(networks))
    return {"network": number, "batch": batch}


def _with_round(case: Data) -> Data:
    """A case of one process as one of a single round."""
    factors = dict(case["factors"])
    process = factors.pop("process")
    measured = {name: part for name, part in case.items() if name not in ("factors", "layers")}
    round_ = {**measured, "process": process, "policy": None, "disturbance": None}
    return {**case, "factors": factors, "series": [], "rounds": [round_]}


def _merged(case: Data, part: Data) -> Data:
    """A case with the round of one more process; it is ok if one of them was."""
    case["rounds"] += part["rounds"]
    outcome = part if part["status"] == "ok" else case
    if case["layers"] and part["layers"] and case["layers"] != part["layers"]:
        raise ValueError("the processes of a case ran other layers")
    return {
        **case,
        "status": outcome["status"],
        "reason": outcome["reason"],
        "layers": case["layers"] or part["layers"],
    }


#: ``MIGRATIONS[n]`` turns the plain dictionary of a version ``n`` record into one of ``n + 1``.
MIGRATIONS: Final[dict[int, Callable[[Data], Data]]] = {1: _to_2, 2: _to_3}

"""Whether two records of one device are runs of one measurement.

Heads tell most of it: what measured, how, and on what.  Whole records tell the rest: what is the
same in every run must be the same in these two.
"""

from __future__ import annotations

from collections.abc import Iterator

from report.records.quantities import FIXED
from report.records.record import Case, Environment, Head, Host, Record

#: What of a host tells one kind of machine from another; the same kind may have several machines.
_KIND: tuple[str, ...] = ("vendor", "family", "model", "stepping", "flags", "virtualisation")
#: What of an environment changes what is measured; loads and names do not.
_CONDITIONS: tuple[str, ...] = (
    "device", "key", "cpu", "gpu", "threads", "torch", "precision", "variables",
)  # fmt: skip


def unlike(one: Record | Head, other: Record | Head) -> str | None:
    """Why these are not runs of one measurement, in a few words; None if they are.

    Only measurements in rounds of processes under memory policies are pooled, since nothing tells
    what older ones have in common.
    """
    if not (one.protocol.processes and other.protocol.processes):
        return "of a format that is not pooled"
    if one.study != other.study:
        return f"of the study {other.study}"
    if one.code.measuring_code != other.code.measuring_code:
        return "measured by other code"
    fields = type(one.protocol).__struct_fields__
    changed = [f for f in fields if getattr(one.protocol, f) != getattr(other.protocol, f)]
    if changed:
        return f"measured by another protocol ({', '.join(changed)})"
    conditions = tuple(_other_conditions(one.environment, other.environment))
    return f"measured with another {', '.join(conditions)}" if conditions else None


def _other_conditions(one: Environment, other: Environment) -> Iterator[str]:
    """The conditions that differ, as a record names them."""
    yield from (name for name in _CONDITIONS if getattr(one, name) != getattr(other, name))
    if _kind(one.host) != _kind(other.host):
        yield "host"


def _kind(host: Host | None) -> tuple[object, ...]:
    return () if host is None else tuple(getattr(host, name) for name in _KIND)


def contradiction(one: Record, other: Record) -> str | None:
    """What must be the same in every run and differs between these two; None if nothing does.

    A quantity counts only where both runs found one value in all their samples: what varies within
    a run says nothing about the other.
    """
    known = {frozenset(case.factors.items()): case for case in one.cases}
    for case in other.cases:
        first = known.get(frozenset(case.factors.items()))
        if first is not None and first.status == case.status == "ok":
            found = next(_contradictions(first, case), None)
            if found is not None:
                factors = ", ".join(f"{name} {level}" for name, level in case.factors.items())
                return f"{found} for {factors}"
    return None


def _contradictions(one: Case, other: Case) -> Iterator[str]:
    if one.layers != other.layers:
        yield "other layers ran"
    for quantity in sorted(FIXED):
        first, second = _only(one, quantity), _only(other, quantity)
        if first is not None and second is not None and first != second:
            yield f"{quantity} is {second:,}, not {first:,},"


def _only(case: Case, quantity: str) -> float | None:
    """The one value of all samples, whatever the policy; None where there is none, or several."""
    rounds = (r.samples(quantity) for r in case.rounds if r.status == "ok")
    found = {sample for samples in (case.samples(quantity), *rounds) for sample in samples}
    return found.pop() if len(found) == 1 else None

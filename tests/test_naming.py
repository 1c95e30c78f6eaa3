"""Devices that call themselves alike get names that a reader can tell apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from report.evidence.runs import labels
from report.records.record import Environment
from tests import factory

PLAIN = "Example Processor, 2 threads"


def device(key: str = "a", host: dict[str, Any] | None = None, **change: Any) -> Environment:
    found = None if host is None else msgspec.structs.replace(factory.SERVER, **host)
    return factory.environment(key, host=found, **change)


def names(machines: Iterable[Environment]) -> tuple[str, ...]:
    return labels([factory.stored(factory.record(machine=machine)) for machine in machines])


def named(*machines: Environment) -> list[str]:
    found = names(machines)
    assert len(set(found)) == len(found)
    return [name.removeprefix(PLAIN).strip(" ()") for name in found]


def test_a_name_that_only_one_has_stays_plain() -> None:
    assert names([device(), device("b", threads=1)]) == (PLAIN, "Example Processor, 1 thread")
    assert names([]) == ()


def test_the_first_property_that_differs_for_all_is_named() -> None:
    large = device("b", memory_bytes=64 * 2**30)
    assert named(device("a"), large) == ["16 GiB of memory", "64 GiB of memory"]
    assert named(device("a"), large, device("c")) == ["a", "b", "c"]
    other = msgspec.structs.replace(device().cpu, cores_available=64)
    assert named(device("a"), device("b", cpu=other))[1] == "64 cores available"


@pytest.mark.parametrize(
    ("brand", "family", "model", "label"),
    [
        ("AMD EPYC", 0x17, 0x2F, "AMD EPYC (Zen)"),
        ("AMD EPYC", 0x17, 0x30, "AMD EPYC (Zen 2)"),
        ("AMD EPYC", 0x17, 0x91, "AMD EPYC (Zen 2)"),
        ("AMD EPYC", 0x17, 0x92, "AMD EPYC"),
        ("AMD EPYC", 0x19, 0x0F, "AMD EPYC (Zen 3)"),
        ("AMD EPYC", 0x19, 0x10, "AMD EPYC (Zen 4)"),
        ("AMD EPYC", 0x1A, 0x7F, "AMD EPYC (Zen 5)"),
        ("AMD EPYC", 0x1A, 0x80, "AMD EPYC"),
        ("AMD EPYC", None, None, "AMD EPYC"),
        ("AMD EPYC 7763 64-Core Processor", 25, 1, "AMD EPYC 7763 64-Core Processor"),
        ("Intel Xeon", 25, 1, "Intel Xeon"),
    ],
)
def test_a_mere_brand_of_amd_is_named_with_its_microarchitecture(
    brand: str, family: int | None, model: int | None, label: str
) -> None:
    cpu = msgspec.structs.replace(device().cpu, model=brand)
    machine = device("a", {"family": family, "model": model}, cpu=cpu)
    assert machine.label == f"{label}, 2 threads"
    assert device("a", cpu=cpu).label == f"{brand}, 2 threads", "a record without its host"


def test_gpus_of_one_name_differ_by_their_memory() -> None:
    small = msgspec.structs.replace(factory.GPU, memory_bytes=40 * 2**30)
    large = msgspec.structs.replace(factory.GPU, memory_bytes=80 * 2**30)
    found = names([factory.environment("a", gpu=small), factory.environment("b", gpu=large)])
    assert [name.rpartition(" (")[2] for name in found] == ["40 GiB)", "80 GiB)"]


def test_records_of_one_device_have_one_name() -> None:
    assert names([device("a"), device("a")]) == (f"{PLAIN} (a)",) * 2

"""Devices that call themselves alike get names that a reader can tell apart."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from report.evidence.runs import labels
from report.records.record import Environment
from tests import factory

PLAIN = "Example Processor, 2 threads"


def device(key: str = "a", **change: Any) -> Environment:
    return factory.environment(key, **change)


LARGE = device("b", memory_bytes=64 * 2**30)
CORES = device("b", cpu=msgspec.structs.replace(device().cpu, cores_available=64))
GPUS = [
    factory.environment(key, gpu=msgspec.structs.replace(factory.GPU, memory_bytes=size * 2**30))
    for key, size in (("a", 40), ("b", 80))
]


@pytest.mark.parametrize(
    ("machines", "ends"),
    [
        ([], []),
        ([device(), device("b", threads=1)], [", 2 threads", ", 1 thread"]),
        ([device(), LARGE], [" (16 GiB of memory)", " (64 GiB of memory)"]),
        ([device(), LARGE, device("c")], [" (a)", " (b)", " (c)"]),
        ([device(), CORES], [" (2 cores available)", " (64 cores available)"]),
        (GPUS, [" (40 GiB)", " (80 GiB)"]),
        # Records of one device have one name.
        ([device(), device()], [f"{PLAIN} (a)"] * 2),
    ],
)
def test_the_first_property_that_differs_for_all_is_named(
    machines: list[Environment], ends: list[str]
) -> None:
    found = labels([factory.stored(factory.record(machine=machine)) for machine in machines])
    assert all(name.endswith(end) for name, end in zip(found, ends, strict=True)), found


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
    host = msgspec.structs.replace(factory.SERVER, family=family, model=model)
    assert device(host=host, cpu=cpu).label == f"{label}, 2 threads"
    assert device(cpu=cpu).label == f"{brand}, 2 threads", "a record without its host"
    assert device(cpu=cpu, name="mine", threads=1).label == "mine, 1 thread"


@pytest.mark.parametrize(
    ("model", "label"), [("NVIDIA H100 80GB HBM3", "NVIDIA H100"), ("80GB", "80GB")]
)
def test_a_gpu_is_named_without_its_memory(model: str, label: str) -> None:
    assert device(gpu=msgspec.structs.replace(factory.GPU, model=model)).label == label

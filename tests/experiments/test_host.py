"""What tells machines of one name apart: texts of real systems, the key, and the number."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from experiments.harness import host, identity, machine
from experiments.harness.identity import device_key
from experiments.harness.study import UsageError
from report.records.record import Cache, Gpu, Host
from tests.experiments.conftest import HOST

AMD = """\
processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 1
model name\t: AMD EPYC 7763 64-Core Processor
stepping\t: 1
microcode\t: 0xa0011d5
cpu MHz\t\t: 2450.000
cache size\t: 512 KB
physical id\t: 0
siblings\t: 2
flags\t\t: fpu vme sse2 ht syscall nx constant_tsc rep_good avx f16c hypervisor svm avx2 fma sha_ni
bugs\t\t: sysret_ss_attrs null_seg spectre_v1

processor\t: 1
vendor_id\t: AuthenticAMD
physical id\t: 0

processor\t: 2
vendor_id\t: AuthenticAMD
physical id\t: 1
"""
#: AWS, c6g: a 64-bit ARM kernel gives neither a name nor a socket.
GRAVITON = """\
processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp asimddp ssbs
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

processor\t: 1
BogoMIPS\t: 243.75
"""
M1_PRO = """\
hw.ncpu: 8
hw.packages: 1
hw.cpufamily: 458787763
hw.cpusubfamily: 4
hw.cacheconfig: 8 1 4 0 0 0 0 0 0 0
hw.l1icachesize: 131072
hw.l1dcachesize: 65536
hw.l2cachesize: 4194304
hw.perflevel0.l1icachesize: 196608
hw.perflevel0.l1dcachesize: 131072
hw.perflevel0.l2cachesize: 12582912
hw.perflevel0.cpusperl2: 3
hw.optional.neon: 1
hw.optional.arm.FEAT_BF16: 0
hw.optional.arm.FEAT_DotProd: 1
machdep.cpu.brand_string: Apple M1 Pro
kern.hv_vmm_present: 0
"""
INTEL_MAC = """\
hw.packages: 1
hw.cacheconfig: 12 2 2 12 0 0 0 0 0 0
hw.l1icachesize: 32768
hw.l1dcachesize: 32768
hw.l2cachesize: 262144
hw.l3cachesize: 12582912
machdep.cpu.vendor: GenuineIntel
machdep.cpu.brand_string: Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz
machdep.cpu.family: 6
machdep.cpu.model: 158
machdep.cpu.stepping: 10
machdep.cpu.microcode_version: 248
machdep.cpu.features: FPU SSE2 FMA AVX1.0
machdep.cpu.leaf7_features: AVX2 BMI2
kern.hv_vmm_present: 0
"""


def linux(text: str) -> host.Processor:
    return host.processor(host.parse_cpuinfo(text))


def numbers(found: host.Processor) -> tuple[object, ...]:
    return (found.vendor, found.family, found.model, found.stepping, found.microcode)


def test_processors_of_linux_are_told_by_their_numbers() -> None:
    assert numbers(linux(AMD)) == ("AuthenticAMD", 25, 1, 1, "0xa0011d5")
    assert numbers(linux(GRAVITON)) == ("ARM", 8, 0xD0C, 0x31, None)
    assert numbers(linux("")) == (None,) * 5


def test_macs_are_told_by_sysctl() -> None:
    m1, intel = map(host.parse_sysctl, (M1_PRO, INTEL_MAC))
    assert numbers(host.processor(m1)) == ("Apple", 458787763, 4, None, None)
    assert host.processor(m1).flags == ("feat_dotprod", "neon")
    assert numbers(host.processor(intel)) == ("GenuineIntel", 6, 158, 10, "248")
    assert machine.extensions(" ".join(host.processor(intel).flags)) == ("avx", "avx2", "fma")
    assert machine.model_name(intel) == "Intel Core i7-9750H"


def test_caches_of_sysfs() -> None:
    folders = [
        {"level": "3", "type": "Unified", "size": "32768K", "shared_cpu_list": "0-7,64-71"},
        {"level": "1", "type": "Data", "size": "32K", "shared_cpu_list": "0,64"},
        {"level": "1", "type": "Instruction", "size": "32K", "shared_cpu_list": "0"},
        {"level": "2", "type": "Unified", "size": "", "shared_cpu_list": "0"},
        {"level": "", "type": "", "size": "", "shared_cpu_list": ""},
        {"level": "2", "type": "Unified", "size": "1M", "shared_cpu_list": "0-"},
    ]
    assert host.parse_caches(folders) == (
        Cache(level=1, kind="data", size_bytes=2**15, cores=2),
        Cache(level=1, kind="instruction", size_bytes=2**15, cores=1),
        Cache(level=3, kind="unified", size_bytes=2**25, cores=16),
    )


def test_caches_of_macs_are_those_of_the_fast_cores() -> None:
    assert host.apple_caches(host.parse_sysctl(M1_PRO)) == (
        Cache(level=1, kind="data", size_bytes=131072, cores=1),
        Cache(level=1, kind="instruction", size_bytes=196608, cores=1),
        Cache(level=2, kind="unified", size_bytes=12582912, cores=3),
    )
    sizes = [(c.level, c.cores) for c in host.apple_caches(host.parse_sysctl(INTEL_MAC))]
    assert sizes == [(1, 2), (1, 2), (2, 2), (3, 12)]
    assert host.apple_caches({}) == ()


@pytest.mark.parametrize(
    ("info", "dmi", "detected", "found"),
    [
        ({"flags": "fpu hypervisor"}, {}, "kvm", "kvm"),
        ({"flags": "fpu hypervisor"}, {}, None, "a hypervisor"),
        ({"flags": "fpu"}, {}, "none", "none"),
        ({"flags": "fpu"}, {}, None, "none"),
        ({"flags": "x"}, {"sys_vendor": "Amazon EC2", "product_name": "c7i.large"}, None, "amazon"),
        ({"flags": "x"}, {"sys_vendor": "Amazon EC2", "product_name": "c7i.metal"}, None, "none"),
        ({}, {"sys_vendor": "QEMU", "product_name": "KVM Virtual Machine"}, None, "kvm"),
        ({}, {"sys_vendor": "Google", "product_name": "Google Compute Engine"}, "kvm", "google"),
        (
            {"flags": "hypervisor"},
            {"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"},
            None,
            "microsoft",
        ),
        (
            {"flags": "fpu"},
            {"sys_vendor": "Microsoft Corporation", "product_name": "Surface Laptop 4"},
            None,
            "none",
        ),
        ({"Features": "asimd"}, {}, None, None),
        ({"kern.hv_vmm_present": "0"}, {}, None, "none"),
        ({"kern.hv_vmm_present": "1"}, {}, None, "a hypervisor"),
    ],
)
def test_who_runs_a_virtual_machine(
    info: dict[str, str], dmi: dict[str, str], detected: str | None, found: str | None
) -> None:
    assert host.virtualisation(info, dmi, detected) == found


def test_the_c_library_and_its_version() -> None:
    musl = "musl libc (x86_64)\nVersion 1.2.4\nDynamic Program Loader\n"
    assert host.c_library(("glibc", "2.36"), "", "") == "glibc 2.36"
    assert host.c_library(("", ""), musl, "") == "musl 1.2.4"
    assert host.c_library(("", ""), "", "14.5") == "macOS 14.5"
    assert host.c_library(("", ""), "", "") is None


def test_every_null_field_has_a_reason() -> None:
    empty: dict[str, Any] = dict.fromkeys(Host.__struct_fields__)
    nothing = Host(**{**empty, "flags": (), "caches": ()})
    why = host.reasons(nothing, "because")
    assert set(why) == {f"host.{name}" for name in Host.__struct_fields__}
    assert why["host.machine"] == "because"
    assert host.reasons(HOST, "") == {}


# ---------------------------------------------------------------------------------------- the key


def key(changed: dict[str, Any] | None = None, **arguments: Any) -> str:
    given = {"model": "AMD EPYC", "threads": 2, "memory_bytes": 16 * 2**30, **arguments}
    return device_key(host=msgspec.structs.replace(HOST, **(changed or {})), **given)


@pytest.mark.parametrize(
    ("change", "another"),
    [
        ({"vendor": "GenuineIntel"}, True),
        ({"family": 26}, True),
        ({"model": 17}, True),
        ({"stepping": 2}, True),
        ({"flags": ("avx2", "avx512f", "fma")}, True),
        ({"caches": ()}, True),
        ({"sockets": 2}, True),
        ({"virtualisation": "none"}, True),
        # What an update changes leaves the device the same.
        ({"microcode": "0x2"}, False),
        ({"c_library": "glibc 2.41"}, False),
        ({"machine": "ffffffffffff"}, False),
        ({"flags": (*HOST.flags, "md_clear", "ibpb_exit_to_user")}, False),
        ({"virtualisation": "a hypervisor"}, False),
    ],
)
def test_what_makes_another_device(change: dict[str, Any], another: bool) -> None:
    assert (key(change) != key()) == another


def test_the_key_of_a_gpu_has_no_threads() -> None:
    h200 = Gpu(model="NVIDIA H200", memory_bytes=2**37, compute_capability="9.0", driver=None,
               cuda="12.6", cudnn=None)  # fmt: skip
    one = key(gpu=h200)
    assert re.fullmatch(r"nvidia-h200-[0-9a-f]{6}", one)
    assert one == key(gpu=h200, threads=1)
    assert key(gpu=h200, name="Room 5").startswith("room-5-")


@pytest.mark.parametrize("text", ["", "   ", "a" * 61, "line\nbreak", "bell\a", "\u202eturned"])
def test_a_label_that_cannot_be_printed_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="give 1 to 60 printable characters"):
        identity.checked_label(text)


# ------------------------------------------------------------------------------------- the number


def test_a_machine_keeps_its_number(tmp_path: Path) -> None:
    records = tmp_path / "data"
    number, reason = identity.machine_number(records)
    assert number is not None and re.fullmatch("[0-9a-f]{12}", number) and reason == ""
    assert identity.machine_number(records) == (number, "")
    assert [path.name for path in records.iterdir()] == [".machine"]
    assert identity.machine_number(tmp_path / "other")[0] != number


def test_a_number_that_cannot_be_kept_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    number, reason = identity.machine_number(tmp_path / "file" / "data")
    assert number is None and reason.startswith(".machine in the folder of records: ")
    assert str(tmp_path) not in reason
    (tmp_path / ".machine").write_text("../../etc")
    number, reason = identity.machine_number(tmp_path)
    assert number is None and reason.endswith("holds something else than its number")

    def refused(*paths: object) -> None:
        raise PermissionError(1, os.strerror(1))

    monkeypatch.setattr(os, "link", refused)
    assert identity.machine_number(tmp_path / "no links")[0] is not None

"""Processor, caches and operating system, as Linux describes them; little but names elsewhere.

Cloud processors of several generations all call themselves «AMD EPYC»; family, model, flags and
caches distinguish them.  A fact that the system does not show is null.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from experiments.machine.runtime import cores_available
from experiments.machine.text import program_output, read_text
from report.core.records.record import Cache, Cpu, Host

_CPUINFO: Final = Path("/proc/cpuinfo")
_CPUS: Final = Path("/sys/devices/system/cpu")
#: The machine's maker, or the hypervisor of a virtual machine; the same in all of its containers.
_VENDOR: Final = Path("/sys/class/dmi/id/sys_vendor")
#: Value of ``Host.virtualisation`` for a machine that is not virtual.
NO_VIRTUALISATION: Final = "none"

_KINDS: Final = ("data", "instruction", "unified")
_EXTENSIONS: Final = (
    "avx avx2 fma f16c avx512f avx512bw avx512vl avx512_vnni avx512_bf16 avx512_fp16 avx_vnni "
    "amx_tile amx_bf16 amx_int8 neon sve sve2"
)


def _cpuinfo() -> dict[str, str]:
    """Read the first processor of /proc/cpuinfo, and count the ``sockets``; empty elsewhere.

    The last block of a Raspberry Pi is not read: it contains the serial number of the board.
    """
    text = read_text(_CPUINFO)
    info = {}
    for line in text.strip().split("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        info[key.strip()] = value.strip()
    packages = set(re.findall(r"^physical id\s*:\s*(\d+)", text, re.MULTILINE))
    return {**info, "sockets": str(len(packages))} if packages else info


def cpu() -> Cpu:
    """Describe the processor, and the frequency governor of its first core, if Linux shows one."""
    info = _cpuinfo()
    flags = {"neon" if flag == "asimd" else flag for flag in _flags(info)}
    return Cpu(
        model=_model(info.get("model name")),
        architecture=platform.machine() or "unknown",
        cores_available=cores_available(),
        governor=read_text(_CPUS / "cpu0/cpufreq/scaling_governor").strip() or None,
        vector_extensions=tuple(sorted(flags.intersection(_EXTENSIONS.split()))),
    )


def _model(name: str | None) -> str:
    """Model name without trade marks, core counts and clock: ``Intel Core i7-1185G7``.

    /proc/cpuinfo names no model on ARM; ``lscpu`` derives one from a number; Macs have ``sysctl``.
    """
    if not name and (listed := re.search(r"Model name:\s*(.+)", program_output("lscpu") or "")):
        name = listed[1]
    name = name or program_output("sysctl", "-n", "machdep.cpu.brand_string") or platform.machine()
    plain = re.sub(r"\((?:R|TM|C)\)|@.*$|\b(?:CPU|Processor)\b|\b\d+-Core\b", " ", name)
    return " ".join(plain.split()) or "unknown"


def host() -> Host:
    """Describe the facts that distinguish this machine from others with the same processor."""
    info, (library, version) = _cpuinfo(), platform.libc_ver()
    # A flag of the processor says that the machine is virtual; the firmware names the hypervisor.
    maker = read_text(_VENDOR).strip() or "a hypervisor"
    virtual = maker if "hypervisor" in _flags(info) else NO_VIRTUALISATION
    return Host(
        vendor=info.get("vendor_id") or info.get("CPU implementer"),
        family=_whole(info.get("cpu family") or info.get("CPU architecture")),
        model=_whole(info.get("model") or info.get("CPU part")),
        stepping=_whole(info.get("stepping") or info.get("CPU revision")),
        microcode=info.get("microcode"),
        flags=_flags(info),
        caches=caches(),
        sockets=_whole(info.get("sockets")),
        virtualisation=virtual if "flags" in info else None,
        c_library=f"{library} {version}" if library == "glibc" else None,
    )


def _flags(info: Mapping[str, str]) -> tuple[str, ...]:
    """List the processor's features."""
    return tuple(sorted(set((info.get("flags") or info.get("Features", "")).lower().split())))


def _whole(text: str | None) -> int | None:
    """Parse a whole number, decimal or with ``0x``; None for other words (``unknown``, AArch64)."""
    try:
        return int(text or "", 0)
    except ValueError:
        return None


def caches() -> tuple[Cache, ...]:
    """List the first core's caches with the number of cores that share each; empty if not shown."""
    fields = ("level", "type", "size", "shared_cpu_map")
    existing = []
    for folder in (_CPUS / "cpu0/cache").glob("index*"):
        level, kind, size, shared = (read_text(folder / name).strip().lower() for name in fields)
        kib, mask = size.removesuffix("k"), shared.replace(",", "")  # hexadecimal, a bit per core
        if level.isdecimal() and kib.isdecimal() and mask and kind in _KINDS:
            sizes = {"size_bytes": 1024 * int(kib), "cores": int(mask, 16).bit_count()}
            facts = {"level": int(level), "kind": kind, **sizes}
            existing.append(msgspec.convert(facts, Cache))
    return tuple(sorted(existing, key=lambda cache: (cache.level, cache.kind)))


def operating_system() -> str:
    """Name the distribution, the kernel and its release, but never the host."""
    kernel = f"{platform.system()} {platform.release()}"
    try:
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {kernel}"
    except (OSError, KeyError):
        return kernel

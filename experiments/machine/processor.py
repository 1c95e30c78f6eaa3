"""The processor, its caches and the system, as far as Linux tells; elsewhere little but names.

Cloud processors call themselves «AMD EPYC» whatever they are; family, model, flags and caches tell
them apart.  What a system does not say is null.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from experiments.machine.runtime import cores_available
from experiments.machine.text import printed, text_of
from report.records.record import Cache, Cpu, Host

_CPUINFO: Final = Path("/proc/cpuinfo")
_CPUS: Final = Path("/sys/devices/system/cpu")
#: Who has built the machine, or what runs the virtual one; every container on it shows the same.
_VENDOR: Final = Path("/sys/class/dmi/id/sys_vendor")
#: The answer where a machine is no virtual one.
NO_VIRTUALISATION: Final = "none"

_KINDS: Final = ("data", "instruction", "unified")
_EXTENSIONS: Final = (
    "avx avx2 fma f16c avx512f avx512bw avx512vl avx512_vnni avx512_bf16 avx512_fp16 avx_vnni "
    "amx_tile amx_bf16 amx_int8 neon sve sve2"
)


def _cpuinfo() -> dict[str, str]:
    """What Linux says of the first processor, by its own keys; nothing elsewhere.

    ``sockets`` is their number, if told.  The later blocks are the other processors, and on a
    Raspberry Pi the serial number of the board, which nobody needs to know.
    """
    text = text_of(_CPUINFO)
    pairs = (line.partition(":") for line in text.strip().split("\n\n")[0].splitlines())
    found = {key.strip(): value.strip() for key, _, value in pairs}
    packages = set(re.findall(r"^physical id\s*:\s*(\d+)", text, re.MULTILINE))
    return {**found, "sockets": str(len(packages))} if packages else found


def cpu() -> Cpu:
    """The processor, and the frequency governor of its first core, where Linux shows one."""
    info = _cpuinfo()
    flags = {"neon" if flag == "asimd" else flag for flag in _flags(info)}
    return Cpu(
        model=_model(info.get("model name")),
        architecture=platform.machine() or "unknown",
        cores_available=cores_available(),
        governor=text_of(_CPUS / "cpu0/cpufreq/scaling_governor").strip() or None,
        vector_extensions=tuple(sorted(flags.intersection(_EXTENSIONS.split()))),
    )


def _model(named: str | None) -> str:
    """The model without trade marks, core counts and clock: ``Intel Core i7-1185G7``.

    Where Linux names none, as on ARM, ``lscpu`` knows it by its number; a Mac has ``sysctl``.
    """
    if not named and (listed := re.search(r"Model name:\s*(.+)", printed("lscpu") or "")):
        named = listed[1]
    named = named or printed("sysctl", "-n", "machdep.cpu.brand_string") or platform.machine()
    plain = re.sub(r"\((?:R|TM|C)\)|@.*$|\b(?:CPU|Processor)\b|\b\d+-Core\b", " ", named)
    return " ".join(plain.split()) or "unknown"


def host() -> Host:
    """What tells the machine from others of its kind."""
    info, (library, version) = _cpuinfo(), platform.libc_ver()
    # The processor knows whether it is a virtual one, the firmware whose it is.
    maker = text_of(_VENDOR).strip() or "a hypervisor"
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
    """All features that the processor names."""
    return tuple(sorted(set((info.get("flags") or info.get("Features", "")).lower().split())))


def _whole(text: str | None) -> int | None:
    """A whole number, decimal or with ``0x``; None for anything else (``unknown``, AArch64)."""
    try:
        return int(text or "", 0)
    except ValueError:
        return None


def caches() -> tuple[Cache, ...]:
    """The caches as one core sees them; none where the system shows none."""
    found = []
    for folder in (_CPUS / "cpu0/cache").glob("index*"):
        fields = ("level", "type", "size", "shared_cpu_map")
        level, kind, size, shared = (text_of(folder / name).strip().lower() for name in fields)
        kib, cores = size.removesuffix("k"), shared.replace(",", "")  # groups of 32 cores
        if level.isdecimal() and kib.isdecimal() and cores and kind in _KINDS:
            sizes = {"size_bytes": 1024 * int(kib), "cores": int(cores, 16).bit_count()}
            found.append(msgspec.convert({"level": int(level), "kind": kind, **sizes}, Cache))
    return tuple(sorted(found, key=lambda cache: (cache.level, cache.kind)))


def operating_system() -> str:
    """Distribution, kernel and its release; never the name of the host."""
    kernel = f"{platform.system()} {platform.release()}"
    try:
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {kernel}"
    except (OSError, KeyError):
        return kernel

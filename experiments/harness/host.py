"""What tells this machine from others of the same name.

Cloud processors call themselves «AMD EPYC» whatever they are; family, model, flags and caches tell
them apart.  The parsers are pure functions over the texts of Linux (``/proc/cpuinfo``, sysfs, DMI)
and macOS (``sysctl``); what a system does not say is null with a reason.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from experiments.harness.text import text_of
from report.records.record import Cache, Host

_CPUINFO: Final = Path("/proc/cpuinfo")
_CPUS: Final = Path("/sys/devices/system/cpu")
_DMI: Final = Path("/sys/class/dmi/id")
_DMI_FIELDS: Final = ("sys_vendor", "product_name", "bios_vendor")
_CACHE_FIELDS: Final = ("level", "type", "size", "shared_cpu_list")
_LIMIT_S: Final = 10
#: The answer where a machine is no virtual one.
NO_VIRTUALISATION: Final = "none"

_KINDS: Final[Mapping[str, Literal["data", "instruction", "unified"]]] = {
    "data": "data",
    "instruction": "instruction",
    "unified": "unified",
}
_UNITS: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}

#: Who makes an ARM processor, by the number in its identification register.
_IMPLEMENTERS: Final = {
    0x41: "ARM",
    0x42: "Broadcom",
    0x43: "Cavium",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x51: "Qualcomm",
    0x61: "Apple",
    0x6D: "Microsoft",
    0xC0: "Ampere",
}
#: ARM's own designs by their part number; Linux gives no model name on 64 bit.
_ARM_PARTS: Final = {
    0xD03: "Cortex-A53",
    0xD07: "Cortex-A57",
    0xD08: "Cortex-A72",
    0xD0B: "Cortex-A76",
    0xD0C: "Neoverse-N1",
    0xD40: "Neoverse-V1",
    0xD49: "Neoverse-N2",
    0xD4F: "Neoverse-V2",
    0xD84: "Neoverse-V3",
}
#: What the firmware of a virtual machine calls itself, and the name of what runs it.
_HYPERVISORS: Final = (
    (re.compile(r"amazon ec2", re.IGNORECASE), "amazon"),
    (re.compile(r"google compute engine", re.IGNORECASE), "google"),
    (re.compile(r"microsoft corporation.*virtual machine", re.IGNORECASE), "microsoft"),
    (re.compile(r"vmware", re.IGNORECASE), "vmware"),
    (re.compile(r"innotek|virtualbox", re.IGNORECASE), "virtualbox"),
    (re.compile(r"parallels", re.IGNORECASE), "parallels"),
    (re.compile(r"apple virtualization", re.IGNORECASE), "apple"),
    (re.compile(r"\bxen\b", re.IGNORECASE), "xen"),
    (re.compile(r"bhyve", re.IGNORECASE), "bhyve"),
    (re.compile(r"kvm|openstack", re.IGNORECASE), "kvm"),
    (re.compile(r"qemu", re.IGNORECASE), "qemu"),
)


@dataclass(frozen=True)
class Processor:
    """What a processor says of itself; null where it does not."""

    vendor: str | None
    family: int | None
    model: int | None
    stepping: int | None
    microcode: str | None
    flags: tuple[str, ...]


def read_host(number: str | None, why_no_number: str = "") -> tuple[Host, dict[str, str]]:
    """This machine with its random ``number``, and the reason for each field that is null."""
    info = cpuinfo()
    found = processor(info)
    dmi = {name: text_of(_DMI / name).strip() for name in _DMI_FIELDS}
    host = Host(
        vendor=found.vendor,
        family=found.family,
        model=found.model,
        stepping=found.stepping,
        microcode=found.microcode,
        flags=found.flags,
        caches=caches(info),
        sockets=sockets(info, _packages()),
        virtualisation=virtualisation(info, dmi, _detected()),
        c_library=_c_library(),
        machine=number,
    )
    return host, reasons(host, why_no_number)


def reasons(host: Host, why_no_number: str) -> dict[str, str]:
    """Why each field that is null or empty is so, as ``Environment.missing`` says it."""
    source = "sysctl" if sys.platform == "darwin" else "/proc/cpuinfo"
    said = {
        "vendor": f"{source} names no vendor",
        "family": f"{source} names no family",
        "model": f"{source} names no model number",
        "stepping": f"{source} names no stepping",
        "microcode": f"{source} names no microcode",
        "flags": f"{source} names no features",
        "caches": "the system shows no caches",
        "sockets": "the system shows no sockets",
        "virtualisation": "neither the processor nor the firmware says it",
        "c_library": "neither glibc nor musl nor macOS was found",
        "machine": why_no_number or "no folder of records was given",
    }
    return {f"host.{name}": why for name, why in said.items() if getattr(host, name) in (None, ())}


# ----------------------------------------------------------------------------------- processor


def cpuinfo() -> dict[str, str]:
    """What the system says of the first processor, by its own keys; empty where it says nothing."""
    if _CPUINFO.exists():
        return parse_cpuinfo(_CPUINFO.read_text(errors="replace"))
    if sys.platform == "darwin":
        return parse_sysctl(_said("sysctl", "hw", "machdep.cpu", "kern.hv_vmm_present"))
    return {}


def parse_cpuinfo(text: str) -> dict[str, str]:
    """The first block of ``/proc/cpuinfo``, and under ``sockets`` the number of them, if told.

    The later blocks are the other processors, and on a Raspberry Pi the serial number of the board,
    which nobody needs to know.
    """
    pairs = (line.partition(":") for line in text.strip().split("\n\n")[0].splitlines())
    found = {key.strip(): value.strip() for key, _, value in pairs}
    packages = set(re.findall(r"^physical id\s*:\s*(\d+)", text, re.MULTILINE))
    return {**found, "sockets": str(len(packages))} if packages else found


def parse_sysctl(text: str) -> dict[str, str]:
    """The lines ``name: value`` of macOS."""
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def processor(info: Mapping[str, str]) -> Processor:
    """The processor of ``cpuinfo``: x86 or ARM under Linux, or a Mac's."""
    if "CPU implementer" in info:
        return _arm(info)
    if any(key.startswith("machdep.cpu") for key in info):
        return _apple(info)
    return Processor(
        vendor=info.get("vendor_id") or None,
        family=_whole(info.get("cpu family")),
        model=_whole(info.get("model")),
        stepping=_whole(info.get("stepping")),
        microcode=info.get("microcode") or None,
        flags=_sorted(info.get("flags", "")),
    )


def _arm(info: Mapping[str, str]) -> Processor:
    """ARM: the family is the architecture, the model the part; stepping is 16·variant + revision.

    (``r3p1`` is variant 3, revision 1.)
    """
    variant, revision = _whole(info.get("CPU variant")), _whole(info.get("CPU revision"))
    implementer = info["CPU implementer"]
    return Processor(
        vendor=_IMPLEMENTERS.get(_whole(implementer) or 0, implementer),
        family=_whole(info.get("CPU architecture")),
        model=_whole(info.get("CPU part")),
        stepping=None if variant is None or revision is None else 16 * variant + revision,
        microcode=None,
        flags=_sorted(info.get("Features", "")),
    )


def arm_name(info: Mapping[str, str]) -> str | None:
    """``ARM Neoverse-N1``, for a processor that Linux gives no model name; null if not known."""
    if _whole(info.get("CPU implementer")) != 0x41:
        return None
    part = _ARM_PARTS.get(_whole(info.get("CPU part")) or 0)
    return f"ARM {part}" if part else None


def _apple(info: Mapping[str, str]) -> Processor:
    """A Mac's processor; Apple's own have a family and a subfamily, and a line for each feature."""
    if "machdep.cpu.vendor" in info:
        features = ("machdep.cpu.features", "machdep.cpu.leaf7_features")
        return Processor(
            vendor=info["machdep.cpu.vendor"],
            family=_whole(info.get("machdep.cpu.family")),
            model=_whole(info.get("machdep.cpu.model")),
            stepping=_whole(info.get("machdep.cpu.stepping")),
            microcode=info.get("machdep.cpu.microcode_version"),
            flags=_sorted(" ".join(info.get(key, "") for key in features)),
        )
    optional = (k for k, v in info.items() if k.startswith("hw.optional.") and v == "1")
    return Processor(
        vendor="Apple",
        family=_whole(info.get("hw.cpufamily")),
        model=_whole(info.get("hw.cpusubfamily")),
        stepping=None,
        microcode=None,
        flags=_sorted(" ".join(key.rpartition(".")[2] for key in optional)),
    )


def _sorted(flags: str) -> tuple[str, ...]:
    return tuple(sorted(set(flags.lower().split())))


def _whole(text: str | None) -> int | None:
    """A whole number, decimal or with ``0x``; None for anything else (``unknown``, AArch64)."""
    try:
        return int(text or "", 0)
    except ValueError:
        return None


# -------------------------------------------------------------------------------------- caches


def parse_caches(folders: Iterable[Mapping[str, str]]) -> tuple[Cache, ...]:
    """The caches that sysfs shows, each as the texts of its files by their names."""
    found = []
    for texts in folders:
        level, size = _whole(texts.get("level")), _size(texts.get("size", ""))
        kind = _KINDS.get(texts.get("type", "").lower())
        cores = count_listed(texts.get("shared_cpu_list", ""))
        if level and kind and size and cores:
            found.append(Cache(level=level, kind=kind, size_bytes=size, cores=cores))
    return tuple(sorted(found, key=lambda cache: (cache.level, cache.kind)))


def apple_caches(info: Mapping[str, str]) -> tuple[Cache, ...]:
    """The caches of a Mac's fast cores, which have a level of performance of their own."""
    sharing = [_whole(word) or 0 for word in info.get("hw.cacheconfig", "").split()]
    found = []
    for level, letter in ((1, "d"), (1, "i"), (2, ""), (3, "")):
        kind = {"d": "data", "i": "instruction"}.get(letter, "unified")
        name = f"l{level}{letter}cachesize"
        size = _whole(info.get(f"hw.perflevel0.{name}") or info.get(f"hw.{name}"))
        cores = _whole(info.get(f"hw.perflevel0.cpusperl{level}"))
        cores = cores or (sharing[level] if level < len(sharing) else 0)
        if size and cores:
            found.append(Cache(level=level, kind=_KINDS[kind], size_bytes=size, cores=cores))
    return tuple(found)


def _size(text: str) -> int | None:
    """``48K`` in B."""
    match = re.fullmatch(r"(\d+)([KMG]?)B?", text)
    return int(match[1]) * _UNITS[match[2]] if match else None


def count_listed(ranges: str) -> int:
    """How many processors ``0-3,8`` names; 0 for a text that is no such list."""
    if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", ranges):
        return 0
    bounds = (part.partition("-") for part in ranges.split(","))
    return sum(int(last or first) - int(first) + 1 for first, _, last in bounds)


def sockets(info: Mapping[str, str], packages: Iterable[str]) -> int | None:
    """Sockets: as ``cpuinfo`` or a Mac says, else the ``packages`` that sysfs numbers, from 0 on.

    Linux gives a package the number -1 where the firmware does not tell.
    """
    stated = _whole(info.get("sockets") or info.get("hw.packages"))
    return stated or len({number for number in packages if number.isdigit()}) or None


# ------------------------------------------------------------------------------ virtualisation


def virtualisation(
    info: Mapping[str, str], dmi: Mapping[str, str], detected: str | None
) -> str | None:
    """What runs this virtual machine, ``none`` on a real one, null where nothing says it.

    The firmware comes first, since every container on the machine shows the same; ``detected`` is
    what ``systemd-detect-virt --vm`` says, which is not installed everywhere.
    """
    if dmi.get("product_name", "").endswith(".metal"):  # real machines of a cloud
        return NO_VIRTUALISATION
    firmware = " ".join(dmi.get(name, "") for name in _DMI_FIELDS)
    by_firmware = next((name for form, name in _HYPERVISORS if form.search(firmware)), None)
    if by_firmware or detected:
        return by_firmware or detected
    mac = info.get("kern.hv_vmm_present")
    if "hypervisor" in info.get("flags", "").split() or mac == "1":
        return "a hypervisor"
    return NO_VIRTUALISATION if "flags" in info or mac == "0" else None


# --------------------------------------------------------------------------------- the C library


def c_library(glibc: tuple[str, str], musl: str, mac: str) -> str | None:
    """Its name and version, from what platform, musl's loader and macOS say."""
    name, version = glibc
    if name == "glibc":
        return f"glibc {version}".rstrip()
    said = re.search(r"musl libc.*?Version ([\d.]+)", musl, re.DOTALL)
    if said:
        return f"musl {said[1]}"
    return f"macOS {mac}" if mac else None


def _c_library() -> str | None:
    loader = next(Path("/lib").glob("ld-musl-*.so.1"), None)
    musl = _said(os.fspath(loader)) if loader else ""
    return c_library(platform.libc_ver(), musl, platform.mac_ver()[0])


# ---------------------------------------------------------------------------------------- edges


def caches(info: Mapping[str, str] | None = None) -> tuple[Cache, ...]:
    """The caches as one core sees them; none where the system shows none."""
    return parse_caches(_cache_folders()) or apple_caches(cpuinfo() if info is None else info)


def _cache_folders() -> list[dict[str, str]]:
    folders = sorted((_CPUS / "cpu0" / "cache").glob("index*"))
    return [{name: text_of(folder / name).strip() for name in _CACHE_FIELDS} for folder in folders]


def _packages() -> list[str]:
    return [text_of(path).strip() for path in _CPUS.glob("cpu[0-9]*/topology/physical_package_id")]


def _detected() -> str | None:
    program = shutil.which("systemd-detect-virt")
    return _said(program, "--vm").strip() or None if program else None


def _said(*words: str) -> str:
    """All that a program prints, whatever its exit code; nothing where it does not start."""
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", check=False, timeout=_LIMIT_S
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout + done.stderr

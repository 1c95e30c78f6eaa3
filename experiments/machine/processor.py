"""Describe processor, caches, operating system, and processor settings that affect measured times.

Linux shows these facts below /proc and /sys; other systems show little more than names.

Cloud processors of several generations have the same name, «AMD EPYC»; family, model, flags and
caches distinguish the generations.  A fact that the system does not show is None (null in records).
"""

import os
import platform
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from experiments.machine.runtime import cores_available, usable_processors
from experiments.machine.text import program_output, read_text
from report.core.records.record import Cache, Cpu, Head, Host

_CPUINFO: Final = Path("/proc/cpuinfo")
_CPUS: Final = Path("/sys/devices/system/cpu")
#: File with the maker of the machine, or with the hypervisor of a virtual machine.
_VENDOR_FILE: Final = Path("/sys/class/dmi/id/sys_vendor")
#: Value of ``Host.virtualisation`` for a machine that is not virtual.
NO_VIRTUALISATION: Final = "none"

#: Vector extensions that records list.
_EXTENSIONS: Final = (
    "avx avx2 fma f16c avx512f avx512bw avx512vl avx512_vnni avx512_bf16 avx512_fp16 avx_vnni "
    "amx_tile amx_bf16 amx_int8 neon sve sve2"
)
#: Head of a record: all but its measurements.  The type of an unfinished run's head is a subclass.
AnyHead = TypeVar("AnyHead", bound=Head)
_ROOT: Final = Path("/")
#: Kind of core of Intel's hybrid processors → file that lists the processors of this kind.
_INTEL_KINDS: Final = {"P": "sys/devices/cpu_core/cpus", "E": "sys/devices/cpu_atom/cpus"}
#: File that says whether the turbo clock is on → content of the file if it is on.
_TURBO_FILES: Final = {"intel_pstate/no_turbo": "0", "cpufreq/boost": "1"}


def _cpuinfo() -> dict[str, str]:
    """Read the first processor of /proc/cpuinfo, and count the ``sockets``; empty without the file.

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
    """Describe the processor, with the frequency governor of its first core (None if unknown)."""
    info = _cpuinfo()
    flags = {"neon" if flag == "asimd" else flag for flag in _flags(info)}  # Linux's name of neon
    return Cpu(
        model=_model(info.get("model name")),
        architecture=platform.machine() or "unknown",
        cores_available=cores_available(),
        governor=read_text(_CPUS / "cpu0/cpufreq/scaling_governor").strip() or None,
        vector_extensions=tuple(sorted(flags.intersection(_EXTENSIONS.split()))),
    )


def _model(name: str | None) -> str:
    """Return the model name without trade marks, core counts and clock: ``Intel Core i7-1185G7``.

    Where /proc/cpuinfo gives no ``name``, ``lscpu`` names the model (ARM), or ``sysctl`` (Macs).
    """
    if not name:
        listed = re.search(r"Model name:\s*(.+)", program_output("lscpu") or "")
        name = listed[1] if listed else None
    name = name or program_output("sysctl", "-n", "machdep.cpu.brand_string") or platform.machine()
    plain = re.sub(r"\((?:R|TM|C)\)|@.*$|\b(?:CPU|Processor)\b|\b\d+-Core\b", " ", name)
    return " ".join(plain.split()) or "unknown"


def host() -> Host:
    """Describe the facts that distinguish this machine from others with the same processor."""
    info = _cpuinfo()
    library, version = platform.libc_ver()
    # A flag of the processor shows that the machine is virtual; the firmware names the hypervisor.
    vendor = read_text(_VENDOR_FILE).strip() or "a hypervisor"
    virtualisation = vendor if "hypervisor" in _flags(info) else NO_VIRTUALISATION
    return Host(
        vendor=info.get("vendor_id") or info.get("CPU implementer"),
        family=_whole_number(info.get("cpu family") or info.get("CPU architecture")),
        model=_whole_number(info.get("model") or info.get("CPU part")),
        stepping=_whole_number(info.get("stepping") or info.get("CPU revision")),
        microcode=info.get("microcode"),
        flags=_flags(info),
        caches=caches(),
        sockets=_whole_number(info.get("sockets")),
        virtualisation=virtualisation if "flags" in info else None,
        c_library=f"{library} {version}" if library == "glibc" else None,
    )


def _flags(info: Mapping[str, str]) -> tuple[str, ...]:
    """Return the processor's flags in alphabetical order."""
    flags = info.get("flags") or info.get("Features", "")  # as Linux calls flags on Arm
    return tuple(sorted(set(flags.lower().split())))


def _whole_number(text: str | None) -> int | None:
    """Parse a whole number, decimal or with ``0x``; return None for any other text or None."""
    try:
        return int(text or "", 0)
    except ValueError:
        return None


def caches() -> tuple[Cache, ...]:
    """List the first core's caches, each with the number of cores that share it."""
    existing = []
    for folder in (_CPUS / "cpu0/cache").glob("index*"):
        level = read_text(folder / "level").strip()
        kind = read_text(folder / "type").strip().lower()
        kib = read_text(folder / "size").strip().lower().removesuffix("k")
        mask = read_text(folder / "shared_cpu_map").strip().replace(",", "")  # a bit per core
        is_known = kind in ("data", "instruction", "unified")
        if level.isdecimal() and kib.isdecimal() and mask and is_known:
            size, cores = 1024 * int(kib), int(mask, 16).bit_count()
            facts = {"level": int(level), "kind": kind, "size_bytes": size, "cores": cores}
            existing.append(msgspec.convert(facts, Cache))
    return tuple(sorted(existing, key=lambda cache: (cache.level, cache.kind)))


def operating_system() -> str:
    """Name the distribution (if known), the kernel and its release, but never the host."""
    kernel = f"{platform.system()} {platform.release()}"
    try:
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {kernel}"
    except (OSError, KeyError):
        return kernel


def conditions(usable: Collection[int], root: Path = _ROOT) -> dict[str, str]:
    """Describe what may slow the ``usable`` processors, for the record, in the terms of Linux."""
    cpus = root / "sys/devices/system/cpu"
    state: dict[str, str] = {}
    present = parse_list(read_text(cpus / "present"))
    if present and len(usable) < len(present):
        state["affinity"] = f"{format_list(usable)} of {len(present)}"
    sharing = set[int]()  # usable processors that share a core (SMT)
    for number in usable:
        siblings = parse_list(read_text(cpus / f"cpu{number}/topology/thread_siblings_list"))
        usable_siblings = siblings.intersection(usable)
        if len(usable_siblings) > 1:
            sharing |= usable_siblings
    if sharing:
        state["siblings"] = f"{format_list(sharing)} share cores"
    kinds = kinds_of_core(usable, root)
    if len(kinds) > 1:
        texts = [f"{kind}: {format_list(members)}" for kind, members in kinds.items()]
        state["kinds"] = "; ".join(texts)
    governors = {read_text(cpus / f"cpu{n}/cpufreq/scaling_governor").strip() for n in usable}
    if governors := governors - {""}:
        state["governor"] = ", ".join(sorted(governors))
    for file, text_if_on in _TURBO_FILES.items():
        if text := read_text(cpus / file).strip():
            state["turbo"] = "on" if text == text_if_on else "off"
    memory_nodes = 0  # NUMA nodes with usable processors
    for folder in (root / "sys/devices/system/node").glob("node[0-9]*"):
        if not parse_list(read_text(folder / "cpulist")).isdisjoint(usable):
            memory_nodes += 1
    if memory_nodes > 1:
        state["nodes"] = str(memory_nodes)
    if "microsoft" in read_text(root / "proc/version").lower():
        state["system"] = "WSL"
    return state


def kinds_of_core(usable: Collection[int], root: Path = _ROOT) -> dict[str, set[int]]:
    """Group ``usable`` processors by kind of core, the fastest kind first.

    The kinds are P and E on Intel's hybrid processors, and on Arm the core's capacity as Linux
    states it.  The result is empty for other processors.
    """
    kinds = {}
    for kind, file in _INTEL_KINDS.items():
        members = parse_list(read_text(root / file)).intersection(usable)
        if members:
            kinds[kind] = members
    capacities = _number_by_processor(usable, "cpu_capacity", root)
    for size in sorted(set(capacities.values()), reverse=True):
        members = {number for number, capacity in capacities.items() if capacity == size}
        kinds.setdefault(f"capacity {size}", members)
    return kinds


def _number_by_processor(usable: Collection[int], file: str, root: Path) -> dict[int, int]:
    """Read the whole number in each processor's ``file``; omit processors without the file."""
    numbers = {}
    for number in usable:
        text = read_text(root / f"sys/devices/system/cpu/cpu{number}" / file).strip()
        if text.isdecimal():
            numbers[number] = int(text)
    return numbers


def throttle_count(usable: Collection[int] = (), root: Path = _ROOT) -> int | None:
    """Count how often heat has slowed processors (default: all usable); None if unknown."""
    file = "thermal_throttle/core_throttle_count"
    counts = _number_by_processor(usable or usable_processors(), file, root)
    return sum(counts.values()) if counts else None


def with_throttling(head: AnyHead, count_before: int | None) -> AnyHead:
    """Add to a record's head how often heat has slowed processors since ``count_before``, if so."""
    count = throttle_count()
    if count_before is None or count is None or count <= count_before:
        return head
    state = {**head.environment.conditions, "throttled": f"{count - count_before} times"}
    facts = msgspec.structs.replace(head.environment, conditions=state)
    return msgspec.structs.replace(head, environment=facts)


def pin_to_one_kind_of_core(root: Path = _ROOT) -> str | None:
    """Bind this process and its children to the fastest kind of core; return a note about it.

    Threads on slower cores would delay all other threads at the end of every parallel loop.
    Returns None, and binds nothing, if all cores are of one kind, or outside Linux.
    """
    kinds = kinds_of_core(usable_processors(), root)
    if len(kinds) < 2 or platform.system() != "Linux":
        return None
    kind, members = next(iter(kinds.items()))
    os.sched_setaffinity(0, members)
    cores = f"{kind}: {format_list(members)}"
    return f"The processor has cores of {len(kinds)} kinds; measuring on {cores}."


def parse_list(text: str) -> set[int]:
    """Parse a list of processors as Linux writes it: ``0-3,8``."""
    numbers = set[int]()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


def format_list(numbers: Iterable[int]) -> str:
    """Write processors as Linux does: ``0-3,8``."""
    all_numbers, text = set(numbers), ""
    for number in sorted(all_numbers):
        if number - 1 not in all_numbers:
            text += f",{number}"
        elif number + 1 not in all_numbers:
            text += f"-{number}"
    return text.removeprefix(",")

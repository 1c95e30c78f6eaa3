"""The processor, its memory and the operating system, as far as the system tells."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from experiments.harness import host
from experiments.harness.runtime import cores_available
from report.records.record import Cpu

_GOVERNOR: Final = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")

#: Flags of the system -> the name under which an extension is known.
_EXTENSIONS: Final = {
    "avx": "avx",
    "avx1.0": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512vl": "avx512vl",
    "avx512_vnni": "avx512_vnni",
    "avx512_bf16": "avx512_bf16",
    "avx512_fp16": "avx512_fp16",
    "avx_vnni": "avx_vnni",
    "amx_tile": "amx_tile",
    "amx_bf16": "amx_bf16",
    "amx_int8": "amx_int8",
    "asimd": "neon",
    "neon": "neon",
    "sve": "sve",
    "sve2": "sve2",
}


def cpu() -> tuple[Cpu, dict[str, str]]:
    """The processor, and the reason for each field that is null."""
    info = host.cpuinfo()
    found = governor()
    missing = {} if found else {"cpu.governor": "the system shows no frequency governor"}
    arm_mac = sys.platform == "darwin" and platform.machine() == "arm64"
    return Cpu(
        model=model_name(info),
        architecture=platform.machine() or "unknown",
        cores_available=cores_available(),
        governor=found,
        vector_extensions=extensions("neon" if arm_mac else " ".join(host.processor(info).flags)),
    ), missing


def model_name(info: Mapping[str, str]) -> str:
    """The model as the system, or else ARM's list of parts, names it, tidied up."""
    named = info.get("model name") or info.get("machdep.cpu.brand_string") or host.arm_name(info)
    return tidy_model(named or platform.processor() or platform.machine())


def governor() -> str | None:
    """The frequency governor of the first core, where Linux shows one."""
    try:
        return _GOVERNOR.read_text().strip() or None
    except OSError:
        return None


def extensions(flags: str) -> tuple[str, ...]:
    """The vector extensions among the processor's flags, sorted."""
    present = set(flags.lower().split())
    return tuple(sorted({name for flag, name in _EXTENSIONS.items() if flag in present}))


def tidy_model(model: str) -> str:
    """The model without trade marks, core counts and clock: ``Intel Core i7-1185G7``."""
    plain = re.sub(r"\((?:R|TM|C)\)|@.*$|\b(?:CPU|Processor)\b|\b\d+-Core\b", " ", model)
    return " ".join(plain.split())


def operating_system() -> str:
    """Distribution, kernel and its release; never the name of the host."""
    kernel = f"{platform.system()} {platform.release()}"
    try:
        distribution = platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        distribution = None
    return f"{distribution}, {kernel}" if distribution else kernel


def load() -> float | None:
    """The one-minute load average, or None where the system keeps none."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None

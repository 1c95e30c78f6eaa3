"""Describe the environment of a run for the record, with a reason for each missing fact."""

from __future__ import annotations

import getpass
import hashlib
import os
import platform
import re
import unicodedata
from typing import TYPE_CHECKING, Final

import msgspec

from experiments.harness.study import Device
from experiments.machine import limits, processor, quiet, runtime, sensors
from experiments.machine.text import flatten, program_output, without_paths
from report.core.missing import Missing
from report.core.records.record import Environment, Gpu, PrecisionSwitches, Torch

if TYPE_CHECKING:
    import types

#: Fact → reason if the fact is null; a fact without entry is null if the system does not say it.
_REASONS: Final = {
    "name": "the run was given no --label",
    "gpu": "the run used the CPU",
    "gpu.driver": "nvidia-smi is not there or gave no version",
    "gpu.cudnn": "this PyTorch has no cuDNN",
    "cpu.governor": "the system shows no frequency governor",
}
#: Facts that may be null or empty without a reason.
_ALLOWED_TO_BE_NULL: Final = (
    "host.machine", "cpu.vector_extensions", "load_before", "load_after", "missing", "variables",
    "conditions",
)  # fmt: skip

#: Processor flags that the device key ignores, since Linux defines them itself or reads them from
#: microcode, so that updates change them.
_SOFTWARE_FLAGS: Final = (
    "aperfmperf arat arch_capabilities arch_perfmon brs bus_lock_detect constant_tsc cpuid "
    "cpuid_fault eagerfpu epb extd_apicid flush_l1d hypervisor ibpb ibpb_exit_to_user ibrs "
    "ibrs_enhanced ibt intel_stibp invpcid_single kaiser l1tf md_clear nonstop_tsc "
    "nonstop_tsc_s3 nopl overflow_recov pti rapl rep_good retpoline rrsba_ctrl rsb_ctxsw sev "
    "sev_es sme spec_ctrl split_lock_detect srbds_ctrl ssbd stibp succor tsc_known_freq "
    "tsc_reliable up user_shstk virt_ssbd vmmcall xtopology"
)


def gather(
    torch: types.ModuleType, device: Device, threads: int, *, name: str | None = None
) -> Environment:
    """Describe the machine and the software; ``name`` is the user's ``--label``, if any."""
    import psutil  # type: ignore[import-untyped]

    facts = Environment(
        device=device,
        key="",
        cpu=processor.cpu(),
        gpu=_gpu(torch) if device == "cuda" else None,
        threads=threads,
        memory_bytes=psutil.virtual_memory().total,
        operating_system=processor.operating_system(),
        python=platform.python_version(),
        torch=Torch(
            version=str(torch.__version__),
            build=without_paths(" ".join(torch.__config__.show().split())),
            cpu_capability=torch.backends.cpu.get_cpu_capability(),
        ),
        precision=PrecisionSwitches(
            default_dtype=str(torch.get_default_dtype()).removeprefix("torch."),
            float32_matmul=torch.get_float32_matmul_precision(),
            cuda_matmul_tf32=torch.backends.cuda.matmul.allow_tf32,
            cudnn_tf32=torch.backends.cudnn.allow_tf32,
            cudnn_benchmark=torch.backends.cudnn.benchmark,
            cudnn_deterministic=torch.backends.cudnn.deterministic,
            deterministic_algorithms=torch.are_deterministic_algorithms_enabled(),
        ),
        missing={},
        name=name,
        host=processor.host(),
        variables={**variables(device), **limits.container_limits()},
        conditions=processor.conditions(runtime.usable_processors()),
    )
    missing = {}
    for field, value in flatten(facts):
        if value is None and field not in _ALLOWED_TO_BE_NULL:
            missing[field] = _REASONS.get(field, "the system does not say it")
    energy = sensors.read_energy(device)
    unavailable = {
        "disturbance": quiet.unavailable(),
        "device_clock": sensors.unavailable() if device == "cuda" else None,
        "energy": energy.reason if isinstance(energy, Missing) else None,
    }
    missing |= {quantity: reason for quantity, reason in unavailable.items() if reason}
    return msgspec.structs.replace(facts, key=device_key(facts), missing=missing)


def _gpu(torch: types.ModuleType) -> Gpu:
    """Describe PyTorch's current GPU."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    cudnn = torch.backends.cudnn.version()
    query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    drivers = (program_output(*query) or "").split()
    return Gpu(
        model=properties.name,
        memory_bytes=properties.total_memory,
        compute_capability=f"{properties.major}.{properties.minor}",
        driver=drivers[0] if drivers else None,
        cuda=str(torch.version.cuda or torch.version.hip or "unknown"),
        cudnn=None if cudnn is None else str(cudnn),
    )


def device_key(facts: Environment) -> str:
    """Derive the key by which papers distinguish devices: words and a hash, joined by hyphens.

    The words are the label, or without a label the model; on a CPU also the number of threads.  The
    key ignores the kernel, the C library and the microcode, so that a machine has the same key
    after an update.  The key also ignores the number of visible GPUs.
    """
    host, gpu, name = facts.host, facts.gpu, facts.name
    assert host is not None
    hashed_facts = (
        *(host.vendor, host.family, host.model, host.stepping),
        [flag for flag in host.flags if flag not in _SOFTWARE_FLAGS.split()],
        *(host.caches, host.sockets),
        # Only some containers show which hypervisor runs the machine.
        host.virtualisation not in (None, processor.NO_VIRTUALISATION),
        round(facts.memory_bytes / 2**30),
        *((gpu.model,) if gpu else ()),
        # The key's words are ASCII, so a label in another script is only part of the hash.
        *((name,) if name and not name.isascii() else ()),
    )
    digits = hashlib.sha256(msgspec.json.encode(hashed_facts)).hexdigest()[:6]
    model, threads = (gpu.model, "") if gpu else (facts.cpu.model, f"{facts.threads}t")
    words = unicodedata.normalize("NFKD", f"{name or model} {threads} {digits}")
    ascii_words = words.encode("ascii", "ignore").decode()
    return "-".join(re.findall(r"[a-z0-9]+", ascii_words.lower()))


#: Names of the environment variables that records contain, except ``_NEVER_RECORDED``.
_RECORDED: Final = re.compile(
    r"(PYTORCH|TORCH|MALLOC|OMP|KMP|GOMP|MKL|OPENBLAS|ONEDNN|DNNL|CUBLAS|CUDNN|CUDA|XLA|JAX|TF)_.+"
    r"|GLIBC_TUNABLES|LD_PRELOAD|NVIDIA_TF32_OVERRIDE"
)
#: Names of variables that are never recorded.  Terraform's variables begin with TF and contain
#: passwords.  Schedulers choose the visible GPUs, and the record names the GPU itself.
_NEVER_RECORDED: Final = re.compile(
    r"TF_(VAR|CLI|TOKEN)_.*|.*(TOKEN|SECRET|PASSW|_KEY).*|CUDA_(VISIBLE_DEVICES|DEVICE_ORDER)"
)
#: Variables that change no measurement on a processor.
_GPU_ONLY: Final = re.compile(r"(PYTORCH_CUDA|CUDA|CUBLAS|CUDNN|NVIDIA)_.*")
#: Folders of a path.  A folder's name may contain a blank, but not before «/», «~» or «-», where
#: the next path or option begins.
_FOLDERS: Final = re.compile(r"(?:[^\s:;,='\"]|\s(?![/~-]))*/")


def variables(device: Device) -> dict[str, str]:
    """Return the environment variables that may change times or results, without user names."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # containers may have a user number without a name
        user = ""
    recorded = {}
    for name, value in sorted(os.environ.items()):
        if _NEVER_RECORDED.fullmatch(name) or (device == "cpu" and _GPU_ONLY.fullmatch(name)):
            continue
        if _RECORDED.fullmatch(name):
            recorded[name] = anonymous(value, user)
    return recorded


def anonymous(value: str, user: str) -> str:
    """Reduce paths in ``value`` to their last part, and replace the name ``user`` by ``USER``."""
    name = rf"(?<![A-Za-z0-9]){re.escape(user)}(?![A-Za-z0-9])" if user else r"(?!)"
    return re.sub(name, "USER", _FOLDERS.sub("", value))

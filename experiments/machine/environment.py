"""The environment of a run as a record keeps it, with a reason for what cannot be read."""

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
from experiments.machine import limits, quiet
from experiments.machine import processor as machine
from experiments.machine.text import flat, printed, without_paths
from report.records.record import Environment, Gpu, Precision, Torch

if TYPE_CHECKING:
    import types

_KEY_DIGITS: Final = 6
#: Why something is null, but for what the system does not say.
_REASONS: Final = {
    "name": "the run was given no --label",
    "gpu": "the run used the CPU",
    "gpu.driver": "nvidia-smi is not there or gave no version",
    "gpu.cudnn": "this PyTorch has no cuDNN",
    "cpu.governor": "the system shows no frequency governor",
}
#: What is null or empty without a reason.
_ALLOWED_TO_BE_NULL: Final = (
    "host.machine", "cpu.vector_extensions", "load_before", "load_after", "missing", "variables",
)  # fmt: skip

#: Flags that Linux adds by itself or takes from microcode: they come and go with updates of a
#: machine that stays the same, so that its key must not rest on them.
_OF_SOFTWARE: Final = (
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
    """The machine and the software now; ``name`` is what its people call the machine."""
    import psutil  # type: ignore[import-untyped]

    found = Environment(
        device=device,
        key="",
        cpu=machine.cpu(),
        gpu=_gpu(torch) if device == "cuda" else None,
        threads=threads,
        memory_bytes=psutil.virtual_memory().total,
        operating_system=machine.operating_system(),
        python=platform.python_version(),
        torch=Torch(
            version=str(torch.__version__),
            build=without_paths(" ".join(torch.__config__.show().split())),
            cpu_capability=torch.backends.cpu.get_cpu_capability(),
        ),
        precision=_precision(torch),
        missing={},
        name=name,
        host=machine.host(),
        variables={**variables(device), **limits.container_limits()},
    )
    null = [n for n, value in flat(found) if value is None and n not in _ALLOWED_TO_BE_NULL]
    missing = {n: _REASONS.get(n, "the system does not say it") for n in null}
    if (unwatched := quiet.unavailable()) is not None:
        missing["disturbance"] = unwatched
    return msgspec.structs.replace(found, key=device_key(found), missing=missing)


def _precision(torch: types.ModuleType) -> Precision:
    """The switches as they stand."""
    return Precision(
        default_dtype=str(torch.get_default_dtype()).removeprefix("torch."),
        float32_matmul=torch.get_float32_matmul_precision(),
        cuda_matmul_tf32=torch.backends.cuda.matmul.allow_tf32,
        cudnn_tf32=torch.backends.cudnn.allow_tf32,
        cudnn_benchmark=torch.backends.cudnn.benchmark,
        cudnn_deterministic=torch.backends.cudnn.deterministic,
        deterministic_algorithms=torch.are_deterministic_algorithms_enabled(),
    )


def _gpu(torch: types.ModuleType) -> Gpu:
    """The device that torch uses, with the driver, which all GPUs of a machine share."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    cudnn = torch.backends.cudnn.version()
    query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return Gpu(
        model=properties.name,
        memory_bytes=properties.total_memory,
        compute_capability=f"{properties.major}.{properties.minor}",
        driver=next(iter((printed(*query) or "").split()), None),
        cuda=str(torch.version.cuda or torch.version.hip or "unknown"),
        cudnn=None if cudnn is None else str(cudnn),
    )


# ---------------------------------------------------------------------------------------- the key


def device_key(found: Environment) -> str:
    """The key under which a paper tells devices apart; for a GPU without the threads.

    Neither the kernel nor the C library, microcode or how many GPUs a job is shown take part: the
    same machine stays the same device after an update and under a scheduler.
    """
    host, gpu, name = found.host, found.gpu, found.name
    assert host is not None
    parts = (
        *(host.vendor, host.family, host.model, host.stepping),
        [flag for flag in host.flags if flag not in _OF_SOFTWARE.split()],
        *(host.caches, host.sockets),
        # Who runs a virtual machine is told by some containers on it and not by others.
        host.virtualisation not in (None, machine.NO_VIRTUALISATION),
        round(found.memory_bytes / 2**30),
        *((gpu.model,) if gpu else ()),
        # A name in another script leaves nothing in the key's letters.
        *((name,) if name and not name.isascii() else ()),
    )
    digits = hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:_KEY_DIGITS]
    called, threads = (gpu.model, "") if gpu else (found.cpu.model, f"{found.threads}t")
    words = unicodedata.normalize("NFKD", f"{name or called} {threads} {digits}")
    plain = words.encode("ascii", "ignore").decode()
    return "-".join(re.findall(r"[a-z0-9]+", plain.lower()))


# ---------------------------------------------------------------------------------- its variables

_KEPT: Final = re.compile(
    r"(PYTORCH|TORCH|MALLOC|OMP|KMP|GOMP|MKL|OPENBLAS|ONEDNN|DNNL|CUBLAS|CUDNN|CUDA|XLA|JAX|TF)_.+"
    r"|GLIBC_TUNABLES|LD_PRELOAD|NVIDIA_TF32_OVERRIDE"
)
#: Terraform's variables begin as TensorFlow's do, and hold passwords.  Which of several GPUs is
#: seen schedulers set, and the record names the GPU itself.
_NEVER: Final = re.compile(
    r"TF_(VAR|CLI|TOKEN)_.*|.*(TOKEN|SECRET|PASSW|_KEY).*|CUDA_(VISIBLE_DEVICES|DEVICE_ORDER)"
)
#: These change nothing that is measured on a processor.
_OF_GPU: Final = re.compile(r"(PYTORCH_CUDA|CUDA|CUBLAS|CUDNN|NVIDIA)_.*")
#: The folders of a path: blanks belong to them unless a new path or option follows.
_FOLDERS: Final = re.compile(r"(?:[^\s:;,='\"]|\s(?![/~-]))*/")


def variables(device: Device) -> dict[str, str]:
    """The variables of this process that change times or results on ``device``, by name.

    They name no person: see ``anonymous``.  An empty value is a setting too.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in some containers
        user = ""
    return {
        name: anonymous(value, user)
        for name, value in sorted(os.environ.items())
        if _KEPT.fullmatch(name)
        and not _NEVER.fullmatch(name)
        and not (device == "cpu" and _OF_GPU.fullmatch(name))
    }


def anonymous(value: str, user: str) -> str:
    """``value`` with paths reduced to their last part, and the name of the ``user`` as ``USER``."""
    named = rf"(?<![A-Za-z0-9]){re.escape(user)}(?![A-Za-z0-9])" if user else r"(?!)"
    return re.sub(named, "USER", _FOLDERS.sub("", value))

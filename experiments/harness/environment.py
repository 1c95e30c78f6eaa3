"""The environment of a run as a record keeps it, with a reason for what cannot be read."""

from __future__ import annotations

import platform
import subprocess
from typing import TYPE_CHECKING

import msgspec

from experiments.harness import cgroups, host, machine, quiet
from experiments.harness.identity import device_key
from experiments.harness.study import Device
from experiments.harness.text import without_paths
from experiments.harness.variables import variables
from report.records.record import Environment, Gpu, Precision, Torch

if TYPE_CHECKING:
    import types

_NO_NAME = "the run was given no --label"
_NO_LOAD = "the system keeps no load average"


def gather(
    torch: types.ModuleType,
    device: Device,
    threads: int,
    *,
    name: str | None = None,
    number: tuple[str | None, str] = (None, ""),
) -> Environment:
    """The machine and the software now; ``load_after`` is added by ``closed``.

    ``name`` is what its people call the machine; ``number`` its random number, or None and why.
    """
    import psutil  # type: ignore[import-untyped]

    cpu, missing = machine.cpu()
    identity, host_missing = host.read_host(*number)
    gpu, gpu_missing = _gpu(torch) if device == "cuda" else (None, {"gpu": "the run used the CPU"})
    blind = quiet.unavailable()
    load, memory_bytes = machine.load(), psutil.virtual_memory().total
    return Environment(
        device=device,
        key=device_key(cpu.model, threads, identity, memory_bytes, gpu, name),
        cpu=cpu,
        gpu=gpu,
        threads=threads,
        memory_bytes=memory_bytes,
        operating_system=machine.operating_system(),
        python=platform.python_version(),
        torch=_torch(torch),
        precision=precision(torch),
        load_before=load,
        load_after=None,
        missing={
            **missing,
            **host_missing,
            **gpu_missing,
            **({} if name else {"name": _NO_NAME}),
            **({"load_before": _NO_LOAD} if load is None else {}),
            **({"disturbance": blind} if blind else {}),
        },
        name=name,
        host=identity,
        variables={**variables(device), **_limits()},
    )


def _limits() -> dict[str, str]:
    """What a container may use, which changes times as variables do, and with them pooling."""
    processors, memory_bytes = cgroups.processors(), cgroups.memory()
    return {
        **({} if processors is None else {"cgroup.processors": f"{processors:g}"}),
        **({} if memory_bytes is None else {"cgroup.memory_bytes": str(memory_bytes)}),
    }


def numbered(environment: Environment, number: tuple[str | None, str]) -> Environment:
    """The environment with the machine's random number, or the reason why there is none."""
    if environment.host is None:
        return environment
    identity = msgspec.structs.replace(environment.host, machine=number[0])
    missing = {name: why for name, why in environment.missing.items() if name != "host.machine"}
    return msgspec.structs.replace(
        environment, host=identity, missing={**missing, **host.reasons(identity, number[1])}
    )


def closed(
    environment: Environment, missing: dict[str, str], ended_early: str | None = None
) -> Environment:
    """The environment with the load at the end of the run and further reasons.

    ``ended_early`` is the reason why nobody could read that load.
    """
    load = None if ended_early else machine.load()
    reasons = {"load_after": ended_early or _NO_LOAD} if load is None else {}
    return msgspec.structs.replace(
        environment, load_after=load, missing={**environment.missing, **missing, **reasons}
    )


def _torch(torch: types.ModuleType) -> Torch:
    build = without_paths(" ".join(torch.__config__.show().split()))
    return Torch(
        version=str(torch.__version__),
        build=build,
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
    )


def precision(torch: types.ModuleType) -> Precision:
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


def _gpu(torch: types.ModuleType) -> tuple[Gpu, dict[str, str]]:
    """The device that torch uses, and the reason for each field that is null."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    driver = _driver()
    cudnn = torch.backends.cudnn.version()
    missing: dict[str, str] = {}
    if driver is None:
        missing["gpu.driver"] = "nvidia-smi is not there or gave no version"
    if cudnn is None:
        missing["gpu.cudnn"] = "this PyTorch has no cuDNN"
    return Gpu(
        model=properties.name,
        memory_bytes=properties.total_memory,
        compute_capability=f"{properties.major}.{properties.minor}",
        driver=driver,
        cuda=str(torch.version.cuda or torch.version.hip or "unknown"),
        cudnn=None if cudnn is None else str(cudnn),
    ), missing


def _driver() -> str | None:
    """The version of NVIDIA's driver; the same for every GPU of a machine."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.split()
    return lines[0] if lines else None

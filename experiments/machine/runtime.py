"""Count usable processors, import torch with fixed threads and precision, import users' files."""

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NoReturn

from experiments.harness.study import Device
from report.core.errors import MeasurementError, UsageError, words_of
from report.core.text.format import first_names

INSTALL_COMMAND: Final = "python -m pip install -e '.[experiments]'"
_INSTALL_NETWORKS: Final = (
    "python -m pip install --no-deps torchvision==0.28.0 timm==1.0.31 huggingface_hub safetensors"
)
#: Package that only some runs need → command that installs it.  ``--no-deps`` keeps torch.
INSTALL_BY_PACKAGE: Final = {
    "torchvision": _INSTALL_NETWORKS,
    "timm": _INSTALL_NETWORKS,
    "submitit": "python -m pip install -e '.[slurm]' (or give --export-sbatch FILE)",
}


def usable_processors() -> set[int]:
    """Return the logical processors that this process may use, by its affinity if known."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def cores_available() -> int:
    """Count the logical processors that this process may use."""
    return len(usable_processors())


def checked_threads(threads: int | None) -> int:
    """Return ``threads`` (default: all usable processors); raise ``UsageError`` if impossible."""
    cores = cores_available()
    if threads is not None and not 1 <= threads <= cores:
        raise UsageError(f"--threads {threads} is not possible; give 1 to {cores}.")
    return threads or cores


@contextmanager
def exit_raises() -> Iterator[None]:
    """Make ``os._exit`` raise ``SystemExit`` in this process; forked children still exit."""
    process, exit_now = os.getpid(), os._exit

    def refuse(code: int) -> NoReturn:
        if os.getpid() != process:
            exit_now(code)
        raise SystemExit(f"os._exit({code})")

    vars(os)["_exit"] = refuse
    try:
        yield
    finally:
        vars(os)["_exit"] = exit_now


def import_file(path: Path) -> ModuleType:
    """Import a user's file; the file can import modules from its own folder."""
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # pickle and dataclasses look up the module there
    spec.loader.exec_module(module)
    return module


def function_of(module: ModuleType, name: str) -> Callable[..., Any]:
    """Return the function ``name`` of a module; raises ``LookupError`` that names its functions."""
    function = getattr(module, name, None)
    if not callable(function):
        names = [member for member, _ in inspect.getmembers(module, inspect.isfunction)]
        similar = get_close_matches(name, names)
        others = [member for member in names if member not in similar]
        file, listed = Path(str(module.__file__)).name, first_names([*similar, *others]) or "none"
        raise LookupError(f"{file} has no function {name!r}; it has {listed}")
    return function  # type: ignore[no-any-return]


def import_torch() -> Any:
    """Import torch; raise ``MeasurementError``, with a remedy, if this fails."""
    try:
        import torch

        assert torch.cuda  # missing from an empty folder called torch
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a broken installation raises anything, even SystemExit
        raise MeasurementError(
            f"PyTorch cannot be imported ({words_of(error)}); install it with: {INSTALL_COMMAND}"
        ) from error
    return torch


def start_torch(device: Device, threads: int) -> Any:
    """Fix the threads, import torch, check the device and fix the precision.

    TF32 is switched off, so that ``float32`` means IEEE single precision on every device.  cuDNN
    chooses its algorithms by heuristics (``benchmark`` off), which is torch's default.  Raises
    ``MeasurementError`` if torch or the device is missing.
    """
    imported_before = "torch" in sys.modules
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
    torch = import_torch()
    torch.set_num_threads(threads)
    if not imported_before:
        torch.set_num_interop_threads(1)  # allowed once, before any parallel work
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    if device == "cuda" and not torch.cuda.is_available():
        remedy = "use --device cpu, or install a CUDA build of PyTorch and a driver"
        raise MeasurementError(f"--device cuda: PyTorch finds no CUDA device here; {remedy}.")
    return torch

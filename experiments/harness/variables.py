"""The environment variables that change times or results, without what names a person."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from typing import Final

from experiments.harness.study import Device

_KEPT: Final = re.compile(
    r"(PYTORCH|TORCH|MALLOC|OMP|KMP|GOMP|MKL|OPENBLAS|ONEDNN|DNNL|CUBLAS|CUDNN|CUDA|XLA|JAX|TF)_.+"
    r"|GLIBC_TUNABLES|LD_PRELOAD|NVIDIA_TF32_OVERRIDE"
)
#: Terraform's variables begin as TensorFlow's do, and hold passwords.
_NEVER: Final = re.compile(r"TF_(VAR|CLI|TOKEN)_.*|.*(TOKEN|SECRET|PASSW|_KEY).*")
#: Which of several GPUs is seen: schedulers set it, and the record names the GPU itself.
_SELECTION: Final = re.compile(r"CUDA_(VISIBLE_DEVICES|DEVICE_ORDER)")
#: These change nothing that is measured on a processor.
_OF_GPU: Final = re.compile(r"(PYTORCH_CUDA|CUDA|CUBLAS|CUDNN|NVIDIA)_.*")
#: Anybody's home, which has the name of its owner.
_HOMES: Final = re.compile(r"/(?:home|Users)/[^/\s:;,='\"]+(?=$|[\s:;,'\"])")
_SEPARATORS: Final = r":;,='\""
#: A path's folders: blanks belong to them unless a new path or option follows.
_FOLDERS: Final = re.compile(
    rf"(?<![\w.])(?:~|[A-Za-z]:)?[/\\](?:(?:[^\s{_SEPARATORS}]|\s(?![/\\~-]))*[/\\])?"
)


def variables(device: Device = "cuda") -> dict[str, str]:
    """Those of this process that matter on ``device``, as a record keeps them."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in some containers
        user = ""
    home = os.path.expanduser("~")  # noqa: PTH111 - never raises
    every = kept(os.environ, home, user)
    return {n: v for n, v in every.items() if device == "cuda" or not _OF_GPU.fullmatch(n)}


def kept(environment: Mapping[str, str], home: str, user: str) -> dict[str, str]:
    """The variables that matter, by name; an empty value is a setting too."""
    return {
        name: anonymous(value, home, user)
        for name, value in sorted(environment.items())
        if _KEPT.fullmatch(name) and not _NEVER.fullmatch(name) and not _SELECTION.fullmatch(name)
    }


def anonymous(value: str, home: str, user: str) -> str:
    """``value`` with paths reduced to their last part; the home is ``~`` and its owner ``USER``."""
    if len(home) > 1:
        value = re.sub(rf"{re.escape(home.rstrip('/'))}(?![\w.-])", "/~", value)
    value = _FOLDERS.sub("", _HOMES.sub("/~", value))
    if user:
        value = re.sub(rf"(?<![A-Za-z0-9]){re.escape(user)}(?![A-Za-z0-9])", "USER", value)
    return value

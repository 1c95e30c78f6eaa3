"""Memory by component: each from theory, and what was measured of it."""

from __future__ import annotations

from typing import Final

from report.missing import Missing
from report.quantity.expression import Quantity, absent, named, recorded
from report.quantity.operations import at_least
from report.records.layers import ELEMENT_BYTES
from report.studies.backend_speedup.measured import Run, Variant
from report.studies.backend_speedup.subject import Setting, components, perceptron_arrays

#: Component → the quantity that holds it, and its name for a reader.
COMPONENTS: Final = {
    "parameters": "Parameters",
    "input": "Input and targets",
    "activations": "Activations",
    "gradients": "Gradients",
}

#: The allocators of PyTorch (``c10/cuda/CUDACachingAllocator``, ``kMinBlockSize``) and of CuPy
#: (``cupy/cuda/memory.pyx``, ``_allocation_unit_size``) hand out multiples of so many bytes.
BLOCK: Final = 512


def component(run: Run, setting: Setting, variant: Variant, name: str) -> int | Missing:
    """The measured bytes of a component."""
    if not variant.eager and name in ("activations", "gradients"):
        return Missing("inside a compiled program no array stands by itself")
    return run.bytes_of(f"allocated_{name}", setting, variant)


def theory(setting: Setting, name: str) -> int:
    """The bytes of a component from shapes."""
    return int(getattr(components(setting), name))


def filling(setting: Setting, variant: Variant, name: str) -> int:
    """The bytes of a component of the perceptron that no array needs.

    On a GPU each array takes whole blocks, the last of which is partly empty.
    """
    if not variant.on_gpu:
        return 0
    size = ELEMENT_BYTES[setting.dtype]
    return sum(-size * count % BLOCK for count in perceptron_arrays(setting)[name])


def _level(run: Run, moment: str, setting: Setting, variant: Variant) -> Quantity:
    """The resident bytes of the first process at a moment."""
    found = run.first_of(f"resident_{moment}", setting, variant)
    return recorded(f"resident {moment.replace('_', ' ')}({variant.name})", "B", found, run.file)


def framework(run: Run, setting: Setting, variant: Variant) -> Quantity:
    """Resident bytes that a library costs before it computes: import and first operation."""
    first, start = (_level(run, moment, setting, variant) for moment in ("first_use", "start"))
    return named(f"framework overhead({variant.name})", first - start)


def variants(run: Run, setting: Setting | None) -> tuple[Variant, ...]:
    """The libraries whose framework was measured at a setting."""
    found = run.variants(setting)
    return tuple(v for v in found if setting and not framework(run, setting, v).missing)


def most_framework(run: Run, setting: Setting) -> Quantity:
    """The largest framework of another library than NumPy."""
    others = [framework(run, setting, v) for v in run.others(setting)]
    known = [size for size in others if not size.missing]
    return at_least(*known) if known else absent("framework", "B", "no other library was measured")

"""Memory by component: each from theory, what was measured of it, and the rest with its name."""

from __future__ import annotations

from typing import Final

from report.evidence.remembered import remembered
from report.missing import Missing
from report.quantity.expression import Quantity, absent, named, recorded
from report.records.layers import ELEMENT_BYTES
from report.studies.backend_speedup.measured import JAX, NUMPY, Run, Variant
from report.studies.backend_speedup.subject import CLASSES, Setting, components, perceptron_arrays
from report.theory.reconciliation import Reconciliation, Term

#: Component → the quantity that holds it, and its name for a reader.
COMPONENTS: Final = {
    "parameters": "Parameters",
    "input": "Input and targets",
    "activations": "Activations",
    "gradients": "Gradients",
}

#: NumPy computes into a temporary operand of at least this many bytes instead of a new array
#: (``numpy/_core/src/multiarray/temp_elide.c``, ``NPY_MIN_ELIDE_BYTES``).
ELIDED_FROM: Final = 256 * 1024

#: The allocators of PyTorch (``c10/cuda/CUDACachingAllocator``, ``kMinBlockSize``) and of CuPy
#: (``cupy/cuda/memory.pyx``, ``_allocation_unit_size``) hand out multiples of so many bytes.
BLOCK: Final = 512

_ON_GPU: Final = "what lies on a GPU is not in the resident memory of the process"
_SHAPES: Final = "shapes in the record"


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


def _grown(run: Run, setting: Setting, variant: Variant, moment: str, since: str) -> Quantity:
    """How much the resident memory grew between two moments."""
    return _level(run, moment, setting, variant) - _level(run, since, setting, variant)


def framework(run: Run, setting: Setting, variant: Variant) -> Quantity:
    """Resident bytes that a library costs before it computes: import and first operation."""
    found = _grown(run, setting, variant, "first_use", "start")
    return named(f"framework overhead({variant.name})", found)


def grown(run: Run, setting: Setting, variant: Variant) -> Quantity:
    """Resident bytes that a process took after the first operation, before the iteration began."""
    if variant.on_gpu:
        return absent("resident before", "B", _ON_GPU)
    return _grown(run, setting, variant, "before", "first_use")


def resident(run: Run, setting: Setting, variant: Variant) -> Quantity:
    """Highest resident bytes of an iteration beyond those of the fresh process."""
    if variant.on_gpu:
        return absent("resident peak", "B", _ON_GPU)
    return named(f"resident({variant.name})", _grown(run, setting, variant, "peak", "start"))


def highest(run: Run, setting: Setting, variant: Variant) -> int | Missing:
    """The most bytes that the arrays of an iteration take at once."""
    found = run.bytes_of("allocated_peak", setting, variant)
    if isinstance(found, Missing) and variant == JAX:
        return Missing("JAX lists its live arrays and tells nothing of those that came and went")
    return found


# ------------------------------------------------------------------------- totals and peaks


def variants(run: Run, setting: Setting | None) -> tuple[Variant, ...]:
    """The libraries of which some memory was measured at a setting."""
    if setting is None:
        return ()
    return tuple(
        v
        for v in run.variants(setting)
        if not isinstance(component(run, setting, v, "input"), Missing)
        or not framework(run, setting, v).missing
    )


@remembered
def wholes(run: Run) -> dict[Variant, Reconciliation]:
    """From overhead and the components of theory to the resident memory, by library."""
    setting = run.training()
    if setting is None:
        return {}
    reconciliations = {v: _whole(run, setting, v) for v in variants(run, setting)}
    return {v: t for v, t in reconciliations.items() if isinstance(t, Reconciliation)}


def _whole(run: Run, setting: Setting, variant: Variant) -> Reconciliation | Missing:
    levels = {
        moment: run.first_of(f"resident_{moment}", setting, variant)
        for moment in ("start", "first_use", "peak")
    }
    if isinstance(levels["first_use"], Missing) or isinstance(levels["start"], Missing):
        return Missing("the framework's overhead was not recorded")
    overhead, peak = levels["first_use"] - levels["start"], levels["peak"]
    measured: Term | Missing = (
        Missing(_ON_GPU)
        if variant.on_gpu
        else (
            peak
            if isinstance(peak, Missing)
            else Term("Resident", peak - levels["start"], "highest − start", "resident memory")
        )
    )
    return Reconciliation(
        f"resident-{run.key}-{variant.key}-{setting.network}",
        f"Resident memory of an iteration with {variant.name} on {run.label}",
        "B",
        Term("Framework overhead", overhead, "first use − start", "resident memory, measured"),
        _component_terms(setting),
        measured,
    )


@remembered
def peaks(run: Run) -> dict[tuple[Setting, Variant], Reconciliation]:
    """The reconciliations of the peak, by width, number of images and library."""
    settings = [run.training(), *run.widths(), *run.sizes()]
    found: dict[tuple[int, int, Variant], tuple[Setting, Reconciliation]] = {}
    for setting in (s for s in settings if s is not None):
        for variant in run.variants(setting):
            r = _peak(run, setting, variant)
            if isinstance(r, Reconciliation):
                found.setdefault((setting.hidden, setting.samples, variant), (setting, r))
    return {(setting, key[2]): r for key, (setting, r) in found.items()}


def _component_terms(setting: Setting) -> tuple[Term, ...]:
    formulas = {
        "parameters": "s · parameters",
        "input": "s · (d + k) · m",
        "activations": "s · elements that the backward pass needs",
        "gradients": "s · parameters",
    }
    return tuple(
        Term(title, theory(setting, name), formulas[name], _SHAPES)
        for name, title in COMPONENTS.items()
    )


def _peak(run: Run, setting: Setting, variant: Variant) -> Reconciliation | Missing:
    """From the components of theory to the peak of an iteration of the perceptron, array by array.

    The most is alive when ReLU's gradient is taken: of the gradients only those of the second layer
    are there, beside the error of the output and three arrays of the hidden layer's size.
    """
    measured = highest(run, setting, variant)
    if isinstance(measured, Missing):
        return measured
    if setting.network != "perceptron" or not variant.eager:
        return Missing("which arrays are alive at the peak is known for the perceptron alone")
    parameters, given, activations, _ = _component_terms(setting)
    workspace = run.bytes_of("allocated_workspace", setting, variant)
    return Reconciliation(
        f"peak-{run.key}-{variant.key}-{setting.hidden}-{setting.samples}-{setting.dtype}",
        f"Peak of an iteration with {variant.name} on {run.label}",
        "B",
        parameters,
        (given, activations, *_temporaries(setting, variant), _workspace_term(workspace)),
        Term("Peak", measured, "highest during an iteration", "the library's allocations"),
    )


def _temporaries(setting: Setting, variant: Variant) -> tuple[Term, ...]:
    size, h, m = ELEMENT_BYTES[setting.dtype], setting.hidden, setting.samples
    return (
        Term("Output error", size * CLASSES * m, "s · k · m", "step 5"),
        Term(
            "Gradients of layer 2",
            size * (h + 1) * CLASSES,
            "s · (h + 1) · k",
            "steps 6 and 7",
        ),
        Term(
            "Hidden gradient and mask",
            _mask_bytes(size, h * m, variant),
            "s · 3 · h · m, or (2 · s + 1) · h · m where NumPy computes into a temporary",
            "step 8: gradient, mask as numbers, their product",
        ),
    )


def _workspace_term(size: int | Missing) -> Term:
    """What a library keeps for its matrix products, such as cuBLAS does; measured, no theory."""
    held = 0 if isinstance(size, Missing) else size
    return Term("Library's workspace", held, "kept after a first iteration", "its allocator")


def _mask_bytes(size: int, count: int, variant: Variant) -> int:
    """Bytes at ReLU's gradient: two operands and a product.

    Where NumPy puts the product into an operand, the most is alive one step before, when the mask
    is there both as truth values and as numbers.
    """
    if variant == NUMPY and size * count >= ELIDED_FROM:
        return (2 * size + 1) * count
    return 3 * size * count

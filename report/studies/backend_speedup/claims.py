"""What is claimed of libraries, by the source and by this paper; the template has the words.

What the source says of a GPU is judged on GPUs alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from report.evidence.audit import Check
from report.missing import Missing
from report.paper.claims import judge
from report.paper.findings import Claim, Inputs
from report.quantity.expression import Quantity, absent, exact, recorded
from report.quantity.operations import at_least, at_most
from report.quantity.verdicts import (
    Range,
    Several,
    Statement,
    all_of,
    equals,
    exactly,
    expect,
)
from report.studies.backend_speedup import memory
from report.studies.backend_speedup.getters import NO_RECORD
from report.studies.backend_speedup.learning import largest_difference, learned
from report.studies.backend_speedup.measured import (
    CUPY,
    NUMPY,
    Run,
    Variant,
    is_single,
)
from report.studies.backend_speedup.source import audit, cell
from report.studies.backend_speedup.subject import Setting, kinds
from report.studies.backend_speedup.values import growth

_Claimed: TypeAlias = Statement | Several
#: Speed-ups, sizes, and losses that differ by less than these shares are equivalent.
ALIKE_SPEED: Final = 0.1
ALIKE_SIZE: Final = 0.05
ALIKE_LOSS: Final = 1e-3
_NOTHING: Final = Statement(absent("case", "1", "no such case was measured"), exactly(1))

#: The source's speed-ups: table, row, quantity of a record.
_SPEEDUPS: Final = (
    ("3", "iteration", "time"),
    ("3", "forward", "forward_time"),
    ("3", "backward", "backward_time"),
    ("4", "matrix_product", "matrix_product_time"),
    ("4", "relu", "relu_time"),
    ("4", "softmax", "softmax_time"),
    ("4", "gradient", "gradient_time"),
)


def all_claims(inputs: Inputs, runs: Sequence[Run]) -> Iterator[Claim]:
    """Every claim that numbers can decide; those of runs on the CPU and the GPU of the prose."""
    yield from (judge(name, claimed) for name, claimed in _of_source(inputs).items())
    for run in runs:
        found = {**_of_libraries(run), **_of_memory(run)}
        found["converge"] = _converge(run)
        found |= _of_gpu(inputs, run) if run.on_gpu else {}
        for name, claimed in found.items():
            yield judge(f"{name}-{run.key}", claimed, name=name, label=run.label)
    if not runs:
        nothing = Statement(absent("anything", "1", NO_RECORD.reason), exactly(0))
        for name in ("converge", "same-memory"):
            yield judge(name, nothing)


def _all(found: Iterable[Quantity], claimed: Range, about: str = "") -> _Claimed:
    """That all of those quantities that were measured are as claimed."""
    known = [each for each in found if not each.missing]
    return all_of(*(Statement(each, claimed, about) for each in known)) if known else _NOTHING


# -------------------------------------------------------------------------------- the source


def _of_source(inputs: Inputs) -> dict[str, _Claimed]:
    """Those that the source's own numbers and shapes decide."""
    checks = {check.formula: check for check in audit(inputs.reported)}
    gradient, backward = (
        cell(inputs.reported, table, row, "gpu").quantity("s", inputs.reported_file, 1e-3)
        for table, row in (("4", "gradient"), ("3", "backward"))
    )
    kernels = exact("convolutions of the perceptron", "1", 0)
    same = equals(1, within=ALIKE_SIZE)
    return {
        "convolution": Statement(kernels, expect(">= 1")),
        "parameter-memory": Statement(_over(inputs, checks["4 B · parameters / 10⁶"]), same),
        "input-memory": Statement(_over(inputs, checks["4 B · pixels · images / 10⁶"]), same),
        "same-iteration": Statement(gradient - backward, expect("<= 0")),
    }


def _over(inputs: Inputs, check: Check) -> Quantity:
    """A printed size over the one that shapes give."""
    size = exact(check.formula, "B", float(check.recomputed) * 1e6)
    return check.derived.quantity("B", inputs.reported_file, 1e6) / size


# ---------------------------------------------------------------------------------- libraries


def _of_libraries(run: Run) -> dict[str, _Claimed]:
    """Which library is faster than NumPy, and whose lead grows with the work."""
    found: dict[str, _Claimed] = {}
    setting = run.training()
    if setting is not None:
        found = {
            f"faster-{v.key}": _above_one(run.speedup(setting, v)) for v in run.others(setting)
        }
    for over, settings in (("width", run.widths()), ("images", run.sizes())):
        # A lead that grows is one at the largest size.
        both = [
            _above_one(each)
            for v in (run.others(settings[-1]) if settings else ())
            for each in (growth(run, v, over), run.speedup(settings[-1], v))
        ]
        if both:
            found[f"grows-{over}"] = all_of(*both)
    return found


def _above_one(ratio: Quantity) -> Statement:
    """That a ratio is above one, which a single process on a side cannot show."""
    if is_single(ratio):
        ratio = absent("ratio", "1", "measured in one process, which decides nothing")
    return Statement(ratio, expect("> 1"))


def _converge(run: Run) -> _Claimed:
    setting = run.training()
    if setting is None:
        return _NOTHING
    others = [v for v in learned(run, setting) if v != NUMPY]
    losses = [
        recorded("difference of losses", "1", largest_difference(run, setting, v), run.file)
        for v in others
    ]
    return _all(losses, equals(0, within=ALIKE_LOSS))


# -------------------------------------------------------------------------------------- memory


def _of_memory(run: Run) -> dict[str, _Claimed]:
    setting = run.training()
    if setting is None:
        return {"same-memory": _NOTHING}
    eager = [v for v in run.variants(setting) if v.eager]
    statements = []
    for name in memory.COMPONENTS:
        sizes = [
            exact(name, "B", size - memory.filling(setting, v, name), run.file)
            for v in eager
            if not isinstance(size := memory.component(run, setting, v, name), Missing)
        ]
        if sizes:
            statements.append(Statement(at_least(*sizes) / at_most(*sizes), exactly(1)))
    overheads = [
        _overhead(run, setting, v) - _overhead(run, setting, NUMPY)
        for v in run.others(setting)
        if v.on_gpu == run.on_gpu
    ]
    return {
        "same-memory": all_of(*statements) if statements else _NOTHING,
        "overhead": _all(overheads, expect("> 0"), about="cuda"),
    }


def _overhead(run: Run, setting: Setting, variant: Variant) -> Quantity:
    """The framework's overhead (B) of all processes."""
    first, start = (
        run.measured(f"resident_{moment}", setting, variant) for moment in ("first_use", "start")
    )
    return first - start


# ------------------------------------------------------------------------------------------ GPU


def _of_gpu(inputs: Inputs, run: Run) -> dict[str, _Claimed]:
    """The source's speed-ups, asked of CuPy on another GPU."""
    setting = run.sizes()[-1] if run.sizes() else None
    if setting is None:
        return {}
    same = []
    for table, row, quantity in _SPEEDUPS:
        printed = float(cell(inputs.reported, table, row, "speedup").number)
        claimed = equals(printed, within=ALIKE_SPEED * printed)
        same.append(Statement(run.speedup(setting, CUPY, quantity), claimed, about="cuda"))
    products = run.speedup(setting, CUPY, "matrix_product_time")
    leads = [
        products / run.speedup(setting, CUPY, f"{kind}_time")
        for kind in kinds()
        if kind != "matrix_product"
    ]
    most = _all(leads, expect("> 1"), about="cuda")
    return {"same-speedups": all_of(*same), "products-gain-most": most}

"""What a GPU executes of a whole network, in two traces that others published.

One trace has counters of each kernel, the other its time; both are of AlexNet's forward pass.  They
are of different days and library versions, so that counts and times are compared layer by layer and
not kernel by kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from report.evidence.devices import Device, Operation
from report.evidence.gpu_layers import CountedLayer, Forward, forward_calls, is_bias
from report.evidence.residuals import residual
from report.instruments.trace import Trace, read_trace
from report.missing import Missing
from report.paper.claims import judge
from report.paper.findings import Claim, Inputs
from report.paper.values import Value, declare
from report.quantity.expression import Quantity, absent, exact, recorded
from report.quantity.operations import at_most
from report.quantity.verdicts import Statement, all_of, exactly, expect
from report.records.imported import ImportedRecord
from report.text.escape import markdown
from report.theory.architectures import alexnet_products
from report.theory.gpu_kernels import Method, frequency_points, padded_depth
from report.theory.reconciliation import Reconciliation

#: The network that the traces are of, as their records name it.
NETWORK: Final = "AlexNet"
_TRACE: Final = "trace.json.gz"


_PEAKS: Final[Mapping[str, Operation]] = {"fp32_peak": "float32", "tf32_peak": "tfloat32"}


@dataclass(frozen=True)
class Published:
    """The forward calls of the network, with where they are from and the device's data sheet."""

    forward: Forward
    batch: int
    label: str
    attribution: str
    files: tuple[str, ...]
    sheet: Device | None

    @cached_property
    def reconciliations(self) -> dict[str, Reconciliation]:
        """From theory to what was counted, by the names of the layers."""
        subject = f"Operations counted on {self.label}"
        return {
            each.layer.name: each.reconciliation("published", f"{subject}, {each.layer.name}")
            for each in self.forward.layers
        }

    def layers(self, method: Method) -> tuple[CountedLayer, ...]:
        """The layers whose kernels multiply in this way."""
        return tuple(each for each in self.forward.layers if each.kernels.method == method)

    def work(self, each: CountedLayer) -> Quantity:
        """The work of a layer by its shape."""
        amount = self.reconciliations[each.layer.name].start.amount
        return exact(f"work of {each.layer.name}", "FLOP", amount)

    def counted(self, each: CountedLayer) -> Quantity:
        """What the float32 counters saw of it."""
        return exact(f"counted in {each.layer.name}", "FLOP", each.flops, self.files[0])

    def unexplained(self, each: CountedLayer) -> Quantity:
        """The residual."""
        left = self.reconciliations[each.layer.name].residual
        return recorded(f"residual of {each.layer.name}", "FLOP", left, self.files[0])

    def executed(self, each: CountedLayer) -> Quantity:
        """What the counters saw over the work of the shape."""
        return self.counted(each) / self.work(each)

    def microseconds(self, each: CountedLayer) -> int:
        """How long its kernels ran in the last call, without that of the bias, to two digits."""
        return _two_digits(each.seconds[-1] * 1e6)

    def teraflops(self, each: CountedLayer) -> int:
        """The work of its shape over that time (TFLOP/s), to two digits."""
        work = self.reconciliations[each.layer.name].start.amount
        return _two_digits(work / each.seconds[-1] / 1e12)

    def peak(self, operation: Operation) -> Quantity:
        """The peak of the device by its data sheet."""
        found = self.sheet.peak(operation) if self.sheet else None
        if found is None:
            return absent("peak", "FLOP/s", f"no data sheet of {self.label} is known")
        return exact(f"{operation} peak of the data sheet", "FLOP/s", found.rate, "devices.yaml")


def _two_digits(number: float) -> int:
    return round(float(f"{number:.2g}"))


def published(inputs: Inputs) -> Published | None:
    """The two traces among the imported records; None unless both are there and fit each other."""
    traced = [(item, _trace(inputs, item.file)) for item in inputs.imported if _fits(item.record)]
    counted = next(((item, t) for item, t in traced if t and t.counted), None)
    timed = next(((item, t) for item, t in traced if t and t.kernels), None)
    if counted is None or timed is None:
        return None
    record = counted[0].record
    batch = record.conditions.get("batch")
    same = record.environment.model == timed[0].record.environment.model
    if not same or type(batch) is not int or timed[0].record.conditions.get("batch") != batch:
        return None
    found = forward_calls(counted[1], timed[1], alexnet_products(batch))
    if isinstance(found, Missing):
        return None
    return Published(
        found,
        batch,
        record.environment.model,
        record.origin.attribution,
        (counted[0].file, timed[0].file),
        inputs.devices.find(record.environment.model),
    )


def _fits(record: ImportedRecord) -> bool:
    return record.conditions.get("network") == NETWORK


def _trace(inputs: Inputs, file: str) -> Trace | None:
    for name, content in inputs.attachments.get(file, {}).items():
        if name.endswith(_TRACE):
            return read_trace(content, f"data/{file.removesuffix('.json')}/{name}")
    return None


def facts(found: Published | None) -> dict[str, Any]:
    """Words and switches of the section."""
    if found is None:
        return {"published": {}}
    by = f"{found.attribution[:1].upper()}{found.attribution[1:]}"
    return {"published": {"label": markdown(found.label), "by": markdown(by)}}


# ------------------------------------------------------------------------------------- values


def values(found: Published | None) -> Iterator[Value]:
    """What the section prints; nothing without the traces."""
    if found is None:
        return
    for id_, quantity in {**_counts(found), **_methods(found), **_executed(found)}.items():
        yield declare(f"published_{id_}", quantity)
    for id_, operation in _PEAKS.items():
        yield declare(f"published_{id_}", found.peak(operation), "measured")
    for id_, quantity in _shares(found).items():
        yield declare(f"published_{id_}", quantity, "percent")


def _sum(quantities: Iterable[Quantity], unit: str) -> Quantity:
    return sum(quantities, start=exact("0", unit, 0))


def _counts(found: Published) -> dict[str, Quantity]:
    layers = found.forward.layers
    explained = sum(r.explained for r in found.reconciliations.values())
    return {
        "batch": exact("batch", "1", found.batch, found.files[0]),
        "layers": exact("layers that multiply", "1", len(layers)),
        "explained": exact("residuals of zero", "1", explained, found.files[0]),
    }


def _methods(found: Published) -> dict[str, Quantity]:
    """Numbers that follow from names and grids of kernels."""
    padded, split = found.forward.layers[0].layer, found.forward.layers[-1]
    depth = padded.input_shape[1] * padded.kernel[0] * padded.kernel[1]  # type: ignore[union-attr]
    transformed = found.layers("fourier")
    extent = transformed[0].kernels.transform if transformed else 0
    return {
        "depth": exact("k² · C_in", "1", depth),
        "padded_depth": exact("k² · C_in, rounded up", "1", padded_depth(depth)),
        "extent": exact("extent in the kernel's name", "1", extent, found.files[0]),
        "points": exact("extent · (extent / 2 + 1)", "1", frequency_points(extent)),
        "splits": exact("third side of the grid", "1", split.kernels.splits, found.files[-1]),
    }


def _executed(found: Published) -> dict[str, Quantity]:
    """Operations counted over those of the shape, of the layers that the text names."""
    nothing = absent("operations executed", "1", "no layer is computed by transforms")
    fourier = (*map(found.executed, found.layers("fourier")), nothing)
    return {
        "fourier_executed": fourier[0],
        "split_executed": found.executed(found.forward.layers[-1]),
    }


def _shares(found: Published) -> dict[str, Quantity]:
    layers = found.forward.layers
    whole = _sum(map(found.work, layers), "FLOP")
    counted = _sum(map(found.counted, layers), "FLOP")
    tensor = _sum(map(found.work, found.layers("tensor cores")), "FLOP")
    replaced = _sum(map(found.work, found.layers("fourier")), "FLOP")
    run_instead = _sum(map(found.counted, found.layers("fourier")), "FLOP")
    return {
        "counted_share": counted / whole,
        "tensor_share": tensor / whole,
        "saved_share": (replaced - run_instead) / whole,
        **(
            {"fourier_residual": found.unexplained(each) / found.counted(each)}
            if (each := next(iter(found.layers("fourier")), None))
            else {}
        ),
    }


# -------------------------------------------------------------------------------------- claims


def claims(found: Published) -> Iterator[Claim]:
    """What the counters decide of the source's claims about GPUs, and what this paper adds."""
    seen = [found.executed(e) for e in (*found.layers("fourier"), *found.layers("direct"))]
    nothing = absent("multiply-adds executed", "1", "no layer was counted")
    yield judge("saved-published", Statement(at_most(*(seen or [nothing])), expect("< 1")))
    left = (residual([each], "FLOP") for each in found.reconciliations.values())
    yield judge("explained-published", all_of(*(Statement(each, exactly(0)) for each in left)))
    yield judge("tensor-cores-unseen", Statement(_products_seen(found), exactly(0)))


def _products_seen(found: Published) -> Quantity:
    """Multiply-adds counted in the kernels that multiply on tensor cores."""
    amount = sum(
        kernel.multiply_adds
        for each in found.layers("tensor cores")
        for kernel in each.counted
        if not is_bias(kernel)
    )
    return exact("multiply-adds counted beside the bias", "MAC", amount, found.files[0])

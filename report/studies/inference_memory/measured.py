"""What one run measured of each call: time, memory, faults, and the ceilings they stand under."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

from report.evidence import runs as any_study
from report.evidence.remembered import remembered
from report.evidence.runs import labels
from report.missing import Missing
from report.quantity.expression import Quantity, Sampled, absent, exact, named
from report.records.layers import Layer
from report.records.record import Case, Factor
from report.records.store import Stored
from report.studies.inference_memory.subject import Call, Precision, call_of, order
from report.theory import peaks
from report.theory.conditions import conditions_of
from report.theory.networks import Captured, Way, captured
from report.theory.work import flops, forward_macs

#: The square matrices of the ceilings in reduced precision.
_SIDE: Final = 2048
_NO_RULES: Final = Missing("workspaces are known for eager calls on a CPU only")
#: What decides about the shapes of a call: network, image and batch.
_Place: TypeAlias = tuple[str, int, int]


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Every call of the record with any outcome, by network, then by batch."""
        found = (call_of(case) for case in self._cases)
        return tuple(sorted(found, key=lambda call: (order(call.network), call.batch)))

    @cached_property
    def _cases(self) -> tuple[Case, ...]:
        cases = self.stored.record.cases
        return tuple(case for case in cases if case.factors.get("subject") == "inference")

    @remembered
    def chosen(self, /, **where: Factor | None) -> tuple[Call, ...]:
        """The calls with these attributes; without memory limit unless one is asked for."""
        wanted = {"memory_limit": None, **where}
        return tuple(c for c in self.calls if all(getattr(c, n) == v for n, v in wanted.items()))

    def networks(self, calls: Iterable[Call] | None = None) -> tuple[str, ...]:
        """The networks of the calls (of all of them) in the order of the tables."""
        found = self.calls if calls is None else calls
        return tuple(sorted({call.network for call in found}, key=order))

    def timed(self, calls: Iterable[Call]) -> tuple[Call, ...]:
        """Those of ``calls`` that have samples of time."""
        return tuple(call for call in calls if not self.time(call).missing)

    @cached_property
    def timed_alone(self) -> int:
        """How many of the timed calls a single process measured."""
        times = map(self.time, self.calls)
        return sum(isinstance(time, Sampled) and time.alone for time in times)

    def ran_out(self, call: Call) -> bool:
        """Whether memory ran out."""
        case = self._by_factors.get(frozenset(call.factors.items()))
        return case is not None and case.status == "out_of_memory"

    # ----------------------------------------------------------------------------------- time

    @remembered
    def time(self, call: Call) -> Quantity:
        """Duration of a call (s)."""
        return self.series("time", call.factors)

    def image_time(self, call: Call) -> Quantity:
        """Duration of a call over its images (s)."""
        return self.time(call) / call.batch

    def image_rate(self, call: Call) -> Quantity:
        """Images a second."""
        return exact(f"{call.batch:,} images", "image", call.batch) / self.time(call)

    def time_ratio(self, above: Call, below: Call) -> Quantity:
        """The ratio of the durations of two calls."""
        return self.time(above) / self.time(below)

    def image_time_ratio(self, above: Call, below: Call) -> Quantity:
        """The ratio of the durations for each image of two calls."""
        return self.image_time(above) / self.image_time(below)

    def rate(self, call: Call) -> Quantity:
        """Theoretical work of a call, however it is executed, over its duration (FLOP/s)."""
        layers, name = self.layers(call.factors), f"work({call.network}, batch {call.batch:,})"
        if isinstance(layers, Missing):
            return absent(name, "FLOP/s", layers.reason)
        return exact(name, "FLOP", flops(forward_macs(layers)), self.file) / self.time(call)

    def utilisation(self, call: Call) -> Quantity:
        """Achieved rate over the measured ceiling of the same precision."""
        return self.rate(call) / self.ceiling_of(call.precision)

    @remembered
    def ceiling_of(self, precision: Precision) -> Quantity:
        """The rate of a large matrix product in a precision (FLOP/s)."""
        if precision == "float32":
            return self.peak_rate("matrix_product")
        where = {"subject": "matrix_product", "precision": precision, "side": _SIDE}
        work = exact("work of the product", "FLOP", 2 * _SIDE**3)
        return named(f"ceiling in {precision}", work / self.series("time", where))

    # --------------------------------------------------------------------------------- memory

    @property
    def machine_memory(self) -> int:
        """The memory of the machine, or of the GPU where calls ran on one (B)."""
        environment = self.stored.record.environment
        return (environment.gpu or environment).memory_bytes

    @remembered
    def peak(self, call: Call) -> Quantity:
        """Most bytes allocated during a call, with parameters and input."""
        return self.repeated("allocated_peak", call.factors)

    @remembered
    def growth(self, call: Call) -> int | Missing:
        """Most bytes allocated during a call beyond those that were there before it."""
        return self.grown("allocated_peak", call.factors, since="allocated_before")

    def saved(self, call: Call, base: Call) -> Quantity:
        """The share of the peak of ``base`` that ``call`` does without."""
        return 1 - self.peak(call) / self.peak(base)

    def kept(self, call: Call) -> Quantity:
        """Bytes that are allocated before a call and are neither parameters nor input."""
        name = "allocated before − parameters − input"
        before = self.fixed("allocated_before", call.factors)
        network = self._network(call)
        if isinstance(before, Missing) or isinstance(network, Missing):
            return absent(name, "B", f"not recorded on {self.label}")
        return exact(name, "B", before - peaks.before(network, call.batch), self.file)

    # --------------------------------------------------------------------------------- theory

    @cached_property
    def _shapes(self) -> dict[_Place, tuple[Layer, ...]]:
        return {_place(call_of(case)): case.layers for case in self._cases if case.layers}

    def _shapes_at(self, place: _Place) -> tuple[Layer, ...] | Missing:
        """The layers of a call, from any case of the same network, image and batch.

        They do not depend on how a call is executed, nor on its outcome.
        """
        nothing = Missing(f"the shapes of this call were not recorded on {self.label}")
        return self._shapes.get(place, nothing)

    def _network(self, call: Call) -> Captured | Missing:
        """The operators of an eager call; missing where other layers ran than were captured."""
        layers = self._shapes_at(_place(call))
        if isinstance(layers, Missing):
            return layers
        return self._captured(
            call.network, call.image, Way("inference", call.layout, call.precision)
        )

    @remembered
    def _captured(self, network: str, image: int, way: Way) -> Captured | Missing:
        ran = next(
            layers for place, layers in self._shapes.items() if place[:2] == (network, image)
        )
        return captured(network, image, way, like=ran)

    @remembered
    def predicted(self, call: Call) -> peaks.Peak | Missing:
        """What theory says is alive where most is."""
        if self.on_gpu or call.execution != "eager":
            return _NO_RULES
        network = self._network(call)
        if isinstance(network, Missing):
            return network
        return peaks.peak(network, call.batch, conditions_of(self.stored.record.environment))

    def needed(self, call: Call) -> Quantity:
        """The most bytes that tensors and parameters need at one layer, on any device."""
        network = self._network(call)
        name = f"needed({call.network}, batch {call.batch:,}, {call.precision})"
        if isinstance(network, Missing):
            return absent(name, "B", network.reason)
        return exact(name, "B", peaks.needed(network, call.batch), self.file)


def _place(call: Call) -> _Place:
    return call.network, call.image, call.batch


def runs(records: Sequence[Stored]) -> tuple[Run, ...]:
    """The runs of this study, newest first."""
    return tuple(map(Run, records, labels(records)))

"""What one run measured: time, memory and waits of each call, and the ceilings they stand under."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

from report.evidence import runs as any_study
from report.evidence.events import blocked_channels
from report.evidence.runs import labels, remembered
from report.missing import Missing
from report.quantity.evaluation import number
from report.quantity.expression import Process, Quantity, Sampled, absent, exact, named
from report.records.layers import Layer
from report.records.record import Case, Factor
from report.records.store import Stored
from report.statistics.estimates import Estimate
from report.studies.inference_memory.subject import Call, Precision, call_of, order
from report.theory.liveness import Held, held, peaks
from report.theory.work import flops, forward_macs
from report.theory.workspaces import Conditions

_SIDE: Final = 2048
_NO_RULES: Final = Missing("workspaces are known for eager calls on a CPU only")
#: What decides about the shapes of a call: network, image and batch.
_Place: TypeAlias = tuple[str, int, int]


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    def case(self, factors: any_study.Factors) -> Case | Missing:
        """As in any study; the bytes that a reason tells are grouped by thousands."""
        found = super().case(factors)
        return Missing(_grouped(found.reason)) if isinstance(found, Missing) else found

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Every call of the record with any outcome, by network, then by batch."""
        cases = self.stored.record.cases
        found = (call_of(case) for case in cases if case.factors.get("subject") == "inference")
        return tuple(sorted(found, key=lambda call: (order(call.network), call.batch)))

    @remembered
    def chosen(self, /, **where: Factor | None) -> tuple[Call, ...]:
        """The calls with these attributes; without memory limit unless one is asked for."""
        wanted = {"memory_limit": None, **where}
        return tuple(c for c in self.calls if all(getattr(c, n) == v for n, v in wanted.items()))

    def networks(self, calls: Iterable[Call] | None = None) -> tuple[str, ...]:
        """The networks of the calls (of all of them) in the order of the tables."""
        found = self.calls if calls is None else calls
        return tuple(sorted({call.network for call in found}, key=order))

    @cached_property
    def _shapes(self) -> dict[_Place, tuple[Layer, ...]]:
        cases = self.stored.record.cases
        of_calls = (case for case in cases if case.factors.get("subject") == "inference")
        return {_place(call_of(case)): case.layers for case in of_calls if case.layers}

    def shapes(self, call: Call) -> tuple[Layer, ...] | Missing:
        """The layers of a call, from any case of the same network, image and batch.

        They do not depend on how a call is executed, nor on its outcome.
        """
        return self._shapes_at(_place(call))

    def _shapes_at(self, place: _Place) -> tuple[Layer, ...] | Missing:
        nothing = Missing(f"the shapes of this call were not recorded on {self.label}")
        return self._shapes.get(place, nothing)

    # ------------------------------------------------------------------------------- outcomes

    def ran_out(self, call: Call) -> bool:
        """Whether memory ran out."""
        case = self._by_factors.get(frozenset(call.factors.items()))
        return case is not None and case.status == "out_of_memory"

    def timed(self, calls: Iterable[Call]) -> tuple[Call, ...]:
        """Those of ``calls`` that have samples of time."""
        return tuple(c for c in calls if not self.time(c).missing)

    def sample_counts(self) -> tuple[int, ...]:
        """How many samples of time each timed call has."""
        found = (self.samples("time", call.factors) for call in self.calls)
        return tuple(len(samples) for samples in found if not isinstance(samples, Missing))

    # ----------------------------------------------------------------------------------- time

    @remembered
    def time(self, call: Call) -> Quantity:
        """Duration of a call (s)."""
        return self.series("time", call.factors)

    @remembered
    def seconds(self, call: Call) -> float:
        """The median duration of a call alone (s), to choose by; infinite without one."""
        return centre(self.time(call))

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

    def work(self, call: Call) -> Quantity:
        """The theoretical work of a call, however it is executed (FLOP)."""
        layers, name = self.layers(call.factors), f"work({call.network}, batch {call.batch:,})"
        if isinstance(layers, Missing):
            return absent(name, "FLOP", layers.reason)
        return exact(name, "FLOP", flops(forward_macs(layers)), self.file)

    def utilisation(self, call: Call) -> Quantity:
        """Achieved rate over the measured ceiling of the same precision."""
        return self.work(call) / self.time(call) / self.ceiling_of(call.precision)

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

    def resident(self, call: Call) -> Quantity:
        """How much the resident memory of the process grew during a call (B)."""
        after = self.series("resident_peak", call.factors)
        before = self.series("resident_before", call.factors)
        if not isinstance(after, Sampled) or not isinstance(before, Sampled):
            return after - before
        first = dict(zip(before.keys, before.processes, strict=True))
        grown = [
            Process(a.run, a.name, tuple(x - y for x, y in zip(a.samples, b.samples, strict=False)))
            for a in after.processes
            if (b := first.get((a.run, a.name)))
        ]
        name = f"{after.name} − {before.name}"
        if not grown:
            return absent(name, "B", f"no process recorded both on {self.label}")
        return self.of_processes(name, "B", grown)

    def saved(self, call: Call, base: Call) -> Quantity:
        """The share of the peak of ``base`` that ``call`` does without."""
        return 1 - self.peak(call) / self.peak(base)

    def held(self, call: Call) -> tuple[Held, ...] | Missing:
        """What theory says is alive at each layer of an eager call."""
        layers = self.shapes(call)
        return layers if isinstance(layers, Missing) else held(layers, self.conditions(call))

    @remembered
    def _peaks(self, place: _Place, conditions: Conditions) -> tuple[Held, Held] | Missing:
        """The layers at which most is alive and most is needed."""
        layers = self._shapes_at(place)
        return layers if isinstance(layers, Missing) else peaks(layers, conditions)

    def conditions(self, call: Call) -> Conditions:
        """How a call ran, as theory needs it."""
        environment = self.stored.record.environment
        autocast = None if call.precision == "float32" else call.precision
        return Conditions(
            call.layout, environment.threads, blocked_channels(environment), False, autocast
        )

    @remembered
    def predicted(self, call: Call) -> Held | Missing:
        """The layer at which theory says that most is alive, with what is alive there."""
        if self.on_gpu or call.execution != "eager":
            return _NO_RULES
        found = self._peaks(_place(call), self.conditions(call))
        return found if isinstance(found, Missing) else found[0]

    def needed(self, call: Call) -> Quantity:
        """The most bytes that tensors and parameters need at one layer, on any device."""
        found = self._peaks(_place(call), self.conditions(call))
        name = f"needed({call.network}, batch {call.batch:,}, {call.precision})"
        if isinstance(found, Missing):
            return absent(name, "B", found.reason)
        return exact(name, "B", found[1].needed, self.file)

    # ---------------------------------------------------------------------------------- waits

    def count(self, quantity: str, call: Call) -> Quantity:
        """What was counted or timed during the same call, such as page faults."""
        return self.series(quantity, call.factors)


def centre(quantity: Quantity) -> float:
    """The value of a quantity alone; infinite where it is missing."""
    found = number(quantity)
    if isinstance(found, Missing):
        return math.inf
    return found.value if isinstance(found, Estimate) else found


def _grouped(text: str) -> str:
    """``text`` with long whole numbers as they are printed elsewhere."""
    return re.sub(r"\b\d{5,}\b", lambda number: f"{int(number[0]):,}", text)


def _place(call: Call) -> _Place:
    return call.network, call.image, call.batch


def runs(records: Sequence[Stored]) -> tuple[Run, ...]:
    """The runs of this study, newest first."""
    return tuple(map(Run, records, labels(records)))


def primary_run(all_runs: Sequence[Run]) -> Run | None:
    """The run that the prose speaks of: the newest timed one on a CPU, else the newest timed."""
    timed = [run for run in all_runs if run.timed(run.calls)]
    on_cpu = [run for run in timed if not run.on_gpu]
    return next(iter((*on_cpu, *timed, *all_runs)), None)

"""Numbers, claims and tables of training_roofline; the template prints each by its function's name.

- Ratio: the T4's efficiency divided by the laptop's.  The source's mean ratio is a paradox: the
  weaker GPU seems more efficient.
- Speeds of a case: the printed throughput, and the one that the printed efficiency implies.
- Collapsed run: the laptop's ResNet-50 at batch 128, whose throughput is below half of the best.
- Rated clocks: the range from which the chip's maker lets a laptop's maker choose.
- Roofs of a layer: peak and bandwidth.  The nearer roof, with the longer time, limits the layer.
- Excess: mean of the steps' throughputs divided by the throughput of all steps together, minus 1.
- In names: small is ResNet-18, heavy is ResNet-50, light is MobileNetV2.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from itertools import product
from operator import attrgetter, methodcaller
from typing import Any, Final, get_args

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE
from report.core.text.escape import markdown
from report.evidence.audit import Check
from report.paper.findings import Inputs
from report.paper.machines import setup, short_name
from report.paper.study import Content, Part, Study
from report.paper.tables import Table
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, Statement, exact_number
from report.quantity.operations import largest, range_over
from report.studies.training_roofline import figures, results, subject, theory
from report.studies.training_roofline.results import AVERAGED, share_of_roofs
from report.studies.training_roofline.runs import Run
from report.studies.training_roofline.source import CLOCKS, GPUS, RTX, T4, T4_CLOCK, Source, audit
from report.studies.training_roofline.subject import MARGIN, MOBILENET, NETWORKS, RESNET18, RESNET50


class Paper:
    """Runs in their roles (None if missing), and the source with its audit."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.source = inputs, Source(inputs)
        self.runs = inputs.runs(Run)
        self.cpu, self.gpu = self.runs.get("cpu"), self.runs.get("gpu")
        self.other_gpu = self.runs.get("fifth")  # its role in data/editions.yaml

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        """The checks of the source's numbers; computed on demand, since few claims need them."""
        return audit(self.source)


study = Study(Paper, subject.check_subject, audits=attrgetter("checks"))
findings = study.findings
#: What is said of the source, but computed from all data of the paper.
printed: Part[Paper] = study.part("", "source")
#: The source's numbers alone, then our record of a CPU and our record of a GPU.
source: Part[Source] = study.part("source")
cpu: Part[Run] = study.part("cpu")
gpu: Part[Run] = study.part("gpu")
#: Our record of another GPU of the same model, also with maps in channels last.  The kind ``pair``
#: keeps its numbers out of a report on one record, whose GPU is the subject of ``gpu``.
other_gpu: Part[Run] = study.part("other_gpu", "pair")


@printed.text()
def source_device(paper: Paper) -> str:
    return markdown(paper.inputs.reported.device)


def _model(run: Run) -> str:
    return markdown(run.stored.record.environment.label)


def _commit(run: Run) -> str:
    return (run.stored.record.code.commit or "")[:8]


gpu.texts(gpu=_model)
cpu.texts(cpu=short_name, commit=_commit)


study.values(
    None,
    source_batch=exact_number("batch", "1", subject.SOURCE_BATCH),
    image=exact_number("side of an image", "1", subject.IMAGE_SIDE),
    loaded_image=exact_number("side of a loaded image", "1", subject.LOADED_SIDE),
    loaded_batch=exact_number("batch", "1", subject.LOADED_BATCH),
    loaded_steps=exact_number("timed steps", "1", subject.LOADED_STEPS),
    t4_top=exact_number("clock", "1", T4_CLOCK),
)
study.values("percent", confidence=exact_number("confidence, chosen", "1", CONFIDENCE))


@printed.mapping()
def _audited(paper: Paper) -> dict[str, Quantity]:
    differing = [item.formula for item in paper.checks if item.verdict == "differs"]
    counts = {
        "audited": len(paper.checks),
        "differing": len(differing),
        "other_rates": differing.count("images · work / 1000"),
        "other_works": differing.count("work by shapes"),
    }
    file = paper.source.file
    return {id: exact_number(f"numbers {id}", "1", n, file) for id, n in counts.items()}


@source.mapping()
def _counts(s: Source) -> dict[str, Quantity]:
    return {f"{name}_clock": s.first_cell("cores", name) for name in CLOCKS} | {
        "paradox_printed": s.value("paradox"),
        "lead_least": s.value("range_low"),
        "lead_most": s.value("range_high"),
        "half_batch": exact_number("batch", "1", s.largest_steady_case(RTX, RESNET50).batch),
        "laptop_cores": s.first_cell("cores", "cores"),
        "t4_arithmetic": to_digits(T4_CLOCK * results.share_of_peak(s, T4, RESNET18), 3),
        "t4_roofs": to_digits(exact_number("clock", "1", results.clock_by_roofs(s), s.file), 3),
        "even_small": to_digits(results.equal_clock(s, results.ratio(s, RESNET18)), 3),
        "even_heavy": to_digits(results.equal_clock(s, results.ratio(s, RESNET50)), 3),
        "printed_clock": to_digits(results.printed_clock(s), 3),
    }


@source.mapping("measured")
def _measured(s: Source) -> dict[str, Quantity]:
    batch_64, batch_128 = s.cases_of(RTX, RESNET50)[1:]
    names = ("mean_step", "deviation", "fastest_step", "slowest_step")
    printed_peak = s.device_cell(RTX, "peak").quantity("FLOP/s", s.file, subject.TERA)
    small_ratio = results.ratio(s, RESNET18, speed="throughput")
    heavy_ratio = results.ratio(s, RESNET50, clocks=["low"])
    fixed_time, _ = results.fixed_time(s, T4)
    return dict(zip(names, results.collapsed_steps(s), strict=True)) | {
        "peak_factor": range_over(*(printed_peak / s.peak(RTX, clock) for clock in CLOCKS)),
        "run_factor": to_digits(results.run_factor(s), 2),
        "paradox_kept": results.ratio(s, *AVERAGED, collapsed=True),
        "small_at_roofs": small_ratio / share_of_roofs(s, T4, RESNET18),
        "heavy_by_roofs": to_digits(heavy_ratio * T4_CLOCK / results.clock_by_roofs(s), 2),
        "heavy_by_arithmetic": to_digits(heavy_ratio / results.share_of_peak(s, T4, RESNET18), 2),
        "rtx_peak": s.printed_peak(RTX),
        "laptop_peak": to_digits(s.peak(RTX), 3),
        "laptop_bandwidth": s.bandwidth(RTX),
        "t4_bandwidth": s.bandwidth(T4),
        "t4_peak": s.peak(T4),
        "t4_ridge": s.peak(T4) / s.bandwidth(T4),
        # A printed gigabyte is taken as a binary one.
        "laptop_memory": to_digits(s.exact(s.device_cell(RTX, "memory"), "B", 2**30), 3),
        "slower_by_throughput": to_digits(batch_64.throughput / batch_128.throughput, 2),
        "slower_by_efficiency": to_digits(batch_64.implied / batch_128.implied, 2),
        "usual_step": subject.SOURCE_BATCH / batch_64.throughput,
        # Heat alone scales the speed with the clock, from at most the highest rated one.
        "heat_mean": s.first_cell("cores", "high") / batch_64.throughput * batch_128.throughput,
        "step_cost": fixed_time,
    }


@source.mapping("percent")
def _shares(s: Source) -> dict[str, Quantity]:
    least_excess, largest_excess, excess_if_waiting = results.collapsed_excess(s)
    (_, t4_share), (_, rtx_share) = results.fixed_time(s, T4), results.fixed_time(s, RTX)
    return {
        "collapse_efficiency": s.value("collapse_efficiency", "1", 0.01),
        "collapsed_gap": to_digits(s.cases_of(RTX, RESNET50)[-1].gap, 2),
        "excess_any": range_over(least_excess, largest_excess),
        "excess_waiting": to_digits(excess_if_waiting, 1),
        "laptop_of_peak": to_digits(results.share_of_peak(s, RTX, RESNET18), 2),
        "t4_of_peak": to_digits(results.share_of_peak(s, T4, RESNET18), 2),
        "t4_small_by_throughput": to_digits(share_of_roofs(s, T4, RESNET18), 3),
        "t4_fixed": t4_share,
        "rtx_fixed": rtx_share,
    }


def _peak(run: Run, **case: Any) -> Quantity:
    """Round the peak of memory in a step to three digits; ``case`` are arguments of ``peak``."""
    return to_digits(run.peak(**case), 3)


gpu.values(
    "measured",
    allocated=_peak,
    reserved=partial(_peak, size="reserved"),
    float32_reserved=partial(_peak, size="reserved", precision="float32"),
    float32_allocated=partial(_peak, precision="float32"),
    light_reserved=partial(_peak, size="reserved", network=MOBILENET),
)
_nhwc_peak = partial(_peak, size="reserved", layout="channels_last")
other_gpu.values(
    "measured", channels_last=_nhwc_peak, float32_last=partial(_nhwc_peak, precision="float32")
)


def _predicted_excess(run: Run) -> Quantity:
    """Predict the excess from the times of the step and of the loader, each alone."""
    network, files = subject.WAITING_CASE
    return theory.excess(run.loaded_step(files=files), run.loaded_step(network))


_excess = methodcaller("excess", *subject.WAITING_CASE)
cpu.values("percent", excess=_excess, excess_predicted=_predicted_excess)


@source.claim("The laptop trains more than a tenth faster where neither GPU collapsed")
def hardware(s: Source) -> Iterator[Statement]:
    for network in NETWORKS:
        for laptop, t4 in zip(*(s.steady_cases(device, network) for device in GPUS), strict=True):
            yield laptop.throughput / t4.throughput > 1 + MARGIN


@source.claim(
    "If no cache keeps a tensor, the laptop reaches a tenth more of its layers' roofs than the T4 "
    "on ResNet-50 and MobileNetV2, at every clock at which the T4 can reach its speed"
)
def laptop_ahead(s: Source) -> Iterator[Statement]:
    yield results.roofs_ratio(s, RESNET50, "throughput") > 1 + MARGIN
    yield results.roofs_ratio(s, RESNET50, "efficiency") > 1 + MARGIN
    yield results.roofs_ratio(s, MOBILENET, "throughput") > 1 + MARGIN


@source.claim(
    "The collapsed run's gap is within the least and the largest excess of any distribution with "
    "its printed mean, standard deviation and range, and above that of one waiting step in four",
    numbers=("collapsed_gap", "excess_any", "excess_waiting"),
)
def averaging_fits(s: Source) -> Iterator[Statement]:
    *_, collapsed = s.cases_of(RTX, RESNET50)
    least_excess, largest_excess, excess_if_waiting = results.collapsed_excess(s)
    yield largest_excess - collapsed.gap > 0
    yield collapsed.gap - least_excess > 0
    yield collapsed.gap - excess_if_waiting > 0


@cpu.claim("Mean step throughputs are a tenth too high only behind a slower loader", ("excess",))
def averages_overstate(run: Run) -> Iterator[Statement]:
    yield run.excess(*subject.WAITING_CASE) > MARGIN
    for case in subject.LOADED_CASES[1:]:
        yield run.excess(*case) < MARGIN


@cpu.claim(
    "Workers that finish together predict steps to a tenth and excess to ten points",
    ("excess_predicted",),
)
def bunches_predict(run: Run) -> Iterator[Statement]:
    for network, files in subject.LOADED_CASES:
        loader, step = run.loaded_step(files=files), run.loaded_step(network)
        yield (run.loaded_step(network, files) / largest(loader, step)).near(1, MARGIN)
        predicted = theory.excess(loader, step)
        yield (run.excess(network, files) - predicted).near(0, MARGIN)


@gpu.claim("ResNet-50 at batch 128 needs a tenth more memory than smaller steps")
def needs_most(run: Run) -> Iterator[Statement]:
    for size, network in product(("allocated", "reserved"), (MOBILENET, RESNET18)):
        yield run.peak(size) / run.peak(size, network) > 1 + MARGIN
    yield run.peak() / run.peak(batch=subject.SOURCE_BATCH // 2, precision="float32") > 1 + MARGIN


@source.claim(
    "The printed peak is 1.4 to 2.4 times that of the laptop's chip at its rated clocks, and the "
    "collapsed run inflates the source's mean ratio 1.2 times, to two digits",
    numbers=("paradox_printed", "peak_factor", "run_factor"),
)
def inflated(s: Source) -> Iterator[Statement]:
    # Bounds are half a unit of the second digit away from the numbers in the title.
    for clock in CLOCKS:
        yield s.printed_peak(RTX) / s.peak(RTX, clock) > 1.35
        yield s.printed_peak(RTX) / s.peak(RTX, clock) < 2.45
    yield results.run_factor(s).near(1.2, 0.05)


@source.claim(
    "With the T4 at its highest clock: by either speed and with the collapsed run, the source's "
    "mean ratio is above 1.1 and ResNet-50's ratio above 1 at every rated clock of the laptop; by "
    "either speed and without the run, ResNet-50's ratio rises from below 0.9 to above 1.1 over "
    "these clocks; by efficiencies and without the run, the mean ratio rises from below to above 1",
    numbers=("paradox_kept", "even_heavy"),
)
def clock_decides(s: Source) -> Iterator[Statement]:
    # The ratio rises with the laptop's clock, so the lowest and the highest clock suffice.
    yield results.ratio(s, *AVERAGED, clocks=["low"]) < 1
    yield results.ratio(s, *AVERAGED, clocks=["high"]) > 1
    for speed in get_args(results.Speed):
        yield results.ratio(s, RESNET50, clocks=["low"], speed=speed) < 1 - MARGIN
        yield results.ratio(s, RESNET50, clocks=["high"], speed=speed) > 1 + MARGIN
        ratio_with_run = partial(results.ratio, s, clocks=["low"], collapsed=True, speed=speed)
        yield ratio_with_run(*AVERAGED) > 1 + MARGIN
        yield ratio_with_run(RESNET50) > 1


@source.claim(
    "Without the collapsed run, and with the T4 at its highest clock, the laptop leads in the mean "
    "of efficiencies by less than a tenth, and in that of throughputs at no rated clock"
)
def mean_ties(s: Source) -> Iterator[Statement]:
    yield results.ratio(s, *AVERAGED, clocks=["low"]) > 1 - MARGIN
    yield results.ratio(s, *AVERAGED, clocks=["low"], speed="throughput") > 1


@source.claim(
    "On ResNet-18 the T4, at its highest clock, is over a quarter more efficient at every rated "
    "clock of the laptop, by both speeds, and with its throughput lowered to its roofs",
    numbers=("small_at_roofs",),
)
def small_leads(s: Source) -> Iterator[Statement]:
    by_throughput = results.ratio(s, RESNET18, clocks=["low"], speed="throughput")
    at_roofs = by_throughput / share_of_roofs(s, T4, RESNET18)
    for ratio in (results.ratio(s, RESNET18, clocks=["low"]), by_throughput, at_roofs):
        yield ratio > 1.25


@source.claim("By throughputs the T4 leads on MobileNetV2, or ties, at every rated clock")
def light_ties(s: Source) -> Iterator[Statement]:
    yield results.ratio(s, MOBILENET, clocks=["low"]) > 1 - MARGIN
    yield results.ratio(s, MOBILENET, clocks=["nominal"]) > 1 + MARGIN


@source.claim(
    "Layer by layer MobileNetV2's intensity is far below the T4's ridge point, and at nominal "
    "clocks memory is the nearer roof in over half of its least time on both GPUs, and of "
    "ResNet-50's on the laptop alone"
)
def nearer_roof(s: Source) -> Iterator[Statement]:
    yield theory.intensity(MOBILENET) * s.bandwidth(T4) / s.peak(T4) < 0.5
    yield results.memory_share(s, RTX, RESNET50) > 0.5
    yield results.memory_share(s, T4, RESNET50) < 0.5
    for device in GPUS:
        yield results.memory_share(s, device, MOBILENET) > 0.5


source.figure(key=True, height=3.0)(figures.clocks)


@source.table(wide=True)
def ratios(s: Source) -> Iterator[Mapping[str, Content]]:
    for name, (networks, collapsed) in results.CASES.items():
        compute = partial(results.ratio, s, *networks, collapsed=collapsed)
        equal = results.equal_clock(s, compute())
        yield {
            "Case": name,
            "Printed peak": to_digits(results.printed_clock(s) / equal, 3),
            "By efficiencies": compute(speed="efficiency"),
            "By throughputs": compute(speed="throughput"),
            "Equal at": to_digits(equal, 3),
        }


@source.table()
def leaders(s: Source) -> Iterator[Mapping[str, Content]]:
    for network in NETWORKS:
        compute = partial(results.ratio, s, network)
        roofs: Content = results.leader(1 / results.roofs_ratio(s, network, "throughput"))
        if theory.value_of(share_of_roofs(s, T4, network)) > 1:
            roofs = Missing("the T4's throughput exceeds its roofs")
        yield {
            "Network": network,
            "Efficiency": results.leader(compute(speed="efficiency")),
            "Throughput": results.leader(compute(speed="throughput")),
            "Roofs": roofs,
        }


@source.table()
def gaps(s: Source) -> Iterator[Mapping[str, Content]]:
    for network in AVERAGED:
        for t4, laptop in zip(*(s.cases_of(gpu, network) for gpu in (T4, RTX)), strict=True):
            gaps = {"T4 (%)": to_digits(t4.gap, 2), "Laptop (%)": to_digits(laptop.gap, 2)}
            yield {"Network": network, "Batch": str(t4.batch), **gaps}


@source.table()
def by_network(s: Source) -> Iterator[Mapping[str, Content]]:
    for network in NETWORKS:
        laptop, t4 = (share_of_roofs(s, gpu, network) for gpu in GPUS)
        yield {"Network": network, "T4 (%)": to_digits(t4, 3), "Laptop (%)": laptop}


@source.table(digits=dict.fromkeys(("Layer by layer", "T4 (%)", "Laptop (%)"), 2))
def intensity(s: Source) -> Iterator[Mapping[str, Content]]:
    for row in s.rows("bound"):
        network = row.cell("network")
        yield {
            "Network": network,
            "Printed": s.exact(row.printed("intensity"), "FLOP/B"),
            "Layer by layer": theory.intensity(network),
            "T4 (%)": results.memory_share(s, T4, network),
            "Laptop (%)": results.memory_share(s, RTX, network),
        }


@study.table()
def machines(paper: Paper) -> Table:
    return setup(tuple(run for run in (paper.cpu, paper.gpu) if run))


#: Formula of the audit → reason of a difference.
_REASONS: Final = {
    "data sheet": "NVIDIA prints both",
    "2 · cores · clock / 1000000": "desktop card",
    "bus width · data rate / 8": "slower memory?",
    "work by shapes": "multiply-adds as one",
    f"images / {subject.SOURCE_BATCH} − warm-up": "shorter epoch",
    "least speed-up above 1": "not found",
    "largest speed-up": "not found",
    "lowest efficiency": "the laptop's mean?",
}


@printed.table("audit", wide=True)
def audit_table(paper: Paper) -> Iterator[Mapping[str, Content]]:
    for item in paper.checks:
        if item.verdict == "differs" and item.formula in _REASONS:
            derived = item.derived
            yield {
                "Printed where": derived.place,
                "Formula": item.formula,
                "Printed": derived.text,
                "Recomputed": exact_number(
                    "recomputed", "1", item.recomputed, paper.inputs.reported_file
                ),
                "Unit": "" if derived.unit == "1" else derived.unit,
                "Reason": _REASONS[item.formula],
            }


#: Items of the source, with how they are treated and decided.
_ITEMS: Final = (
    ("Peaks, rates, averages, speed-ups", "audited", "some differ, for few reasons"),
    ("H2: all lie right of both ridges", "traffic layer by layer", "fails without a cache"),
    ("H1: the laptop is faster, but for the collapse", "its throughputs", "holds"),
    ("H2: MobileNetV2 is memory-bound", "nearer roof by time", "consistent without a cache"),
    ("H2: ResNet-50 is compute-bound", "nearer roof by time", "consistent on the T4 alone"),
    ("Heavier networks: more intensity", "traffic layer by layer", "the reverse for the ResNets"),
    ("H3: gains shrink, and why", "a fixed time a step", "agrees with the T4's largest batch"),
    ("The paradox: heat, cooling in the cloud", "clocks", "ResNet-18: needs clocks below ratings"),
    ("The paradox: overhead of the framework", "a fixed time a step", "larger on the T4"),
    ("The paradox: memory pressure", "memory on our GPU", "at most for the collapse"),
    ("The collapse: memory or heat", "memory on our GPU", "consistent with memory"),
    ("A batch of 64, not 128, on the laptop", "its throughputs", "holds"),
    ("Undervolting the laptop", "left out", "may change clocks, which nobody recorded"),
    ("The T4 is a great choice", "three measures", "depends on network, clocks and traffic"),
    ("GPUs beat the CPU 107 and 63 times", "audited", "compares different batches"),
    ("Mixed precision would help", "left out", "not part of the paradox"),
)


@printed.table(wide=True)
def account(paper: Paper) -> Iterator[Mapping[str, Content]]:
    for name, treated, result in _ITEMS:
        yield {"The source's item": name, "Decided by": treated, "Result": result}

"""Declarations of training_roofline: templates print a function's result by the function's name.

- Ratio: the T4's efficiency divided by the laptop's.  The source calls its mean ratio a paradox,
  because the weaker GPU seems more efficient.
- Speeds of a case: the printed throughput, and the throughput that the printed efficiency implies.
- Collapsed run: the laptop's ResNet-50 at batch 128, whose throughput is below half of the best.
- Rated clocks: the range from which the chip's maker lets a laptop's maker choose.
- Roofs of a layer: peak and bandwidth.  The nearer roof, which takes longer, limits the layer.
- Excess: mean of the steps' throughputs divided by the throughput of all steps together, minus 1.
- In names, small is ResNet-18, heavy is ResNet-50, and light is MobileNetV2.
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
from report.studies.training_roofline.results import efficiency_ratio, share_of_peak, share_of_roofs
from report.studies.training_roofline.runs import Run
from report.studies.training_roofline.source import CLOCKS, GPUS, LAPTOP, T4, Source, audit
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
        """The checks of the source's numbers."""
        return audit(self.source)


study = Study(Paper, subject.check_subject, audits=attrgetter("checks"))
findings = study.findings
#: Results about the source that are computed from all data of the paper.
source_and_runs: Part[Paper] = study.part("", "source")
#: Results from the source's numbers, from our record of a CPU, and from our record of a GPU.
source: Part[Source] = study.part("source")
cpu: Part[Run] = study.part("cpu")
gpu: Part[Run] = study.part("gpu")
#: Results from our record of another GPU of this model, with channels last too.  The kind ``pair``
#: keeps them out of a report on a single record.
other_gpu: Part[Run] = study.part("other_gpu", "pair")


@source_and_runs.text()
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
    t4_top=exact_number("clock", "1", subject.T4_CLOCK),
)
study.values("percent", confidence=exact_number("confidence, chosen", "1", CONFIDENCE))


@source_and_runs.mapping()
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
def _counts(source: Source) -> dict[str, Quantity]:
    half_batch = source.largest_steady_case(LAPTOP, RESNET50).batch
    lowest_t4_clock = exact_number("clock", "1", results.lowest_clock_by_roofs(source), source.file)
    equality_clock = partial(results.clock_for_equality, source)
    return {f"{name}_clock": source.first_cell("cores", name) for name in CLOCKS} | {
        "paradox_printed": source.value("paradox"),
        "lead_least": source.value("range_low"),
        "lead_most": source.value("range_high"),
        "half_batch": exact_number("batch", "1", half_batch),
        "laptop_cores": source.first_cell("cores", "cores"),
        "t4_arithmetic": to_digits(subject.T4_CLOCK * share_of_peak(source, T4, RESNET18), 3),
        "t4_roofs": to_digits(lowest_t4_clock, 3),
        "even_small": to_digits(equality_clock(efficiency_ratio(source, RESNET18)), 3),
        "even_heavy": to_digits(equality_clock(efficiency_ratio(source, RESNET50)), 3),
        "printed_clock": to_digits(results.printed_clock(source), 3),
    }


@source.mapping("measured")
def _measured(source: Source) -> dict[str, Quantity]:
    batch_64, batch_128 = source.cases_of(LAPTOP, RESNET50)[1:]
    names = ("mean_step", "deviation", "fastest_step", "slowest_step")
    printed_peak = source.device_cell(LAPTOP, "peak").quantity("FLOP/s", source.file, subject.TERA)
    small_ratio = efficiency_ratio(source, RESNET18, speed="throughput")
    heavy_ratio = efficiency_ratio(source, RESNET50, clocks=["low"])
    fixed_time, _ = results.fixed_time(source, T4)
    highest_clock = source.first_cell("cores", "high")
    lowest_t4_clock = results.lowest_clock_by_roofs(source)
    laptop_memory = source.device_cell(LAPTOP, "memory")
    return dict(zip(names, results.collapsed_steps(source), strict=True)) | {
        "peak_factor": range_over(*(printed_peak / source.peak(LAPTOP, clock) for clock in CLOCKS)),
        "run_factor": to_digits(results.collapsed_run_factor(source), 2),
        "paradox_kept": efficiency_ratio(source, *results.AVERAGED, with_collapsed_run=True),
        "small_at_roofs": small_ratio / share_of_roofs(source, T4, RESNET18),
        "heavy_by_roofs": to_digits(heavy_ratio * subject.T4_CLOCK / lowest_t4_clock, 2),
        "heavy_by_arithmetic": to_digits(heavy_ratio / share_of_peak(source, T4, RESNET18), 2),
        "rtx_peak": source.printed_peak(LAPTOP),
        "laptop_peak": to_digits(source.peak(LAPTOP), 3),
        "laptop_bandwidth": source.bandwidth(LAPTOP),
        "t4_bandwidth": source.bandwidth(T4),
        "t4_peak": source.peak(T4),
        "t4_ridge": source.peak(T4) / source.bandwidth(T4),
        # We assume that the source prints memory in binary gigabytes (GiB).
        "laptop_memory": to_digits(source.exact_value(laptop_memory, "B", 2**30), 3),
        "slower_by_throughput": to_digits(batch_64.throughput / batch_128.throughput, 2),
        "slower_by_efficiency": to_digits(batch_64.implied / batch_128.implied, 2),
        "usual_step": subject.SOURCE_BATCH / batch_64.throughput,
        # If heat alone lowered the speed, speed and clock would fall from the highest rated clock
        # by the same factor.
        "heat_mean": highest_clock / batch_64.throughput * batch_128.throughput,
        "step_cost": fixed_time,
    }


@source.mapping("percent")
def _shares(source: Source) -> dict[str, Quantity]:
    least_excess, largest_excess, excess_if_waiting = results.collapsed_excess(source)
    _, t4_share = results.fixed_time(source, T4)
    _, laptop_share = results.fixed_time(source, LAPTOP)
    return {
        "collapse_efficiency": source.value("collapse_efficiency", "1", 0.01),
        "collapsed_gap": to_digits(source.cases_of(LAPTOP, RESNET50)[-1].gap, 2),
        "excess_any": range_over(least_excess, largest_excess),
        "excess_waiting": to_digits(excess_if_waiting, 1),
        "laptop_of_peak": to_digits(share_of_peak(source, LAPTOP, RESNET18), 2),
        "t4_of_peak": to_digits(share_of_peak(source, T4, RESNET18), 2),
        "t4_small_by_throughput": to_digits(share_of_roofs(source, T4, RESNET18), 3),
        "t4_fixed": t4_share,
        "rtx_fixed": laptop_share,
    }


def _peak(run: Run, **case: Any) -> Quantity:
    """Round a step's peak memory to three digits; ``case``: arguments of ``peak_memory``."""
    return to_digits(run.peak_memory(**case), 3)


gpu.values(
    "measured",
    allocated=_peak,
    reserved=partial(_peak, size="reserved"),
    float32_reserved=partial(_peak, size="reserved", precision="float32"),
    float32_allocated=partial(_peak, precision="float32"),
    light_reserved=partial(_peak, size="reserved", network=MOBILENET),
)
_nhwc_peak = partial(_peak, size="reserved", layout="channels_last")
_nhwc_float32_peak = partial(_nhwc_peak, precision="float32")
other_gpu.values("measured", channels_last=_nhwc_peak, float32_last=_nhwc_float32_peak)


def _predicted_excess(run: Run) -> Quantity:
    """Predict the excess from the time of the step alone and the time of the loader alone."""
    network, files = subject.WAITING_CASE
    return theory.excess(run.loaded_step(files=files), run.loaded_step(network))


_excess = methodcaller("excess", *subject.WAITING_CASE)
cpu.values("percent", excess=_excess, excess_predicted=_predicted_excess)


@source.claim("The laptop trains more than a tenth faster where neither GPU collapsed")
def hardware(source: Source) -> Iterator[Statement]:
    for network in NETWORKS:
        laptop_cases, t4_cases = (source.steady_cases(device, network) for device in (LAPTOP, T4))
        for laptop, t4 in zip(laptop_cases, t4_cases, strict=True):
            yield laptop.throughput / t4.throughput > 1 + MARGIN


@source.claim(
    "If no cache keeps a tensor, the laptop reaches a tenth more of its layers' roofs than the T4 "
    "on ResNet-50 and MobileNetV2, at every clock at which the T4 can reach its speed"
)
def laptop_ahead(source: Source) -> Iterator[Statement]:
    yield results.ratio_of_roof_shares(source, RESNET50, "throughput") > 1 + MARGIN
    yield results.ratio_of_roof_shares(source, RESNET50, "efficiency") > 1 + MARGIN
    yield results.ratio_of_roof_shares(source, MOBILENET, "throughput") > 1 + MARGIN


@source.claim(
    "The collapsed run's gap is within the least and the largest excess of any distribution with "
    "its printed mean, standard deviation and range, and above that of one waiting step in four",
    numbers=("collapsed_gap", "excess_any", "excess_waiting"),
)
def averaging_fits(source: Source) -> Iterator[Statement]:
    *_, collapsed = source.cases_of(LAPTOP, RESNET50)
    least_excess, largest_excess, excess_if_waiting = results.collapsed_excess(source)
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
        yield run.peak_memory(size) / run.peak_memory(size, network) > 1 + MARGIN
    half_batch = run.peak_memory(batch=subject.SOURCE_BATCH // 2, precision="float32")
    yield run.peak_memory() / half_batch > 1 + MARGIN


@source.claim(
    "The printed peak is 1.4 to 2.4 times that of the laptop's chip at its rated clocks, and the "
    "collapsed run inflates the source's mean ratio 1.2 times, to two digits",
    numbers=("paradox_printed", "peak_factor", "run_factor"),
)
def inflated(source: Source) -> Iterator[Statement]:
    # The bounds are 1.4, 2.4 and 1.2 minus or plus half a unit of the second digit.
    for clock in CLOCKS:
        yield source.printed_peak(LAPTOP) / source.peak(LAPTOP, clock) > 1.35
        yield source.printed_peak(LAPTOP) / source.peak(LAPTOP, clock) < 2.45
    yield results.collapsed_run_factor(source).near(1.2, 0.05)


@source.claim(
    "With the T4 at its highest clock: by either speed and with the collapsed run, the source's "
    "mean ratio is above 1.1 and ResNet-50's ratio above 1 at every rated clock of the laptop; by "
    "either speed and without the run, ResNet-50's ratio rises from below 0.9 to above 1.1 over "
    "these clocks; by efficiencies and without the run, the mean ratio rises from below to above 1",
    numbers=("paradox_kept", "even_heavy"),
)
def clock_decides(source: Source) -> Iterator[Statement]:
    # The ratio rises with the laptop's clock, so the lowest and the highest clock are sufficient.
    yield efficiency_ratio(source, *results.AVERAGED, clocks=["low"]) < 1
    yield efficiency_ratio(source, *results.AVERAGED, clocks=["high"]) > 1
    for speed in get_args(results.Speed):
        yield efficiency_ratio(source, RESNET50, clocks=["low"], speed=speed) < 1 - MARGIN
        yield efficiency_ratio(source, RESNET50, clocks=["high"], speed=speed) > 1 + MARGIN
        options: dict[str, Any] = {"clocks": ["low"], "with_collapsed_run": True, "speed": speed}
        ratio_with_run = partial(efficiency_ratio, source, **options)
        yield ratio_with_run(*results.AVERAGED) > 1 + MARGIN
        yield ratio_with_run(RESNET50) > 1


@source.claim(
    "Without the collapsed run, and with the T4 at its highest clock, the laptop leads in the mean "
    "of efficiencies by less than a tenth, and in that of throughputs at no rated clock"
)
def mean_ties(source: Source) -> Iterator[Statement]:
    yield efficiency_ratio(source, *results.AVERAGED, clocks=["low"]) > 1 - MARGIN
    yield efficiency_ratio(source, *results.AVERAGED, clocks=["low"], speed="throughput") > 1


@source.claim(
    "On ResNet-18 the T4, at its highest clock, is over a quarter more efficient at every rated "
    "clock of the laptop, by both speeds, and with its throughput lowered to its roofs",
    numbers=("small_at_roofs",),
)
def small_leads(source: Source) -> Iterator[Statement]:
    by_throughput = efficiency_ratio(source, RESNET18, clocks=["low"], speed="throughput")
    at_roofs = by_throughput / share_of_roofs(source, T4, RESNET18)
    by_efficiency = efficiency_ratio(source, RESNET18, clocks=["low"])
    # The ratio rises with the laptop's clock, so the lowest clock is sufficient.
    for ratio in (by_efficiency, by_throughput, at_roofs):
        yield ratio > 1.25


@source.claim("By throughputs the T4 leads on MobileNetV2, or ties, at every rated clock")
def light_ties(source: Source) -> Iterator[Statement]:
    yield efficiency_ratio(source, MOBILENET, clocks=["low"], speed="throughput") > 1 - MARGIN
    yield efficiency_ratio(source, MOBILENET, clocks=["nominal"], speed="throughput") > 1 + MARGIN


@source.claim(
    "Layer by layer MobileNetV2's intensity is far below the T4's ridge point, and at nominal "
    "clocks memory is the nearer roof in over half of its least time on both GPUs, and of "
    "ResNet-50's on the laptop alone"
)
def nearer_roof(source: Source) -> Iterator[Statement]:
    yield theory.intensity(MOBILENET) * source.bandwidth(T4) / source.peak(T4) < 0.5
    yield results.memory_share(source, LAPTOP, RESNET50) > 0.5
    yield results.memory_share(source, T4, RESNET50) < 0.5
    for device in GPUS:
        yield results.memory_share(source, device, MOBILENET) > 0.5


source.figure(key=True, height=3.0)(figures.clocks)


@source.table(wide=True)
def ratios(source: Source) -> Iterator[Mapping[str, Content]]:
    for name, (networks, collapsed) in results.RATIO_CASES.items():
        compute = partial(efficiency_ratio, source, *networks, with_collapsed_run=collapsed)
        equal = results.clock_for_equality(source, compute())
        yield {
            "Case": name,
            # The ratio by the laptop's printed peak, since a peak is in proportion to its clock.
            "Printed peak": to_digits(results.printed_clock(source) / equal, 3),
            "By efficiencies": compute(speed="efficiency"),
            "By throughputs": compute(speed="throughput"),
            "Equal at": to_digits(equal, 3),
        }


@source.table()
def leaders(source: Source) -> Iterator[Mapping[str, Content]]:
    for network in NETWORKS:
        compute = partial(efficiency_ratio, source, network)
        laptop_to_t4 = results.ratio_of_roof_shares(source, network, "throughput")
        roofs: Content = results.leading_gpu(1 / laptop_to_t4)
        if theory.value_of(share_of_roofs(source, T4, network)) > 1:
            roofs = Missing("the T4's throughput exceeds its roofs")
        yield {
            "Network": network,
            "Efficiency": results.leading_gpu(compute(speed="efficiency")),
            "Throughput": results.leading_gpu(compute(speed="throughput")),
            "Roofs": roofs,
        }


@source.table()
def gaps(source: Source) -> Iterator[Mapping[str, Content]]:
    for network in results.AVERAGED:
        t4_cases, laptop_cases = (source.cases_of(gpu, network) for gpu in (T4, LAPTOP))
        for t4, laptop in zip(t4_cases, laptop_cases, strict=True):
            gaps = {"T4 (%)": to_digits(t4.gap, 2), "Laptop (%)": to_digits(laptop.gap, 2)}
            yield {"Network": network, "Batch": str(t4.batch), **gaps}


@source.table()
def by_network(source: Source) -> Iterator[Mapping[str, Content]]:
    for network in NETWORKS:
        laptop, t4 = (share_of_roofs(source, gpu, network) for gpu in GPUS)
        yield {"Network": network, "T4 (%)": to_digits(t4, 3), "Laptop (%)": laptop}


@source.table(digits=dict.fromkeys(("Layer by layer", "T4 (%)", "Laptop (%)"), 2))
def intensity(source: Source) -> Iterator[Mapping[str, Content]]:
    for row in source.rows("bound"):
        network = row.cell("network")
        yield {
            "Network": network,
            "Printed": source.exact_value(row.printed("intensity"), "FLOP/B"),
            "Layer by layer": theory.intensity(network),
            "T4 (%)": results.memory_share(source, T4, network),
            "Laptop (%)": results.memory_share(source, LAPTOP, network),
        }


@study.table()
def machines(paper: Paper) -> Table:
    return setup(tuple(run for run in (paper.cpu, paper.gpu) if run))


#: Formula in the audit → probable reason why the recomputed number differs.
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


@source_and_runs.table("audit", wide=True)
def audit_table(paper: Paper) -> Iterator[Mapping[str, Content]]:
    for item in paper.checks:
        if item.verdict == "differs" and item.formula in _REASONS:
            derived, file = item.derived, paper.inputs.reported_file
            yield {
                "Printed where": derived.place,
                "Formula": item.formula,
                "Printed": derived.text,
                "Recomputed": exact_number("recomputed", "1", item.recomputed, file),
                "Unit": "" if derived.unit == "1" else derived.unit,
                "Reason": _REASONS[item.formula],
            }


#: Items of the source, as (item, how it was decided, result).
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


@source_and_runs.table(wide=True)
def account(paper: Paper) -> Iterator[Mapping[str, Content]]:
    for name, treated, result in _ITEMS:
        yield {"The source's item": name, "Decided by": treated, "Result": result}

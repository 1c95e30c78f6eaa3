"""Import files of profilers: PyTorch's traces and memory timelines, Nsight Compute's tables.

PyTorch's files do not name the network, so the user must name it.  ``report.instruments`` reads the
files, here as well as for papers.
"""

import re
from typing import Final

from experiments.importers.imported import FETCH_AGAIN, Imported, ImportSource, environment, scaled
from report.core.errors import RecordError
from report.core.records.record import LONGEST_NAME, Case, Factors, Level, SeriesByQuantity
from report.instruments.counters.ncu import quantities
from report.instruments.counters.ncu_metrics import plan_for
from report.instruments.counters.ncu_output import KernelRow, read_table
from report.instruments.profiler import CATEGORIES, highest_bytes, read_trace

#: Conditions that every profile needs.
_REQUIRED: Final = ("network", "batch", "precision", "direction")


def _conditions(source: ImportSource) -> dict[str, Level]:
    """Return the user's conditions; raise ``RecordError`` for a missing, unknown or wrong one."""
    source.refuse_unknown_conditions((*_REQUIRED, "image", "layout", "optimizer"))
    for name in _REQUIRED:
        source.resolve_condition(name)
    conditions = source.conditions_except(("device",))
    for name in {"batch", "image"} & conditions.keys():
        number = scaled(source.user_facts[name], "1", whole=True)
        if not number:
            option = f"--set {name}={source.user_facts[name]}"
            raise source.error(f"{option}: expected a whole number of 1 or more; fix it")
        conditions[name] = number
    return conditions


def read_kineto(source: ImportSource) -> Imported:
    """Read the trace's kernels and allocator events as series in the order of time.

    Raises ``RecordError`` for a trace that is damaged, has neither kernels nor allocator events,
    has a kernel of 0 µs, or has work of several GPUs.
    """
    trace = read_trace(source.content, source.name, FETCH_AGAIN)
    samples: SeriesByQuantity = {
        "kernel_time": trace.kernel_times,
        "cupti_fp32_additions": trace.additions,
        "cupti_fp32_multiplications": trace.multiplications,
        "cupti_fp32_multiply_adds": trace.multiply_adds,
        "memory_events": trace.memory_changes,
    }
    series = {name: values for name, values in samples.items() if values}
    if not series:
        raise source.error("found no kernel and no memory of a GPU; import a trace of a GPU")
    if len(trace.used_gpus) > 1:
        used = ", ".join(sorted(trace.used_gpus))
        raise source.error(f"it has work of the GPUs {used}; import a trace of one")
    if 0 in series.get("kernel_time", ()):
        raise source.error("a kernel took 0 µs, so that its time is lost; profile again")
    names = {device.name for device in trace.devices}
    if len(names) > 1:
        raise source.error(f"it names {len(names)} kinds of GPU; import a trace of one kind")
    return Imported(
        instrument="PyTorch profiler (Kineto)",
        environment=environment(
            "cuda",
            source.resolve_condition("device", by_file=names.pop() if names else None),
            memory_bytes=trace.devices[0].memory_bytes if trace.devices else None,
        ),
        cases=(Case(factors={"subject": "trace"}, series=series),),
        unstated="the trace does not say it",
        conditions=_conditions(source),
        missing={
            "repetitions": "a kernel of one call; calls follow each other in the order of launches",
            "processes": "one process wrote the trace",
        },
    )


def read_memory(source: ImportSource) -> Imported:
    """Read the peak bytes of each category; raises ``RecordError`` for a damaged timeline."""
    cases = []
    for name, peak in highest_bytes(source.content, source.name).items():
        if name in CATEGORIES:
            factors: Factors = {"subject": "timeline", "category": name}
            cases.append(Case(factors=factors, series={"allocated_peak": (peak,)}))
    return Imported(
        instrument="PyTorch profiler, export_memory_timeline",
        environment=environment("cuda", source.resolve_condition("device")),
        cases=tuple(cases),
        unstated="the timeline does not say it",
        conditions=_conditions(source),
        missing={"repetitions": "steps follow each other in one process"},
    )


def read_ncu(source: ImportSource) -> Imported:
    """Read every kernel launch as a case; the user names the device, as the table does not.

    Raises ``RecordError`` for a table that is damaged or has no known counter.
    """
    text = source.text
    try:
        rows = read_table(text)
        cases = tuple(_launch(number, row) for number, row in enumerate(rows, start=1))
    except RecordError as error:
        raise source.error(str(error).rstrip(".")) from error
    device = source.resolve_condition("device")
    if not any(case.series for case in cases):
        raise source.error("no launch has a sum that is known here; profile with --metrics")
    return Imported(
        instrument="Nsight Compute",
        environment=environment("cuda", device),
        cases=cases,
        unstated="Nsight Compute's table does not say it",
        conditions=source.conditions_except(("device",)),
        missing={"times": "a profiled kernel runs alone; its time is not that of the program"},
    )


def _launch(number: int, row: KernelRow) -> Case:
    """Return the case of the launch in a row of ncu's table."""
    if not re.fullmatch(r"\d+\.\d+", row.compute_capability):
        raise RecordError(f"launch {number}: its compute capability is not in the file.")
    # Metrics that end in .sum are sums over the GPU; other metrics are rates.
    counters = [name.removesuffix(".sum") for name in row.values if name.endswith(".sum")]
    plan = plan_for(row.compute_capability, frozenset(counters))
    counted = quantities([row], plan)
    counted.pop("ncu_kernel_launches", None)  # always 1
    series: SeriesByQuantity = {name: (value,) for name, value in counted.items()}
    return Case(
        factors={"launch": number, "kernel": row.kernel[:LONGEST_NAME]},
        status="ok" if series else "unavailable",
        reason=None if series else "no counter of it is known here",
        series=series,
    )

"""conv_scaling on artificial records whose times, pages, blocks and counts are closed forms.

The study times one convolution layer on CPUs under settings (policies) of the memory allocator.
By default freed memory is returned, and later calls map its pages anew, which takes time.  From a
predicted batch size on, the start, some processes map pages; from another one, the end, all do.
"""

import math
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache, partial
from statistics import median
from typing import Any

import msgspec
import pytest
from pytest import approx

from experiments.conv_scaling import FREED_FLOATS, LAYERS, SMALL_BLOCKS, SWEPT_NETWORK, cases
from experiments.conv_scaling import STUDY as EXPERIMENT
from experiments.harness import policies
from report.core.missing import Missing
from report.core.records.record import Case, Policy, Record, Round
from report.core.records.store import read_record
from report.engine.steps import ROOT
from report.paper.findings import Findings, Inputs
from report.quantity.evaluation import estimate, point, value
from report.studies.conv_scaling.figures import moved_cliffs
from report.studies.conv_scaling.results import first_batches, start_rows
from report.studies.conv_scaling.runs import Calls, Run, calls_of
from report.studies.conv_scaling.study import Paper
from report.theory import heap
from report.theory.work import square_convolution
from tests import factory, papers
from tests.degraded import altered_inputs, committed_inputs
from tests.factory import OUTPUT_BYTES, PARAMETER_BYTES
from tests.papers import findings_of, inputs_of, reported_with
from tests.test_documents import code_blocks, template_of

STUDY = "conv_scaling"
#: Of one image: multiply-adds and output elements.
MACS, OUTPUTS = 10_616_832, 36_864
INPUT_BYTES, WEIGHT_BYTES = 4 * 32 * 26 * 26, 4 * 64 * 32 * 9
#: Peaks of the artificial machine, in FLOP/s and B/s.
PEAK, COPY = 2e11, 3e10
#: Time to map a page, of a call without images, and per image.
PAGE_S, CALL_S, IMAGE_S = 2e-6, 1e-4, 2e-4
#: Batch → pages that a call maps, by hand.  Two outputs and an input have 93.125 pages an image, a
#: copy of the weights has 18, and the allocator keeps a reserve of 32.  Blocks above 32 MiB have
#: own pages and a header: at 256 images both outputs (72 pages an image), at 512 also the input.
PAGES = {1: 0, 4: 0, 12: 1_086, 16: 1_476, 64: 5_946, 256: 18_434, 512: 47_683}
#: Batch → factor by which mapping and unmapping exceed pages times ``PAGE_S``.
EXTRA = {1: 1.0, 4: 1.0, 12: 1.35, 16: 1.5, 64: 1.4, 256: 1.3, 512: 1.25}
#: Arguments of the paper's program, images and elements of a freed tensor → True if calls map
#: pages.  The paper shows three of these runs.  By hand, mapping starts where the images' 381,440
#: or 294,912 B each at the top of the heap reach twice the tensor's whole pages, less 128 KiB.
PROGRAM_RUNS = {
    "4 0": False, "16 0": True, "16 8000000": False, "167 8000000": False, "217 8000000": True,
    "20 1000000": False, "27 1000000": True,
}  # fmt: skip
#: Slowdown of forward and backward calls by returned memory, by batch size.
TRAINED = {64: 1.4, 512: 2.1}
#: Time of a call on a GPU (s).
GPU_S = {1: 6e-5, 1024: 8e-4}
#: Multiply-adds of creating the kernel in the first call.
KERNEL_CREATION = 5_295
#: Bytes of the largest mapped block that was freed before the first call.  glibc doubles this size
#: to get the threshold above which it returns free memory.
LARGEST_FREED = 1_000_000
#: Times of a call under each policy, relative to retained memory.
SLOWER: Mapping[Policy, float] = {
    "mmap_threshold": 1.7, "trim_threshold": 2.6, "thresholds": 1.06, "jemalloc": 0.87,
}  # fmt: skip
POLICIES: tuple[Policy, ...] = ("retained", "default", *SLOWER)


def time_of(batch: int, policy: Policy, slower: Mapping[Policy, float] = SLOWER) -> float:
    """Return the time of a call (s), by default with the time of mapping pages."""
    time = (CALL_S + IMAGE_S * batch) * slower.get(policy, 1)
    if policy == "default":
        time += PAGES[batch] * PAGE_S * EXTRA[batch]
    return time


def rounds(batch: int, largest_freed: int, slower: Mapping[Policy, float]) -> Iterable[Any]:
    """Yield the rounds of seven processes per policy, and a round with traced allocations.

    Processes of later policies differ less, and processes of 64 images differ twice as much.
    """
    for position, policy in enumerate(POLICIES, start=1):
        spread = 4e-4 * (2 if batch == 64 else 1) / position
        medians = factory.scattered(time_of(batch, policy, slower), spread, n=7)
        times = [factory.scattered(median, 1e-4) for median in medians]
        pages = [PAGES[batch] if policy == "default" else 0] * 15
        yield from factory.rounds(times, policy, page_faults=pages)
    output, images = batch * OUTPUT_BYTES, batch * INPUT_BYTES
    yield factory.round_(
        1,
        {
            "block_bytes": [
                images,
                WEIGHT_BYTES,
                output,
                -WEIGHT_BYTES,
                -images,
                output,
                -output,
                -output,
            ],
            "block_changes": [images, 0, output, 0, 0, output, 0, -2 * output - images],
            "return_time": [1e-3],
            "result_return_time": [1e-3],
            "mmap_threshold": [max(output, largest_freed)],
        },
        policy="traced",
    )


def layer_case(batch: int, *timing: Any, **series: Any) -> Case:
    """Return the case of a forward call, whose first call also creates a kernel.

    ``timing``: further arguments of ``rounds``; without them the case has no rounds.
    """
    output = batch * OUTPUT_BYTES
    counts = {
        "lackey_multiply_adds": [batch * MACS],
        "lackey_multiply_adds_first": [batch * MACS + KERNEL_CREATION],
    }
    if batch == 64:  # only the first call was counted
        counts.pop("lackey_multiply_adds")
    memory = {**factory.memory(output, 2 * output), **counts, **series}
    plain = factory.case(batch, "forward", memory=memory)
    return msgspec.structs.replace(plain, rounds=tuple(rounds(batch, *timing)) if timing else ())


def training_case(batch: int, slower: float) -> Case:
    """Return the case of a forward and backward call, with memory returned and retained."""
    calls: Mapping[Policy, float] = {"retained": 1e-1 * slower, "default": 1e-1 * TRAINED[batch]}
    measured: list[Round] = []
    for policy, time in calls.items():
        measured += factory.rounds([factory.scattered(time, 1e-4)] * 7, policy)
    plain = factory.case(batch, "forward_backward")
    return msgspec.structs.replace(plain, rounds=tuple(measured))


#: Images of a call of ResNet-18 → time (s), gains of policies, and gain of a freed tensor.
NETWORK_TIMES: Mapping[int, tuple[float, Mapping[Policy, float], float]] = {
    4: (0.13, {"default": 1, "retained": 1.2, "jemalloc": 1.3}, 1.25),
    6: (0.2, {"default": 1, "retained": 1.3, "jemalloc": 1.3}, 1.4),
    8: (0.25, {"default": 1, "retained": 1.2, "jemalloc": 1.3}, 1.0),
}


def network_cases(batch: int, freed_gain: float | None = None) -> list[Case]:
    """Return ResNet-18's inference without and with a freed tensor, in eight processes each.

    ``freed_gain`` replaces the gain of the freed tensor, which ends the pages below 8 images.
    """
    time, gains, gain = NETWORK_TIMES[batch]
    factors: dict[str, Any] = {
        "subject": "cure", "network": "ResNet-18", "mode": "inference", "batch": batch,
    }  # fmt: skip
    before: list[Round] = []
    for policy, gain_of_policy in gains.items():
        pages = [2_000 * batch if policy == "default" else 0] * 15
        samples = [factory.scattered(time / gain_of_policy, 1e-4)] * 8
        before += factory.rounds(samples, policy, page_faults=pages)
    samples = [factory.scattered(time / (freed_gain or gain), 1e-4)] * 8
    pages = [0 if batch < 8 else 16_000] * 15
    after = factory.rounds(samples, "default", page_faults=pages)
    plain = factory.case(batch)
    return [
        msgspec.structs.replace(plain, factors=factors, rounds=tuple(before)),
        msgspec.structs.replace(plain, factors={**factors, "freed": FREED_FLOATS}, rounds=after),
    ]


def disturbed_case() -> Case:
    """Return a case in the layout channels_last with one quiet and one disturbed process."""
    plain = factory.case(4)
    quiet, disturbed = factory.rounds([[1e-3]] * 2)
    disturbed = msgspec.structs.replace(disturbed, disturbance="another program ran")
    factors = {**plain.factors, "layout": "channels_last"}
    return msgspec.structs.replace(plain, factors=factors, rounds=(quiet, disturbed))


def record(
    slower: float = 1,
    key: str = "example-2t",
    cases: Any = None,
    largest_freed: int = LARGEST_FREED,
    **policies: float,
) -> Record:
    """Return a CPU run; ``slower`` (for retained memory) and ``policies`` multiply the times."""
    speeds: Any = {"retained": slower, **SLOWER, **policies}
    machine = factory.environment(key, name=f"CPU of {key}", memory_bytes=len(key) * 2**30)
    if cases is None:
        cases = [layer_case(batch, largest_freed, speeds) for batch in PAGES]
        cases += [training_case(batch, slower) for batch in TRAINED]
        for batch in NETWORK_TIMES:
            cases += network_cases(batch)
    return factory.record([*cases, disturbed_case()], machine, peaks=factory.ceilings(PEAK, COPY))


def gpu(more: int = 0) -> Record:
    """Return a GPU run that adds and multiplies once per output, plus ``more`` additions."""
    cases = [factory.case(batch, time=[time] * 15) for batch, time in GPU_S.items()]
    for batch in (16, 32):
        counts = {"multiplications": batch * OUTPUTS, "multiply_adds": batch * MACS}
        if batch == 16:  # at 32 images additions were not counted
            counts["additions"] = batch * OUTPUTS + more
        memory = {f"ncu_fp32_{kind}": [number] * 2 for kind, number in counts.items()}
        cases.append(factory.case(batch, memory=memory))
    return factory.record(cases, factory.environment("example-100", factory.GPU, name="example"))


def second(slower: float = 1.25) -> Record:
    """Return an earlier run on another CPU; the newest run has the first role."""
    run = record(slower, key="other-4t")
    return msgspec.structs.replace(run, started="2026-01-01T10:00:00Z")


@cache
def findings() -> Findings:
    """Return the findings of two CPU runs and a GPU run."""
    return findings_of(STUDY, record(), second(), gpu())


def gain(policy: Policy = "default", slower: float = 1) -> float:
    """Return the geometric mean of the times under ``policy`` over those of retained memory.

    ``slower``: factor of the times with retained memory.
    """
    batches = (16, 64, 256, 512)  # powers of two whose calls map pages
    ratios = [time_of(b, policy) / time_of(b, "retained") / slower for b in batches]
    return math.prod(ratios) ** (1 / len(ratios))


#: Values of the paper as closed forms of the constants above.
VALUES: Mapping[str, float] = {
    "start_freed": 168, "end_freed": 217, "network_to": 6,
    "second_trained_large": 2.1 / 1.25, "gpu_gain": 6e-5 / (8e-4 / 1024), "reserve_pages": 32,
    "macs": MACS, "parameters": 18_496, "outputs": OUTPUTS, "out_extent": 24, "adds": 1,
    "multiplies": 1, "memory_gap": PARAMETER_BYTES,
    "gpu_best": 1024, "gain": gain(),
    "second_gain": gain(slower=1.25), "second_jemalloc": gain("jemalloc", 1.25),
    "mmap_alone": gain("mmap_threshold"), "trim_alone": gain("trim_threshold"),
    "both_raised": 1.06, "batch_gain": 512 * time_of(1, "retained") / time_of(512, "retained"),
    "second_kept": time_of(512, "retained") / time_of(16, "retained") / 32,
    # Processes: six policies, training under two, the disturbed case, and four of networks.
    "measurements": 6 * 7 * len(PAGES) + 2 * 14 + 2 + len(NETWORK_TIMES) * 4 * 8, "disturbed": 1,
    "fewer_gain": 1.25, "more_gain": 1.4, "large_gain": 1, "large_kept": 1.2, "large_jemalloc": 1.3,
    "threshold": 2 * LARGEST_FREED,
    # Start and end: the images whose blocks reach the threshold less the reserve of 128 KiB.
    "from": math.ceil((2 * LARGEST_FREED - 2**17) / (2 * OUTPUT_BYTES + INPUT_BYTES)),
    "always": math.ceil((2 * LARGEST_FREED - 2**17) / (2 * OUTPUT_BYTES)),
}  # fmt: skip


def test_values_equal_closed_forms() -> None:
    papers.assert_values(findings(), VALUES, rel=2e-3)
    formula = findings().values["memory_gap"].formula
    assert formula.startswith("the largest of parameters and output − ")


def without(*policies: Policy, pages: Mapping[int, int] = {}) -> Record:
    """Remove policies from the record, and set the pages of calls by batch size."""
    cases = []
    for case in record().cases[:-1]:  # ``record`` adds the disturbed case, the last one, again
        rounds = []
        for round_ in case.rounds:
            series = dict(round_.series)
            if round_.policy == "default" and case.factors["batch"] in pages:
                series["page_faults"] = (pages[case.factors["batch"]],) * 15
            if round_.policy not in policies:
                rounds.append(msgspec.structs.replace(round_, series=series))
        cases.append(msgspec.structs.replace(case, rounds=tuple(rounds)))
    return record(cases=cases)


def on(*records: Record, **source: float) -> Inputs:
    """Return inputs with these records; ``_34=35`` replaces 34 in the source by 35."""
    return inputs_of(STUDY, *records, source=reported_with(STUDY, **source))


def changed_inputs() -> list[tuple[str, Inputs, str]]:
    """Return claims with changed inputs and the verdicts that these must have."""
    speeds: Mapping[Policy, float] = {"retained": 1, **SLOWER, "default": 100}
    fast_four = [layer_case(batch, LARGEST_FREED, speeds) for batch in (4, 64)]
    strange = record(cases=[layer_case(1, lackey_multiply_adds=[MACS + 7]), layer_case(16)])
    more_work = on(_340918272=340_918_273)
    return [
        ("tensor-cores", on(_169869312=169_869_311), "supported"),
        ("profiler-overhead", more_work, "supported"),
        ("compressed-memory", on(_37748736=37_748_735), "supported"),
        ("source-theory", on(_339738624=339_738_625), "refuted"),
        ("linear-work", more_work, "refuted"),
        ("work-explained", more_work, "refuted"),
        ("upper-bound", on(_2359296=16 * OUTPUT_BYTES + PARAMETER_BYTES), "refuted"),
        ("gap-is-parameters", on(_2359296=2_359_297), "refuted"),
        ("device-work-explained", on(record(), gpu(more=1)), "refuted"),
        ("executed-exactly", on(strange), "refuted"),
        ("both-slower", on(record(), second(slower=gain() / 1.09)), "refuted"),
        ("both-slower", on(record(), second(slower=gain() / 1.11)), "supported"),
        ("both-slower", on(without("default")), "not measured"),
        ("four-are-best", on(record(cases=fast_four)), "refuted"),
        ("slower", on(record(slower=gain() / 1.09)), "refuted"),
        ("one-threshold-fails", on(record(mmap_threshold=1.09)), "refuted"),
        ("one-threshold-fails", on(record(mmap_threshold=1.11)), "supported"),
        ("fitting-network-gains", on(record(cases=network_cases(4, freed_gain=1.09))), "refuted"),
        ("cliff-predicted", on(without(pages={4: 372})), "refuted"),
        # All pages end at a whole number of images: 7 of them reach the threshold exactly.
        ("cliff-predicted", on(record(largest_freed=7 * OUTPUT_BYTES + 2**16)), "supported"),
        ("cliff-predicted", on(without("traced")), "not measured"),
        ("pages-follow", on(without(pages={64: 5_948})), "refuted"),
        ("pages-follow", on(without(pages={64: 5_928})), "supported"),
    ]


#: Claim that the published records support → role of a record, pages, and factors of its cases.
#: The claim is refuted if these cases map at least so many pages, or none if the number is 0.
REFUTING_PAGES: Mapping[str, tuple[str, int, dict[str, Any]]] = {
    "starts-within-an-image": ("third", 33, {"layer": "3x3", "threshold": 32, "batch": 78}),
    "start-predicted": ("third", 0, {"layer": "3x3", "threshold": 2, "batch": 6}),
    "pages-announced": ("seventh", 33, {"batch": 167}),
    "small-blocks-join": ("seventh", 33, {"batch": 167, "small_blocks": SMALL_BLOCKS}),
    "small-network-gains": ("fourth", 33, {"network": "MNIST CNN", "freed": FREED_FLOATS}),
    "large-network-does-not": ("fourth", 0, {"network": "ResNet-18", "freed": FREED_FLOATS}),
    "layer-keeps-memory": ("sixth", 33, {"network": "layer", "freed": FREED_FLOATS, "batch": 160}),
    "network-predicted": ("sixth", 33, {"network": "ResNet-18", "freed": FREED_FLOATS, "batch": 6}),
}


def test_changed_pages_refute_claims_about_thresholds() -> None:
    for claim, (role, pages, factors) in REFUTING_PAGES.items():
        bound = partial(max, pages) if pages else partial(min, 0)
        changed = altered_inputs(STUDY, "page_faults", bound, roles=(role,), **factors)
        papers.assert_verdicts(STUDY, [(claim, changed, "refuted")])


def test_processes_map_pages_as_the_text_states() -> None:
    """By default no process maps pages up to 4 images, and all do from 8 on."""
    paper = Paper(committed_inputs(STUDY))
    for run in paper.cpus:
        shares = {b: point(Calls(run, run.factors(b)).share) for b in run.powers_of_two}
        assert shares == {batch: int(batch >= 8) for batch in run.powers_of_two}
    *_, large_outputs = start_rows(paper.cliffs or [])
    assert [point(large_outputs[name]) for name in ("At start", "Of")] == [7, 7]  # type: ignore[arg-type]
    assert paper.cpu
    pages = Calls(paper.cpu, paper.cpu.factors(6)).medians("page_faults")
    # Six images: 432 pages of outputs and 18 of weights less the 32 of the reserve.
    assert pages.count(432 + 18 - 32) == 1


def test_one_image_before_the_start_lacks_less_than_a_page_in_one_setting() -> None:
    rows = start_rows(Paper(committed_inputs(STUDY)).convolution_cliffs or [])
    least, *others = sorted(point(row["Missing (B)"]) for row in rows)  # type: ignore[type-var, arg-type]
    assert least < 4096 and min(others) > 4 * 4096  # type: ignore[operator, type-var]


def test_the_free_top_of_the_heap_consists_of_known_blocks() -> None:
    """The blocks: a reserve, two outputs, in most processes the input's copy, in some the weights'.

    The rest is less than a few pages.  In 45 of 206 processes the top is near the threshold.
    """
    near_threshold, rests, with_weights = 0, [], 0
    for calls in Paper(committed_inputs(STUDY)).heap_tops or ():
        for top in calls.medians("free_top"):
            near_threshold += abs(top / calls.threshold - 1) < 0.01
            rest = top - 2**17 - 2 * OUTPUT_BYTES * calls.batch
            if rest > INPUT_BYTES * calls.batch:
                rest -= INPUT_BYTES * calls.batch
            if rest > WEIGHT_BYTES:
                rest -= WEIGHT_BYTES
                with_weights += 1
            rests.append(rest)
    assert (with_weights, near_threshold, len(rests)) == (33, 45, 206)
    assert (min(rests), max(rests)) == (240, 4_352)


def run_of(digest: str) -> Run:
    """Return the run in the record whose name ends with ``digest``."""
    (path,) = (ROOT / "data" / STUDY).glob(f"*{digest}.json")
    return Run(read_record(path, ROOT / "data"), digest)


@pytest.mark.parametrize("digest", ["92530799", "d8be06be", "e75b69de"])
def test_a_linear_layer_maps_pages_at_odd_batches(digest: str) -> None:
    """Mapping begins at the predicted start or one image before it.

    Outputs above 32 MiB have pages of their own at odd and even batches.
    """
    run = run_of(digest)
    for case in run.stored.record.cases:
        if case.factors.get("layer") == "linear":
            trimming, batch = heap.trimming_threshold(case.factors), int(case.factors["batch"])
            start = math.ceil(heap.mapping_start(LAYERS["linear"], trimming))
            has_own_pages = 4000 * batch >= heap.LARGEST_MAPPING
            is_odd = batch % 2 == 1
            maps = Calls(run, case.factors).maps_pages
            if batch != start - 1:
                assert {*maps} == {has_own_pages or (batch >= start and is_odd)}, case.factors
            assert is_odd or has_own_pages or not any(maps)


def test_starts_are_the_same_in_two_runs_but_not_the_processes_that_map_pages() -> None:
    """As the text states of the paper's run and of an earlier run beside other programs."""
    earlier, used = (calls_of([run_of(digest)], "cliff") for digest in ("92530799", "d8be06be"))
    assert first_batches(earlier) == first_batches(used)
    at_start = [calls.maps_pages for calls in earlier if calls.name == "3x3"
                and calls.batch == calls.start]  # fmt: skip
    assert sorted(maps.count(False) for maps in at_start) == [0, 0, 0, 0, 0, 1]


def test_two_limits_decide_the_starts_of_the_linear_layer() -> None:
    """As the text states, the limit of trimming decides five starts, the limit of mapping one."""
    linear = [c for c in calls_of([run_of("d8be06be")], "cliff") if c.name == "linear"]
    by_mapping = [c for c in linear if c.missing_bytes(c.start) > 0]
    assert {c.freed for c in by_mapping} == {True}
    (pages_at_start,) = (c.medians("page_faults") for c in by_mapping if c.batch == c.start)
    assert pages_at_start == [8_193] * 7  # 32 MiB and a header
    by_trimming = [c for c in linear if c not in by_mapping]
    assert [sum(c.maps_pages) for c in by_trimming if c.batch == c.start] == [0, 0, 8, 0, 0]
    one_image_less = [c for c in by_trimming if c.batch == c.start - 1]
    assert [sum(c.maps_pages) for c in one_image_less] == [3, 2, 0, 5, 3]
    assert all(0 < c.missing_bytes(c.batch) < 4096 for c in one_image_less)


def test_one_process_of_the_gpu_calls_a_single_image_more_slowly() -> None:
    """A later run without such a process has nearly the same gain of 1,024 images over one."""
    run = run_of("aa6c7917")
    single, many = (
        [process.median for process in run.by_process("time", run.factors(batch))]  # type: ignore[union-attr]
        for batch in (1, 1024)
    )
    assert max(many) / min(many) < 1.02
    *others, slowest = sorted(single)
    assert slowest / others[-1] > 1.5 and others[-1] / others[0] < 1.1
    later = run_of("37ee6067")
    later_single, later_many = (
        Calls(later, later.factors(batch)).medians("time", "retained") for batch in (1, 1024)
    )
    pairs = zip(later_single, later_many, strict=True)
    gains = [1024 * single / many for single, many in pairs]
    interval = estimate(run.throughput_ratio(1024, 1))
    assert not isinstance(interval, Missing)
    assert 0.98 * interval.low < min(gains) < interval.low < max(gains) < interval.high


def test_paired_and_unpaired_ratios_agree_in_printed_digits() -> None:
    """As the text states of ratios in one process (paired) and ratios of medians (unpaired)."""
    paper = Paper(committed_inputs(STUDY))
    assert paper.cpu and paper.second and paper.timed_gpu
    gpu, cpu, second = paper.timed_gpu, paper.cpu, paper.second
    ratios_and_decimals = (
        (gpu.throughput_ratio(1024, 1), 0), (second.throughput_ratio(16, 512), 3),
        (second.gain("jemalloc"), 2), (second.slowdown(8, "forward_backward"), 1),
        (second.slowdown(512, "forward_backward"), 1), (cpu.gain("mmap_threshold"), 1),
        (cpu.gain("trim_threshold"), 1), (cpu.gain("thresholds"), 2),
    )  # fmt: skip
    for ratio, decimals in ratios_and_decimals:
        unpaired = value(ratio, lambda series: median(p.median for p in series.processes))
        difference = round(float(point(ratio)), decimals) - round(float(unpaired), decimals)
        assert abs(difference) < 1.5 * 10**-decimals, ratio.formula


def test_all_processes_map_pages_from_seven_images_on() -> None:
    for run in Paper(committed_inputs(STUDY)).cpus:
        for share in (Calls(run, run.factors(batch)).share for batch in run.timed if batch >= 7):
            assert point(share) == 1


def test_a_freed_tensor_ends_the_pages_of_the_mnist_cnn_on_a_xeon() -> None:
    """As the text states: only inference gains by it.

    The gain of kept memory in ResNet-18's inference is above 1, but may be below 1.1.
    """
    for mode in ("inference", "training"):
        case = {"subject": "cure", "network": "MNIST CNN", "mode": mode, "batch": 8}
        calls = Calls(run_of("823a83fc"), {**case, "freed": FREED_FLOATS})
        assert calls.maps_pages == [False] * 8 and all(calls.without_freed.maps_pages)
        gain = estimate(calls.gain())
        assert not isinstance(gain, Missing) and (gain.low > 1) == (mode == "inference")
    large = {"subject": "cure", "network": "ResNet-18", "mode": "inference", "batch": 8}
    gain = estimate(Calls(run_of("6afbc6aa"), {**large, "freed": FREED_FLOATS}).gain("retained"))
    assert not isinstance(gain, Missing) and 1 < gain.low < 1.1 < gain.value


def test_seven_processes_of_resnet_map_pages_at_each_predicted_start() -> None:
    at_start = []
    for calls in calls_of([run_of("e75b69de")], "sweep"):
        if calls.freed and calls.name == "ResNet-18" and calls.batch == calls.start:
            at_start.append(calls.maps_pages)
    assert at_start == [[True] * 7] * 4


def test_on_a_xeon_one_process_maps_no_pages_at_the_predicted_end() -> None:
    """As the text states: at seven images, the end, seven of eight processes map two outputs."""
    run = run_of("d52c0ad3")
    shares = [point(Calls(run, run.factors(batch)).share) for batch in range(5, 9)]
    assert shares == [0, 0, 7 / 8, 1]
    pages = point(run.under_policy("default").series("page_faults", run.factors(7)))
    assert pages == 2 * 7 * OUTPUT_BYTES / 4096 - 32
    assert [point(run.start()), point(run.end())] == [5, 7]


def test_two_runs_of_a_xeon_end_the_pages_of_four_and_six_images() -> None:
    """As the text states: the first run has eight processes, the second three times as many."""
    case = {"subject": "cure", "network": "ResNet-18", "mode": "inference", "freed": FREED_FLOATS}
    for digest, processes in (("823a83fc", 8), ("6afbc6aa", 24)):
        for batch in (4, 6, 8):
            calls = Calls(run_of(digest), {**case, "batch": batch})
            assert calls.maps_pages == [batch == 8] * processes
            assert all(calls.without_freed.maps_pages)
            gain = estimate(calls.gain())
            assert not isinstance(gain, Missing)
            if batch == 8:
                assert gain.low < 1 < gain.high
            elif processes == 24:
                assert 1 < gain.low < 1.1 < gain.value
                assert gain.value > point(calls.gain("retained"))  # type: ignore[operator]
    training = [
        Calls(run_of("823a83fc"), {**case, "mode": "training", "batch": batch}).maps_pages
        for batch in (4, 6, 8)
    ]
    assert [(sum(maps), len(maps)) for maps in training] == [(8, 8), (5, 7), (6, 7)]


def test_a_freed_tensor_speeds_up_the_batches_whose_pages_it_ends() -> None:
    """Without the tensor, pages begin before 8 images; with it, at 168."""
    gains = {}
    for calls in calls_of([run_of("e75b69de")], "sweep"):
        if calls.name == "layer" and calls.freed:
            gains[calls.batch] = estimate(calls.gain())
    assert [*gains] == [4, 8, 16, 64, 128, 160, 192, 256]
    for batch, gain in gains.items():
        assert not isinstance(gain, Missing)
        assert gain.low > 1.5 if 8 <= batch < 168 else 0.9 < gain.low < gain.high < 1.1
    mean = math.prod(gains[batch].value for batch in (8, 16, 64, 128, 160)) ** (1 / 5)  # type: ignore[union-attr]
    assert mean == approx(1.81, abs=0.005)


def test_between_start_and_end_half_of_the_processes_stay_fast_in_one_run() -> None:
    """As the text and Figure 1 state of the two runs that timed the layer after a freed tensor."""
    shares, times = {}, []
    for digest, kind in (("e75b69de", "sweep"), ("8944beda", "top")):
        for calls in calls_of([run_of(digest)], kind):
            if (
                calls.freed
                and calls.name in ("layer", "3x3")
                and "small_blocks" not in calls.factors
            ):
                shares[kind, calls.batch] = point(calls.share)
                times += [time / calls.batch * 1e6 for time in calls.medians("time")]
    from_start = {key: share for key, share in shares.items() if key[1] >= 168}
    assert from_start == {("sweep", 192): 1, ("sweep", 256): 1, ("top", 168): 0.5,
                          ("top", 178): 0.5, ("top", 192): 0.5, ("top", 217): 1}  # fmt: skip
    *_, drawn = moved_cliffs(Paper(committed_inputs(STUDY)).drawn_calls or [])
    freed = [y for points in drawn.points if points.label != "No tensor freed" for y in points.y]
    assert sorted(freed) == approx(sorted(times))


def test_the_copy_of_the_weights_moves_one_start() -> None:
    """As the text states: in five settings one image less lacks fewer bytes than this copy has."""
    weights = {"1x1": 4 * 32 * 64, "3x3": WEIGHT_BYTES, "5x5": 4 * 16 * 32 * 25}
    one_image_less = [
        calls for calls in calls_of([run_of("d8be06be")], "cliff")
        if calls.name in weights and calls.batch == calls.start - 1
        and calls.missing_bytes(calls.batch) < weights[calls.name]
    ]  # fmt: skip
    assert [calls.name for calls in one_image_less if any(calls.maps_pages)] == ["1x1"]
    assert len(one_image_less) == 5


def test_two_images_are_no_faster_than_four_in_earlier_runs() -> None:
    """As the text states, within the scatter.  Runs differ in whether retained memory helps."""
    medians = []
    for digest in ("02a9bf49", "e24f329b", "e9060559"):
        run = run_of(digest)
        rates = [estimate(run.under_policy("default").throughput(batch)) for batch in (2, 4)]
        retained = estimate(run.under_policy("retained").throughput(2))
        two, four, retained = (r for r in (*rates, retained) if not isinstance(r, Missing))
        assert two.high > four.low and two.value < four.value
        medians.append((two.value, retained.value))
    (used_default, used_retained), (earlier_default, earlier_retained), _ = medians
    assert used_default > used_retained and earlier_default < earlier_retained
    run = run_of("02a9bf49")
    shares = [point(Calls(run, run.factors(batch)).share) for batch in (1, 2, 4, 7, 8)]
    assert shares == [0, 0, 0, 1, 1]


def test_counts_of_variants_are_those_that_the_text_states() -> None:
    """By hand: products with zeros beyond an edge are skipped, and 33 channels count as 40."""
    counts = {}
    for case in run_of("02a9bf49").stored.record.cases:
        if case.factors["subject"] == "variant" and case.factors["batch"] in (1, 2):
            key = (case.factors["variant"], case.factors["batch"])
            counts[key] = case.series["lackey_multiply_adds"][0]
    assert counts["no bias", 1] == MACS
    assert counts["padding 1", 1] == (3 * 26 - 2) ** 2 * 32 * 64
    assert counts["depthwise", 1] == (3 * 28 - 2) ** 2 * 32
    assert counts["33 channels", 1] == 9 * 24 * 24 * 32 * 40
    assert counts["linear 784-10", 2] == 2


def test_training_loses_as_the_text_states() -> None:
    """Slowdowns by returned memory in two runs; a third run loses more at 512 images."""
    by_key = {item.record.environment.key: item for item in committed_inputs(STUDY).records}
    xeon = Run(by_key["intel-xeon-1t-10bc99"], "Xeon")
    slowdown_of_third = run_of("d614d276").slowdown(512, "forward_backward")
    for run, smallest_and_largest in ((run_of("e9060559"), [1.05, 1.6]), (xeon, [1.1, 1.7])):
        medians = [point(run.slowdown(2**power, "forward_backward")) for power in range(3, 11)]
        assert [min(medians), max(medians)] == approx(smallest_and_largest, abs=0.02)  # type: ignore[type-var]
        slowdown = run.slowdown(512, "forward_backward")
        assert point(slowdown) < point(slowdown_of_third)  # type: ignore[operator]
    undecided = estimate(run_of("e9060559").slowdown(64, "forward_backward"))
    assert not isinstance(undecided, Missing) and undecided.low < 1 < undecided.high


def test_the_figure_of_the_rule_shows_start_and_end() -> None:
    """A threshold of 2 MiB is reached at six images, or at seven without the input's copy.

    The figure draws a copy that is not at the top of the heap to the left of zero.
    """
    *_, rule = findings().figures["fig-rule"].drawing.panels
    rows = zip(*(bar.x for bar in rule.series), strict=True)
    tops = [sum(max(0.0, x) for x in row) for row in rows]
    assert [top >= rule.reference for top in tops] == [False, True, False, True]
    assert tops[0] == approx((5 * (2 * OUTPUT_BYTES + INPUT_BYTES) + 2**17) / 1e6)
    assert tops[3] == approx((7 * 2 * OUTPUT_BYTES + 2**17) / 1e6)


def test_changed_inputs_change_the_verdict_of_each_claim() -> None:
    cases, claims = changed_inputs(), findings().claims
    papers.assert_verdicts(STUDY, cases)
    changed = {claim for claim, _, verdict in cases if claims[claim].verdict != verdict}
    assert changed == claims.keys() - REFUTING_PAGES.keys()


#: Images of a call on a GPU, and the call's output elements and FLOPs.
COUNTED_IMAGES = 64
COUNTED_OUTPUTS, COUNTED_FLOPS = COUNTED_IMAGES * OUTPUTS, COUNTED_IMAGES * 2 * MACS


def counted(padding: int = 0, tensor: int = 0) -> dict[str, Any]:
    """Return counters: theory plus one addition and one multiplication per output element.

    ``padding``: multiply-adds beyond theory; ``tensor``: FLOPs that tensor cores compute.
    """
    fused = (COUNTED_FLOPS - tensor) // 2 + padding
    counts = {
        "ncu_fp32_additions": COUNTED_OUTPUTS,
        "ncu_fp32_multiplications": COUNTED_OUTPUTS,
        "ncu_fp32_multiply_adds": fused,
        "ncu_cuda_core_flops": 2 * COUNTED_OUTPUTS + 2 * fused,
        "ncu_tensor_core_flops": tensor,
    }
    return {name: [count] * 2 for name, count in counts.items()}


IN_TENSOR_CORES = counted(tensor=COUNTED_FLOPS)


@pytest.mark.parametrize(("counters", "amounts", "residual"), [
    # A separate kernel for the bias, as on an H100: one more multiply-add per output.
    (counted(padding=COUNTED_OUTPUTS), (1, 1, 2, 0), 0),
    # Copies in half precision are no work.
    ({**counted(), "ncu_cuda_core_flops": [10**12] * 2}, (1, 1, 0, 0), 0),
    # Work of tensor cores is not in the fp32 counters.
    (IN_TENSOR_CORES, (1, 1, 0, -2 * MACS // OUTPUTS), 0),
    ({**IN_TENSOR_CORES, "ncu_tensor_core_flops": ()}, (1, 1, 0, 0), -COUNTED_FLOPS),
    # Padding of a kernel is not explained.
    (counted(padding=500), (1, 1, 0, 0), 1000),
])  # fmt: skip
def test_counters_of_a_gpu_are_explained_by_terms(
    counters: dict[str, Any], amounts: tuple[int, ...], residual: int
) -> None:
    """``amounts`` are the expected terms, in multiples of the layer's outputs."""
    times = factory.scattered(1e-5 * COUNTED_IMAGES)
    case = factory.case(COUNTED_IMAGES, time=times, memory=counters)
    run = factory.record([case], factory.environment("example-100", factory.GPU))
    reconciliations = findings_of(STUDY, run, factory.record()).reconciliations
    (work,) = (item for id, item in reconciliations.items() if id.startswith("device-work"))
    assert work.start.amount == COUNTED_FLOPS and not isinstance(work.measured, Missing)
    assert work.measured.amount - work.end == residual
    assert [term.amount / COUNTED_OUTPUTS for term in work.terms] == [*amounts]
    assert work.explained == (residual == 0)


on_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or platform.machine() != "x86_64",
    reason="glibc keeps the heap's top, and oneDNN copies the input on x86-64",
)
#: A program that prints the free top of the heap (B) after five calls of six images each, under a
#: threshold of 2 MiB.
READ_TOP = """
import torch
from experiments.conv_scaling import SMALL_BLOCKS, free_top, prepare_heap
torch.set_num_threads(1)
prepare_heap({"layer": "3x3", "threshold": 2, "small_blocks": SMALL_BLOCKS})
layer, images = torch.nn.Conv2d(32, 64, 3), torch.randn(6, 32, 26, 26)
with torch.no_grad():
    print(*(free_top(layer(images)) for _ in range(5)))
"""


@on_glibc
def test_the_top_of_the_heap_has_the_predicted_size() -> None:
    command = [sys.executable, "-c", READ_TOP]
    *_, top = map(int, subprocess.check_output(command, text=True, cwd=ROOT).split())
    # In about one process of five, the copy of the input lies below other blocks.
    with_copy, without_copy = 2 * OUTPUT_BYTES + INPUT_BYTES, 2 * OUTPUT_BYTES
    predicted = [6 * size + 2**17 for size in (with_copy, without_copy)]
    assert any(top == approx(size, abs=2 * 4096) for size in predicted)


def test_the_printed_variables_set_the_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "jemalloc", lambda: "libjemalloc.so.2")
    retained, jemalloc = code_blocks(template_of(STUDY), "bash")
    for printed, policy in ((retained, "retained"), (jemalloc, "jemalloc")):
        assignments = printed.replace("\\\n", "").split()
        variables = dict(assignment.split("=", 1) for assignment in assignments)
        assert variables == policies.variables(policy)


#: Layer → images at which mapping starts, for thresholds of 2, 4, 8, 16 and 32 MiB, and of twice
#: 32,002,048 B.  By hand: the threshold less 128 KiB, divided by an image's bytes at the top of the
#: heap.  These are two outputs and an input (381,440, 108,160 and 197,632 B), or an output of the
#: linear layer (4,000 B), which has pages of its own from 32 MiB on (8,388.6 images).
STARTS = {
    "3x3": (5.15, 10.65, 21.65, 43.64, 87.62, 167.45),
    "1x1": (18.18, 37.57, 76.35, 153.90, 309.02, 590.54),
    "5x5": (9.95, 20.56, 41.78, 84.23, 169.12, 323.19),
    "linear": (491.52, 1015.81, 2064.38, 4161.54, 8355.84, 8388.61),
}


def test_starts_of_mapping_are_predicted_and_batches_below_and_above_are_measured() -> None:
    """Mapping ends where outputs alone (294,912, 86,528 and 147,456 B an image) reach the limit."""
    settings: list[dict[str, Any]] = [{"threshold": 2**n} for n in range(1, 6)]
    settings.append({"freed": 8_000_000})
    full_plan = EXPERIMENT.levels(quick=False)
    assert {c["subject"] for c in cases(full_plan)} == {"layer"}
    measured_cases = cases({**full_plan, "subject": ("cliff",)})
    for layer, starts in STARTS.items():
        image = LAYERS[layer]
        for setting, start in zip(settings, starts, strict=True):
            trimming = heap.trimming_threshold(setting)
            assert heap.mapping_start(image, trimming) == approx(start, abs=0.005)
            factors = {"subject": "cliff", "layer": layer, **setting}
            batches = [c["batch"] for c in measured_cases if factors.items() <= c.items()]
            assert {int(start), int(start) + 1} < {*batches}
            assert min(batches) < int(start) and max(batches) > heap.mapping_end(image, trimming)
    stem = square_convolution("conv", (1, 3, 224, 224), 64, kernel=7, stride=2, padding=3)
    for elements, batches in SWEPT_NETWORK.items():
        if elements:
            start = int(heap.network_mapping_start(stem, heap.threshold_after_freeing(elements)))
            assert {start, start + 1} <= {*batches}
    ends = [heap.mapping_end(LAYERS[layer], 2**21) for layer in STARTS]
    assert ends == approx([6.67, 22.72, 13.33, 491.52], abs=0.005)


#: Runs a program once for each further argument, in forks, since importing torch takes seconds.
RUN_IN_FORKS = """
import os, sys, torch
program, *runs = sys.argv[1:]
for arguments in runs:
    child = os.fork()
    if not child:
        sys.argv[1:] = arguments.split()
        exec(program)
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
"""


@on_glibc
def test_the_program_of_the_paper_maps_the_stated_pages() -> None:
    """The program prints the pages of nine calls; the first two differ from the others."""
    (program,) = code_blocks(template_of(STUDY), "python")
    environment = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
    command = [sys.executable, "-c", RUN_IN_FORKS, program, *PROGRAM_RUNS]
    output = subprocess.check_output(command, text=True, env=environment)
    counts = [int(count) for count in output.split()]
    assert len(counts) == 9 * len(PROGRAM_RUNS)
    for run, (arguments, maps) in enumerate(PROGRAM_RUNS.items()):
        pages = counts[9 * run + 2 : 9 * run + 9]
        if arguments == "16 0":
            # One call in some thousand finds a freed block and maps only part of the pages.
            assert sorted(pages)[1] > 1000, pages
        else:
            assert (median(pages) > 32) == maps, (arguments, pages)
        assert arguments != "4 0" or median(pages) == 0

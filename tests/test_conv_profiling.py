"""conv_profiling on one made-up record whose counts and bytes are closed forms."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import Any, Final, NamedTuple

import msgspec

from experiments.conv_profiling import CHANGED
from report.core.records.record import Case, Environment, Record
from report.paper.findings import Findings, Inputs
from report.studies.conv_profiling.source import ACCOUNT, audit
from report.studies.conv_profiling.study import findings
from report.studies.conv_profiling.subject import BASE, Dimensions
from report.theory.terms import COUNTED_WIDTH, LIBRARY, executed_terms
from report.theory.work import macs, output_bytes
from tests import factory, papers
from tests.degraded import committed
from tests.factory import OUTPUT_BYTES
from tests.papers import reported

STUDY = "conv_profiling"
on = partial(papers.inputs_of, STUDY)

BUILD = f"built for tests with {LIBRARY}"


class Known(NamedTuple):
    """A forward call with the multiply-adds and the peak (B) that were worked out by hand."""

    shape: Dimensions
    batch: int
    macs: int
    peak: int
    subject: str = "layer"


#: On vectors of eight: no padding; both channels padded; unfolded; two shapes that are held out.
CALLS = (
    Known(BASE, 1, 10_616_832, 307_712),
    Known(BASE, 8, 84_934_656, 2_359_296),
    Known(BASE, 64, 679_477_248, 18_874_368),
    Known(Dimensions(33, 65, 3, 28), 8, 119_439_360, 2_525_184),
    Known(Dimensions(16, 32, 3, 28), 1, 2_488_321, 405_504),
    Known(Dimensions(9, 19, 3, 21), 8, 7_990_272, 420_832, "held_out"),
    Known(Dimensions(12, 26, 1, 27), 1, 182_017, 65_000, "held_out"),
    # 24 and 40 channels fill their vectors, so that theory counts and the peak is two outputs.
    *(Known(Dimensions(24, 40, 3, 23), n, n * 3_119_040, n * 115_520, "held_out") for n in (8, 16)),
    *(
        Known(Dimensions(24, 40, 3, 23), n, n * 3_119_040, n * 115_520, "held_out")
        for n in (32, 64)
    ),
    # More is needed while copies of input and weights are there beside the output in blocks.
    Known(Dimensions(40, 24, 3, 23), 8, 24_952_320, 564_480 + 34_560 + 277_248),
)
#: On vectors of sixteen, where 65 output channels become 80.
LONGER_CALL = CALLS[3]._replace(peak=2_672_640)


def machine(**change: Any) -> Environment:
    """The tests' machine with the library whose kernels are known."""
    plain = factory.environment(**change)
    return msgspec.structs.replace(plain, torch=msgspec.structs.replace(plain.torch, build=BUILD))


def layer_case(call: Known, pass_: Any = "forward", **series: Iterable[Any]) -> Case:
    """A call of the layer; the backward pass doubles its work again."""
    layer, passes = call.shape.layer(call.batch), 1 if pass_ == "forward" else 3
    memory = factory.memory(output_bytes(layer), call.peak)
    counted = {"lackey_multiply_adds": [call.macs * passes]}
    return Case(
        factors=call.shape.factors(call.batch, pass_, call.subject),
        layers=(layer,),
        series=factory.measured({**memory, **counted, **series}),
    )


def layer_cases() -> list[Case]:
    """All calls, and the example's with its backward pass."""
    return [*map(layer_case, CALLS), *(layer_case(call, "forward_backward") for call in CALLS[:3])]


#: The multiply-adds and elements of an image.
MACS, INPUTS, WEIGHTS, OUTPUTS = 10_616_832, 26**2 * 32, 9 * 32 * 64, 24**2 * 64
FOURIER = Dimensions(32, 64, 5, 28)


def gpu(**more: int) -> Record:
    """A GPU whose call adds once and multiplies twice an output, with copies of what it reads.

    Its backward pass and its transforms of 5 × 5 kernels do less than theory.  TF32 is used from 64
    images on; the workspace is 100 B larger than both copies.  ``more`` is counted beyond that.
    """

    def counted(adds: int, multiplies: int, fused: int, tensor: int = 0) -> dict[str, list[int]]:
        return {
            "ncu_fp32_additions": [adds + more.get("additions", 0)],
            "ncu_fp32_multiplications": [multiplies],
            "ncu_fp32_multiply_adds": [fused],
            "ncu_tensor_core_flops": [tensor and tensor + more.get("tensor", 0)],
        }

    def call(batch: int, shape: Dimensions = BASE, part: float = 1, over: float = 1) -> Case:
        """A call with its peak over what it keeps; with the backward pass a ``part`` of it."""
        pass_, passes = ("forward", 1) if part == 1 else ("forward_backward", 3)
        kept, work = 4 * batch * OUTPUTS, int(part * passes * batch * MACS)
        known = Known(shape, batch, 0, int(over * kept) + more.get("peak", 0))
        counts = counted(batch * OUTPUTS, 2 * batch * OUTPUTS, work - more.get("fewer", 0) * batch)
        made = layer_case(known, pass_, lackey_multiply_adds=(), **counts)
        return msgspec.structs.replace(
            made, series={**made.series, "allocated_after": (4096 + kept,)}
        )

    def fast(batch: int) -> Case:
        """A call with TF32: a bias, and a product that adds and multiplies, once an output."""
        large, out = batch >= 64, batch * OUTPUTS
        multiplies = batch * INPUTS + WEIGHTS + out if large else 3 * out
        fused = out if large else batch * (MACS - more.get("small", 0))
        copies = 4 * (batch * INPUTS + WEIGHTS) + 100 + more.get("workspace", 0)
        made = layer_case(
            Known(BASE, batch, 0, 0), lackey_multiply_adds=(),
            requested_peak=[4 * out + copies], requested_after=[4 * out],
            **counted(out, multiplies, fused, 2 * batch * MACS * large),
        )  # fmt: skip
        return msgspec.structs.replace(made, factors={**made.factors, "precision": "tfloat32"})

    transforms = layer_case(
        Known(FOURIER, 1, 0, 929_280), lackey_multiply_adds=(),
        **counted(20_000_000, 10_000_000, 15_000_000),
    )  # fmt: skip
    padded = layer_case(CALLS[3], lackey_multiply_adds=(), **counted(0, 0, CALLS[3].macs))
    cases = [*map(call, (1, 8, 64)), transforms, padded, call(8, part=0.7), call(64, part=0.45)]
    cases += map(fast, (1, 8, 64, 512))
    return factory.record(cases, factory.environment("example-100", factory.GPU), study=STUDY)


def record(cases: Iterable[Case] | None = None, on: Environment | None = None) -> Record:
    """A whole record of the study."""
    made = layer_cases() if cases is None else cases
    return factory.record(made, on or machine(), study=STUDY)


#: The source's memory, its kernels and theory: numbers that need no run.
OF_SOURCE: Mapping[str, float] = {
    "macs": 10_616_832, "parameters": 18_496, "source_workspace": 31_392 * 1024,
    "source_allocated": 40_608 * 1024,
    "source_kept": 64 * OUTPUT_BYTES, "table_batch": 64,
    "copies": 5_611_520, "winograd_products": 36 / 144,
    "partitions": 18_432 / 42.67, "bias_share": 1.25,
    "source_measured": 40_600_000,
}  # fmt: skip
OF_RUN: Mapping[str, float] = {
    "known_shapes": 4, "held_shapes": 3, "held_calls": 6, "held_tests": 2, "all_calls": 12,
    "ratio_least": 182_017 / (625 * 12 * 26), "ratio_most": 16 * 24 / (9 * 19),
    "peak_most": (405_504 / 73_728), "block": 8, "second_calls": 15, "second_block": 16,
    "listed_peak": 2_525_184, "forward_cases": 5, "tiled_cases": 0,
    "changed_calls": 9, "just_not": 24 / 17,
    "counted_twice": 7, "dispatched": 29, "changed_pure": 9, "changed_drawn": 2,
    "ratio_missed": 1 - 182_017 / (625 * 12 * 26),
    "small_seen": 1 + 4 * OUTPUTS / (2 * MACS), "plain_peak": 1, "gpu_calls": 5, "gpu_ruled": 0,
    "forward_most": 119_439_360 / 88_957_440, "fourier_fused": 15_000_000 / 24_780_800,
    "fourier_executed": 60_000_000 / 49_561_600, "fourier_peak": 929_280 / 123_904,
    "backward_least": 0.45 + 3 * OUTPUTS / (6 * MACS),
    "backward_most": 0.7 + 3 * OUTPUTS / (6 * MACS), "beside_copies": 100,
    "own_seen": (64 * INPUTS + WEIGHTS + 64 * 4 * OUTPUTS) / (64 * 2 * MACS),
    # By the A100, whose product adds and multiplies four times an output at most.
    "seen_most": (64 * INPUTS + WEIGHTS + 64 * 6 * OUTPUTS) / (64 * 2 * MACS),
}  # fmt: skip


@cache
def full() -> Findings:
    """Two CPUs and a GPU that are made up, and the published trace of an A100."""
    inputs, theirs = on(record(), second(), gpu()), committed(STUDY)
    files = {item.file: theirs.attachments[item.file] for item in theirs.imported}
    log = {
        process: {str(n): "other" if n < same else process for n in range(29)}
        for process, same in (("native", 19), ("native, AVX2 at most", 23), ("valgrind", 29))
    }
    other = inputs.record_by_role["second"].file
    files[other] = {"onednn.json": msgspec.json.encode(log)}
    attachments = {**inputs.attachments, **files}
    return findings(replace(inputs, imported=theirs.imported, attachments=attachments))


def test_values_are_those_of_closed_forms_and_the_source_needs_no_run() -> None:
    papers.assert_values(full(), OF_RUN, rel=1e-6)
    papers.assert_values(findings(on()), OF_SOURCE, rel=1e-6)


def test_the_source_s_bytes_are_led_back_to_its_estimate() -> None:
    counted = {item.measured.name for item in full().reconciliations.values()}
    assert counted == {"Executed", "Allocated, printed", "Peak"}
    (drawn,) = full().figures["fig-bytes"].drawing.panels
    squares = 4 * 36, 64 * 36  # of six by six elements
    assert {name: amount for _, name, _, _, _, amount, *_ in drawn.rows()} == {
        "Estimate, printed": 14_080_000, "Rounding of the factor": 64 * 221_440 - 14_080_000,
        "Parameters counted once": -63 * 73_984, "Parameters not allocated by the call": -73_984,
        "Winograd's input": squares[0] * squares[1] * 32,
        "Winograd's weights": squares[0] * 32 * 64,
        "Winograd's output": squares[0] * squares[1] * 64,
        "Sum": 40_608 * 1024, "Allocated, printed": 40_608 * 1024,
    }  # fmt: skip


def test_the_diagonal_has_what_was_predicted_and_counted_of_held_out_calls() -> None:
    """The tile of 32 × 32 × 8 pads nine channels and 289 positions to 2.06 times theory by hand.

    K is 81, in whole tiles 88, and P is 289, in whole tiles 320; 19 channels become 32.
    """
    (drawn,) = findings(committed(STUDY)).figures["fig-diagonal"].drawing.panels
    points = {points.label: points for points in drawn.points}
    assert {label: len(item.x) for label, item in points.items()} == {
        "CPU": 17, "CPU, held out": 14, "CPU, changed": 18, "GPU": 27, "GPU, held out": 11,
        "GPU, by grid": 2, "GPU, by grid, held out": 2,
    }  # fmt: skip
    theory = 2 * 81 * 289 * 19
    most = 2 * 88 * 320 * 32 + 2 * 320 * 32 + 2 * 289 * 19
    assert max(points["GPU, held out"].x) == most / theory == max(points["GPU, held out"].y)
    assert all(x == y for item in drawn.points for x, y in zip(item.x, item.y, strict=True))


#: Multiply-adds of one image and of eight, worked out before they were counted.  Eight images:
#: oneDNN rounds both channels up to eight.  One image: MKL computes 289 positions as 296 and 400 as
#: 400, converts one factor, and does not fuse one or two channels beyond a multiple of six.
PREDICTED: Final = {
    Dimensions(9, 16, 3, 21): (16 * 81 * 296 + 1, 8 * 289 * 9 * 16 * 16),
    Dimensions(8, 19, 3, 21): (18 * 72 * 296 + 1, 8 * 289 * 9 * 8 * 24),
    Dimensions(8, 16, 3, 21): (16 * 72 * 296 + 1, 8 * 289 * 9 * 8 * 16),
    Dimensions(8, 17, 3, 21): (17 * 72 * 296 + 1, 8 * 289 * 9 * 8 * 24),
    Dimensions(8, 24, 3, 21): (24 * 72 * 296 + 1, 8 * 289 * 9 * 8 * 24),
    Dimensions(8, 25, 3, 21): (24 * 72 * 296 + 1, 8 * 289 * 9 * 8 * 32),
    Dimensions(16, 24, 3, 21): (24 * 144 * 296 + 1, 8 * 289 * 9 * 16 * 24),
    Dimensions(9, 18, 3, 24): (18 * 81 * 400 + 1, 8 * 400 * 9 * 16 * 24),
    Dimensions(9, 19, 3, 24): (18 * 81 * 400 + 1, 8 * 400 * 9 * 16 * 24),
}


def test_the_changed_shapes_are_predicted_as_by_hand() -> None:
    names = [(f"{d.inputs}-{d.outputs}", d.kernel, d.image) for d in PREDICTED]
    assert tuple(names) == CHANGED
    for shape, (one, eight) in PREDICTED.items():
        for batch, expected in ((1, one), (8, eight)):
            layer = shape.layer(batch)
            terms = executed_terms(layer, 1, BUILD, COUNTED_WIDTH)
            assert macs(layer) + sum(term.amount for term in terms) == expected, (shape, batch)


def changed(place: int, **series: Any) -> Record:
    """The record in which one of the calls has other series."""
    cases = layer_cases()
    pass_ = "forward" if place < len(CALLS) else "forward_backward"
    cases[place] = layer_case(CALLS[place % len(CALLS)], pass_, **series)
    return record(cases)


OUTPUT = 4 * 8 * 19 * 17 * 17
PLAIN = machine(key="other-4t", memory_bytes=2**35)
LONGER = msgspec.structs.replace(
    PLAIN, torch=msgspec.structs.replace(PLAIN.torch, cpu_capability="AVX512")
)


#: Calls of the second CPU: as on the first, a held-out shape, and its channels changed to fill
#: blocks or just not.
SHARED_CALLS = (*CALLS[:3], CALLS[4], CALLS[5]._replace(peak=471_648), CALLS[6])
CHANGED_CALLS = (
    *(
        Known(Dimensions(8, 16, 3, 21), n, n * 332_928, n * 36_992, "changed")
        for n in range(8, 72, 8)
    ),
    Known(Dimensions(8, 17, 3, 21), 8, 3_995_136, 453_152, "changed"),
)


def second(call: Known = LONGER_CALL, changed: int = 0) -> Record:
    """Another CPU; ``changed`` multiply-adds are counted beyond the prediction."""
    *others, last = CHANGED_CALLS
    calls = call, *SHARED_CALLS, *others, last._replace(macs=last.macs + changed)
    return record(map(layer_case, calls), LONGER)


def on_gpu(**more: int) -> Inputs:
    return on(record(), gpu(**more))


def source(**numbers: float) -> Inputs:
    return on(source=papers.printing(STUDY, **numbers))


def traced(old: str, new: str) -> Inputs:
    """Inputs with another count in the published trace, and nothing else."""
    theirs = committed(STUDY)
    changed = {
        item.file: {
            name: gzip.decompress(content).replace(old.encode(), new.encode())
            for name, content in theirs.attachments[item.file].items()
        }
        for item in theirs.imported
    }
    return replace(theirs, records=(), attachments=changed)


def other() -> dict[str, dict[str, Inputs]]:
    """Inputs by a verdict that is not that of ``full``, and the claim that has it."""
    return {
        "supported": {
            "batch-in-product": source(_21233664=64 * 21_233_664),
            "table-of-one-image": source(_9216=144),
            "parameters-per-image": source(_40608=31_392 + 64 * 221_440 // 1024),
        },
        "refuted": {
            "temporary-storage": source(_40608=40_609),
            "workspace-is-winograd": source(_31392=31_393),
            "counters-blind": traced("663552", "663553"),
            "seen-as-predicted": on_gpu(additions=1),
            "saved-backward": on_gpu(fewer=-3 * MACS * 2 // 10),
            "changed-as-predicted": on(record(), second(changed=1)),
            "predicted": on(changed(5, lackey_multiply_adds=[7])),
            "counted-alike": on(record(), second(LONGER_CALL._replace(macs=7))),
            "rules-explain": on(record(), second(LONGER_CALL._replace(peak=2_672_641))),
        },
    }


def _without_a_multiplication(case: Case) -> Case:
    counts = case.series.get("ncu_fp32_multiplications", ())
    less = {"ncu_fp32_multiplications": tuple(count - 1 for count in counts)} if counts else {}
    return msgspec.structs.replace(case, series={**case.series, **less})


def test_each_claim_has_two_sides() -> None:
    by_kernel = "tiles-predict", "grid-predicts"
    papers.assert_both_sides(STUDY, full(), other(), {*by_kernel, "valgrind-as-limited"})
    assert full().claims["valgrind-as-limited"].verdict == "refuted"
    # Only names of kernels tell of tiles, which the committed records of GPUs have.
    theirs, named = committed(STUDY), (*by_kernel, "valgrind-as-limited")
    assert papers.verdicts(STUDY, theirs, *named) == dict.fromkeys(named, "supported")
    for role in ("gpu", "third"):
        run = theirs.record_by_role[role]
        cases = [_without_a_multiplication(case) for case in run.record.cases]
        changed_run = replace(run, record=msgspec.structs.replace(run.record, cases=tuple(cases)))
        others = tuple(changed_run if record is run else record for record in theirs.records)
        judged = papers.verdicts(STUDY, replace(theirs, records=others), *by_kernel)
        assert judged == dict.fromkeys(by_kernel, "refuted"), role
    peak = factory.memory(OUTPUT, OUTPUT + 4)
    first = changed(2, lackey_multiply_adds=(), lackey_multiply_adds_first=[679_477_248])
    backward = changed(len(CALLS), lackey_multiply_adds=[7])
    for claim, inputs, verdict in (
        ("predicted", on(changed(5, **peak)), "refuted"),
        ("predicted", on(record([])), "not measured"),
        # A count without a rule, a backward pass, a peak, and the first call alone.
        ("rules-explain", on(changed(0, lackey_multiply_adds=[7]), second()), "refuted"),
        ("rules-explain", on(backward, second()), "refuted"),
        ("rules-explain", on(changed(3, **peak), second()), "refuted"),
        ("rules-explain", on(first, second()), "supported"),
        # Copies, and tensor cores.
        ("seen-as-predicted", on_gpu(additions=1), "refuted"),
        ("seen-as-predicted", on_gpu(tensor=1), "refuted"),
        ("saved-backward", on_gpu(fewer=2 * OUTPUTS), "refuted"),
    ):
        assert papers.verdicts(STUDY, inputs, claim) == {claim: verdict}


def test_every_number_that_is_audited_stands_in_the_account() -> None:
    places = tuple(place for _, place, _ in ACCOUNT if place)
    checks = list(audit(reported(STUDY)))
    audited = {check.derived.place for check in checks}
    (dropouts,) = (check for check in checks if "dropouts" in check.formula)
    outputs = 32 * 26**2 + 64 * 24**2 + 2 * 128 + 10 + 9_216
    assert dropouts.recomputed == Fraction(8 * outputs, 2**20)
    assert all(place.startswith(places) for place in audited)

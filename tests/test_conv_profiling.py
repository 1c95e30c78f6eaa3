"""conv_profiling: the source's numbers and the work of libraries by hand, and verdicts of claims.

The study counts multiply-adds of a convolution; libraries pad channels to whole blocks.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Final

import msgspec
from pytest import approx

from experiments.conv_profiling import CHANGED, TIMED
from figures.panels import Points, Scaling
from report.core.missing import Missing
from report.core.statistics.estimates import Estimate
from report.engine.steps import ROOT
from report.paper.findings import Findings, Inputs
from report.quantity.evaluation import point
from report.studies.conv_profiling.results import COMPARED, WIDENED_EXAMPLE, Paper, mean_ratio
from report.studies.conv_profiling.study import findings
from report.studies.conv_profiling.subject import (
    BASE,
    INPUTS,
    OUTPUTS,
    WIDENED,
    Dimensions,
    small_shape,
)
from report.studies.conv_profiling.theory import RULES, in_blocks
from report.theory.terms import COUNTED_WIDTH, LIBRARY, executed_terms, tile_padding
from report.theory.work import macs
from tests import papers
from tests.degraded import altered_inputs, committed_inputs
from tests.factory import OUTPUT_BYTES
from tests.papers import inputs_of

STUDY = "conv_profiling"
BUILD = f"built for tests with {LIBRARY}"


@cache
def committed_findings() -> Findings:
    """Return the findings of the committed records."""
    return findings(committed_inputs(STUDY))


#: Numbers of the source and of theory, which need no run.
SOURCE_VALUES: Mapping[str, float] = {
    "macs": 10_616_832, "source_workspace": 31_392 * 1024,
    "source_allocated": 40_608 * 1024, "source_kept": 64 * OUTPUT_BYTES,
    "source_measured_memory": 40_600_000, "differing": 1,
    "copied": 42.67, "weights": 9 * 32 * 64, "partitions": 108 * 4, "counted_images": 80,
}  # fmt: skip


def test_values_of_the_source_need_no_run() -> None:
    papers.assert_values(findings(inputs_of(STUDY)), SOURCE_VALUES, rel=1e-6)


def test_predicted_and_counted_work_lie_on_the_diagonal() -> None:
    """The most padded call has 9 to 19 channels, a kernel of 3 × 3 and 17 × 17 = 289 positions.

    Tiles of 32 × 32 × 8 pad its 9 · 9 = 81 products to 88, its positions to 320, and its output
    channels to 32.
    """
    points: dict[str, Points] = {}
    for panel in committed_findings().figures["fig-diagonal"].drawing.panels:
        assert isinstance(panel, Scaling)
        points |= {f"{panel.title}, {points.label}": points for points in panel.points}
    assert {label: len(item.x) for label, item in points.items()} == {
        "CPU, derived": 17, "CPU, held out": 14, "CPU, changed": 18,
        "GPU, derived": 27, "GPU, held out": 11,
    }  # fmt: skip
    theory = 2 * 81 * 289 * 19
    # Products of the tiles, their epilogue, and the kernel that adds the bias.
    largest = 2 * 88 * 320 * 32 + 2 * 320 * 32 + 2 * 289 * 19
    assert max(points["GPU, held out"].x) == largest / theory == max(points["GPU, held out"].y)
    assert all(item.x == item.y for item in points.values())


def test_numbers_in_sentences_by_hand() -> None:
    """Ratios of times are computed by hand from the medians of processes."""
    expected = {"nine_sixteen": 0.995, "nine_sixteen_native": 0.651,
                "nine_eight": 1.53, "wider_newer": 1.90, "wider_older": 1.79,
                "wider_newer_jemalloc": 1.91, "wider_older_jemalloc": 1.435,
                "seventeen": 1.14, "seventeen_native": 1.54, "wider": 1.58, "wider_native": 1.90,
                "twenty_fifth": 1.166, "twenty_fifth_native": 0.990,
                "filled": 1.00, "filled_sixteen_native": 1.01, "full": 1.57,
                "spread": 1.143, "fixed_native": 2 - 159.6 / 106.0,
                "off_line_native": 165.5 / 159.6, "small_seen": 64.44,
                "large_seen": 10_840_064 / 21_233_664,
                "step_eight": 1.16, "step_nine": 1.18, "step_sixteen": 1.17, "wider_work": 1.875,
                "wider_threaded": 1.86, "wider_threaded_jemalloc": 1.91,
                "same_pairs": 42, "same_decided": 24,
                "off_line": 210.5 / (140.1 + 2 * 16.4)}  # fmt: skip
    papers.assert_values(committed_findings(), expected, rel=0.03)


def test_numbers_that_the_text_states_in_words() -> None:
    """Nine channels take half more time than eight in two of three runs.

    The counter of a GPU sees 64 times the estimated work in small batches, and half in large ones.
    """
    timed = Paper(committed_inputs(STUDY)).timed
    assert timed is not None
    _, nine_over_eight = COMPARED["nine_eight"]
    ratios = [point(mean_ratio(run, nine_over_eight)) for run in timed.single_runs]
    assert [ratio < 1.5 for ratio in ratios] == [False, False, True]
    spread = committed_findings().values["spread"].number
    assert isinstance(spread, Estimate)
    assert [spread.low, spread.high] == approx([0.835, 1.465], abs=1e-3)  # of 24 processes
    tf32 = Paper(committed_inputs(STUDY)).tf32
    assert tf32 is not None
    shares = [point(tf32.over_estimate(batch)) for batch in (1, 8, 64, 512)]
    assert shares == approx([64.444, 64.444, 0.5105, 0.5098], abs=1e-3)


def test_the_printed_command_sets_the_variable_of_the_timed_processes() -> None:
    timed = Paper(committed_inputs(STUDY)).timed
    assert timed is not None
    template = (ROOT / "templates" / "papers" / f"{STUDY}.qmd.j2").read_text("utf-8")
    printed = template.split("```bash\n")[1].split("\n```")[0].replace("\\\n", "")
    variables = timed.stored.record.protocol.variables["retained"]
    assert printed == f"GLIBC_TUNABLES={variables['GLIBC_TUNABLES']} python time_padding.py"


def test_the_source_fills_its_tiles_in_multiples_of_four_images() -> None:
    """A tile has 256 positions, 64 channels and 32 products; an image has 576 = 2.25 · 256."""
    tile = (256, 64, 32)
    padding = [tile_padding(BASE.layer(batch), tile, "").amount for batch in (4, 5, 64, 80)]
    assert [amount == 0 for amount in padding] == [True, False, True, True]


def test_the_least_time_of_a_gpu_does_not_follow_the_work() -> None:
    """The shapes are 32→64, 33→65 and 8→24, which has 12 / 128 of the first shape's work."""
    gpu = Paper(committed_inputs(STUDY)).gpu
    assert gpu is not None
    ((wider, base), *_) = WIDENED_EXAMPLE
    shapes = base, wider, Dimensions(8, 24, 3, 28)
    samples = [gpu.samples("time", shape.factors(8)) for shape in shapes]
    least = [min(times) for times in samples if not isinstance(times, Missing)]
    assert least == approx([45.2e-6, 57.2e-6, 55.3e-6], rel=1e-2)
    medians = [point(gpu.series("time", shape.factors(8))) for shape in shapes]
    assert medians[:2] == approx([78.0e-6, 64.0e-6], rel=1e-2)


def test_products_of_rules_equal_the_counts() -> None:
    """Each rule of the CPU's libraries has a product for a call, such as 1·(9·9·296·18 + 1)."""
    rows = committed_findings().tables["tbl-rules"].rows
    assert len(rows) == len(RULES)
    for (_, _, shape, batch, product), (*_, counted) in zip(RULES, rows, strict=True):
        assert eval(product.replace("·", "*")) == counted, (shape, batch)


#: Multiply-adds of one image and of eight, computed by hand before they were counted.
#: Eight images: oneDNN rounds both numbers of channels up to a multiple of eight.
#: One image: MKL computes 289 positions as 296 and 400 as 400, and converts one factor.  It does
#: not fuse one or two channels beyond a multiple of six.
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


#: Held-out calls, which no rule was derived from: shape, batch and predicted multiply-adds.
HELD_OUT = (
    (Dimensions(32, 64, 3, 28), 64, 679_477_248),
    (Dimensions(33, 65, 3, 28), 8, 119_439_360),
    (Dimensions(16, 32, 3, 28), 1, 2_488_321),
    (Dimensions(9, 19, 3, 21), 8, 7_990_272),
    (Dimensions(12, 26, 1, 27), 1, 182_017),
    (Dimensions(24, 40, 3, 23), 8, 24_952_320),
    (Dimensions(40, 24, 3, 23), 8, 24_952_320),
)


def experiment_shape(shape: Dimensions) -> tuple[str, int, int]:
    """Return the shape in the format of the experiment."""
    return f"{shape.inputs}-{shape.outputs}", shape.kernel, shape.image


def predicted_multiply_adds(shape: Dimensions, batch: int) -> int:
    """Return the theory's multiply-adds plus those that the library adds."""
    layer = shape.layer(batch)
    terms = executed_terms(layer, 1, BUILD, COUNTED_WIDTH)
    return macs(layer) + sum(term.amount for term in terms)


def test_the_experiment_runs_the_shapes_of_the_paper() -> None:
    assert tuple(map(experiment_shape, PREDICTED)) == CHANGED
    timed = [*(small_shape(inputs, n) for inputs in INPUTS for n in OUTPUTS), *WIDENED]
    assert tuple(map(experiment_shape, timed)) == TIMED


def test_multiply_adds_are_predicted_as_by_hand() -> None:
    for shape, (one_image, eight_images) in PREDICTED.items():
        assert predicted_multiply_adds(shape, 1) == one_image, shape
        assert predicted_multiply_adds(shape, 8) == eight_images, shape
    for shape, batch, expected in HELD_OUT:
        assert predicted_multiply_adds(shape, batch) == expected, shape


#: Input and output channels → products of channels in blocks of 8 (AVX2) and of 16 (AVX-512).
#: Fewer than 16 input channels are not put into blocks of 16.
IN_BLOCKS: Final = {
    (8, 16): (8 * 16, 8 * 16), (8, 17): (8 * 24, 8 * 32), (8, 25): (8 * 32, 8 * 32),
    (9, 19): (16 * 24, 9 * 32), (9, 24): (16 * 24, 9 * 32), (16, 19): (16 * 24, 16 * 32),
    (32, 64): (32 * 64, 32 * 64), (33, 65): (40 * 72, 48 * 80), (40, 72): (40 * 72, 48 * 80),
    (48, 80): (48 * 80, 48 * 80),
}  # fmt: skip


def test_channels_are_rounded_up_to_blocks() -> None:
    for (inputs, outputs), products in IN_BLOCKS.items():
        shape = Dimensions(inputs, outputs, 3, 21)
        in_eights, in_sixteens = in_blocks(shape, 8), in_blocks(shape, 16)
        assert (in_eights.inputs * in_eights.outputs,
                in_sixteens.inputs * in_sixteens.outputs) == products, shape  # fmt: skip


def source(**numbers: float) -> Inputs:
    """Return inputs without records; ``_9216=144`` replaces the source's 9216 by 144."""
    return inputs_of(STUDY, source=papers.reported_with(STUDY, **numbers))


def with_native_code_in_valgrind() -> Inputs:
    """Return published inputs whose log says that Valgrind ran the AVX-512 code."""
    inputs = committed_inputs(STUDY)
    second = inputs.record_by_role["second"].file
    logs = {process: {"0": process} for process in ("native, AVX2 at most", "native")}
    log = msgspec.json.encode({**logs, "valgrind": {"0": "native"}})
    files = {**inputs.attachments[second], "onednn.json": log}
    return replace(inputs, attachments={**inputs.attachments, second: files})


def test_changed_inputs_change_the_verdict_of_each_claim() -> None:
    """The verdicts on the published inputs are pinned; these are the other verdicts.

    Changes: one more multiply-add, threefold times, and equal times of all small shapes.
    """
    change = partial(altered_inputs, STUDY)
    one_more = partial(change, "lackey_multiply_adds", lambda count: count + 1)
    slower = partial(change, "time", lambda time: 3 * time, roles=("fourth",))
    equal = change("time", lambda _: 1e-4, roles=("fourth",), input=21)
    cpus, gpus = ("cpu", "second"), ("gpu", "third")
    cases = (
        ("batch-in-product", source(_21233664=64 * 21_233_664), "supported"),
        ("table-of-one-image", source(_9216=144), "supported"),
        ("parameters-per-image", source(_40608=31_392 + 64 * 221_440 // 1024), "supported"),
        ("temporary-storage", source(_40608=40_609), "refuted"),
        ("predicted", one_more(roles=("cpu",), subject="held_out"), "refuted"),
        ("changed-as-predicted", one_more(roles=cpus, subject="changed"), "refuted"),
        ("nine-over-eight", equal, "refuted"),
        ("nine-as-sixteen", equal, "supported"),
        ("padding-takes-time", equal, "refuted"),
        ("step-moves", equal, "refuted"),
        ("wide-blocks-of-outputs", equal, "refuted"),
        ("wide-blocks-of-outputs", slower(channels="33-65"), "refuted"),
        ("valgrind-as-limited", with_native_code_in_valgrind(), "refuted"),
        ("both-trends", change("ncu_fp32_multiply_adds", lambda n: n // 2, roles=gpus), "refuted"),
        *(
            ("seen-as-predicted", change(name, lambda count: count + 1, roles=gpus), "refuted")
            for name in ("ncu_fp32_additions", "ncu_tensor_core_flops")
        ),
        *(
            ("tiles-predict", change("ncu_fp32_multiplications", lambda n: n - 1, roles=(role,)),
             "refuted")
            for role in gpus
        ),
    )  # fmt: skip
    papers.assert_verdicts(STUDY, cases)

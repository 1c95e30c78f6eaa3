"""conv_profiling: the source's numbers and the work of libraries by hand, and verdicts of claims.

The study counts multiply-adds of a convolution; libraries pad channels to whole blocks.
"""

from dataclasses import replace
from functools import partial
from typing import Final

import msgspec

from experiments.conv_profiling import CHANGED, TIMED
from report.engine.steps import ROOT
from report.paper.findings import Inputs
from report.studies.conv_profiling.results import Paper
from report.studies.conv_profiling.study import findings
from report.studies.conv_profiling.subject import (
    EXAMPLE_SHAPES,
    INPUTS,
    OUTPUTS,
    Dimensions,
    small_shape,
)
from report.studies.conv_profiling.theory import RULES
from report.theory.terms import MKL_VERSION, executed_terms
from report.theory.work import macs
from tests import papers
from tests.degraded import altered_inputs, committed_inputs
from tests.papers import inputs_of

STUDY = "conv_profiling"
BUILD = f"built for tests with {MKL_VERSION}"


def test_the_most_padded_call_of_a_gpu_executes_the_products_of_its_tiles() -> None:
    """The call has 9 to 19 channels, a kernel of 3 × 3 and 17 × 17 = 289 positions.

    Tiles of 32 × 32 × 8 pad its 9 · 9 = 81 products to 88, its positions to 320, and its output
    channels to 32.  Their epilogue and the kernel that adds the bias follow.
    """
    executed = 2 * 88 * 320 * 32 + 2 * 320 * 32 + 2 * 289 * 19
    counts = Paper(committed_inputs(STUDY)).tf32_counts.values()
    assert max(count.end / count.start.amount for count in counts) == executed / (2 * 81 * 289 * 19)


def test_the_printed_command_sets_the_variable_of_the_timed_processes() -> None:
    timed = Paper(committed_inputs(STUDY)).timed
    assert timed is not None
    template = (ROOT / "templates" / "papers" / f"{STUDY}.qmd.j2").read_text("utf-8")
    printed = template.split("```bash\n")[1].split("\n```")[0].replace("\\\n", "")
    variables = timed.stored.record.protocol.variables["retained"]
    assert printed == f"GLIBC_TUNABLES={variables['GLIBC_TUNABLES']} python time_padding.py"


def test_products_of_rules_equal_the_counts() -> None:
    """Each rule of the CPU's libraries has a product for a call, such as 1·(9·9·296·18 + 1)."""
    rows = findings(committed_inputs(STUDY)).tables["tbl-rules"].rows
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
    return macs(layer) + sum(term.amount for term in executed_terms(layer, BUILD))


def test_the_experiment_runs_the_shapes_of_the_paper() -> None:
    assert tuple(map(experiment_shape, PREDICTED)) == CHANGED
    timed = [*(small_shape(inputs, n) for inputs in INPUTS for n in OUTPUTS), *EXAMPLE_SHAPES]
    assert tuple(map(experiment_shape, timed)) == TIMED


def test_multiply_adds_are_predicted_as_by_hand() -> None:
    for shape, (one_image, eight_images) in PREDICTED.items():
        assert predicted_multiply_adds(shape, 1) == one_image, shape
        assert predicted_multiply_adds(shape, 8) == eight_images, shape
    for shape, batch, expected in HELD_OUT:
        assert predicted_multiply_adds(shape, batch) == expected, shape


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
    """Changes: one more multiply-add, threefold times, and equal times of all small shapes."""
    change, no, yes = partial(altered_inputs, STUDY), "refuted", "supported"
    one_more = partial(change, "lackey_multiply_adds", lambda count: count + 1)
    slower = change("time", lambda time: 3 * time, roles=("fourth",), channels="33-65")
    equal = change("time", lambda _: 1e-4, roles=("fourth",), input=21)
    cpus, gpus = ("cpu", "second"), ("gpu", "third")
    papers.assert_other_verdicts(
        STUDY,
        (yes, source(_21233664=64 * 21_233_664), "batch-in-product"),
        (yes, source(_9216=144), "table-of-one-image"),
        (yes, source(_40608=31_392 + 64 * 221_440 // 1024), "parameters-per-image"),
        (no, source(_40608=40_609), "temporary-storage"),
        (no, source(_256=255), "source-tile-fits"),
        (no, one_more(roles=("cpu",), subject="held_out"), "predicted"),
        (no, one_more(roles=cpus, subject="changed"), "changed-as-predicted"),
        (no, equal, "nine-over-eight", "padding-takes-time", "step-moves"),
        (yes, equal, "nine-as-sixteen"),
        (no, slower, "wide-blocks-of-outputs", "same-blocks-same-time"),
        (no, with_native_code_in_valgrind(), "valgrind-as-limited"),
        (no, change("ncu_fp32_multiply_adds", lambda n: n // 2, roles=gpus), "both-trends"),
        (no, change("ncu_fp32_additions", lambda n: n + 1, roles=gpus), "seen-as-predicted"),
        (no, change("ncu_fp32_multiplications", lambda n: n - 1, roles=gpus), "tiles-predict"),
    )  # fmt: skip

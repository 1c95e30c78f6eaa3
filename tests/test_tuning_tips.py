"""tuning_tips: both verdicts of every claim, and amounts that tips save by hand.

The study compares calls of networks with a tip for faster code and without (the baseline), under
two policies: freed memory is returned or kept.
"""

from functools import partial

from report.core.records.record import Case
from report.paper.findings import Inputs
from report.studies.tuning_tips import theory
from report.theory import heap, work
from tests import papers
from tests.degraded import altered_inputs, committed_inputs, on_every_case
from tests.networks import Chain, convolution

STUDY = "tuning_tips"


def with_cases(**factors: str) -> Inputs:
    """Return published inputs with only the cases that succeeded and have these factors."""

    def keep(_: int, case: Case) -> Case | None:
        return case if case.status == "ok" and factors.items() <= case.factors.items() else None

    return on_every_case(keep)(committed_inputs(STUDY))


def test_changed_records_change_the_verdict_of_each_claim() -> None:
    no, yes = "refuted", "supported"
    timed = partial(altered_inputs, STUDY, "time", roles=("cpu",))
    pages = partial(altered_inputs, STUDY, "page_faults", roles=("cpu",))
    thrice, third = lambda time: 3 * time, lambda time: time / 3
    papers.assert_other_verdicts(
        STUDY,
        (no, timed(thrice, tip="allocator"), "allocator-pays"),
        (yes, timed(third, tip="channels_last", memory="returned"), "channels-last-pays"),
        (no, timed(thrice, tip="channels_last", memory="kept"), "channels-last-pays-kept"),
        (no, timed(thrice, tip="compiled", memory="returned"), "compiled-pays"),
        (no, timed(thrice, tip="compiled", memory="kept"), "compiled-pays-kept",
         "compiled-gains-by-keeping"),
        (no, timed(third, tip="no_grad", memory="returned"), "reversal"),
        (no, pages(lambda _: 0, tip="no_grad"), "more-pages-without-gradients"),
        (no, timed(thrice, memory="kept"), "gains-as-predicted"),
        (no, pages(lambda count: -(10**6), tip="allocator"), "more-than-pages"),
        (yes, with_cases(), "right-in-bfloat16"),
        (no, with_cases(memory="returned"), "gains-change"),
    )  # fmt: skip


def test_amounts_that_tips_save_by_hand() -> None:
    first = convolution((2, 1, 8, 8), 4, (3, 3))
    second = convolution((2, 4, 6, 6), 4, (3, 3), name="conv2")
    sizes = [work.output_bytes(first), work.input_bytes(second), work.output_bytes(second)]
    assert theory.layout_copies((first, second)) == 2 * sum(sizes)
    assert theory.chain_traffic(Chain(1, 1, 8, 8).conv(4, 3).act().layers) == 0
    # At most 2 * 2304 + 1152 B are freed at once, less than the threshold of two pages.
    assert heap.returned_pages((first, second)) == 0

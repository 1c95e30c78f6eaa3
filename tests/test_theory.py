"""Theory of small networks: rows, sums, peaks, and the largest batch that fits into a memory."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from report.core.errors import StudyError
from report.core.missing import Missing
from report.core.records.operations import Network, Tensor
from report.theory.allocator import DEFAULT_OPTIONS
from report.theory.conditions import Conditions
from report.theory.network import LARGEST_BATCH, Theory, bytes_of, search_batches
from report.theory.networks import CAPTURED_BATCH, Variant, layers_of, load_capture
from report.theory.operators import operator_work
from report.theory.roofline import sheet_roof
from tests.networks import operator, tensor


def network(batch: int = CAPTURED_BATCH, last: str = "relu", joined: str = "mm") -> Network:
    """Return a product of a (batch, 3) input with 3 × 4 weights, then an activation."""
    weight, source = tensor(0, 3, 4), tensor(1, batch, 3)
    product, result = tensor(2, batch, 4), tensor(3, batch, 4)
    return Network(
        storages=(48, 12 * batch, 16 * batch, 16 * batch),
        parameters={"layer.weight": weight, "unused": weight},
        buffers={},
        inputs=(source,),
        operators=(
            operator(
                joined, {"self": source, "mat2": weight}, product, module="layer", allocated=(2,)
            ),
            operator(last, {"self": product}, result, module="act", allocated=(3,)),
        ),
    )


def theory(of: Network | None = None, **more: Any) -> Theory:
    """Return the theory of a network, by default of the small network."""
    return Theory(network() if of is None else of, Conditions(), **more)


#: A peak of 1,000 FLOP/s and a bandwidth of 100 B/s.
ROOF = sheet_roof(1e3, 1e2)


@pytest.mark.parametrize(("attribute", "names"), [
    ("by_kind", ["matrix product", "activation"]),
    ("by_module", ["layer", "act"]),
])  # fmt: skip
def test_rows_of_operators_and_modules(attribute: str, names: list[str]) -> None:
    first, second = getattr(theory(network(10), roof=ROOF), attribute)
    assert [first.name, second.name] == names
    # Calls, multiply-adds, bytes, parameters, bytes of results, least time, rate and intensity.
    rows = [(*list(vars(row).values())[1:], row.rate, row.intensity) for row in (first, second)]
    assert rows == [
        pytest.approx((1, 120, 328, 12, 160, 3.28, 240 / 3.28, 240 / 328)),
        (1, 0, 320, 0, 160, 3.2, 0.0, 0.0),
    ]
    # At a bandwidth of 1 MB/s, arithmetic limits the product of 24,000 FLOP.
    rows = theory(network(1000), roof=sheet_roof(1e3, 1e6)).by_module
    assert [row.seconds for row in rows] == pytest.approx([24.0, 0.032])


def test_sums_and_cells_of_a_printed_sheet() -> None:
    result = theory(network(1000), roof=ROOF)
    row = result.by_kind[0]
    assert list(row.cells.values()) == [
        "1", "12,000", "28,048", "0.856", "12", "16,000", "2.805e+08", "8.557e-08",
    ]  # fmt: skip
    assert len(theory().by_kind[0].cells) == len(row.cells) - 2, "no time and rate without a roof"
    assert dict(result.sums) == {
        "Input": "float32 1000×3",
        "Parameters": "12",
        "Multiply-adds": "12,000",
        "Compulsory traffic": "60,048 B, operator by operator",
        "Least time on this roof": "6.005e+05 ms",
        "Peak memory": "44,048 B, in relu.default of act (forward, operator 2 of 2)",
    }
    assert (result.effective_multiply_adds, result.seconds) == (12_000, pytest.approx(600.48))
    assert result.complete and not result.unknown_operators
    assert "<th>Calls</th>" in result._repr_html_() and "<td>12,000</td>" in result._repr_html_()


def test_with_an_unknown_operator_there_is_no_sum() -> None:
    unknown = theory(network(10, last="_fft_r2c"), roof=ROOF)
    assert unknown.unknown_operators == ("_fft_r2c.default(10×4)",)
    sums = (unknown.multiply_adds, unknown.effective_multiply_adds, unknown.bytes, unknown.seconds)
    assert sums == (None,) * 4 and unknown.may_take_more == ("_fft_r2c.default",)
    assert not unknown.complete and dict(unknown.sums)["Peak memory"].startswith("at least 488 B")
    on_gpu = replace(
        unknown, conditions=Conditions(allocator=DEFAULT_OPTIONS), modules_replaced_on_gpu=("GRU",)
    )
    assert on_gpu.peak is on_gpu.cuda is None and on_gpu.names_replaced_on_gpu == ("GRU",)
    assert theory(msgspec.structs.replace(network(), operators=())).peak is None


#: Bytes of the parameters; and per row of the batch, of the input, the product and the result.
FIXED, PER_ROW = 48, 12 + 16 + 16


@pytest.mark.parametrize("known", [0, 1, 3, 8, 9])
def test_the_largest_batch_that_certainly_fits(known: int) -> None:
    """Above ``known`` images, the last operator's workspace is unknown."""

    def capture(n: int, probe: int | None) -> Theory:
        return theory(network(n, last="relu" if n <= known else "softplus"), scales=False)

    fit = search_batches(capture, FIXED + PER_ROW * 9)
    assert (fit.largest, fit.certain) == (9, known)
    assert list(fit.bracket) == sorted({known, 9, 10} - {0})


@pytest.mark.parametrize("batch", [1, 2, 5, 1000])
@pytest.mark.parametrize("scales", [True, False])
def test_the_largest_batch_fits_and_the_next_one_does_not(batch: int, scales: bool) -> None:
    """``scales``: the network does the same for each image, so that one capture suffices."""
    captures = []

    def capture(n: int, probe: int | None) -> Theory:
        captures.append((n, probe))
        return theory(network(n), scales=scales)

    for limit in (FIXED + PER_ROW * batch, FIXED + PER_ROW * (batch + 1) - 1):
        fit = search_batches(capture, limit)
        assert (fit.largest, list(fit.bracket)) == (batch, [batch, batch + 1])
        assert [fit.verdict(n) for n in fit.bracket] == ["fits", "does not fit"]
        totals = [predicted.peak.total for predicted in fit.bracket.values() if predicted.peak]
        assert totals == [FIXED + PER_ROW * batch, FIXED + PER_ROW * (batch + 1)]
        # A network that scales is captured once; otherwise the search starts near its prediction.
        assert (captures == [(CAPTURED_BATCH, 2)]) == scales
        assert len(fit.predicted) <= (3 if scales else 5)
        captures.clear()


def test_no_batch_fits_or_every_batch_fits() -> None:
    fit = search_batches(lambda batch, probe: theory(), FIXED + PER_ROW - 1)
    assert (fit.largest, list(fit.bracket), fit.verdict(1)) == (0, [1], "does not fit")
    fit = search_batches(lambda batch, probe: theory(network(7), scales=False), 10_000)
    assert fit.largest == LARGEST_BATCH
    assert list(fit.bracket) == [LARGEST_BATCH] and fit.verdict(LARGEST_BATCH) == "fits"


@pytest.mark.parametrize(("captured", "verdicts"), [
    (theory(network(last="_fft_r2c")), ["undecided", "does not fit"]),
    (theory(compiled=("layer",)), ["undecided", "undecided"]),
])  # fmt: skip
def test_batches_of_unknown_workspace_are_undecided(captured: Theory, verdicts: list[str]) -> None:
    fit = search_batches(lambda batch, probe: captured, FIXED + 5 * PER_ROW)
    assert [fit.verdict(n) for n in fit.bracket] == verdicts


def test_on_a_gpu_all_segments_must_fit() -> None:
    on_gpu = Theory(network(joined="add"), Conditions(allocator=DEFAULT_OPTIONS))
    assert on_gpu.complete
    fit = search_batches(lambda batch, probe: on_gpu, 2 * 2**20)
    # Parameters and three tensors are rounded to 512 B and share a segment of 2 MiB.
    (largest, following) = fit.bracket
    for batch in (largest, following):
        predicted = fit.predicted[batch]
        blocks = 512 + sum(-(-size * batch // 512) * 512 for size in (12, 16, 16))
        assert predicted.peak is not None and predicted.cuda is not None
        assert predicted.peak.total == predicted.cuda["allocated"] == blocks
        assert predicted.cuda["requested"] == FIXED + PER_ROW * batch
        assert (blocks <= 2 * 2**20) == (batch == largest)
    assert fit.predicted[largest].cuda["reserved"] == 2 * 2**20  # type: ignore[index]
    assert fit.verdict(largest) == "fits"
    fit = search_batches(lambda batch, probe: on_gpu, 2 * 2**20 - 512)
    assert fit.verdict(fit.largest) == "undecided", "the tensors fit, their segment does not"


def test_networks_without_operators_or_with_one_batch_have_no_prediction() -> None:
    empty = theory(msgspec.structs.replace(network(), operators=()))
    with pytest.raises(StudyError, match="runs no operator"):
        search_batches(lambda batch, probe: empty, 1)
    with pytest.raises(StudyError, match="has one batch only"):
        theory().fits("1GB")
    largest = (1000 - FIXED) // PER_ROW
    assert theory(captured=lambda batch, probe: theory()).fits("1kB").largest == largest


def test_sizes_of_memory_are_read_with_decimal_and_binary_units() -> None:
    sizes = {
        "1B": 1, "8GB": 8 * 10**9, "1.5 GiB": 3 * 2**29, "15.8GB": 15_800_000_000, "2kB": 2000,
        "3kiB": 3072, "1MB": 10**6, "2MiB": 2**21, "1TB": 10**12,
    }  # fmt: skip
    assert {text: bytes_of(text) for text in sizes} == sizes
    for text in ("8", "8 gb", "-8GB", "GB", "0GB", "8GBs"):
        with pytest.raises(StudyError, match="16GB"):  # an example of a size
            bytes_of(text)


HEADS = {"qkv_weight": tensor(2, 36, 12), "proj_weight": tensor(3, 12, 12)}
FEED_FORWARD = {"ffn_weight_1": tensor(4, 16, 12), "ffn_weight_2": tensor(5, 12, 16)}
TRIPLE = {
    "query": tensor(0, 1, 2, 5, 8), "key": tensor(1, 1, 2, 6, 8), "value": tensor(2, 1, 2, 6, 4),
}  # fmt: skip
WEIGHTS = (tensor(1, 24, 5), tensor(2, 24, 6))


@pytest.mark.parametrize(("name", "reads", "multiply_adds"), [
    # 14 rows of 12 elements: projections (432 + 144 weights), scores and values (2 × 7 × 12).
    ("_native_multi_head_attention", {"query": tensor(0, 2, 7, 12), **HEADS}, 14 * 744),
    # Each row also has the 2 × 192 weights of the feed-forward layers.
    ("_transformer_encoder_layer_fwd", {"src": tensor(0, 2, 7, 12), **HEADS, **FEED_FORWARD},
     14 * (744 + 384)),
    # Two heads of 5 queries and 6 keys; keys have 8 elements and values 4.
    ("_scaled_dot_product_flash_attention", TRIPLE, 2 * 5 * 6 * (8 + 4)),
    ("_scaled_dot_product_cudnn_attention_backward", TRIPLE, 2 * 5 * 6 * (3 * 8 + 2 * 4)),
    # Three steps of two rows; the weights have 24 · 5 + 24 · 6 = 264 elements.
    ("mkldnn_rnn_layer", {"input": tensor(0, 3, 2, 5), "weight0": WEIGHTS[0],
                          "weight1": WEIGHTS[1]}, 6 * 264),
    ("mkldnn_rnn_layer_backward", {"input": tensor(0, 3, 2, 5), "weight1": WEIGHTS[0],
                                   "weight2": WEIGHTS[1]}, 2 * 6 * 264),
    ("addr", {"vec1": tensor(0, 3), "vec2": tensor(1, 5)}, 15),
    ("mv", {"self": tensor(0, 3, 5), "vec": tensor(1, 5)}, 15),
])  # fmt: skip
def test_multiply_adds_of_operators(
    name: str, reads: dict[str, Tensor], multiply_adds: int
) -> None:
    work = operator_work(operator(name, reads, tensor(9, 1)))
    assert work is not None
    assert (work.multiply_adds, work.effective) == (multiply_adds, multiply_adds)
    assert work.flops == 2 * multiply_adds


def test_networks_that_were_not_captured_have_no_prediction() -> None:
    for network, layers in (("ResNet-20", layers_of("ResNet-32", 32)), ("ResNet-21", ())):
        assert isinstance(load_capture(network, 32, Variant(), like=layers), Missing)

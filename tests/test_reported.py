"""The numbers of the source against each other, against theory, and every kind of bad file."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from report.errors import StudyError
from report.evidence.reported import Reported, Unreported, read_reported
from report.theory.memory import layer_memory
from report.theory.shapes import elements, output_shape, parameter_count
from report.theory.work import flops, macs
from tests.networks import mnist_conv2, mnist_example

DATA = Path(__file__).parents[1] / "data"
FILE = DATA / "reported" / "conv_scaling.json"
SOURCE = read_reported(FILE)
BATCHES = (16, 32, 64, 128, 256)


def numbers(table: str, column: str) -> tuple[int, ...]:
    cells = SOURCE.table(table).column(column)
    assert all(isinstance(cell, int) for cell in cells)
    return cells  # type: ignore[return-value]


# ------------------------------------------------------------------- what the source says itself


def test_totals_are_add_plus_two_multiply_adds_plus_multiply() -> None:
    _, *counts, total = SOURCE.table("III").columns
    add, fused, multiply = (numbers("III", column.key) for column in counts)
    sums = tuple(a + 2 * f + m for a, f, m in zip(add, fused, multiply, strict=True))
    assert sums == numbers("III", total.key)


def test_later_tables_repeat_the_earlier_ones() -> None:
    assert {numbers(id_, "batch") for id_ in ("I", "II", "III", "IV", "V", "VI")} == {BATCHES}
    assert numbers("V", "theoretical_flops") == numbers("I", "theoretical_flops")
    assert numbers("V", "measured_flops") == numbers("III", "total_flops")
    assert numbers("VI", "theoretical_memory") == numbers("II", "theoretical_memory")
    assert numbers("VI", "measured_memory") == numbers("IV", "allocated_memory")


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("I", "theoretical_flops"),
        ("III", "add"),
        ("III", "multiply_add"),
        ("III", "multiply"),
        ("III", "total_flops"),
        ("IV", "allocated_memory"),
    ],
)
def test_rows_double_with_the_batch(table: str, column: str) -> None:
    first, *_ = values = numbers(table, column)
    assert values == tuple(first * batch // 16 for batch in BATCHES)


def test_memory_doubles_but_for_the_parameters() -> None:
    theory, measured = numbers("II", "theoretical_memory"), numbers("IV", "allocated_memory")
    assert {t - m for t, m in zip(theory, measured, strict=True)} == {73_984}
    # Reserved memory moves by segments.
    assert numbers("IV", "reserved_memory") == (0, 0, 20_971_520, 18_874_368, 37_748_736)


# ----------------------------------------------------------------------- against report.theory.work


def test_theory_is_what_we_compute() -> None:
    layers = [mnist_conv2(batch) for batch in BATCHES]
    assert numbers("I", "theoretical_flops") == tuple(flops(macs(x)) for x in layers)
    footprints = tuple(layer_memory(x).parameters_and_output for x in layers)
    assert numbers("II", "theoretical_memory") == footprints
    assert numbers("IV", "allocated_memory") == tuple(layer_memory(x).output for x in layers)
    assert numbers("III", "multiply_add") == tuple(macs(x) for x in layers)
    assert numbers("III", "add") == tuple(elements(x.output_shape) for x in layers)


def test_printed_values_are_what_we_compute() -> None:
    layer, network = mnist_conv2(1), mnist_example()
    printed = {value.id: value.number for value in SOURCE.values}
    assert (printed["kernel_height"], printed["kernel_width"]) == layer.kernel
    assert (printed["stride"], printed["padding"]) == (layer.stride[0], layer.padding[0])
    assert layer.input_shape == (1, printed["input_channels"], *[printed["input_extent"]] * 2)
    assert output_shape(layer) == (
        1, printed["output_channels"], *[printed["output_extent"]] * 2,
    )  # fmt: skip
    assert printed["flops_per_image"] == flops(macs(layer))
    assert printed["parameters"] == parameter_count(layer)
    assert printed["activations_per_image"] == elements(layer.output_shape)
    assert printed["total_parameters"] == sum(map(parameter_count, network))
    assert printed["trainable_parameters"] == printed["total_parameters"]
    assert printed["other_parameters"] == 0
    assert printed["parameter_size"] == round(4 * 1_199_882 / 2**20, 2)
    parts = printed["input_size"] + printed["pass_size"] + printed["parameter_size"]
    assert printed["total_size"] == round(parts, 2)


def test_the_summary_is_that_of_the_network() -> None:
    table = SOURCE.table("summary")
    ours = [x for x in mnist_example() if type(x).__name__ in ("Convolution", "Linear", "Dropout")]
    assert table.column("parameters") == tuple(parameter_count(x) for x in ours)
    shapes = [tuple(json.loads(str(cell))[1:]) for cell in table.column("output_shape")]
    assert shapes == [x.output_shape[1:] for x in ours]
    # Every layer appears once more with its gradient in «Forward/backward pass size».
    size = sum(2 * 4 * elements(x.output_shape) for x in ours) / 2**20
    assert round(size, 2) == SOURCE.value("pass_size").number


# ------------------------------------------------------------------------------- the file


def test_the_file_reads_back_the_same() -> None:
    assert msgspec.json.decode(msgspec.json.encode(SOURCE), type=Reported) == SOURCE
    assert json.loads(msgspec.json.encode(SOURCE)) == json.loads(FILE.read_text(encoding="utf-8"))


def written(tmp_path: Path, document: object) -> Path:
    path = tmp_path / "data" / "reported" / "conv_scaling.json"
    path.parent.mkdir(parents=True)
    text = document if isinstance(document, str) else json.dumps(document)
    path.write_text(text, encoding="utf-8")
    return path


def test_text_and_missing_cells_are_kept(tmp_path: Path) -> None:
    document = json.loads(FILE.read_text(encoding="utf-8"))
    document["tables"][6]["rows"][0] = ["Conv2d-1", {"missing": "cut off in the print"}, 320]
    table = read_reported(written(tmp_path, document)).table("summary")
    assert table.rows[0] == ("Conv2d-1", Unreported(missing="cut off in the print"), 320)


def test_a_study_without_a_file_has_no_source_and_is_told_so_when_it_asks(tmp_path: Path) -> None:
    nothing = read_reported(tmp_path / "data" / "reported" / "none.json")
    assert nothing.source == ""
    with pytest.raises(StudyError, match=r"^data/reported/none.json: the file is missing"):
        nothing.table("I")


def test_asking_for_what_is_not_there_tells_what_is() -> None:
    with pytest.raises(StudyError, match=r"no table 'VII'; it has I, II, III, IV, V, VI, summary"):
        SOURCE.table("VII")
    with pytest.raises(StudyError, match="no value 'speedup'; it has kernel_height"):
        SOURCE.value("speedup")
    with pytest.raises(StudyError, match="Table I of the reported values has no column 'time'"):
        SOURCE.table("I").column("time")

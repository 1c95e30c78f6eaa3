"""Operators in a record: they come back as captured, and what cannot be is refused."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.errors import StudyError
from report.missing import Missing
from report.records.captures import CaptureRef, Captures, Layout, expanded
from report.records.compaction import Ran, canonical, compact
from report.records.filed import encode, parse
from report.records.operations import Network, Operator, Tensor
from report.records.record import Record
from report.theory.network import Theory
from report.theory.recorded import operator_faults, theory_of_case
from tests import factory

LAYOUTS: tuple[Layout, ...] = ("contiguous", "channels_last")
WEIGHTS, BIAS, IMAGES, BLOCKED, OUTPUT = range(5)


def maps(storage: int, batch: int, channels: int, side: int, layout: Layout) -> Tensor:
    """Maps without gaps."""
    shape = (batch, channels, side, side)
    row = channels * side
    last = (row * side, 1, row, channels)
    plain = (channels * side * side, side * side, side, 1)
    return Tensor(storage, shape, last if layout == "channels_last" else plain, "float32")


def network(
    batch: int, layout: Layout = "contiguous", name: str = "convolution.default"
) -> Network:
    """The layer of the first study, and a ReLU that lets its map go."""
    weights = msgspec.structs.replace(maps(WEIGHTS, 64, 32, 3, layout))
    bias = Tensor(BIAS, (64,), (1,), "float32")
    images, blocked, output = (
        maps(BLOCKED if number == BLOCKED else number, batch, channels, side, layout)
        for number, channels, side in ((IMAGES, 32, 26), (BLOCKED, 64, 24), (OUTPUT, 64, 24))
    )
    settings: dict[str, Any] = {
        "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1, "transposed": False,
    }  # fmt: skip
    reads = {"weight": (weights,), "input": (images,), "bias": (bias,)}
    return Network(
        storages=(weights.bytes, bias.bytes, images.bytes, blocked.bytes, output.bytes, 7),
        parameters={"conv2.weight": weights, "conv2.bias": bias},
        buffers={},
        inputs=(images,),
        operators=(
            Operator(
                name=name, module="conv2", phase="forward", reads=reads, settings=settings,
                writes=(blocked,), made=(BLOCKED,),
            ),
            Operator(
                name="relu.default", module="relu", phase="forward", reads={"self": (blocked,)},
                settings={"size": (batch, 64)}, writes=(output,), made=(OUTPUT,),
            ),
            Operator(
                name="relu_.default", module="relu", phase="forward", reads={"self": (output,)},
                settings={}, writes=(output,), updates=("self",), freed=(BLOCKED,),
            ),
        ),
    )  # fmt: skip


def record(**change: Any) -> Record:
    """The layer at three batches, with its operators."""
    wanted = {Ran("layer", batch, "contiguous"): network(batch, **change) for batch in (1, 8, 64)}
    captures, refs = compact(wanted)
    cases = tuple(
        msgspec.structs.replace(case, operations=refs.get(Ran("layer", batch, "contiguous")))
        for batch in (1, 2, 8, 64)
        for case in [factory.case(batch)]
    )
    return msgspec.structs.replace(factory.record(cases), operations=captures)


@given(st.sets(st.integers(1, 2048), min_size=1, max_size=6))
def test_operators_come_back_at_every_batch_and_in_both_layouts(batches: set[int]) -> None:
    wanted = {Ran("layer", n, layout): network(n, layout) for n in batches for layout in LAYOUTS}
    captures, refs = compact(wanted)
    read = msgspec.json.decode(msgspec.json.encode(captures), type=Captures)
    assert read == captures
    for ran, ref in refs.items():
        assert expanded(read, ref) == canonical(wanted[ran])
    if len(batches) > 1:  # one capture serves all of them
        assert len(captures.networks) == 1
        assert (len(captures.operators), len(captures.residents)) == (3, 1)


def test_a_call_that_differs_in_more_than_its_images_is_kept_beside_the_others() -> None:
    other = network(2, name="conv_of_a_single_pair.default")
    wanted = {Ran("layer", n, "contiguous"): network(n) for n in (1, 3)}
    captures, refs = compact({**wanted, Ran("layer", 2, "contiguous"): other})
    assert len(captures.networks) == 2
    assert expanded(captures, refs[Ran("layer", 2, "contiguous")]) == canonical(other)


def test_what_would_not_come_back_is_not_kept() -> None:
    (first, *others) = network(2).operators
    wrong = msgspec.structs.replace(first, settings={"word": "64N"})  # read as 64 an image
    with pytest.raises(StudyError, match="do not come back"):
        compact({Ran("x", 2, "contiguous"): msgspec.structs.replace(
            network(2), operators=(wrong, *others))})  # fmt: skip


def test_a_record_keeps_each_operator_in_a_line() -> None:
    whole = record()
    text = encode(whole)
    assert parse(text, "r.json") == whole
    lines = [line for line in text.decode().splitlines() if '"name": "convolution.default"' in line]
    assert len(lines) == 1
    assert '"bias":[0],"input":[2]' in lines[0]


def test_the_theory_of_a_case_follows_from_its_record() -> None:
    read = parse(encode(record()), "r.json")
    found = theory_of_case(read, read.cases[3])
    assert isinstance(found, Theory)
    assert found.multiply_adds == 64 * 10_616_832
    assert found.parameters == 18_496
    assert found.peak is not None
    assert found.peak.total > 2 * 64 * 64 * 24 * 24 * 4
    missing = theory_of_case(read, read.cases[1])
    assert missing == Missing("the record keeps no operators of this case")
    assert list(operator_faults(read)) == []


def test_an_old_record_has_no_operators_and_says_so() -> None:
    document = json.loads(encode(factory.record()))
    document.pop("operations", None)
    old = parse(json.dumps({**document, "schema": 2}).encode(), "old.json")
    assert isinstance(theory_of_case(old, old.cases[0]), Missing)


def test_operators_that_multiply_otherwise_than_the_layers_are_found() -> None:
    whole = record()
    cases = [msgspec.structs.replace(whole.cases[3], operations=whole.cases[0].operations)]
    (fault,) = operator_faults(msgspec.structs.replace(whole, cases=tuple(cases)))
    assert fault == (
        "cases[0]: its operators have 10,616,832 multiply-adds, its layers 679,477,248"
    )


def test_a_foreign_operator_is_refused_by_name() -> None:
    (fault, *_) = operator_faults(record(name="somebody::convolution.default"))
    assert "the work of somebody::convolution.default(" in fault
    assert fault.endswith("is not known")


def test_a_reference_names_a_batch_and_a_layout() -> None:
    captures = record().operations
    network_ = expanded(captures, CaptureRef(0, 5, "channels_last"))
    assert network_.inputs[0].shape == (5, 32, 26, 26)
    assert network_.inputs[0].strides == (21_632, 1, 832, 32)

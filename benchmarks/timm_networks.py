"""Theory of timm's networks: ``python -m benchmarks.timm_networks [NAME …]``.

Without names, every network missing in ``data/networks-of-timm.csv`` is captured on one image of
its published size (half an hour for all).  The table then has theory's counts, the number of the
module's parameters and the count of torch's own counter; ``benchmarks/networks-of-timm.md`` says
how often they agree.  With names, the operators of these networks are added to
``data/operators-of-timm.jsonl.gz``, which papers read.  With ``--bytes`` before the names, only the
bytes that the networks move in mixed precision are added.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas as pd
import torch
from msgspec import structs
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from experiments.theory.captures import Build
from experiments.theory.checked import agreed_theory
from experiments.theory.networks import find_network, import_timm
from experiments.theory.operator_recorder import FakeMode, make_fake, tensors_in
from experiments.theory.operators import Input, build_module, capture
from report.core.errors import MeasurementError
from report.core.records import OPERATORS
from report.core.records.network_operators import (
    NetworkOperators,
    SurveyOperator,
    read_operators,
    write_operators,
)
from report.theory.operators import operands, operator_work

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "benchmarks" / "networks-of-timm.md"
TABLE: Final = ROOT / "data" / "networks-of-timm.csv"


class OperatorCounts(NamedTuple):
    """Counts for one image by theory (from the called operators), or why theory ``refused`` them.

    ``own_parameters`` is the module's number of parameters.  ``torch_multiply_adds`` is half the
    count of torch's ``FlopCounterMode`` for the same call.  ``uncounted`` names operators that this
    counter does not know; by theory they have ``uncounted_multiply_adds``.
    """

    network: str
    family: str
    refused: str = ""
    parameters: int = 0
    own_parameters: int = 0
    multiply_adds: int = 0
    torch_multiply_adds: int = 0
    uncounted_multiply_adds: int = 0
    uncounted: str = ""


def counts(name: str) -> OperatorCounts:
    """Capture one network; torch's own counter counts the same call."""
    build, image = find_network(f"timm:{name}")
    family = str(import_timm().model_entrypoint(name).__module__).rpartition(".")[2]
    try:
        module = build_module(build)
        module.requires_grad_(False)  # so that nothing is captured for a gradient
        captured = capture(lambda: module, [Input((1, *image))])
        theory = agreed_theory(captured)
    except MeasurementError as error:
        return OperatorCounts(name, family, refused=str(error))
    if theory.multiply_adds is None:
        reason = f"unknown operators: {', '.join(theory.unknown_operators)}"
        return OperatorCounts(name, family, refused=reason)
    uncounted, uncounted_macs = set[str](), 0
    for number, work in enumerate(theory.work):
        if work and work.multiply_adds and number not in captured.flops:
            uncounted.add(theory.network.operators[number].base_name)
            uncounted_macs += work.multiply_adds
    return OperatorCounts(
        name,
        family,
        parameters=theory.parameters,
        own_parameters=sum(parameter.numel() for parameter in module.parameters()),
        multiply_adds=theory.multiply_adds,
        torch_multiply_adds=sum(captured.flops.values()) // 2,
        uncounted_multiply_adds=uncounted_macs,
        uncounted=" ".join(sorted(uncounted)),
    )


def bytes_of(name: str) -> NetworkOperators:
    """Return the bytes that a network moves for an image in mixed precision, without operators."""
    build, image = find_network(f"timm:{name}")
    return NetworkOperators(
        network=name,
        side=image[1],
        parameters=sum(parameter.numel() for parameter in build_module(build).parameters()),
        operators=(),
        half_bytes=normalized_bytes(build, image, fast=True),
        single_bytes=normalized_bytes(build, image, fast=False),
    )


def operators_of(name: str) -> NetworkOperators:
    """Return the bytes of a network, and its operators on one image that move bytes.

    Raises ``MeasurementError`` for a network that cannot be captured.
    """
    build, image = find_network(f"timm:{name}")
    module = build_module(build)
    module.requires_grad_(False)  # so that no operator is captured for a gradient
    network = capture(lambda: module, [Input((1, *image))]).theory.network
    constant = {t.storage for t in (*network.parameters.values(), *network.buffers.values())}
    operators = []
    for operator in network.operators:
        work = operator_work(operator)
        if work is None or not work.bytes:
            continue
        reads, writes = operands(operator)
        weights = sum(t.distinct_elements for t in reads if t.storage in constant)
        read = sum(tensor.distinct_elements for tensor in reads) - weights
        written = sum(tensor.distinct_elements for tensor in writes)
        name = operator.base_name
        operators.append(SurveyOperator(name, work.multiply_adds, weights, read, written))
    return structs.replace(bytes_of(name), operators=tuple(operators))


class _WithoutCuda(TorchFunctionMode):
    """Mode that replaces calls which refuse a GPU's fake tensors in PyTorch without CUDA.

    Attention becomes one fused kernel in float16, which moves its operands and its result.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__getitem__:
            return _index(*args)
        if func is torch.Tensor.contiguous and not args[0].is_contiguous():
            return args[0].clone(memory_format=torch.contiguous_format)
        if func is scaled_dot_product_attention:
            return _fused_attention(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _index(tensor: torch.Tensor, index: Any) -> torch.Tensor:
    """Return ``tensor[index]``: a copy for an index with tensors, else a view, without counting."""
    items = index if isinstance(index, tuple) else (index,)
    if any(isinstance(item, torch.Tensor) for item in items):
        tensors = [item if isinstance(item, torch.Tensor) else None for item in items]
        return torch.ops.aten.index.Tensor(tensor, tensors)  # type: ignore[no-any-return]
    with torch._C._DisableTorchDispatch():  # so that nothing is counted
        view = torch.empty_strided(tensor.shape, tensor.stride(), device="meta")[index]
    offset = tensor.storage_offset() + view.storage_offset()
    return tensor.as_strided(view.shape, view.stride(), offset)


def _fused_attention(
    *operands: torch.Tensor, attn_mask: torch.Tensor | None = None, **_: object
) -> torch.Tensor:
    """Compute attention by one kernel; the first operands are query, key and value."""
    query, key, value = (tensor.half() for tensor in operands[:3])
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2])
    fused = torch.ops.aten._scaled_dot_product_efficient_attention
    return fused(query, key, value, attn_mask, False)[0]  # type: ignore[no-any-return]


class _ByteCounter(TorchDispatchMode):
    """Mode that adds up the bytes of all tensors that operators (except views) read and write."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.namespace == "aten" and not func.is_view:
            moved = [*tensors_in((args, kwargs, result))]
            if func is torch.ops.aten.native_group_norm.default:
                moved.append(args[0])  # read twice: for statistics, and to normalize
            self.bytes += sum(tensor.numel() * tensor.element_size() for tensor in moved)
        return result


def normalized_bytes(build: Build, image: Sequence[int], fast: bool) -> int:
    """Count ``mixed_precision_bytes`` for a network of timm.

    Group and layer normalizations compute in float16 if ``fast``, else in float32.
    """
    import_timm().layers.set_fast_norm(fast)
    return mixed_precision_bytes(build, image)


def mixed_precision_bytes(build: Build, image: Sequence[int]) -> int:
    """Count the bytes that a GPU moves for a second image, under autocast to float16.

    Works without a GPU, since fake tensors compute nothing.
    """
    bytes_by_batch = []
    for batch in (1, 2):
        module, mode, gpu = build_module(build).eval(), FakeMode(), torch.device("cuda")
        module.requires_grad_(False)
        make_fake(module, mode, gpu)
        images = mode.like(torch.empty((batch, *image), device="meta"), gpu)
        counter = _ByteCounter()
        torch.set_autocast_dtype("cuda", torch.float16)
        torch.set_autocast_enabled("cuda", True)
        try:
            with mode, torch.no_grad(), counter, _WithoutCuda():
                module(images)
        finally:
            torch.set_autocast_enabled("cuda", False)
        bytes_by_batch.append(counter.bytes)
    return bytes_by_batch[1] - bytes_by_batch[0]


def add_operators(names: Sequence[str]) -> None:
    """Add networks (after ``--bytes``: only bytes) to the file; write it after each network."""
    path = ROOT / "data" / OPERATORS
    networks = {stored.network: stored for stored in read_operators(path)}
    only_bytes = names[0] == "--bytes"
    for name in names[1:] if only_bytes else names:
        networks[name] = bytes_of(name) if only_bytes else operators_of(name)
        write_operators(path, networks.values())


def add_counts() -> None:
    """Add a row for each missing network to the table, ordered by name; then write the page."""
    rows = pd.read_csv(TABLE, keep_default_na=False)
    for name in sorted({*import_timm().list_models()} - {*rows["network"]}):
        rows.loc[len(rows)] = counts(name)
        print(f"{name}: {rows['refused'].iloc[-1] or 'captured'}", flush=True)
        rows.sort_values("network").to_csv(TABLE, index=False, lineterminator="\n")
    write_page(rows)


def write_page(rows: pd.DataFrame) -> None:
    """Write ``benchmarks/networks-of-timm.md``: how many networks are refused, exact and wrong."""
    captured = rows[rows["refused"] == ""]
    comparable = captured["multiply_adds"] - captured["uncounted_multiply_adds"]
    has_equal_work = comparable == captured["torch_multiply_adds"]
    is_exact = has_equal_work & (captured["parameters"] == captured["own_parameters"])
    uncounted = sorted({*" ".join(captured["uncounted"]).split()})
    text = Path(__file__).with_suffix(".md.in").read_text(encoding="utf-8").format(
        networks=len(rows), refused=len(rows) - len(captured), exact=is_exact.sum(),
        wrong=(~is_exact).sum(), uncounted=", ".join(f"`{name}`" for name in uncounted),
    )  # fmt: skip
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    add_operators(sys.argv[1:]) if sys.argv[1:] else add_counts()

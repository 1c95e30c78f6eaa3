"""Theory of timm's networks: ``python -m benchmarks.timm_networks [NAME …]``.

Without names, every network missing in ``data/networks-of-timm.csv`` is captured on one image of
its published size (half an hour for all).  The counts are compared with the module's parameters and
torch's own counter, and ``benchmarks/networks-of-timm.md`` prints the shares.  With names, the
operators of these networks are added to ``data/operators-of-timm.jsonl.gz``, which papers read;
after ``--bytes``, only the bytes that they move in mixed precision.
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

from experiments.theory.captures import Build, agreed_theory
from experiments.theory.networks import find_network, import_timm
from experiments.theory.operator_recorder import FakeMode, make_fake, tensors_in
from experiments.theory.operators import Input, build_module, capture
from report.core.errors import MeasurementError
from report.core.records import OPERATORS
from report.core.records.network_operators import (
    NetworkOperators,
    SurveyOperator,
    TensorRead,
    read_operators,
    write_operators,
)
from report.theory.operators import operands, operator_work

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "benchmarks" / "networks-of-timm.md"
TABLE: Final = ROOT / "data" / "networks-of-timm.csv"


class OperatorCounts(NamedTuple):
    """Theory's counts of a network on one image, or the reason why theory ``refused`` it.

    ``own_parameters``: parameters of the module.  ``torch_multiply_adds``: half the count of
    torch's ``FlopCounterMode`` for the same call.  ``uncounted``: operators that this counter does
    not know, with ``uncounted_multiply_adds``.
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
    named = find_network(f"timm:{name}")
    family = str(import_timm().model_entrypoint(name).__module__).rpartition(".")[2]
    try:
        module = build_module(named.build)
        module.requires_grad_(False)  # so that nothing is captured for a gradient
        captured = capture(lambda: module, [Input((1, *named.image))])
        theory = agreed_theory(captured)
    except MeasurementError as error:
        return OperatorCounts(name, family, str(error))
    if theory.multiply_adds is None:
        return OperatorCounts(name, family, f"unknown operators: {', '.join(theory.refused)}")
    pairs = enumerate(zip(theory.network.operators, theory.work, strict=True))
    uncounted = [
        (operator.base_name, work.multiply_adds)
        for n, (operator, work) in pairs
        if work and work.multiply_adds and n not in captured.flops
    ]
    return OperatorCounts(
        name,
        family,
        "",
        theory.parameters,
        sum(parameter.numel() for parameter in module.parameters()),
        theory.multiply_adds,
        sum(captured.flops.values()) // 2,
        sum(macs for _, macs in uncounted),
        " ".join(sorted({name for name, _ in uncounted})),
    )


def bytes_of(name: str) -> NetworkOperators:
    """Return the bytes that a network moves for an image in mixed precision; no operators."""
    build, image = find_network(f"timm:{name}")
    half, single = (normalized_bytes(build, image, fast) for fast in (True, False))
    return NetworkOperators(
        network=name,
        side=image[1],
        parameters=sum(parameter.numel() for parameter in build_module(build).parameters()),
        operators=(),
        half_bytes=half,
        single_bytes=single,
    )


def operators_of(name: str) -> NetworkOperators:
    """Return the bytes of a network, and its operators on one image that move bytes.

    Each ``TensorRead`` has the distance to the tensor's last use.  Raises ``MeasurementError``.
    """
    named = find_network(f"timm:{name}")
    module = build_module(named.build)
    module.requires_grad_(False)  # so that no operator is captured for a gradient
    traced = capture(lambda: module, [Input((1, *named.image))]).theory.network
    constant = {t.storage for t in (*traced.parameters.values(), *traced.buffers.values())}
    #: Storage → its elements, in the order of the last use.
    last_used: dict[int, int] = {}
    moves = []
    for operator in traced.operators:
        work = operator_work(operator)
        if work is None or not work.bytes:
            continue
        reads, writes = operands(operator)
        reused = [t for t in reads if t.storage not in constant]
        fixed = sum(t.distinct_elements for t in reads if t.storage in constant)
        distances = tuple(
            TensorRead(t.distinct_elements, _distance(t.storage, last_used)) for t in reused
        )
        written = sum(t.distinct_elements for t in writes)
        moves.append(
            SurveyOperator(operator.base_name, work.multiply_adds, fixed, distances, written)
        )
        for tensor in (*reused, *writes):
            last_used.pop(tensor.storage, None)
            last_used[tensor.storage] = tensor.distinct
    return structs.replace(bytes_of(name), operators=tuple(moves))


class _WithoutCuda(TorchFunctionMode):
    """Mode that replaces calls which refuse a GPU's fake tensors in PyTorch without CUDA.

    Attention is one fused kernel in float16 here, which moves its operands and its result.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__getitem__:
            return _indexed(*args)
        if func is torch.Tensor.contiguous and not args[0].is_contiguous():
            return args[0].clone(memory_format=torch.contiguous_format)
        if func is scaled_dot_product_attention:
            return _attention(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _indexed(tensor: torch.Tensor, index: Any) -> torch.Tensor:
    parts = index if isinstance(index, tuple) else (index,)
    if any(isinstance(part, torch.Tensor) for part in parts):
        chosen = [part if isinstance(part, torch.Tensor) else None for part in parts]
        return torch.ops.aten.index.Tensor(tensor, chosen)  # type: ignore[no-any-return]
    with torch._C._DisableTorchDispatch():  # so that nothing is counted
        view = torch.empty_strided(tensor.shape, tensor.stride(), device="meta")[index]
    offset = tensor.storage_offset() + view.storage_offset()
    return tensor.as_strided(view.shape, view.stride(), offset)


def _attention(
    *operands: torch.Tensor, attn_mask: torch.Tensor | None = None, **_: object
) -> torch.Tensor:
    query, key, value = (tensor.half() for tensor in operands[:3])
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2])
    fused = torch.ops.aten._scaled_dot_product_efficient_attention
    return fused(query, key, value, attn_mask, False)[0]  # type: ignore[no-any-return]


class _ByteCounter(TorchDispatchMode):
    """Mode that adds up the bytes of all tensors that operators read and write."""

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
    """Count the bytes that a GPU moves for a further image, under autocast to float16.

    Works without a GPU, since fake tensors compute nothing.
    """
    moved = []
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
        moved.append(counter.bytes)
    return moved[1] - moved[0]


def _distance(storage: int, last_used: dict[int, int]) -> int:
    """Count the elements used since the last use of a storage, or return -1 if it was not used."""
    if storage not in last_used:
        return -1
    order = list(last_used)
    return sum(last_used[number] for number in order[order.index(storage) :])


def add_operators(names: Sequence[str]) -> None:
    """Add networks to the file that papers read; write the file after every network."""
    path = ROOT / "data" / OPERATORS
    networks = {stored.network: stored for stored in read_operators(path)}
    count, names = (bytes_of, names[1:]) if names[0] == "--bytes" else (operators_of, names)
    for name in names:
        networks[name] = count(name)
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
    """Write ``benchmarks/networks-of-timm.md``."""
    known = rows[rows["refused"] == ""]
    counted = known["multiply_adds"] - known["uncounted_multiply_adds"]
    exact = (counted == known["torch_multiply_adds"]) & (
        known["parameters"] == known["own_parameters"]
    )
    names = sorted({*" ".join(known["uncounted"]).split()})
    text = Path(__file__).with_suffix(".md.in").read_text(encoding="utf-8").format(
        networks=len(rows), refused=len(rows) - len(known), exact=exact.sum(),
        wrong=(~exact).sum(), uncounted=", ".join(f"`{name}`" for name in names),
    )  # fmt: skip
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    add_operators(sys.argv[1:]) if sys.argv[1:] else add_counts()

"""How one convolution scales with the batch size.

The layer is the second convolution of PyTorch's MNIST example, ``Conv2d(32, 64, 3, 1)`` on
``(batch, 32, 26, 26)`` in float32, with random weights and inputs from a fixed seed.  Factors:

- ``subject``: ``layer``, or one of the further subjects below, which need ``--set``.
- ``batch``: images per call.
- ``pass``: ``forward`` is one call under ``torch.no_grad()`` (not ``inference_mode``).
  ``forward_backward`` is one call with gradients, and ``output.backward(gradient)`` with a fixed
  random gradient; the input also requires a gradient, as inside the network.  Gradients are dropped
  before each call, so that they do not accumulate.
- ``layout``: memory layout of tensors, ``contiguous`` (NCHW).

Memory is measured in both passes, time only in ``forward``, under every memory policy.

Further subjects change the batch size from which calls map pages, that is, touch memory that glibc
has returned to the system:

- ``cliff``: a ``layer`` at batch sizes around the predicted start of page mapping, after the
  program has set glibc's trimming ``threshold`` (MiB), or freed a tensor of ``freed`` elements.
- ``cure``: a whole ``network`` on a few images, for ``inference`` or ``training`` (``mode``), with
  and without a tensor of ``freed`` elements that is freed beforehand.  Freeing it should end the
  repeated page faults, because glibc then keeps more memory.
- ``sweep``: the layer, or ResNet-18's inference (``network``), at more batch sizes, with and
  without a freed tensor.
- ``top``: time and pages of the layer around the start of page mapping, and the free bytes at the
  top of the heap in the same process.  In some cases ``small_blocks`` are freed beforehand.
"""

import ctypes
from collections.abc import Iterator
from itertools import product
from math import ceil, floor
from typing import Any, Final

import msgspec

from experiments.harness import study
from experiments.harness.measure import build_workload, measure_memory, measure_time
from experiments.harness.memory import resident_bytes
from experiments.harness.timing import sample_times
from report.core.records.layers import Convolution, Layer, Linear
from report.core.records.record import Factors, SeriesByQuantity
from report.theory import heap
from report.theory.work import mnist_conv2, square_convolution

#: Powers of two, and all batch sizes from 4 to 8, where glibc begins to return memory.
BATCHES: Final = tuple(sorted({*(2**n for n in range(11)), 5, 6, 7}))
#: Batch sizes at which valgrind's lackey counts executed work, which takes half a second per image.
_COUNTED_BATCHES: Final = frozenset({1, 2, 8, *range(16, 257)})
#: Subjects that are measured only with ``--set`` (see the module's docstring).
_SUBJECTS_ON_REQUEST: Final = ("cliff", "cure", "sweep", "top")

#: Layers of the subject ``cliff``, described for one image.  Outputs are larger than inputs.  "1x1"
#: is predicted to map pages only at batch sizes above 16: on one thread, PyTorch computes smaller
#: batches of 1×1 convolutions without oneDNN (``use_mkldnn`` in Convolution.cpp).
LAYERS: Final[dict[str, Convolution | Linear]] = {
    "3x3": mnist_conv2(1),
    "1x1": square_convolution("1x1", (1, 32, 13, 13), channels=64, kernel=1),
    "5x5": square_convolution("5x5", (1, 16, 28, 28), channels=32, kernel=5),
    "linear": Linear(
        name="linear", input_shape=(1, 256), output_shape=(1, 1000), dtype="float32", bias=True
    ),
}
#: Trimming thresholds to set (MiB).
THRESHOLDS: Final = (2, 4, 8, 16, 32)
#: Number of elements of a float32 tensor; freeing it before the calls raises glibc's thresholds.
FREED_FLOATS: Final = 8_000_000
#: Network → batch sizes.  As predicted, ResNet-18's inference maps no pages up to 6 images after a
#: tensor was freed (``SWEPT_NETWORK``).  Times were predicted before they were measured: a freed
#: tensor speeds up inference by more than 10 % at 4 and 6 images, and not at 8 images.  Training
#: exceeds the raised threshold at each of these sizes, so that its calls still map pages.
NETWORK_BATCHES: Final = {"MNIST CNN": (8,), "ResNet-18": (4, 6, 8)}
#: Elements of a freed tensor (0: none) → batch sizes of the layer.  Without the tensor, calls were
#: predicted to map pages from 8 images on.  With the tensor, they were predicted to map no pages up
#: to 160 images, because glibc keeps two outputs and a copy of the input of 167 images, and to map
#: pages again at 256 images, where glibc maps each output separately.
SWEPT_LAYER: Final = dict.fromkeys((0, FREED_FLOATS), (4, 8, 16, 64, 128, 160, 192, 256))
#: The same for ResNet-18.  After a tensor was freed, calls were predicted to map pages from 4, 5, 5
#: and 7 images on, where three outputs of the first convolution exceed the raised threshold minus
#: the reserve (``heap.network_mapping_start``).  Trials on a busy machine had shown this for 4, 6
#: and 8 million elements.  5 million were tried only after this prediction was committed.
SWEPT_NETWORK: Final = {
    0: (4, 8),
    4_000_000: (3, 4),
    **dict.fromkeys((5_000_000, 6_000_000), (4, 5)),
    FREED_FLOATS: (6, 7, 8),
}
#: Number of small blocks to allocate before the first call, equally many of each size.  Every
#: second block is freed, so that blocks that oneDNN keeps after a call fit below the input's copy.
SMALL_BLOCKS: Final = 540
#: Sizes (B) of the small blocks.
_SMALL_SIZES: Final = (600, 1000, 2000, 4000, 8000, 16000, 32000, 65000, 100_000)
_WITH_SMALL_BLOCKS: Final[Factors] = {"small_blocks": SMALL_BLOCKS}
#: Pairs of a setting and batch sizes around the setting's start.  We predicted, after trials that
#: counted pages on a busy machine, but before times were measured on a quiet machine:
#: 1. In each process, a call maps pages if and only if the free bytes at the top of the heap reach
#:    the trimming threshold.  The mapped pages have these bytes minus 256 KiB, to within a page.
#: 2. After small blocks were freed, the input's copy is at the top in every process.  No process
#:    maps pages at 5, 21, 87 and 167 images; every process does from 6, 22, 88 and 168 images on.
#: 3. At equal batch size and threshold, each process that maps pages takes more than 10 % longer
#:    than each process that maps none.
TOP_CASES: Final[tuple[tuple[Factors, tuple[int, ...]], ...]] = (
    ({}, (150, 168, 192)),
    ({"freed": FREED_FLOATS}, (150, 164, 167, 168, 178, 192, 217)),
    ({"freed": FREED_FLOATS, **_WITH_SMALL_BLOCKS}, (167, 168, 178)),
    ({"threshold": 8}, (19, 21, 22, 24, 28, 33)),
    ({"threshold": 8, **_WITH_SMALL_BLOCKS}, (21, 22, 24)),
    ({"threshold": 2, **_WITH_SMALL_BLOCKS}, (5, 6)),
    ({"threshold": 32, **_WITH_SMALL_BLOCKS}, (87, 88)),
)
#: Untimed calls before the timed calls; the top of the heap is read after each untimed call.
_TOP_CALLS: Final = 12
#: Calls per process in cases where only pages are counted.
_PAGE_CALLS: Final = 5
#: Time limit (s) of the calls in cases where only pages are counted.
_PAGE_CALLS_S: Final = 0.1
#: Layer → warm-up calls, if its number of pages changes for longer than usual.  glibc caches small
#: remainders of up to seven aligned requests; freed blocks beside cached remainders cannot merge
#: (sourceware.org/bugzilla, 30723).  So a linear layer, which has one large block, grows the heap
#: in its first dozen calls.  A trial showed that the planned eight calls are too few.
_WARMUP_CALLS: Final = {"linear": 40}
#: Numbers of two parameters of mallopt(3).
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
#: Flags in the size field of a block's header in glibc's heap: the block below is in use; the block
#: is mapped separately.
_BELOW_IN_USE, _IS_MAPPED = 1, 2
#: Mask of the flags in the size field.
_FLAG_BITS: Final = 7
#: Offset (B) of the size field in a block's header.
_SIZE_OFFSET: Final = 8


def cases(levels: study.Levels) -> tuple[Factors, ...]:
    """List the cases of the chosen subjects."""
    listed: list[Factors] = []
    for direction, batch in product(levels["pass"], levels["batch"]):
        listed.append(
            {"subject": "layer", "batch": batch, "pass": direction, "layout": "contiguous"}
        )
    listed += [*threshold_cases(levels), *network_cases(levels)]
    for name, batches_by_freed in (("layer", SWEPT_LAYER), ("ResNet-18", SWEPT_NETWORK)):
        for elements, batches in batches_by_freed.items():
            freed: Factors = {"freed": elements} if elements else {}
            for batch in batches:
                listed.append({"subject": "sweep", "network": name, "batch": batch, **freed})
    for setting, batches in TOP_CASES:
        for batch in batches:
            listed.append({"subject": "top", "layer": "3x3", **setting, "batch": batch})
    return tuple(case for case in listed if case["subject"] in levels["subject"])


def threshold_cases(levels: study.Levels) -> Iterator[Factors]:
    """List each layer with each threshold or freed tensor, at batch sizes around page mapping."""
    settings: list[Factors] = [{"threshold": mib} for mib in levels["threshold"]]
    settings += [{"freed": elements} for elements in levels["freed"]]
    for name, setting in product(levels["layer"], settings):
        for batch in batches_around_start(LAYERS[str(name)], heap.trimming_threshold(setting)):
            yield {"subject": "cliff", "layer": name, **setting, "batch": batch}


def batches_around_start(image: Layer, threshold: int) -> tuple[int, ...]:
    """Return batch sizes around the predicted start of page mapping, and one after its end.

    ``image`` is the layer at batch size 1, ``threshold`` the trimming threshold (B).
    """
    start = heap.mapping_start(image, threshold)
    end = heap.mapping_end(image, threshold)
    largest_without = floor(start)
    around = {floor(0.9 * start), largest_without, largest_without + 1, ceil(1.06 * start)}
    return tuple(sorted(around | {floor(end) + 1}))


def network_cases(levels: study.Levels) -> Iterator[Factors]:
    """List the networks, each with and without a freed tensor.

    After a tensor of 32 MB was freed, glibc keeps 64 MB.  Temporary tensors have 3.1 MB (inference)
    and 4.7 MB (training) in the MNIST CNN, 51 and 164 MB in ResNet-18.  We therefore predicted that
    only the calls of ResNet-18's training map pages.
    """
    for name, mode in product(levels["network"], levels["mode"]):
        for batch in NETWORK_BATCHES[str(name)]:
            case: Factors = {"subject": "cure", "network": name, "mode": mode, "batch": batch}
            yield case
            for elements in levels["freed"]:
                yield {**case, "freed": elements}


def subject(factors: Factors) -> study.Subject:
    """Build a layer, or a network for inference or training, with random images.

    If the factor ``network`` is ``layer``, it means the layer of the subject ``layer``.
    """
    import torch

    from experiments.networks.catalogue import build_network
    from experiments.networks.chains import mnist_cnn

    network, batch = str(factors.get("network", "layer")), int(factors["batch"])
    if network != "layer":
        is_small = network == "MNIST CNN"
        module = mnist_cnn() if is_small else build_network(network, change="in_place")
        images = torch.randn(batch, *((1, 28, 28) if is_small else (3, 224, 224)))
        mode: study.Mode = "step" if factors.get("mode") == "training" else "forward"
        return study.Subject(module.eval(), images, mode=mode)
    image = LAYERS[str(factors.get("layer", "3x3"))]
    _, channels, *extents = image.input_shape
    layer: torch.nn.Module
    if isinstance(image, Linear):
        layer = torch.nn.Linear(channels, image.output_shape[1])
    else:
        layer = torch.nn.Conv2d(channels, image.output_shape[1], image.kernel)
    images = torch.randn(batch, channels, *extents)
    name = "layer" if "network" in factors else image.name
    return study.Subject(layer, images, mode=factors.get("pass", "forward"), name=name)  # type: ignore[arg-type]


def memory(factors: Factors, session: study.Session) -> SeriesByQuantity:
    """Measure the memory of a case; return no series for ``cliff``, ``sweep`` and ``top``."""
    if factors["subject"] in ("cliff", "sweep", "top"):
        return {}
    return measure_memory(STUDY, factors, session)


def times(factors: Factors, session: study.Session) -> SeriesByQuantity:
    """Time a case and count its pages; for ``cliff`` and ResNet-18's ``sweep``, only count pages.

    For ``top``, the free bytes at the top of the heap after each warm-up call are returned too.
    """
    if factors["subject"] not in _SUBJECTS_ON_REQUEST:
        return measure_time(STUDY, factors, session)
    prepare_heap(factors)
    workload = build_workload(STUDY, factors, session.device)
    if factors["subject"] == "top":
        tops = tuple(free_bytes_at_top(workload.call()) for _ in range(_TOP_CALLS))
        return {"free_top": tops, **sample_times(workload, session.protocol, session.device)}
    if "layer" in factors or (factors["subject"], factors["network"]) == ("sweep", "ResNet-18"):
        usual_calls = session.protocol.warmup_calls
        protocol = msgspec.structs.replace(
            session.protocol,
            warmup_calls=_WARMUP_CALLS.get(str(factors.get("layer")), usual_calls),
            minimum_samples=_PAGE_CALLS,
            maximum_samples=_PAGE_CALLS,
            case_budget_s=_PAGE_CALLS_S,
        )
        return {"page_faults": sample_times(workload, protocol, session.device)["page_faults"]}
    series = sample_times(workload, session.protocol, session.device)
    if (resident := resident_bytes()) is not None:
        series = {**series, "resident_before": (resident,)}
    return series


def prepare_heap(factors: Factors) -> None:
    """Set glibc's thresholds, free a tensor (which raises them), or free small blocks.

    For cases with a ``layer``, a matrix product comes first, so that the buffers that MKL keeps lie
    below all later blocks.
    """
    import torch

    library = ctypes.CDLL(None)
    if "layer" in factors:
        images = torch.ones(4096, 512)
        torch.mm(images, images[:512])
        del images
    if "threshold" in factors:
        library.mallopt(_M_MMAP_THRESHOLD, heap.LARGEST_MAPPING_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, heap.trimming_threshold(factors))
    if "freed" in factors:
        torch.empty(int(factors["freed"]))  # freed at once
    if "small_blocks" in factors:
        count = int(factors["small_blocks"]) // len(_SMALL_SIZES)
        library.malloc.restype = ctypes.c_void_p
        library.free.argtypes = (ctypes.c_void_p,)
        for size in _SMALL_SIZES:
            blocks = [library.malloc(ctypes.c_size_t(size)) for _ in range(count)]
            for block in blocks:
                ctypes.memset(block, 0, size)  # so that its pages are mapped now, not in a call
            for block in blocks[::2]:
                library.free(block)


def free_bytes_at_top(output: Any) -> int:
    """Return the bytes that will be free at the top of glibc's heap after ``output`` is freed.

    Reads the headers of glibc's blocks (malloc/malloc.c).  The first field of a header is the size
    of the block below, valid only if that block is free; the second is the block's size and flags.
    Returns 0 if ``output`` is not the last block before the free top of the heap.
    """
    library = ctypes.CDLL(None)
    library.sbrk.restype = ctypes.c_void_p
    library.mallopt(0, 0)  # sets nothing, but merges small free blocks with their neighbours

    def read_number(address: int) -> int:
        return ctypes.c_size_t.from_address(address).value

    start = output.data_ptr() - heap.HEADER_BYTES
    size_and_flags = read_number(start + _SIZE_OFFSET)
    top = start + (size_and_flags & ~_FLAG_BITS)
    top_size = read_number(top + _SIZE_OFFSET) & ~_FLAG_BITS
    heap_end = library.sbrk(0)
    if size_and_flags & _IS_MAPPED or top + top_size != heap_end:
        return 0
    free_below = 0 if size_and_flags & _BELOW_IN_USE else read_number(start)
    return int(heap_end - start + free_below)


def timed_under(factors: Factors) -> study.Policies:
    """Return the memory policies under which a case is timed.

    Calls with gradients are not timed in the subject ``layer``.
    """
    if factors["subject"] == "cure" and "freed" not in factors:  # policies are rival remedies
        return ("default", "retained", "jemalloc")
    if factors["subject"] in _SUBJECTS_ON_REQUEST:
        return ("default",)
    return "every" if factors["pass"] == "forward" else "none"


def counts_work(factors: Factors) -> bool:
    """Return whether the executed work is counted, as for the layer at some batch sizes."""
    return factors["subject"] == "layer" and factors["batch"] in _COUNTED_BATCHES


_FACTORS: Final = (
    study.Factor("batch", levels=BATCHES, quick=(1, 4, 16, 64), any_count=True),
    study.Factor("pass", levels=("forward", "forward_backward")),
    study.Factor("layer", levels=tuple(LAYERS)),
    study.Factor("threshold", levels=THRESHOLDS),
    study.Factor("freed", levels=(FREED_FLOATS,), any_count=True),
    study.Factor("network", levels=("MNIST CNN", "ResNet-18")),
    study.Factor("mode", levels=("inference", "training")),
)
#: Number of processes for each memory policy.
_PROCESSES: Final = {
    "retained": 8,
    "default": 8,
    **dict.fromkeys(("mmap_threshold", "trim_threshold", "thresholds", "jemalloc", "traced"), 6),
}
_QUICK: Final = msgspec.structs.replace(study.QUICK, processes={"retained": 6, "default": 6})
STUDY: Final = study.Experiment(
    subject=subject,
    factors=(
        study.Factor("subject", levels=("layer",), on_request=_SUBJECTS_ON_REQUEST),
        *_FACTORS,
    ),
    cases=cases,
    name="conv_scaling",
    question="How do the time and the memory of one convolution scale with the batch size?",
    plan=study.Plan(
        quick_claims=("Returning freed memory slows a call by more than a tenth",),
        margin=0.1,
        full=msgspec.structs.replace(study.FULL, processes=_PROCESSES),
        quick=_QUICK,
        timed_under=timed_under,
        counts_work=counts_work,
        memory=memory,
        times=times,
    ),
).with_gpu(
    factors=(study.Factor("subject", levels=("layer",)), *_FACTORS),
    # A GPU's counters only replay kernels, which is fast, so that every case is counted.
    plan=study.Plan(quick=_QUICK, timed_under=timed_under),
)

"""What can be measured: each quantity with its one unit and its range.

A record names the unit of every series so that it can be read alone; reading checks the name and
the unit against this table, so that no study can mix seconds with milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: The largest number that may be measured or counted, also as a sum: what 64 bits hold.
LARGEST: Final = 2**63 - 1
#: The shortest duration above 0 in s; no clock tells less.
SHORTEST_S: Final = 1e-12


@dataclass(frozen=True)
class Quantity:
    """A measurable quantity.

    ``unit`` is ``s``, ``B``, ``MAC``, ``FLOP``, ``1`` (a count), ``1/s`` or what a sensor reads
    (``Hz``, ``W``, ``°C``); ``signed`` says that samples may be negative, ``whole`` that they are
    integers.
    """

    unit: str
    meaning: str
    signed: bool = False
    whole: bool = False

    def admits(self, samples: Sequence[float]) -> bool:
        """Whether all ``samples`` are finite numbers within the range of this quantity."""
        if not samples:
            return True
        low, high = min(samples), max(samples)
        # An integer of hundreds of digits cannot be added to a float.
        total = sum(samples) if -LARGEST <= low <= high <= LARGEST else math.nan
        if not -LARGEST <= total <= LARGEST:  # as of any number that is none
            return False
        # One number that is no integer makes the sum none.
        if self.whole and type(total) is not int:
            return False
        if self.signed:
            return True
        if self.unit == "s" and low < SHORTEST_S:
            return all(sample == 0 or sample >= SHORTEST_S for sample in samples)
        return low >= 0

    @property
    def range(self) -> str:
        """The numbers that are possible, in words."""
        kind = "a whole number" if self.whole else "a finite number"
        if self.signed:
            return f"{kind} of at most 64 bits"
        least = f"0, or at least {SHORTEST_S}" if self.unit == "s" else "at least 0"
        return f"{kind} of {least} and at most 64 bits"


QUANTITIES: Final[dict[str, Quantity]] = {
    "time": Quantity("s", "duration of one call, after warm-up"),
    "first_call_time": Quantity("s", "a case's first call, kept apart from the samples"),
    "cpu_time": Quantity("s", "processor time of all threads during the same call"),
    "page_faults": Quantity("1", "pages mapped anew during the same call", whole=True),
    "voluntary_switches": Quantity(
        "1", "times that a thread gave up its core to wait, during the same call", whole=True
    ),
    "involuntary_switches": Quantity(
        "1", "times that the system took a thread's core away during the same call", whole=True
    ),
    # Operations of an iteration by kind, each finished before the next begins.
    "unfold_time": Quantity("s", "time of one iteration in rearranging images and maps"),
    "call_time": Quantity("s", "time of one call on an array of one element, to its end"),
    "product_alone_time": Quantity(
        "s", "time of the first layer's product of matrices, again and again and nothing between"
    ),
    "matrix_product_time": Quantity("s", "time of one iteration in matrix products"),
    "bias_time": Quantity("s", "time of one iteration in adding biases"),
    "relu_time": Quantity("s", "time of one iteration in ReLU, forward"),
    "pooling_time": Quantity("s", "time of one iteration in pooling, forward"),
    "softmax_time": Quantity("s", "time of one iteration in softmax"),
    "gradient_time": Quantity(
        "s", "time of one iteration in what its gradients need besides matrix products"
    ),
    "wait_time": Quantity("s", "how long the host waited for the device after the same call"),
    "to_device_time": Quantity("s", "duration of one copy of a call's input to the device"),
    "from_device_time": Quantity("s", "duration of one copy of a call's result to the host"),
    "block_bytes": Quantity(
        "B",
        "blocks of 64 KiB or more that one call takes from the C library, in order, and frees "
        "(negative), then that of its result",
        signed=True,
        whole=True,
    ),
    "block_changes": Quantity(
        "B",
        "by how much each of these events changes what the C library holds of the system",
        signed=True,
        whole=True,
    ),
    "return_time": Quantity("s", "time of a call in freeing what goes back to the system"),
    "result_return_time": Quantity("s", "the same of freeing a call's result, after the call"),
    "mmap_threshold": Quantity("B", "from where on glibc maps a block by itself", whole=True),
    "memory_events": Quantity(
        "B",
        "the allocator's events during one call in order: allocations positive, frees negative",
        signed=True,
        whole=True,
    ),
    "memory_events_before": Quantity(
        "B",
        "the same before that call, from an allocator that holds nothing (CUDA, as asked for)",
        signed=True,
        whole=True,
    ),
    "memory_owners": Quantity(
        "1",
        "for each event before and during the call, the number of the allocation that it begins "
        "or ends, from 0 on",
        whole=True,
    ),
    "allocated_before": Quantity("B", "bytes in live blocks before the call", whole=True),
    "allocated_after": Quantity(
        "B", "bytes in live blocks after the call, its results still held", whole=True
    ),
    "allocated_peak": Quantity("B", "most bytes in live blocks during the call", whole=True),
    "allocated_input": Quantity("B", "live bytes of a call's input and targets", whole=True),
    "allocated_parameters": Quantity("B", "live bytes of the parameters", whole=True),
    "allocated_workspace": Quantity(
        "B", "bytes that a library keeps after a first call for the next ones", whole=True
    ),
    "allocated_activations": Quantity(
        "B", "bytes that a forward pass leaves for the backward pass", whole=True
    ),
    "allocated_gradients": Quantity("B", "bytes that a backward pass leaves", whole=True),
    "requested_before": Quantity("B", "bytes asked for by live tensors before", whole=True),
    "requested_after": Quantity("B", "bytes asked for by live tensors after", whole=True),
    "requested_peak": Quantity("B", "most bytes asked for during the call", whole=True),
    "reserved_before": Quantity("B", "bytes the allocator held from the device", whole=True),
    "reserved_after": Quantity("B", "bytes the allocator held afterwards", whole=True),
    "reserved_peak": Quantity("B", "most bytes the allocator held during the call", whole=True),
    "resident_peak": Quantity(
        "B", "highest resident memory of the process during the call", whole=True
    ),
    "resident_before": Quantity("B", "resident memory of the process before", whole=True),
    "resident_start": Quantity(
        "B", "resident memory of a fresh process before it imports its library", whole=True
    ),
    "resident_import": Quantity("B", "the same after the import", whole=True),
    "resident_first_use": Quantity("B", "the same after a first operation", whole=True),
    "lackey_multiply_adds": Quantity(
        "MAC",
        "float32 operations of one warm call that valgrind's lackey counts one by one: lanes of "
        "fused multiply-adds, and conversions to float32",
        whole=True,
    ),
    "lackey_multiply_adds_first": Quantity(
        "MAC",
        "the same of a case's first call, which also prepares its kernels",
        whole=True,
    ),
    "lackey_multiply_adds_base": Quantity(
        "MAC",
        "the same of the whole process before that call, which is subtracted",
        whole=True,
    ),
    # Training: one value a step, or one an epoch.
    "step_loss": Quantity("1", "mean loss of the images of one training step, in order of steps"),
    "epoch_time": Quantity("s", "duration of the training steps of one epoch"),
    "train_loss": Quantity("1", "mean loss of the training images after one epoch"),
    "train_accuracy": Quantity("1", "share of the training images classified rightly, 0 to 1"),
    "test_loss": Quantity("1", "mean loss of the test images after one epoch"),
    "test_accuracy": Quantity("1", "share of the test images classified rightly, 0 to 1"),
    # Steps of training, each timed as a whole and by its parts.
    "warmup_time": Quantity("s", "duration of one step of the warm-up, in order"),
    "forward_time": Quantity(
        "s", "of one step: gradients dropped, forward pass of the network and its loss"
    ),
    "backward_time": Quantity("s", "of the same step: gradients of all parameters"),
    "update_time": Quantity("s", "of the same step: the optimiser changes the parameters"),
    "loader_wait_time": Quantity(
        "s", "how long training waited for the step's images, on its device; not part of time"
    ),
    "layer_forward_time": Quantity(
        "s", "forward pass of each layer in the order of the case's layers, step after step"
    ),
    "layer_backward_time": Quantity(
        "s", "gradients of each layer in the order of the case's layers, step after step"
    ),
    # What the device tells of itself, between steps and never while one is timed.
    "device_temperature": Quantity("°C", "temperature of the device", signed=True),
    "device_clock": Quantity("Hz", "clock of the device's cores, the mean where they differ"),
    "device_power": Quantity("W", "electrical power that the device draws"),
    "throttle_reasons": Quantity(
        "1", "why the device holds its clock back, as NVML's mask of bits", whole=True
    ),
    # A trained network on the test images: one value an image, in the same order every time.
    "image_loss": Quantity("1", "cross-entropy of one test image, in nats"),
    "image_correct": Quantity("1", "1 for a test image classified rightly, else 0", whole=True),
    # Calls of growing or falling batches under one limit of memory.
    "batch_tried": Quantity("1", "images of a call under a limit of memory", whole=True),
    "batch_ran": Quantity("1", "1 where that call ran, 0 where memory ran out", whole=True),
    # Hardware counters of NVIDIA GPUs, read by Nsight Compute around one call, never while timing.
    "ncu_cuda_core_flops": Quantity(
        "FLOP", "floating-point operations of the CUDA cores, a multiply-add as two", whole=True
    ),
    "ncu_tensor_core_flops": Quantity(
        "FLOP", "floating-point operations of the tensor cores, a multiply-add as two", whole=True
    ),
    "ncu_fp32_additions": Quantity("1", "float32 additions of the CUDA cores", whole=True),
    "ncu_fp32_multiplications": Quantity(
        "1", "float32 multiplications of the CUDA cores", whole=True
    ),
    "ncu_fp32_multiply_adds": Quantity(
        "1", "fused float32 multiply-adds of the CUDA cores", whole=True
    ),
    "ncu_dram_bytes": Quantity(
        "B", "bytes between DRAM and L2, caches flushed before each kernel", whole=True
    ),
    "ncu_l2_bytes": Quantity("B", "bytes requested from the L2 cache", whole=True),
    "ncu_l1_bytes": Quantity("B", "bytes requested from the L1 cache", whole=True),
    "ncu_kernel_launches": Quantity("1", "kernels launched during the call", whole=True),
    # What a profiler's trace says of each kernel of a GPU, in the order of their launches.
    "cupti_fp32_additions": Quantity("FLOP", "float32 additions of one kernel", whole=True),
    "cupti_fp32_multiplications": Quantity(
        "FLOP", "float32 multiplications of one kernel", whole=True
    ),
    "cupti_fp32_multiply_adds": Quantity(
        "MAC", "fused float32 multiply-adds of one kernel", whole=True
    ),
    # What others measured and published: most tools print means, and some counts beside them.
    "mean_time": Quantity("s", "duration of one call, as the mean of the calls of one sample"),
    "median_time": Quantity("s", "duration of one call, as the median of samples not published"),
    "kernel_time": Quantity("s", "duration of one kernel, under a profiler"),
    "mean_cpu_time": Quantity("s", "processor time of one call, as such a mean"),
    "image_rate": Quantity("1/s", "images a second over all steps, as published"),
    "parameters": Quantity("1", "parameters of the network, as published", whole=True),
    "multiply_adds": Quantity(
        "MAC", "multiply-adds of one image in a forward pass, as published", whole=True
    ),
    "activations": Quantity(
        "1",
        "elements that convolutions and products put out for one image, as published",
        whole=True,
    ),
}

#: What depends on nothing but the case and the program: the same in every run of one measurement.
#: Reserved bytes are not among them, since they depend on what the process allocated before.
FIXED: Final = frozenset(
    name
    for name in QUANTITIES
    if name.startswith(("allocated_", "requested_", "ncu_fp32_"))
    or name
    in (
        "lackey_multiply_adds",
        "lackey_multiply_adds_first",
        "ncu_cuda_core_flops",
        "ncu_tensor_core_flops",
        "ncu_kernel_launches",
    )
)

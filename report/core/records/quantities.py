"""All measurable quantities, each with its unit and range.

A record states the unit of every series, so that users can read a record without this table.  When
a record is read, its quantities and units are compared with the table, so that no study mixes
seconds with milliseconds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from report.core.errors import StudyCodeError

#: Largest number in a record: the largest signed integer of 64 bits.
LARGEST: Final = 2**63 - 1
#: Shortest duration above 0 (s); no clock resolves a shorter one.
SHORTEST_S: Final = 1e-12


@dataclass(frozen=True)
class RecordedQuantity:
    """A measurable quantity.

    ``unit``: ``s``, ``B``, ``MAC``, ``FLOP``, ``1`` (a pure number), ``1/s``, or the unit of a
    sensor (``Hz``, ``W``, ``J``, ``°C``).  ``signed``: samples may be negative.  ``whole``: samples
    are integers.  ``share``: samples are at most 1.  ``fixed``: samples depend only on the case and
    the program, so that they are equal in every run.
    """

    unit: str
    signed: bool = False
    whole: bool = False
    fixed: bool = False
    share: bool = False

    def admits(self, samples: Sequence[float]) -> bool:
        """Tell whether all ``samples`` are within the range of this quantity."""
        # Types are compared, since isinstance(True, int) is true.
        if self.whole and [*map(type, samples)].count(int) < len(samples):
            return False
        if self.share and max(samples, default=0) > 1:
            return False
        if self.signed:
            return True
        smallest = min(samples, default=0)
        if self.unit == "s" and smallest == 0:
            smallest = min(filter(None, samples), default=SHORTEST_S)  # a duration may be 0
        return smallest >= (SHORTEST_S if self.unit == "s" else 0)

    @property
    def range(self) -> str:
        """The allowed range of a sample, in words."""
        kind = "a whole number" if self.whole else "a number"
        if self.signed:
            return kind
        if self.share:
            return f"{kind} from 0 to 1"
        if self.unit == "s":
            return f"{kind} of 0, or at least {SHORTEST_S}"
        return f"{kind} of at least 0"


#: Name, unit and meaning, one quantity per line; indented lines continue the meaning, which is only
#: for readers.  Marks after the unit: «±» signed, «≤» share, «=» fixed, «whole» for integers (bytes
#: and operations are always integers).  «The call» is the timed call of a case, «the same call»
#: that of the sample of ``time`` with the same index.  Reserved bytes are not fixed, since they
#: depend on earlier calls.
_TABLE: Final = """
time                       s       duration of one call, after warm-up
baseline_time              s       duration of the baseline's call of the same pair, in a comparison
round_trip_time            s       duration of a comparison's call in which nothing is computed
call_bytes                 B       bytes of a call's arguments and results, in a comparison
first_call_time            s       a case's first call, which is not among the samples
cpu_time                   s       processor time of all threads during the same call
page_faults                1 whole  pages newly mapped during the same call
baseline_page_faults       1 whole  pages newly mapped during the baseline's call of the same pair
voluntary_switches         1 whole  times that a thread gave up its core to wait, same call
involuntary_switches       1 whole  times that the system took a thread's core away, same call
# Operations of an iteration by kind, each finished before the next begins.
unfold_time                s       time of one iteration in rearranging images and maps
call_time                  s       time of one complete call on an array of one element
product_alone_time         s       the first layer's product alone, called repeatedly
matrix_product_time        s       time of one iteration in matrix products
bias_time                  s       time of one iteration in adding biases
relu_time                  s       time of one iteration in ReLU, forward
pooling_time               s       time of one iteration in pooling, forward
softmax_time               s       time of one iteration in softmax
gradient_time              s       time of one iteration in gradients without matrix products
wait_time                  s       how long the host waited for the device after the same call
to_device_time             s       duration of one copy of a call's input to the device
from_device_time           s       duration of one copy of a call's result to the host
block_bytes                B±      blocks of 64 KiB or more that a call allocates from the C
    library, in order, frees negative; the block of the result is last
block_changes              B±      change of the C library's memory by each of these blocks
return_time                s       time of a call in freeing blocks that return to the system
result_return_time         s       the same for freeing a call's result, after the call
free_top                   B       free bytes at the top of the heap after a call's result is freed
mmap_threshold             B       size from which glibc maps each block separately
memory_events              B±      the allocator's events in one call in order, frees negative
memory_events_before       B±      the same before the call, from an empty allocator; CUDA: requests
memory_owners              1 whole  number of the allocation that each event begins or ends
allocated_before           B=      bytes in live blocks before the call
allocated_after            B=      bytes in live blocks after the call, its results still held
allocated_peak             B=      most bytes in live blocks during the call
allocated_input            B=      live bytes of a call's input and targets
allocated_parameters       B=      live bytes of the parameters
allocated_workspace        B=      bytes that a library keeps after the first call for later calls
allocated_activations      B=      live bytes that a forward pass saves for the backward pass
allocated_gradients        B=      live bytes of gradients after a backward pass
requested_before           B=      bytes requested by live tensors before the call
requested_after            B=      bytes requested by live tensors after the call
requested_peak             B=      most requested bytes during the call
reserved_before            B       bytes the allocator held from the device before the call
reserved_after             B       bytes the allocator held from the device after the call
reserved_peak              B       most bytes the allocator held from the device during the call
resident_peak              B       highest resident memory of the process during the call
resident_before            B       resident memory of the process before the call
resident_start             B       resident memory of a fresh process before it imports its library
resident_import            B       the same after the import
resident_first_use         B       the same after a first operation
lackey_multiply_adds       MAC=    float32 operations of a warm call by valgrind's lackey: lanes of
    fused multiply-adds, and conversions to float32
lackey_multiply_adds_first MAC=    the same for a case's first call, which also prepares kernels
lackey_multiply_adds_base  MAC     the same for the process before the first call; subtracted
# Training: one value per step or per epoch.
step_loss                  1       mean loss of the images of one training step, in order of steps
epoch_time                 s       duration of the training steps of one epoch
train_loss                 1       mean loss of the training images after one epoch
train_accuracy             1≤      share of the training images classified rightly, 0 to 1
test_loss                  1       mean loss of the test images after one epoch
test_accuracy              1≤      share of the test images classified rightly, 0 to 1
# Training steps, timed as a whole and in parts.
warmup_time                s       duration of each step of the warm-up, in order
forward_time               s       time of one step to clear gradients and compute outputs and loss
backward_time              s       time of the same step to compute gradients of all parameters
update_time                s       time of the same step in the optimiser
loading_time               s       time of one step spent waiting for the loader's images
layer_forward_time         s       forward pass of each layer in order, step after step
layer_backward_time        s       gradients of each layer in the same order, step after step
# Sensors of the device, read between steps, never while a step is timed.
device_temperature         °C±     temperature of the device
device_clock               Hz      clock of the device's cores; the mean if they differ
device_power               W       electrical power of the device
energy                     J       energy of one call, averaged over consecutive calls
energy_calls               1 whole  number of consecutive calls in one energy reading
throttle_reasons           1 whole  NVML's bit mask of the reasons for a reduced clock
# A trained network on the test images: one value per image, always in the same order.
image_loss                 1       cross-entropy of one test image, in nats
image_correct              1≤ whole  1 for a test image classified rightly, else 0
# Calls with growing or shrinking batches under one memory limit.
batch_tried                1 whole  batch size tried under a memory limit
batch_ran                  1≤ whole  1 if the call with this batch ran, 0 if memory ran out
# Hardware counters of NVIDIA GPUs, read by Nsight Compute around one call, never while timing.
ncu_cuda_core_flops        FLOP=   operations of the CUDA cores; a multiply-add counts as 2
ncu_tensor_core_flops      FLOP=   operations of the tensor cores; a multiply-add counts as 2
ncu_fp32_additions         1= whole float32 additions of the CUDA cores
ncu_fp32_multiplications   1= whole float32 multiplications of the CUDA cores
ncu_fp32_multiply_adds     1= whole fused float32 multiply-adds of the CUDA cores
ncu_dram_bytes             B       bytes between DRAM and L2, caches flushed before each kernel
ncu_l2_bytes               B       bytes requested from the L2 cache
ncu_l1_bytes               B       bytes requested from the L1 cache
ncu_kernel_launches        1= whole kernels launched during the call
# From a profiler's trace: one value per GPU kernel, in launch order.
cupti_fp32_additions       FLOP    float32 additions of one kernel
cupti_fp32_multiplications FLOP    float32 multiplications of one kernel
cupti_fp32_multiply_adds   MAC     fused float32 multiply-adds of one kernel
# Measurements published by others: mostly means, sometimes counts.
mean_time                  s       duration of one call: the mean over the calls of one sample
median_time                s       duration of one call: the median of unpublished samples
kernel_time                s       duration of one kernel, under a profiler
mean_cpu_time              s       processor time of one call: the mean over the calls of one sample
image_rate                 1/s     images per second over all steps, as published
parameters                 1 whole  parameters of the network, as published
multiply_adds              MAC     multiply-adds of one image in a forward pass, as published
activations                1 whole  elements of all layer outputs for one image, as published
"""


def _quantities() -> Iterator[tuple[str, RecordedQuantity]]:
    """Parse ``_TABLE``; yield each name with its quantity."""
    for line in _TABLE.strip().splitlines():
        if line.startswith(("#", " ")):
            continue
        name, marked_unit, text = line.split(maxsplit=2)
        unit = marked_unit.rstrip("±=≤")
        quantity = RecordedQuantity(
            unit,
            signed=marked_unit.endswith("±"),
            whole=unit in ("B", "MAC", "FLOP") or text.startswith("whole "),
            fixed=marked_unit.endswith("="),
            share=marked_unit.endswith("≤"),
        )
        yield name, quantity


QUANTITIES: Final = dict(_quantities())


def quantity_of(name: str) -> RecordedQuantity:
    """Return the quantity called ``name``; raises ``StudyCodeError`` if there is none."""
    if name not in QUANTITIES:
        similar = get_close_matches(name, QUANTITIES, n=1)
        hint = f" (did you mean {similar[0]}?)" if similar else ""
        raise StudyCodeError(f"{name!r} is no quantity of report/core/records/quantities.py{hint}")
    return QUANTITIES[name]


#: Names of quantities that are equal in every run of one measurement.
FIXED: Final = frozenset(name for name, quantity in QUANTITIES.items() if quantity.fixed)

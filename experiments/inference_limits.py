"""The largest batch of a network that runs under a real limit of memory; Linux with glibc only.

The limit is one on the address space of the process, under which an allocation fails at once.
What the process has beside tensors is measured before each call: every block of a page or more is
mapped by itself, so that nothing that was freed is used again, and the heap is filled.  ``ROOM``
comes on top for the ends of pages and for what is no tensor.
"""

from __future__ import annotations

import ctypes
import gc
from typing import Final

import torch

from experiments.harness.limits import is_out_of_memory, limited
from experiments.harness.memory import measure_cpu
from experiments.harness.study import Subject
from experiments.harness.timing import Workload
from report.records.record import Measured

#: The bytes by which a call may exceed the limit.
ROOM: Final = 131_072
#: From this size on a block has pages of its own (B).
_MAPPED: Final = 16_384
_M_MMAP_THRESHOLD: Final = -3
#: Two batches from whose peaks the search begins.
_FEW, _MORE = 2, 4


def largest_batch(subject: Subject, limit: int) -> Measured:
    """``batch_tried`` and ``batch_ran`` of the batches around the largest one under ``limit`` (B).

    The last two that are tried differ by one image and in their outcome, unless no image fits.
    The search begins where the peaks of two small batches lead; the limit alone decides.
    """
    ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _MAPPED)
    last = torch.channels_last if subject.layout == "channels_last" else torch.contiguous_format
    module = subject.module.to(memory_format=last)  # type: ignore[call-overload]
    held = sum(t.untyped_storage().nbytes() for t in (*module.parameters(), *module.buffers()))
    shape = subject.inputs.shape[1:]
    del subject

    def call(batch: int) -> object:
        with torch.no_grad():
            return module(torch.empty((batch, *shape), memory_format=last).normal_())

    def runs(batch: int) -> bool:
        call(batch)  # kernels are generated for a batch when it is called first
        gc.collect()
        _fill_heap()
        try:
            with limited(limit - held + ROOM):
                call(batch)
        except Exception as error:
            if is_out_of_memory(error):
                return False
            raise
        return True

    few, more = (
        int(measure_cpu(lambda n=n: Workload(lambda: call(n)), 1)["allocated_peak"][0])
        for n in (_FEW, _MORE)
    )
    batch = max(1, _FEW + (limit - held - few) * (_MORE - _FEW) // (more - few))
    tried: dict[int, bool] = {}
    while batch and batch not in tried:
        tried[batch] = runs(batch)
        batch += 1 if tried[batch] else -1
    return {"batch_tried": tuple(tried), "batch_ran": tuple(map(int, tried.values()))}


def _fill_heap() -> None:
    """Take what is free in the heap for good, so that no block finds room there."""
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.mallinfo2.restype = _HeapSize
    size = library.mallinfo2().arena
    while library.mallinfo2().arena == size:
        library.malloc(_MAPPED - 64)


class _HeapSize(ctypes.Structure):
    """``struct mallinfo2``: the bytes of the heap first."""

    _fields_ = (("arena", ctypes.c_size_t), ("others", ctypes.c_size_t * 9))

"""The names of quantities that several studies measure, in groups."""

from __future__ import annotations

from typing import Final

from report.instruments.counters import ncu_logs

#: What is known of every timed call.
TIME: Final = (
    "first_call_time", "warmup_time", "time", "cpu_time", "page_faults", "context_switches",
)  # fmt: skip
#: What a call asks of the allocator, and what the system gives it.
MEMORY: Final = ("memory_events", "requested", "allocated", "reserved", "resident")
#: Work that instruments count.
COUNTED_WORK: Final = ("lackey_multiply_adds", *ncu_logs.QUANTITIES)
#: How a network learns.
LEARNING: Final = (
    "step_loss", "epoch_time", "train_loss", "train_accuracy", "test_loss", "test_accuracy",
)  # fmt: skip

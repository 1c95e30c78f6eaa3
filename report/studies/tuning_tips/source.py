"""The tips of PyTorch's performance tuning guide, and other common advice."""

from typing import Final

#: Control or tip in records → name in tables and figures.  ``inference_mode``, ``in_place`` and
#: ``flush_denormal`` are common advice; the guide has the other tips.
TIPS: Final = {
    "control": "control",
    "exchanged": "control exchanged",
    "no_grad": "no gradients",
    "inference_mode": "inference mode",
    "in_place": "in-place activation",
    "fused": "fused batch norms",
    "channels_last": "channels last",
    "compiled": "torch.compile",
    "bfloat16": "bfloat16",
    "allocator": "kept memory",
    "threads": "second thread",
    "set_to_none": "dropped gradients",
    "preallocated": "preallocated buffer",
    "workers": "loader worker",
    "flush_denormal": "flushed denormals",
}

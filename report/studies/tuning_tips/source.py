"""The tips of PyTorch's performance tuning guide, and common advice beside them."""

from typing import Final

#: Names of controls and tips in tables and figures; the guide does not name the tips
#: ``inference_mode``, ``in_place`` and ``flush_denormal``, which are common advice.
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

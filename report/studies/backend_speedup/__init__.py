"""backend_speedup: one network on several array libraries; does its speed-up hold on all?"""

from typing import Final

#: Patterns of the names of a record's attachments that the paper reads.
ATTACHMENTS: Final = ("backend.*.json",)

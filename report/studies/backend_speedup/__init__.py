"""backend_speedup: one network on several array libraries, and if its speed-up holds on all."""

from typing import Final

#: The attachments of a record that the paper is computed from.
ATTACHMENTS: Final = ("backend.*.json",)

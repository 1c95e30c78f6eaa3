"""backend_speedup: one network on several array libraries, and how far one speed-up carries."""

from typing import Final

#: The attachments of a record that the paper is computed from.
ATTACHMENTS: Final = ("backend.*.json",)

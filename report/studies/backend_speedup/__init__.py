"""backend_speedup: does a GPU's published speed-up hold with several array libraries?"""

from typing import Final

#: Patterns of the names of a record's attachments that the paper reads.
ATTACHMENTS: Final = ("backend.*.json",)

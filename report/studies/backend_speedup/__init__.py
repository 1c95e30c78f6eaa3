"""backend_speedup: one network from scratch on several array libraries, and what each one gains."""

from typing import Final

#: The attachments of a record that the paper is computed from.
ATTACHMENTS: Final = ("images.json",)

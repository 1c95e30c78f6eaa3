"""The columns that several tables of calls begin with."""

from __future__ import annotations

from typing import Final

from report.paper.declared import Field
from report.studies.inference_memory.subject import LAYOUT_NAMES, Call

NETWORK: Final[Field[Call]] = Field("Network", "", lambda call: call.network)
BATCH: Final[Field[Call]] = Field("Batch", "1", lambda call: call.batch)
LAYOUT: Final[Field[Call]] = Field("Layout", "", lambda call: LAYOUT_NAMES[call.layout])
SETTING: Final[Field[Call]] = Field("Setting", "", lambda call: call.setting)

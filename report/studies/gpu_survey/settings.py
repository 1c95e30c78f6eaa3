"""Which published tables are compared with which; the template has the words."""

from __future__ import annotations

from typing import Final

from report.evidence.published import Comparison, Setting

OLD, MIDDLE, NEW = CARDS = tuple(f"NVIDIA GeForce RTX {number}" for number in (3090, 4090, 5090))
PRO: Final = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"


def _compiled(setting: Setting) -> Setting:
    return setting._replace(compiler="dynamo")


_BEFORE, _AFTER, _NEWEST = Setting(MIDDLE, "2.4.0"), Setting(MIDDLE, "2.9.1"), Setting(NEW, "2.9.1")
_PRO: Final = Setting(PRO, "2.9.1")
_LAST: Final = _BEFORE._replace(layout="nhwc")

#: The steps from a card to the next one, by the ids of their values.
STEPS: Final = {
    "first": Comparison("3090 to 4090, eager", Setting(OLD, "2.4.0"), _BEFORE),
    "second": Comparison("4090 to 5090, eager", _AFTER, _NEWEST),
    "compiled": Comparison("4090 to 5090, compiled", _compiled(_AFTER), _compiled(_NEWEST)),
}
#: The same card with two versions of PyTorch, which shows how far rates of two tables agree.
UNCHANGED: Final = Comparison("RTX 4090, two versions", _BEFORE, _AFTER)
#: What compiling gains on one card, over either memory layout.
COMPILING: Final = {
    "compile_4090": Comparison("RTX 4090", _AFTER, _compiled(_AFTER)),
    "compile_5090": Comparison("RTX 5090", _NEWEST, _compiled(_NEWEST)),
    "compile_6000": Comparison("RTX PRO 6000", _PRO, _compiled(_PRO)),
    "compile_last": Comparison("RTX 4090, over NHWC", _LAST, _compiled(_BEFORE)),
}
#: A compiled network on the older card for an eager one on the newer.
INSTEAD: Final = Comparison("Compiled on 4090 vs. eager on 5090", _NEWEST, _compiled(_AFTER))
#: A network whose operators are shown.
EXAMPLE: Final = "resnet50", "ResNet-50"
#: Gains that differ by less are called equal.
MARGIN: Final = 0.1

"""An SVG in fewer bytes and without styles, which a strict policy of content forbids.

matplotlib writes six decimals.
"""

from __future__ import annotations

import re
from typing import Final

#: Decimals of a coordinate in points: a hundredth is below what a screen or a printer shows.
_DECIMALS: Final = 2
_PATH: Final = re.compile(r'(?<=<path)((?: id="[^"]*")? d=")(M [^"]*)')
_NUMBER: Final = re.compile(r"-?\d+\.\d+")
_STYLE: Final = re.compile(r' style="([^"]*)"')
#: The style sheet of matplotlib, which says what is the default or stands at the root.
_SHEET: Final = re.compile(
    r"\s*<defs>\s*<style type=\"text/css\">\*\{stroke-linejoin: round; stroke-linecap: butt\}"
    r"</style>\s*</defs>"
)
_METADATA: Final = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)


def shorten(svg: str) -> str:
    """``svg`` with rounded coordinates, whose looks stand in attributes.

    What says how the file was made is left out.
    """
    svg = _STYLE.sub(_as_attributes, _METADATA.sub("", _SHEET.sub("", svg)))
    svg = svg.replace("<svg ", '<svg stroke-linejoin="round" ', 1)
    return _PATH.sub(lambda path: path[1] + _NUMBER.sub(_rounded, " ".join(path[2].split())), svg)


def _as_attributes(style: re.Match[str]) -> str:
    looks = (look.partition(":") for look in style[1].split(";") if look.strip())
    # Of a property that a style names twice the last counts; an attribute may stand once.
    last = {name.strip(): value.strip() for name, _, value in looks}
    return "".join(f' {name}="{value}"' for name, value in last.items())


def _rounded(number: re.Match[str]) -> str:
    text = f"{float(number[0]):.{_DECIMALS}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text

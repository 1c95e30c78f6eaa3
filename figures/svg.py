"""Shorten matplotlib's SVGs, and replace their ``style`` attributes.

A page ignores ``style`` attributes if its content security policy forbids inline styles.
"""

import re
from typing import Final

#: Decimals of a coordinate (pt): matplotlib writes six decimals, and screens show at most two.
_DECIMALS: Final = 2
#: A path element: group 1 is the text from its name to its coordinates, group 2 the coordinates.
_PATH: Final = re.compile(r'(?<=<path)((?: id="[^"]*")? d=")(M [^"]*)')
_NUMBER: Final = re.compile(r"-?\d+\.\d+")
_STYLE: Final = re.compile(r' style="([^"]*)"')
#: Style sheet of matplotlib.  Only ``stroke-linejoin`` differs from SVG's default, so that
#: ``shorten`` sets it as an attribute of the root element instead.
_STYLE_SHEET: Final = re.compile(
    r"\s*<defs>\s*<style type=\"text/css\">\*\{stroke-linejoin: round; stroke-linecap: butt\}"
    r"</style>\s*</defs>"
)
_METADATA: Final = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)


def shorten(svg: str) -> str:
    """Round coordinates, replace styles by attributes, and remove metadata."""
    svg = _METADATA.sub("", _STYLE_SHEET.sub("", svg))
    svg = _STYLE.sub(_as_attributes, svg)
    return _PATH.sub(_short_path, svg.replace("<svg ", '<svg stroke-linejoin="round" ', 1))


def _as_attributes(style: re.Match[str]) -> str:
    """Convert a ``style`` attribute to one attribute per property."""
    attributes: dict[str, str] = {}
    for declaration in style[1].split(";"):
        name, colon, value = declaration.partition(":")
        if colon:
            attributes[name.strip()] = value.strip()  # the last declaration of a property applies
    return "".join(f' {name}="{value}"' for name, value in attributes.items())


def _short_path(path: re.Match[str]) -> str:
    """Round the coordinates of a path, and write them in one line of text."""
    attributes, coordinates = path.groups()
    return attributes + _NUMBER.sub(_rounded, " ".join(coordinates.split()))


def _rounded(number: re.Match[str]) -> str:
    """Round a number, without trailing zeros."""
    text = f"{float(number[0]):.{_DECIMALS}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text

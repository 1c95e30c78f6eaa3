"""Replace characters without a visible form by their code points, so that none is overlooked."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

#: Control characters, marks that reverse the direction of text (Trojan Source,
#: https://trojansource.codes), private characters, noncharacters, and invisible tags.
_HIDDEN: Final = re.compile(
    "[\\x00-\\x08\\x0b-\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u061c\\u180e\\u200e\\u200f\\u202a-\\u202e"
    "\\u2060-\\u206f\\ud800-\\uf8ff\\ufdd0-\\ufdef\\ufeff\\ufff0-\\ufffb\\ufffe\\uffff"
    "\\U000e0000-\\U0010ffff]+"
)
#: Joiners, variation selectors and accents, which modify the preceding character.
_ATTACHED: Final = "\u200c\u200d\ufe00-\ufe0f\u0300-\u036f"


def escape_invisible(text: str) -> str:
    """Replace invisible characters by code points, such as ``‹U+202E›``."""
    return _HIDDEN.sub(_code_points, text)


def escape_invisible_in(content: Any) -> Any:
    """Apply ``escape_invisible`` to every text and every key in JSON content."""
    if isinstance(content, str):
        return escape_invisible(content)
    if isinstance(content, Mapping):
        return {
            escape_invisible(str(key)): escape_invisible_in(value) for key, value in content.items()
        }
    if isinstance(content, list | tuple):
        return [escape_invisible_in(value) for value in content]
    return content


def escape_unprintable(text: str, has_glyph: Callable[[str], bool]) -> str:
    """Apply ``escape_invisible``, and replace characters without a glyph by code points too."""
    text = escape_invisible(text)
    without_glyph = sorted(char for char in set(text) if not has_glyph(char))
    if not without_glyph:
        return text
    characters = re.escape("".join(without_glyph))
    return re.sub(f"[{characters}][{characters}{_ATTACHED}]*", _code_points, text)


def _code_points(match: re.Match[str]) -> str:
    """Return the matched characters as ``‹U+202E U+200F›``."""
    numbers = " ".join(f"U+{ord(char):04X}" for char in match.group())
    return f"‹{numbers}›"

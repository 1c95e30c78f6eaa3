"""Characters that cannot be printed as they are: shown by their code points, never dropped."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

#: Control characters, marks that reverse the direction of text (Trojan Source,
#: https://trojansource.codes), what is private or no character, and tags that no reader sees.
_HIDDEN: Final = re.compile(
    "[\\x00-\\x08\\x0b-\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u061c\\u180e\\u200e\\u200f\\u202a-\\u202e"
    "\\u2060-\\u206f\\ud800-\\uf8ff\\ufdd0-\\ufdef\\ufeff\\ufff0-\\ufffb\\ufffe\\uffff"
    "\\U000e0000-\\U0010ffff]+"
)
#: Joiners, selectors and accents belong to the character before them.
_ATTACHED: Final = "\u200c\u200d\ufe00-\ufe0f\u0300-\u036f"


def visible(text: str) -> str:
    """``text`` in which every character can be seen, such as ``‹U+202E›`` for a reversal."""
    return _HIDDEN.sub(_code_points, text)


def visible_in(content: Any) -> Any:
    """``content``, as JSON holds it, in which every text is ``visible``."""
    if isinstance(content, str):
        return visible(content)
    if isinstance(content, Mapping):
        return {visible(str(key)): visible_in(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [visible_in(value) for value in content]
    return content


def printable(text: str, known: Callable[[str], bool]) -> str:
    """Visible text in which characters that are not ``known`` are code points, a run together."""
    shown = visible(text)
    strange = "".join(sorted(char for char in set(shown) if not known(char)))
    if not strange:
        return shown
    one = re.escape(strange)
    return re.sub(f"[{one}][{one}{_ATTACHED}]*", _code_points, shown)


def _code_points(run: re.Match[str]) -> str:
    return f"‹{' '.join(f'U+{ord(char):04X}' for char in run.group())}›"

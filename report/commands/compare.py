"""What two builds of a study say differently, by their ``values/<study>.json`` and manuscripts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from report.engine.cache import file_digest
from report.text.format import Style, quantity_text

#: A number of the prose with the link to its line in the list of provenance.
_LINKED: Final = re.compile(r"(?<!\\)\[((?:\\.|[^\[\]\\])*)\]\(#v-[\w-]+\)\{\.value\}")
_BAR: Final = re.compile(r"(?<!\\)\|")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


@dataclass(frozen=True)
class Change:
    """Something that differs: both sides as they are printed, empty where a side has none.

    Of files and figures the sides are digests.
    """

    name: str
    old: str
    new: str
    note: str = ""


def differing(old: Mapping[str, str], new: Mapping[str, str]) -> list[Change]:
    """What is not equal on both sides, in today's order, then what is gone."""
    sides = ((name, old.get(name, ""), new.get(name, "")) for name in {**new, **old})
    return [Change(*side) for side in sides if side[1] != side[2]]


def changes(study: str, old: Path, new: Path) -> dict[str, list[Change]]:
    """What differs in ``study`` between two folders that it was built in, by kind."""
    files = (out / f"values/{study}.json" for out in (old, new))
    one, other = (json.loads(file.read_text("utf-8")) for file in files)
    claims = [{c["sentence"]: c["verdict"] for c in x["claims"].values()} for x in (one, other)]
    texts = [(out / f"qmd/{study}/{study}.qmd").read_text("utf-8") for out in (old, new)]
    return {
        "claims": differing(*claims),
        "numbers": value_changes(one["values"], other["values"]),
        "table cells": differing(*map(table_cells, texts)),
        "places in the text": text_changes(*texts),
        "figures": differing(*(_figures(out / f"qmd/{study}/figures") for out in (old, new))),
    }


def _figures(folder: Path) -> dict[str, str]:
    return {path.stem: file_digest(str(path)) or "" for path in sorted(folder.glob("*.svg"))}


def value_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """The numbers that print otherwise, those first whose intervals have no number in common."""
    sides = ({id: _value(side[id]) for id in side} for side in (old, new))
    found = (replace(each, note=_note(each.name, old, new)) for each in differing(*sides))
    return sorted(found, key=lambda change: not change.note)


def _note(id: str, *sides: Mapping[str, Any]) -> str:
    intervals = [side[id]["interval"] for side in sides if id in side and side[id]["interval"]]
    apart = len(intervals) == 2 and max(low for low, _ in intervals) > min(h for _, h in intervals)
    return "intervals apart" if apart else ""


def _value(value: Mapping[str, Any]) -> str:
    """A number as the paper prints it, with its interval and samples, or why it is missing."""
    text, interval = str(value["printed"]), value["interval"]
    if interval and interval[0] != interval[1]:
        style: Style = "percent" if text.endswith("%") else "measured"
        text += f" [{', '.join(quantity_text(end, value['unit'], style) for end in interval)}]"
    details = (value["reason"], value["n"] and f"n = {value['n']:,}")
    return text + "".join(f" ({each})" for each in details if each)


def table_cells(manuscript: str) -> dict[str, str]:
    """Every cell as it is printed, by its table, the beginning of its row and its column."""
    found, seen = dict[str, str](), Counter[str]()
    table, heads, texts = "", list[str](), 0
    for line in _plain(manuscript):
        cells = [cell.strip().replace("\\", "") for cell in _BAR.split(line)[1:-1]]
        if line.startswith(":::"):
            table = line.strip(":{#} ").partition(" ")[0]
        if not cells:
            heads = []
        elif not heads:
            heads = cells
        elif set(line) <= set("|:- "):
            texts = len(list(takewhile(lambda cell: not cell.endswith(":"), cells)))
            texts = texts if texts < len(cells) else 1
        else:
            setting = [cell for cell in cells[texts : texts + 1] if cell.isdigit()]
            row = f"{table}: {', '.join((*cells[:texts], *setting))}"
            seen[row] += 1
            row += f" (no. {seen[row]})" if seen[row] > 1 else ""
            found |= {f"{row}, {head}": cell for head, cell in zip(heads, cells, strict=False)}
    return found


def text_changes(old: str, new: str) -> list[Change]:
    """Where two manuscripts differ, sentence by sentence, without the rows of their tables."""
    one, other = _sentences(old), _sentences(new)
    codes = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    places = ((one[i:j], other[k:m]) for tag, i, j, k, m in codes if tag != "equal")
    return [Change("", " ".join(gone), " ".join(come)) for gone, come in places]


def _sentences(manuscript: str) -> list[str]:
    lines = (line for line in _plain(manuscript) if line.strip() and not line.startswith("|"))
    return [sentence for line in lines for sentence in _SENTENCE.split(line.strip())]


def _plain(manuscript: str) -> list[str]:
    return _LINKED.sub(lambda link: link[1].replace("\\", ""), manuscript).splitlines()

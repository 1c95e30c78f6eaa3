"""Attacks on the files that people write by hand: pins, devices, expected verdicts, and so on."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from report.commands.check import Results, differences, read_expected
from report.engine.computing import compute
from report.engine.gather import read_pins
from report.engine.pipeline import ROOT
from report.evidence.devices import read_devices
from report.evidence.reported import read_reported
from report.paper.bibliography import check_bibliography
from report.paper.findings import Inputs
from report.render.source import front_matter
from report.studies import STUDIES
from tests.fuzz.judge import judge, not_finite
from tests.fuzz.outcome import Outcome, Report
from tests.fuzz.records import damaged

#: A study is computed from one attack in so many.
COMPUTED = 40
_PINS = "# newest by hand\nconv_scaling: [conv_scaling/a.json]\nconv_profiling:\n  - b.json\n"
_FRONT = """---
title: "A title: with {{ v.x }}"
author:
  - name: The ridgepoint project
abstract: |
  Some words in [several](#v-x){.value} lines,
  and a second one.
keywords: [one, two words]
bibliography: references.bib
number-sections: true
print-style: report
toc: true
toc-depth: 2
---
# Text
"""
#: What is put in the place of a scalar of YAML, or of any word.
_SCALARS = (
    "2001-99-99", "!!timestamp x", "!!python/object:os.system x", "!!binary aGk=", "9" * 5000,
    ".inf", "-.inf", ".nan", "1:30", "0o17", "017", "0x1f", "yes", "no", "on", "~", "null", "true",
    "<<", "<<: {a: 1}", "&a x", "*a", "1e400", "-1", "1e-400", "1_000", "[]", "{}", "[a, [b]]",
    "'", '"', '"\\ud800"', '"\\UFFFFFFFF"', "|", ">-", "? x", "%", "@x", "`x`", "\u202e", "\x00",
    "\x85", "---", "...", "a: b: c", "x" * 100_000, "[" * 10_000, "{a: " * 10_000, "- " * 10_000,
    "\\input{/etc/passwd}", "\\write18{id}", "^^5cinput", "}", "{", "@article{x,", "= {", "#", "\t",
)  # fmt: skip
_BOMB = "a: &a [x,x,x,x,x,x,x,x]\n" + "".join(
    f"{after}: &{after} [{','.join([f'*{before}'] * 8)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)


class Target(NamedTuple):
    """A file that is attacked: its name below the room, its text, and what a build does with it."""

    file: str
    text: Callable[[], str]
    use: Callable[[Path, Random], object]


def _data(name: str) -> Callable[[], str]:
    return lambda: (ROOT / "data" / name).read_text("utf-8")


def _devices(path: Path, _: Random) -> object:
    names = ("float32", "tfloat32", "bfloat16", "float16", "memory")
    return [
        found
        for device in read_devices(path).devices
        for name in names
        for found in (getattr(device.peak(name), "rate", None), device.ridge(name))  # type: ignore[arg-type]
    ]


def _expected(path: Path, _: Random) -> object:
    now = Results({}, ())
    return [
        list(differences(study, expected, now))
        for study, expected in read_expected(path.parent).items()
    ]


def _reported(path: Path, random: Random) -> object:
    reported = read_reported(path)
    if random.randrange(COMPUTED):
        return None
    study = path.stem
    devices = read_devices(ROOT / "data" / "devices.yaml")
    found = compute(study, Inputs((), reported, f"reported/{path.name}", devices))
    return found.as_json(study, ())


_TARGETS = (
    Target("data/pins.yaml", lambda: _PINS, lambda path, _: read_pins(path.parent)),
    Target("data/devices.yaml", _data("devices.yaml"), _devices),
    Target("data/expected.yaml", _data("expected.yaml"), _expected),
    Target(
        "data/references.bib",
        _data("references.bib"),
        lambda path, _: check_bibliography(path.read_bytes(), f"data/{path.name}"),
    ),
    Target("paper.qmd", lambda: _FRONT, lambda path, _: front_matter(path)),
    *(
        Target(f"data/reported/{study}.json", _data(f"reported/{study}.json"), _reported)
        for study in STUDIES
        if (ROOT / "data" / "reported" / f"{study}.json").exists()
    ),
)
#: Each kind of file as often as any other, the five files of reported values together.
_KINDS = (*((target,) for target in _TARGETS[:5]), _TARGETS[5:])


@lru_cache
def _whole(target: Target) -> str:
    return target.text()


def attack(random: Random, room: Path) -> Report:
    """Damage one file in one place, and read it as a build does."""
    target = random.choice(random.choice(_KINDS))
    path = room / target.file
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json" and random.random() < 0.7:
        kind, content = damaged(random, _whole(target).encode())
    else:
        kind, content = _damaged_text(random, _whole(target))
    path.write_bytes(content)

    def act() -> Outcome:
        wrong = list(not_finite(target.use(path, random)))
        assert not wrong, f"not finite: {', '.join(wrong[:3])}"
        return Outcome.UNCHANGED

    name = f"{path.parent.name}/{path.name}" if path.suffix == ".json" else path.name
    return judge(f"{name}: {kind}", path.name, act)


def _damaged_text(random: Random, text: str) -> tuple[str, bytes]:
    kind = random.choice(tuple(_CHANGES))
    found = _CHANGES[kind](random, text)
    return kind, found if isinstance(found, bytes) else found.encode("utf-8", "surrogatepass")


def _odd_scalar(random: Random, text: str) -> str:
    """One word, or all after a colon, becomes something odd."""
    pattern = r"(?<=: )[^\n]+" if random.random() < 0.5 else r"[^\s\[\]{},]+"
    match = random.choice(list(re.finditer(pattern, text)) or [re.match("", text)])
    assert match is not None
    return text[: match.start()] + random.choice(_SCALARS) + text[match.end() :]


def _odd_line(random: Random, text: str) -> str:
    lines = text.split("\n")
    place = random.randrange(len(lines))
    line = lines[place]
    lines[place] = random.choice(
        (f"{line}\n{line}", "", f"\t{line}", f"  {line}", line[: len(line) // 2], line[1:],
         f"<<: *a\n{line}", f"{line}\r", f"k: {random.choice(_SCALARS)}\n{line}")
    )  # fmt: skip
    return "\n".join(lines)


def _odd_bytes(random: Random, text: str) -> bytes:
    content = text.encode()
    start = random.randrange(len(content))
    end = start + random.choice((0, 1, 2, 50))
    return content[:start] + random.randbytes(random.choice((0, 1, 2))) + content[end:]


def _odd_whole(random: Random, text: str) -> bytes:
    content = text.encode()
    return random.choice(
        (b"", b"\x00", text.encode("utf-16"), text.encode("utf-16-le"), b"\xef\xbb\xbf" + content,
         content[: len(text) // 2], content + content, _BOMB.encode(), b"[" * 10**6, b"&a [*a]",
         f"---\n{_BOMB}---\n".encode(), f"---\na: {'[' * 10**5}\n---\n".encode(), b"x" * 10**7,
         b"- " * 10**5, b"? " * 10**5, content.replace(b"\n", b"\r\n"), b"#" * 10**6)
    )  # fmt: skip


_CHANGES: dict[str, Callable[[Random, str], str | bytes]] = {
    "scalar": _odd_scalar,
    "line": _odd_line,
    "bytes": _odd_bytes,
    "whole": _odd_whole,
}

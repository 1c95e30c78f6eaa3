"""Rebuild a published site, and say of each file that differs why (``--verify-against``)."""

from __future__ import annotations

import json
import math
import re
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from report.commands.arguments import request_of
from report.commands.child import run_build
from report.commands.console import announcer, clear_line, say
from report.core.errors import RecordError, RenderError
from report.core.records.files import read_file
from report.engine.cache import DIGESTS
from report.engine.place import only_build, stage_in
from report.engine.steps import ROOT
from report.studies import STUDIES

_LINE: Final = re.compile(r"([0-9a-f]{64}) [ *](.+)")
#: Shares below this are the last digits of another processor or C library, as in the pins.
_SAME: Final = 2e-8
_VALUES: Final = "values.json"
_BYTES: Final = "only its bytes (text, fonts or versions of programs)"
#: Differing numbers of a study that are listed.
_LISTED: Final = 3


def verify_against(options: Namespace) -> int:
    """Build what a manifest lists, and compare; return 1 if numbers or records differ."""
    manifest: Path = options.verify_against
    published = read_digests(manifest)
    papers = papers_of(published)
    options.study = options.study or [study for study in STUDIES if study in papers]
    if not papers.intersection(options.study):
        raise RecordError(f"{manifest}: lists no paper of this project; name a site's {DIGESTS}.")
    options.html, options.pdf = True, any(name.endswith(".pdf") for name in published)
    request, announce = request_of(options), announcer(quiet=options.quiet)
    with only_build(request.out, announce), stage_in(request.out) as stage:
        announce("the build to compare", 0.0, "")
        if failure := run_build(request._replace(out=stage / "out"), ROOT):
            raise RenderError(f"--verify-against: the build failed: {failure}")
        clear_line()
        site = stage / "out" / "html"
        reasons = compare(published, read_digests(site / DIGESTS), manifest.parent, site)
    differing = {name: reason for name, reason in reasons.items() if reason}
    bad = sum(reason != _BYTES for reason in differing.values())
    say(f"{len(reasons)} files: {len(differing)} differ, {bad} of them in numbers or records")
    for name, reason in differing.items():
        print(f"  {name}: {reason}")
    return int(bad > 0)


def read_digests(manifest: Path) -> dict[str, str]:
    """Read file → SHA-256 from a manifest; raises ``RecordError``."""
    remedy = f"name the {DIGESTS} of a site"
    digests: dict[str, str] = {}
    lines = read_file(manifest, str(manifest), remedy).decode("utf-8", "replace").splitlines()
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise RecordError(f"{manifest}:{number}: found no digest and file; {remedy}.")
        digests[match[2]] = match[1]
    return digests


def papers_of(digests: Mapping[str, str]) -> set[str]:
    """Name the papers of a site."""
    return {name.partition("/")[0] for name in digests if name.endswith(f"/{_VALUES}")}


def compare(
    published: Mapping[str, str], own: Mapping[str, str], folder: Path, site: Path
) -> dict[str, str]:
    """Map each file of the papers in ``own`` to the reason why it differs, empty if it does not.

    ``folder`` may hold the published files, whose numbers are then compared one by one.  Pages on
    all papers are compared if both sites have the same papers.
    """
    names = sorted(published.keys() | own.keys())
    differing = [name for name in names if published.get(name) != own.get(name)]
    papers = sorted(papers_of(own))
    whys = {paper: _why(paper, differing, folder, site) for paper in papers}
    worst = next((why for why in whys.values() if why != _BYTES), _BYTES)
    reasons: dict[str, str] = {}
    for name in names:
        paper = name.partition("/")[0]
        if paper in whys or papers_of(published) == set(papers):
            reasons[name] = whys.get(paper, worst) if name in differing else ""
    return reasons


def _why(paper: str, differing: list[str], folder: Path, site: Path) -> str:
    """Say why files of one paper differ: its records, its numbers, or only its bytes."""
    if any(name.startswith(f"{paper}/records/") for name in differing):
        return "its records"
    name = f"{paper}/{_VALUES}"
    if name not in differing:
        return _BYTES
    try:
        old, new = (json.loads((place / name).read_bytes()) for place in (folder, site))
    except (OSError, ValueError):
        return f"its numbers or its text; put the published {name} beside the manifest to tell"
    before, now, moved = dict(_numbers(old)), dict(_numbers(new)), list[str]()
    for place in sorted(before.keys() | now.keys()):
        if not math.isclose(before.get(place, math.nan), now.get(place, math.nan), rel_tol=_SAME):
            moved.append(f"{place} {before.get(place)} → {now.get(place)}")
    more = f" and {len(moved) - _LISTED} more" if len(moved) > _LISTED else ""
    return f"its numbers ({', '.join(moved[:_LISTED])}{more})" if moved else _BYTES


def _numbers(content: Any, place: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers in JSON, each with its place."""
    if isinstance(content, dict | list):
        items = content.items() if isinstance(content, dict) else enumerate(content)
        for name, part in items:
            yield from _numbers(part, f"{place}.{name}".removeprefix("."))
    elif isinstance(content, int | float):
        yield place, content
